//! ext4 with blocks larger than a page of the kernel, over a mount: the kernel asks page by page,
//! and what lies in one block is written, cut and mapped in parts.

use super::full::Dice;
use super::place::{Place, must};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a file at most: several of the largest blocks.
const BYTES: u64 = 400_000;
const STEPS: usize = 160;

/// A file and what it has to hold.
struct Pair {
    file: File,
    path: String,
    content: Vec<u8>,
    dice: Dice,
}

impl Pair {
    fn range(&mut self) -> (usize, usize) {
        let range = self.dice.range(BYTES, 70_000);
        (range.start as usize, range.end as usize)
    }

    fn reach(&mut self, end: usize) {
        let len = self.content.len().max(end);
        self.content.resize(len, 0);
    }

    fn write(&mut self, value: u8) {
        let (from, to) = self.range();
        let data = vec![value; to - from];
        self.file.write_all_at(&data, from as u64).expect("room");
        self.reach(to);
        self.content[from..to].fill(value);
    }

    fn truncate(&mut self) {
        let len = self.dice.below(BYTES);
        self.file.set_len(len).expect("room");
        self.content.resize(len as usize, 0);
    }

    /// Punches, zeroes, or allocates.
    fn allocate(&mut self, what: u64) {
        let (from, to) = self.range();
        let flags = match what {
            0 => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            1 => FallocateFlags::ZERO_RANGE,
            _ => FallocateFlags::empty(),
        };
        fallocate(&self.file, flags, from as u64, (to - from) as u64).expect("room");
        if what != 0 {
            self.reach(to);
        }
        let end = to.min(self.content.len());
        if what < 2 && from < end {
            self.content[from..end].fill(0);
        }
    }

    fn map(&mut self, value: u8) {
        let len = self.content.len() as u64;
        if len == 0 {
            return;
        }
        let range = self.dice.range(len, 20_000);
        let line = [
            format!("mmap -rw 0 {len}"),
            format!(
                "mwrite -S {value} {} {}",
                range.start,
                range.end - range.start
            ),
        ];
        must("xfs_io", &["-c", &line[0], "-c", &line[1], &self.path]);
        self.content[range.start as usize..range.end as usize].fill(value);
    }

    fn expect(&self, when: &str) {
        let found = std::fs::read(&self.path).expect("there");
        let differs = (0..found.len().max(self.content.len()))
            .find(|&at| found.get(at) != self.content.get(at));
        assert_eq!(differs, None, "{when}: {} bytes", found.len());
    }
}

fn exercise(block: u32, options: &str) {
    let place = Place::empty();
    let image = place.image();
    let file = File::create(&image).expect("an image");
    file.set_len(256 << 20).expect("room");
    // A journal has 1024 blocks at least.
    let (bytes, journal) = (block.to_string(), format!("size={}", block >> 10));
    let line = [
        "-q", "-F", "-t", "ext4", "-b", &bytes, "-J", &journal, &image,
    ];
    must("mke2fs", &line);
    place.mount(options);
    let path = place.dir().join("f");
    let mut options_of_file = File::options();
    let made = options_of_file.read(true).write(true).create_new(true);
    let mut pair = Pair {
        file: made.open(&path).expect("a name"),
        path: path.to_string_lossy().to_string(),
        content: Vec::new(),
        dice: Dice::seeded(block.into()),
    };
    for step in 0..STEPS {
        let value = (step % 250 + 1) as u8;
        match pair.dice.below(12) {
            0..5 => pair.write(value),
            5 => pair.truncate(),
            what @ 6..9 => pair.allocate(what - 6),
            9 => pair.map(value),
            10 => pair.file.sync_all().expect("room"),
            _ => pair.expect(&format!("{block}, {options}, step {step}")),
        }
    }
    let when = format!("{block}, {options}");
    pair.expect(&format!("{when}, at the end"));
    pair.file.sync_all().expect("room");
    // An open file would keep the mount.
    pair.file = File::open("/dev/null").expect("there");
    place.umount();
    place.check();
    place.mount("ro");
    pair.expect(&format!("{when}, after a remount"));
    place.umount();
}

#[test]
fn what_is_written_to_large_blocks_is_there() {
    for (block, options) in [
        (8192, "scheme=emmc"),
        (16_384, "writeback"),
        (32_768, "data=journal"),
        (65_536, "scheme=coalition,writeback"),
    ] {
        exercise(block, options);
    }
}
