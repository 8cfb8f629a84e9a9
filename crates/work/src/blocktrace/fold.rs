//! Folds the addresses of a recording onto a device of another size: recorded disks are often
//! larger than the models here, and mostly empty.
//!
//! | word | place on the device |
//! |---|---|
//! | `compact` | the regions of 1 MiB that reads and writes touch, in order of disk and address, one behind the other; modulo the size of the device |
//! | `modulo` | the recorded address of the first disk, modulo the size of the device; each further disk begins behind the last region that is read or written on the one before it |
//!
//! - F1: `compact` keeps distances inside a region and between regions that touch; regions that no
//!   read or write touches take no place. On a device that is not smaller than the footprint no two
//!   addresses fall together.
//! - F2: a request that passes the end of the device goes on at its beginning, as a second part.
//! - F3: no discard reaches what another disk has. With `compact` it counts only where the
//!   recording reads or writes, because nothing else has a place. With `modulo` it ends where the
//!   next disk begins, and on the last one that is read or written at the end of the device, if
//!   that lies behind all that is touched.

use super::{BlockTrace, Op, Request};
use crate::RunError;
use base::Set;
use std::fmt;
use std::str::FromStr;

/// Sectors of a region: 1 MiB.
pub const REGION_SECTORS: u64 = 2048;
/// Most regions of a recording, so that they fit in memory: 16 TiB of footprint.
const REGIONS_MAX: usize = 16 << 20;

/// How addresses are folded; the table of this module defines both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fold {
    /// The touched regions, one behind the other.
    #[default]
    Compact,
    /// Recorded addresses, modulo the size of the device.
    Modulo,
}

impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fold::Compact => "compact",
            Fold::Modulo => "modulo",
        })
    }
}

impl FromStr for Fold {
    type Err = String;
    fn from_str(text: &str) -> Result<Fold, String> {
        match text {
            "compact" => Ok(Fold::Compact),
            "modulo" => Ok(Fold::Modulo),
            _ => Err(format!(
                "`{text}` is no way to fold addresses; there is: compact, modulo"
            )),
        }
    }
}

/// The regions that a recording reads or writes.
#[derive(Clone, Debug)]
pub struct Footprint {
    /// Disk and region as [`key`] packs them, ascending.
    regions: Vec<u64>,
}

/// Disk and region as one number, ordered by disk first: a region is below 2^42.
fn key(device: u16, region: u64) -> u64 {
    u64::from(device) << 44 | region
}

impl Footprint {
    /// The footprint of all requests, also of those before the mark.
    ///
    /// # Errors
    /// It is larger than 16 TiB.
    pub fn of(trace: &BlockTrace) -> Result<Footprint, RunError> {
        let mut seen: Set<u64> = Set::default();
        let mut last = u64::MAX;
        for r in &trace.requests {
            if !matches!(r.op, Op::Read | Op::Write) {
                continue;
            }
            let end = r.sector + u64::from(r.sectors);
            for region in r.sector / REGION_SECTORS..end.div_ceil(REGION_SECTORS) {
                let key = key(r.device, region);
                if key != last {
                    seen.insert(key);
                    last = key;
                }
            }
            if seen.len() > REGIONS_MAX {
                let name = &trace.name;
                let why = format!("{name}: its requests touch more than 16 TiB; split the file");
                return Err(RunError::Recording(why));
            }
        }
        let mut regions: Vec<u64> = seen.into_iter().collect();
        regions.sort_unstable();
        Ok(Footprint { regions })
    }

    /// Bytes of all touched regions.
    pub fn bytes(&self) -> u64 {
        self.regions.len() as u64 * REGION_SECTORS * 512
    }

    /// The size in bytes of a device that the footprint fills to 90 %, as a multiple of 64 MiB.
    pub fn roomy(&self) -> u64 {
        (self.bytes() / 9 * 10)
            .next_multiple_of(64 << 20)
            .max(64 << 20)
    }
}

/// Folds the addresses of one recording.
#[derive(Clone, Debug)]
pub struct Folder<'a> {
    footprint: &'a Footprint,
    fold: Fold,
    /// Sectors of the device.
    sectors: u64,
    /// For `modulo`: the sector at which each disk begins.
    begins: Vec<u64>,
}

