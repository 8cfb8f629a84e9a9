//! The driver experiment of the eMMC paper (III.C.3, Fig 8) on the device model alone, without file
//! system and queue. It compares two ways to make data and a commit block durable:
//!
//! - flush at the end: n KiB through the cache in one sequential write, flush, commit block with
//!   FUA;
//! - direct persistence: the same n KiB with FUA, commit block with FUA.
//!
//! Each is repeated over ever new addresses, so that the steady state is measured. It is measured
//! on a used device, too: all of its logical space was written once, and then a quarter as many
//! blocks at random places, so that garbage has to be collected.

use crate::PaperError;
use base::{BLOCK_BYTES, Bytes, Lba, Nanos, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use report::metrics::micros;
use rig::{AnyModel, Class, Config, Model, Preset, Request};
use serde::{Deserialize, Serialize};

/// Sizes of the data in the paper, KiB.
pub const SIZES_KIB: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];

/// Bytes of the device: garbage collection needs so many erase blocks to choose from, and a small
/// device is soon filled.
const BYTES: u64 = 256 << 20;
/// Number of transactions of each size and scheme that are measured, and of those before them.
const REPEATS: (u32, u32) = (64, 16);
/// Bytes of the largest write that fills the device.
const FILL: usize = 512 << 10;

/// The job: on which device to measure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Barrier {
    /// Name of the device profile, with changes behind it.
    pub device: String,
    /// Timing set of the profile.
    pub timing: String,
    /// Seed of the addresses that make a device used.
    pub seed: u64,
}

/// Mean times of a transaction of one size, microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Size {
    /// KiB of data in a transaction.
    pub kib: u32,
    /// Time of the data through the cache, with a flush at the end.
    pub write: f64,
    /// Time of that flush.
    pub flush: f64,
    /// Time of the commit block after it.
    pub commit: f64,
    /// Time of the data with FUA, in direct persistence.
    pub direct: f64,
    /// Time of the commit block after it.
    pub direct_commit: f64,
}

impl Size {
    /// Share of the flush in a commit with a flush at the end.
    pub fn flush_share(&self) -> f64 {
        self.flush / (self.write + self.flush + self.commit)
    }
    /// By how much writing and flushing takes longer than direct persistence of the same data, as a
    /// share of the latter.
    pub fn gain(&self) -> f64 {
        (self.write + self.flush) / self.direct - 1.0
    }
}

/// Times by size, on a fresh and on a used device.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// On a device that was never written.
    pub fresh: Vec<Size>,
    /// On a device that was written whole, and a part of it twice.
    pub used: Vec<Size>,
}

impl Barrier {
    /// Measures both devices.
    ///
    /// # Errors
    /// The profile or timing is unknown, or the device fails a command.
    pub fn run(&self) -> Result<Times, PaperError> {
        let mut bench = Bench::new(self, BYTES)?;
        let fresh = bench.sizes()?;
        bench.age(self.seed)?;
        let used = bench.sizes()?;
        Ok(Times { fresh, used })
    }
}

const BLOCK_KIB: u32 = (BLOCK_BYTES >> 10) as u32;

/// A device, and the clock of its host.
#[derive(Clone)]
struct Bench {
    model: AnyModel,
    sectors: u64,
    now: Time,
    next: u64,
    content: Bytes,
}

impl Bench {
    fn new(of: &Barrier, bytes: u64) -> Result<Bench, PaperError> {
        let mut config = Config::new(Preset::default(), &of.device, of.seed);
        config.timing = Some(of.timing.clone());
        config.bytes = bytes;
        Ok(Bench {
            model: config.blank()?,
            sectors: bytes / SECTOR_BYTES as u64,
            now: Time(0),
            next: 0,
            content: vec![0xA5; FILL].into(),
        })
    }

    /// Measures all sizes, each on a copy of the device as it is now.
    fn sizes(&self) -> Result<Vec<Size>, PaperError> {
        SIZES_KIB.iter().map(|kib| self.size(*kib)).collect()
    }

    fn size(&self, kib: u32) -> Result<Size, PaperError> {
        let [write, flush, commit] = self.means(|bench| {
            Ok([
                bench.write(kib, false)?,
                bench.flush()?,
                bench.write(BLOCK_KIB, true)?,
            ])
        })?;
        let [direct, direct_commit] =
            self.means(|bench| Ok([bench.write(kib, true)?, bench.write(BLOCK_KIB, true)?]))?;
        Ok(Size {
            kib,
            write,
            flush,
            commit,
            direct,
            direct_commit,
        })
    }

