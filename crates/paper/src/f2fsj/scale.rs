//! Numbers of objects, and the sizes of volume and journal that go with them.
//!
//! The paper has 4 million objects, a ring of 256 MiB, a journal of 1 GiB for ext4 and a drive of
//! 256 GB. Ours are 200,000 objects and a ring of 12 MiB: compared with the work the ring is about
//! as large as published, so it fills about as often. With fewer objects the ring is as much
//! smaller, down to 1 MiB.
//!
//! A run of fewer objects is as much shorter, and so is every interval in it ([`shorter`]): 60 s, 5
//! s and 1 s for the paper's 4 million objects are 3 s, 250 ms and 50 ms for 200,000. Otherwise a
//! checkpoint each 60 s would never come in a run of some seconds, and nothing would differ between
//! periods of 1 s and of 5 s. The flusher's intervals are shorter, too. Counts are Linux's.

use super::Plan;
use super::system::Size;
use crate::{PaperError, number};
use base::BLOCK_BYTES;
use work::workload::{BenchSpec, MetaOp, Program};

/// The profile of the paper's drive.
pub const DEVICE: &str = "nvme-980pro";
/// That drive without its SLC area, for what writes more than the area holds: behind it the model
/// is slower than the drive (docs/design/models.md, `N7`).
pub const FLAT_DEVICE: &str = "nvme-980pro,slc.on=false";
/// Number of cores of the paper's PC, an i9-10850K.
pub const CORES: usize = 10;
/// Bytes of the volume, for as many objects as a whole report has; with more it is as much larger.
/// The SLC area of the drive scales with its size. On a smaller volume the
/// 200,000 objects overrun it, where the paper's 4 million fit into that of their drive of 256 GB;
/// and behind a full area the time of whoever writes more (stock F2FS) grows by a multiple.
pub const VOLUME: u64 = 16 << 30;
/// Number of objects in the paper's runs.
pub const PAPER_OBJECTS: u32 = 4_000_000;
/// Number of objects in a whole report.
const OBJECTS: u32 = 200_000;
/// Bytes of the ring for these.
const RING: u64 = 12 << 20;
/// Bytes of the smallest ring. The smallest journal of ext4 is four times this, by the ratio of the
/// paper; F2FSJ would do with a sixteenth.
const RING_LEAST: u64 = 1 << 20;
/// Number of objects in a quick report: still enough that their ring is above [`RING_LEAST`], and
/// so in proportion.
const OBJECTS_QUICK: u32 = 20_000;
/// Number of objects in tests in debug builds.
const OBJECTS_TINY: u32 = 300;
/// Bytes of the volume for which mke2fs makes one inode.
const INODE_RATIO: u64 = 16 << 10;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes for metadata areas and segments that F2FS keeps free, or for groups of ext4.
const FIXED: u64 = 192 << 20;

/// Bytes of the ring for this many objects.
pub fn ring(objects: u32) -> u64 {
    let share = u64::from(objects) * RING / u64::from(OBJECTS);
    (share / BLOCK * BLOCK).max(RING_LEAST)
}

/// By which factor a run of this many objects is shorter than the paper's.
pub fn shorter(objects: u32) -> u32 {
    let times = f64::from(PAPER_OBJECTS) / f64::from(objects.max(1));
    (times.round() as u32).max(1)
}

/// Sizes of volume and journal for this many objects, with intervals in proportion.
pub fn size(objects: u32) -> Size {
    Size {
        bytes: VOLUME * u64::from(objects.div_ceil(OBJECTS).max(1)),
        ring: ring(objects),
        shorter: shorter(objects),
    }
}

/// An interval of so many seconds in the paper's runs, as it is with this many objects.
pub fn interval(seconds: u32, objects: u32) -> String {
    match f64::from(seconds) / f64::from(shorter(objects)) {
        span if span >= 1.0 => format!("{} s", number(span)),
        span => format!("{} ms", number(span * 1e3)),
    }
}

impl Plan {
    /// One of three values, by the length of the report.
    pub fn pick<T>(&self, full: T, quick: T, tiny: T) -> T {
        match (self.tiny, self.quick) {
            (true, _) => tiny,
            (false, true) => quick,
            (false, false) => full,
        }
    }

    /// Number of objects of a benchmark on names.
    pub fn objects(&self) -> u32 {
        let of_report = self.pick(OBJECTS, OBJECTS_QUICK, OBJECTS_TINY);
        self.objects.unwrap_or(of_report)
    }

    /// Number of objects of runs with half and twice the CPU costs.
    pub fn objects_varied(&self) -> u32 {
        let of_report = self.pick(OBJECTS / 5, OBJECTS_QUICK / 5, OBJECTS_TINY / 3);
        self.objects.map_or(of_report, |n| n / 5)
    }

