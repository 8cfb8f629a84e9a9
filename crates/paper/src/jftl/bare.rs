//! A journal and its homes on a bare device, without a file system: transactions of random blocks
//! are logged and come home, by a copy or by REMAP. So the effect of utilisation and page size on
//! both is seen without the traffic of a file system.

use super::measure::ratio;
use crate::PaperError;
use base::{BLOCK_BYTES, Bytes, Lba, Rng, SECTORS_PER_BLOCK, Time};
use report::metrics::round;
use rig::{AnyModel, Class, Config, FlashStats, Model, Preset, Remap, RemapPair, Request};
use serde::{Deserialize, Serialize};

/// How committed blocks come home.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Each is written again, and then flushed.
    Copy,
    /// Each is written again, and durable with the next flush.
    CopyLater,
    /// Each is remapped, which is durable with the next flush.
    Remap,
    /// Each is remapped by a command that is durable when it completes.
    RemapFua,
}

impl Home {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Home::Copy => "copy",
            Home::CopyLater => "copy until flush",
            Home::Remap => "remap",
            Home::RemapFua => "remap with FUA",
        }
    }
}

/// A run on a bare device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BareJob {
    /// Name of the device profile, with changes behind it.
    pub device: String,
    /// Bytes that the device exports.
    pub bytes: u64,
    /// Blocks of the journal, which lies at the beginning of the device.
    pub journal: u64,
    /// Number of home blocks behind the journal; each is written once before the run.
    pub homes: u64,
    /// Logged blocks of a transaction, besides a descriptor and a commit block.
    pub pairs: u64,
    /// How committed blocks come home.
    pub home: Home,
    /// Number of transactions between two samples.
    pub transactions: u64,
    /// Number of samples.
    pub samples: u64,
    /// Seed of the homes that transactions choose.
    pub seed: u64,
}

/// What happened in the time of one sample.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Pages programmed.
    pub programs: u64,
    /// Pages programmed for the map, of those.
    pub map: u64,
    /// 4 KiB units that the host wrote.
    pub host: u64,
    /// 4 KiB units copied by garbage collection.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of blocks that came home.
    pub blocks: u64,
    /// Duration in virtual seconds.
    pub seconds: f64,
}

impl Sample {
    /// Bytes programmed over bytes that the host wrote.
    pub fn amplification(&self) -> f64 {
        ratio(self.programmed(), self.host as f64)
    }

    /// 4 KiB programmed for each block that came home.
    pub fn per_block(&self) -> f64 {
        ratio(self.programmed(), self.blocks as f64)
    }

    fn programmed(&self) -> f64 {
        self.programs as f64 * f64::from(self.page_bytes) / BLOCK_BYTES as f64
    }

    /// Pages programmed per transaction.
    pub fn pages_per_transaction(&self) -> f64 {
        ratio(self.programs as f64, self.transactions as f64)
    }
}

/// Control blocks of a transaction: descriptor and commit block.
const CONTROL: u64 = 2;

struct Host<'a> {
    job: &'a BareJob,
    model: AnyModel,
    now: Time,
    rng: Rng,
    head: u64,
    stamp: u64,
}

impl BareJob {
    /// Runs the job on a fresh device.
    ///
    /// # Errors
    /// The device cannot be built or fails a command.
    pub fn run(&self) -> Result<Vec<Sample>, PaperError> {
        let mut config = Config::new(Preset::default(), &self.device, self.seed);
        config.bytes = self.bytes;
        let mut host = Host {
            job: self,
            model: config.blank()?,
            now: Time(0),
            rng: Rng::named(self.seed, "bare journal"),
            head: 0,
            stamp: 0,
        };
        for n in 0..self.homes {
            host.write(self.journal + n, Class::Data)?;
        }
        host.flush()?;
        (0..self.samples).map(|_| host.sample()).collect()
    }
}

impl Host<'_> {
    fn sample(&mut self) -> Result<Sample, PaperError> {
        let (before, start) = (self.stats()?, self.now);
        for _ in 0..self.job.transactions {
            self.transaction()?;
        }
        let after = self.stats()?;
        Ok(Sample {
            programs: after.programs - before.programs,
            map: after.map_programs - before.map_programs,
            host: after.host_pages - before.host_pages,
            copies: after.gc_copies - before.gc_copies,
            erases: after.erases - before.erases,
            page_bytes: after.page_bytes,
            transactions: self.job.transactions,
            blocks: self.job.transactions * self.job.pairs,
            seconds: round((self.now - start).0 as f64 / 1e9),
        })
    }

    fn stats(&self) -> Result<FlashStats, PaperError> {
        let stats = self.model.flash_stats();
        stats.ok_or_else(|| PaperError::Check(format!("{} has no flash", self.job.device)))
    }

    /// Runs one transaction: log, flush, homes. It lies in one piece in the log.
    fn transaction(&mut self) -> Result<(), PaperError> {
        let needed = self.job.pairs + CONTROL;
        if self.head + needed > self.job.journal {
            self.head = 0;
        }
        let first = self.head;
        self.head += needed;
        let homes = self.places();
        self.write(first, Class::JournalDescriptor)?;
        for n in 0..self.job.pairs {
            self.write(first + 1 + n, Class::JournalData)?;
        }
        self.write(first + 1 + self.job.pairs, Class::JournalCommit)?;
        self.flush()?;
        match self.job.home {
            Home::Copy | Home::CopyLater => {
                for home in homes {
                    self.write(home, Class::Data)?;
                }
                match self.job.home {
                    Home::Copy => self.flush(),
                    _ => Ok(()),
                }
            }
            Home::Remap => self.remap(&homes, first + 1, false),
            Home::RemapFua => self.remap(&homes, first + 1, true),
        }
    }

    /// Draws distinct homes for one transaction.
    fn places(&mut self) -> Vec<u64> {
        let mut chosen = std::collections::BTreeSet::new();
        let mut homes = Vec::new();
        while (homes.len() as u64) < self.job.pairs {
            let home = self.job.journal + self.rng.below(self.job.homes);
            if chosen.insert(home) {
                homes.push(home);
            }
        }
        homes
    }

    fn remap(&mut self, homes: &[u64], source: u64, fua: bool) -> Result<(), PaperError> {
        let pair =
            |(home, source): (&u64, u64)| RemapPair::new(lba(*home), lba(source), BLOCK_BYTES);
        let pairs = homes.iter().zip(source..).map(pair).collect();
        let remap = Remap {
            pairs,
            fua,
            ..Remap::default()
        };
        self.execute(Request::remap(remap))
    }

    fn write(&mut self, block: u64, class: Class) -> Result<(), PaperError> {
        self.stamp += 1;
        let mut bytes = vec![0xA5; BLOCK_BYTES];
        bytes[..8].copy_from_slice(&self.stamp.to_le_bytes());
        self.execute(Request::write(lba(block), class, Bytes::from(bytes)))
    }

    fn flush(&mut self) -> Result<(), PaperError> {
        self.execute(Request::flush())
    }

    fn execute(&mut self, request: Request) -> Result<(), PaperError> {
        let done = self.model.execute(self.now, request);
        self.now = done.at;
        let failed = |e| PaperError::Check(format!("{}: {e}", self.job.device));
        done.result.map(|_| ()).map_err(failed)
    }
}

fn lba(block: u64) -> Lba {
    Lba(block * SECTORS_PER_BLOCK)
}