    /// Mean microseconds of each step of a transaction that is repeated.
    fn means<const STEPS: usize>(
        &self,
        transaction: impl Fn(&mut Bench) -> Result<[Nanos; STEPS], PaperError>,
    ) -> Result<[f64; STEPS], PaperError> {
        let mut bench = self.clone();
        let (measured, before) = REPEATS;
        let mut sums = [0; STEPS];
        for n in 0..before + measured {
            let times = transaction(&mut bench)?;
            if n >= before {
                sums.iter_mut().zip(times).for_each(|(sum, t)| *sum += t.0);
            }
        }
        Ok(sums.map(|sum| micros(sum / u64::from(measured))))
    }

    fn execute(&mut self, request: Request) -> Result<Nanos, PaperError> {
        let done = self.model.execute(self.now, request);
        done.result
            .map_err(|e| PaperError::Check(format!("the device refuses a command: {e}")))?;
        let took = done.at - self.now;
        self.now = done.at;
        Ok(took)
    }

    fn write(&mut self, kib: u32, fua: bool) -> Result<Nanos, PaperError> {
        let bytes = self.content.slice(..(kib as usize) << 10);
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        if self.next + sectors > self.sectors {
            self.next = 0;
        }
        let at = Lba(self.next);
        self.next += sectors;
        self.execute(match fua {
            true => Request::write_fua(at, Class::JournalCommit, bytes),
            false => Request::write(at, Class::JournalMetadata, bytes),
        })
    }

    fn flush(&mut self) -> Result<Nanos, PaperError> {
        self.execute(Request::flush())
    }

    fn age(&mut self, seed: u64) -> Result<(), PaperError> {
        let sectors = self.sectors;
        for at in (0..sectors).step_by(FILL / SECTOR_BYTES) {
            self.execute(Request::write(Lba(at), Class::Data, self.content.clone()))?;
        }
        let mut rng = Rng::named(seed, "paper/barrier");
        let blocks = sectors / SECTORS_PER_BLOCK;
        for _ in 0..blocks / 4 {
            let at = Lba(rng.below(blocks) * SECTORS_PER_BLOCK);
            let block = self.content.slice(..BLOCK_BYTES);
            self.execute(Request::write(at, Class::Data, block))?;
        }
        self.flush().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a device that is small enough for a debug build.
    const SMALL: u64 = 64 << 20;

    fn bench(device: &str, timing: &str) -> Bench {
        let barrier = Barrier {
            device: device.into(),
            timing: timing.into(),
            seed: 1,
        };
        Bench::new(&barrier, SMALL).unwrap()
    }

    #[test]
    fn more_data_takes_longer_and_a_flush_is_most_of_a_small_commit() {
        for timing in ["fig8", "paper-fit"] {
            let fresh = bench("emmc-odroid-xu4", timing).sizes().unwrap();
            for pair in fresh.windows(2) {
                let (a, b) = (&pair[0], &pair[1]);
                assert!(
                    b.write > a.write && b.direct > a.direct,
                    "{timing} {a:?} {b:?}"
                );
                assert!(b.flush >= a.flush, "{timing} {a:?} {b:?}");
                let same = (a.commit / b.commit - 1.0).abs() < 0.1;
                assert!(same, "{timing}: a commit block does not grow: {a:?} {b:?}");
            }
        }
        let fig8 = bench("emmc-odroid-xu4", "fig8").sizes().unwrap();
        assert!(fig8.iter().all(|size| size.flush_share() > 0.4));
        let cheap = bench("emmc-odroid-xu4,timing.fig8.flush_us=0", "fig8").sizes();
        for (dear, cheap) in fig8.iter().zip(&cheap.unwrap()) {
            assert!(cheap.flush < dear.flush && cheap.gain() < dear.gain());
            assert_eq!(cheap.direct, dear.direct);
        }
    }

    #[test]
    fn a_used_device_takes_longer_to_make_data_durable() {
        let mut bench = bench("emmc-odroid-xu4", "fig8");
        let fresh = bench.size(64).unwrap();
        bench.age(1).unwrap();
        let used = bench.size(64).unwrap();
        assert!(used.flush > fresh.flush && used.direct > fresh.direct);
    }

    #[test]
    fn an_unknown_device_is_an_error() {
        let barrier = Barrier {
            device: "floppy".into(),
            timing: "fig8".into(),
            seed: 1,
        };
        assert!(barrier.run().unwrap_err().to_string().contains("floppy"));
    }
}