    /// Sizes of volume and journal for the objects, with intervals in proportion.
    pub fn size(&self) -> Size {
        size(self.objects())
    }

    /// An interval of so many seconds in the paper's runs, as it is in runs on the objects.
    pub fn interval(&self, seconds: u32) -> String {
        interval(seconds, self.objects())
    }
}

/// Refuses a benchmark on names for which a volume of `bytes` has no room, with a journal in
/// proportion to its objects. So it does not fail after minutes.
///
/// # Errors
/// It has no room; the error says how large the volume would have to be.
pub fn check(spec: &BenchSpec, bytes: u64) -> Result<(), PaperError> {
    let Program::Meta(meta) = &spec.program else {
        return Ok(());
    };
    let objects = u64::from(meta.count) * if meta.op == MetaOp::Copy { 2 } else { 1 };
    let dirs = objects / u64::from(meta.width) * 3 / 2 + 16;
    let content = match meta.op {
        MetaOp::Mkdir | MetaOp::Rmdir => BLOCK,
        _ => meta.size.next_multiple_of(BLOCK),
    };
    let inodes = (objects + dirs) * INODE_RATIO;
    // Each object has a block of node; a log needs a quarter more than what is valid.
    let blocks = (objects * (BLOCK + content) + dirs * 2 * BLOCK) * 5 / 4;
    let need = inodes.max(blocks) + 4 * ring(objects as u32) + FIXED;
    match need <= bytes {
        true => Ok(()),
        false => Err(PaperError::Check(format!(
            "{objects} objects of {content} bytes need a volume of {} MiB, it has {} MiB: say fewer objects or a larger volume",
            need.div_ceil(1 << 20),
            bytes >> 20
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use work::workload::Workload;

    fn spec(text: &str) -> BenchSpec {
        match text.parse().unwrap() {
            Workload::Bench(spec) => spec,
            _ => panic!("{text} is a benchmark"),
        }
    }

    #[test]
    fn the_ring_is_as_large_over_the_work_as_published_and_large_enough() {
        assert_eq!(ring(200_000), 12 << 20);
        assert_eq!(ring(100_000), 6 << 20);
        assert_eq!(ring(20_000), 1_257_472);
        assert_eq!(ring(300), 1 << 20);
        let published = (256_u64 << 20) as f64 / 4e6;
        let ours = ring(200_000) as f64 / 200e3;
        assert!((ours / published - 1.0).abs() < 0.1, "{ours} {published}");
    }

    #[test]
    fn intervals_are_as_long_over_the_run_as_published() {
        for (objects, spans) in [
            (PAPER_OBJECTS, ["60 s", "5 s", "1 s"]),
            (200_000, ["3 s", "250 ms", "50 ms"]),
            (20_000, ["300 ms", "25 ms", "5 ms"]),
        ] {
            let made = [60, 5, 1].map(|seconds| interval(seconds, objects));
            assert_eq!(made, spans, "{objects}");
        }
        assert_eq!(shorter(2 * PAPER_OBJECTS), 1, "never longer");
    }

    /// A long form has room for its objects, and a quick one no smaller drive.
    #[test]
    fn a_volume_grows_with_the_objects_beyond_those_of_a_whole_report() {
        for (objects, times) in [(300, 1), (200_000, 1), (1_000_000, 5), (PAPER_OBJECTS, 20)] {
            let size = size(objects);
            assert_eq!(size.bytes, times * VOLUME, "{objects}");
            let text = format!("meta:op=create,count={objects},size=4k");
            check(&spec(&text), size.bytes).unwrap();
        }
        let plan = Plan::new(true, 1).with_objects(Some(1_000_000)).unwrap();
        assert_eq!(
            (plan.objects(), plan.objects_varied()),
            (1_000_000, 200_000)
        );
        for refused in [99, PAPER_OBJECTS + 1] {
            let why = Plan::new(true, 1).with_objects(Some(refused)).unwrap_err();
            assert!(why.contains("100 to 4000000"), "{why}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_size_that_it_needs() {
        for text in [
            "meta:op=create,count=200000,size=4k",
            "meta:op=mkdir,count=200000",
            "meta:op=copy,count=100000,size=4k",
            "small:",
        ] {
            check(&spec(text), VOLUME).unwrap();
        }
        let big = spec("meta:op=create,count=4000000,size=4k");
        let e = check(&big, VOLUME).unwrap_err().to_string();
        assert!(
            e.contains("4000000 objects") && e.contains("16384 MiB"),
            "{e}"
        );
        let large = spec("meta:op=create,count=1000,size=16m");
        assert!(check(&large, VOLUME).is_err());
    }
}