impl<'a> Folder<'a> {
    /// Folds onto a device of `sectors` sectors.
    pub fn new(footprint: &'a Footprint, fold: Fold, sectors: u64) -> Folder<'a> {
        let mut begins: Vec<u64> = vec![0];
        for key in &footprint.regions {
            let (device, region) = ((key >> 44) as usize, key & ((1 << 44) - 1));
            while begins.len() <= device + 1 {
                begins.push(*begins.last().expect("it has one"));
            }
            let end = (region + 1) * REGION_SECTORS;
            begins[device + 1] = begins[device].saturating_add(end);
        }
        Folder {
            footprint,
            fold,
            sectors: sectors.max(1),
            begins,
        }
    }

    /// Number of sectors, from the first one on, that the recording may touch on the device.
    pub fn used(&self) -> u64 {
        match self.fold {
            Fold::Compact => (self.footprint.bytes() / 512).min(self.sectors),
            Fold::Modulo => self.sectors,
        }
    }

    /// True if addresses that differ may fall together.
    pub fn overlaps(&self) -> bool {
        let all = match self.fold {
            Fold::Compact => self.footprint.bytes() / 512,
            Fold::Modulo => self.begins.last().copied().unwrap_or(0),
        };
        all > self.sectors
    }

    /// Calls `each` with the parts of a request on the device, as (first sector, sectors): one
    /// part, or two at the end of the device; a request longer than the device covers it once. A
    /// flush has no part, and neither has a discard of nothing that has a place (F3).
    pub fn place(&self, r: &Request, mut each: impl FnMut(u64, u64)) {
        let Some((mut at, mut rest)) = self.line(r) else {
            return;
        };
        // A discard longer than the device discards all of it once, not several times.
        rest = rest.min(self.sectors);
        at %= self.sectors;
        while rest > 0 {
            let part = rest.min(self.sectors - at);
            each(at, part);
            rest -= part;
            at = 0;
        }
    }

    /// The place of a request before it is taken modulo the size of the device.
    fn line(&self, r: &Request) -> Option<(u64, u64)> {
        let end = r.sector + u64::from(r.sectors);
        if r.sectors == 0 {
            return None;
        }
        if self.fold == Fold::Modulo {
            return self.behind_each_other(r);
        }
        let regions = &self.footprint.regions;
        let (first, last) = (r.sector / REGION_SECTORS, end.div_ceil(REGION_SECTORS));
        let from = regions.partition_point(|k| *k < key(r.device, first));
        if r.op != Op::Discard {
            let within = r.sector % REGION_SECTORS;
            return Some((from as u64 * REGION_SECTORS + within, end - r.sector));
        }
        // F3: the touched regions inside the discard lie one behind the other.
        let to = regions.partition_point(|k| *k < key(r.device, last));
        if from == to {
            return None;
        }
        let region = |place: usize| regions[place] & ((1 << 44) - 1);
        let start = from as u64 * REGION_SECTORS
            + match region(from) == first {
                true => r.sector % REGION_SECTORS,
                false => 0,
            };
        let stop = match region(to - 1) == last - 1 {
            true => (to as u64 - 1) * REGION_SECTORS + (end - (last - 1) * REGION_SECTORS),
            false => to as u64 * REGION_SECTORS,
        };
        Some((start, stop - start))
    }

    /// As [`line`](Folder::line), with `modulo`.
    fn behind_each_other(&self, r: &Request) -> Option<(u64, u64)> {
        let disk = usize::from(r.device);
        let (begin, next) = (self.begins.get(disk)?, self.begins.get(disk + 1)?);
        let (at, sectors) = (begin.saturating_add(r.sector), u64::from(r.sectors));
        // F3: the last entry is the end of the last disk.
        let last = disk + 2 == self.begins.len();
        let stop = match r.op {
            Op::Discard if last => self.sectors.max(*next),
            Op::Discard => *next,
            _ => u64::MAX,
        };
        (at < stop).then(|| (at, sectors.min(stop - at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocktrace::Format;
    use crate::recording::Reading;

    fn request(op: Op, device: u16, sector: u64, sectors: u32) -> Request {
        Request {
            at: 0,
            sector,
            sectors,
            device,
            op,
            fua: false,
        }
    }

    fn trace(requests: Vec<Request>) -> BlockTrace {
        BlockTrace {
            name: "made".into(),
            format: Format::Mqsim,
            devices: vec!["0".into(), "1".into()],
            requests,
            preparing: 0,
            reading: Reading::default(),
        }
    }

    fn places(folder: &Folder<'_>, r: Request) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        folder.place(&r, |at, n| out.push((at, n)));
        out
    }

    const FAR: u64 = 1 << 40;

    /// F1, F3.
    #[test]
    fn compact_keeps_what_touches_together_and_drops_the_rest() {
        let write = |device, sector, n| request(Op::Write, device, sector, n);
        let trace = trace(vec![
            write(0, FAR + 2040, 16),
            write(0, 100, 8),
            write(1, 100, 8),
            request(Op::Discard, 0, 0, u32::MAX),
            request(Op::Read, 0, FAR + 9 * 2048, 1),
        ]);
        let footprint = Footprint::of(&trace).unwrap();
        assert_eq!(footprint.bytes(), 5 << 20);
        assert_eq!(footprint.roomy(), 64 << 20);
        let folder = Folder::new(&footprint, Fold::Compact, 1 << 20);
        assert!(!folder.overlaps());
        assert_eq!(folder.used(), 5 * 2048);
        assert_eq!(places(&folder, write(0, 100, 8)), [(100, 8)]);
        assert_eq!(places(&folder, trace.requests[0]), [(2048 + 2040, 16)]);
        assert_eq!(places(&folder, trace.requests[4]), [(3 * 2048, 1)]);
        assert_eq!(places(&folder, write(1, 100, 8)), [(4 * 2048 + 100, 8)]);
        // A discard has no part between the regions, and one part at either end.
        let discard = |sector, n| places(&folder, request(Op::Discard, 0, sector, n));
        assert_eq!(discard(4096, 1 << 20), []);
        assert_eq!(discard(108, 1 << 20), [(108, 2048 - 108)]);
        assert_eq!(discard(FAR - 5, 2048 + 15), [(2048, 2058)]);
        assert_eq!(discard(FAR + 4, 10 * 2048), [(2052, 3 * 2048 - 4)]);
    }

    /// F2.
    #[test]
    fn a_small_device_wraps() {
        let trace = trace(vec![request(Op::Write, 0, 0, 3 * 2048)]);
        let footprint = Footprint::of(&trace).unwrap();
        for fold in [Fold::Compact, Fold::Modulo] {
            let folder = Folder::new(&footprint, fold, 2048 + 8);
            assert!(folder.overlaps());
            let write = request(Op::Write, 0, 2048, 16);
            assert_eq!(places(&folder, write), [(2048, 8), (0, 8)], "{fold}");
            assert_eq!(folder.used(), 2056);
            assert_eq!(fold.to_string().parse(), Ok(fold));
        }
    }

    #[test]
    fn modulo_puts_disks_behind_each_other() {
        let writes = vec![request(Op::Write, 0, 4096, 8), request(Op::Write, 1, 0, 8)];
        let trace = trace(writes.clone());
        let footprint = Footprint::of(&trace).unwrap();
        let folder = Folder::new(&footprint, Fold::Modulo, 1 << 20);
        assert_eq!(places(&folder, writes[0]), [(4096, 8)]);
        assert_eq!(places(&folder, writes[1]), [(3 * 2048, 8)]);
        assert!(!folder.overlaps());
        assert_eq!(places(&folder, request(Op::Flush, 0, 0, 0)), []);
    }

    /// F3.
    #[test]
    fn modulo_keeps_discards_on_their_disk() {
        let write = |device, sector| request(Op::Write, device, sector, 8);
        let trace = trace(vec![write(0, 4096), write(1, 0)]);
        let footprint = Footprint::of(&trace).unwrap();
        let discard = |sectors, device, at| {
            let folder = Folder::new(&footprint, Fold::Modulo, sectors);
            places(&folder, request(Op::Discard, device, at, u32::MAX))
        };
        let (begin, end) = (3 * 2048, 4 * 2048);
        let large = 1 << 20;
        assert_eq!(discard(large, 0, 0), [(0, begin)], "the second disk stays");
        assert_eq!(discard(large, 0, begin), [], "behind all that has a place");
        assert_eq!(discard(large, 1, 8), [(begin + 8, large - begin - 8)]);
        assert_eq!(discard(large, 1, large), [], "it would begin again at 0");
        assert_eq!(discard(large, 2, 0), [], "a disk without a place");
        // On a device that is too small both disks lie on each other.
        assert_eq!(discard(end - 2048, 1, 0), [(0, 2048)]);
    }
}
