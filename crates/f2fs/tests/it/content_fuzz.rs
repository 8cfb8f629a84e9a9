//! Random reads, writes, truncations, fallocations, atomic writes, syncs, remounts and crashes of a
//! few files, compared with a model in memory (`testkit::content`).

use crate::common::{Image, Volume, have_tools};
use fscore::{FallocateMode, FileSystem};
use testkit::content::{FILES, Run};

const MODES: [FallocateMode; 4] = [
    FallocateMode::Allocate,
    FallocateMode::KeepSize,
    FallocateMode::PunchHole,
    FallocateMode::ZeroRange,
];

/// Files, some of which are being written atomically.
struct Atomics {
    run: Run<Volume>,
    /// Content before the open atomic write.
    before: [Option<Vec<u8>>; FILES],
}

impl Atomics {
    fn step(&mut self) {
        let n = self.run.draw();
        match self.run.rng.below(100) {
            0..=44 => self.run.write(n),
            45..=52 => self.ended(n).fallocate(n, &MODES),
            53..=54 => self.ended(n).shift(n),
            55..=66 => self.run.read(n),
            67..=79 => self.ended(n).truncate(n),
            80..=88 => self.fsync(n),
            89..=91 => self.run.fs.sync().expect("sync"),
            92..=94 => self.run.fs.writeback(rt::now()).expect("writeback"),
            95..=96 => self.atomic(n),
            97 => self.all_ended().remount(),
            _ => self.run.crash(),
        }
    }

    /// Begins an atomic write, or ends the one that is open.
    fn atomic(&mut self, n: usize) {
        if self.before[n].is_some() {
            self.ended(n);
            return;
        }
        let file = &mut self.run.files[n];
        self.run.fs.atomic_begin(file.ino).expect("begins");
        self.before[n] = Some(file.now.clone());
        file.synced = None;
    }

    /// The files, when the atomic write of one has ended.
    fn ended(&mut self, n: usize) -> &mut Run<Volume> {
        if let Some(before) = self.before[n].take() {
            let file = &mut self.run.files[n];
            if self.run.rng.one_in(2) {
                self.run.fs.atomic_commit(file.ino).expect("commits");
                file.synced = Some(file.now.clone());
            } else {
                self.run.fs.atomic_abort(file.ino).expect("aborts");
                file.now = before;
            }
        }
        &mut self.run
    }

    fn all_ended(&mut self) -> &mut Run<Volume> {
        for n in 0..FILES {
            self.ended(n);
        }
        &mut self.run
    }

    fn fsync(&mut self, n: usize) {
        self.run.fsync(n);
        if self.before[n].is_some() {
            self.run.files[n].synced = None;
        }
    }
}

fn fuzz(mkfs: &[&str], mount_options: &str, seed: u64, steps: usize) {
    if !have_tools() {
        return;
    }
    let image = Image::new(128, mkfs);
    let mut atomics = Atomics {
        run: Run::new(Volume::of(&image, mount_options), seed),
        before: Default::default(),
    };
    for _ in 0..steps {
        atomics.step();
    }
    let run = atomics.all_ended();
    run.end();
    assert_eq!(run.not_supported, 0);
    assert!(steps < 200 || run.crashes > 0, "no crash was drawn");
}

#[test]
fn small_volume() {
    for seed in 0..3 {
        fuzz(&[], "cache=4", seed, 300);
    }
}

#[test]
fn out_of_place() {
    fuzz(&[], "cache=4,ipu_policy=16", 10, 300);
    fuzz(&[], "cache=4,mode=lfs", 11, 300);
}

#[test]
fn strict() {
    fuzz(&[], "cache=4,fsync_mode=strict", 20, 300);
}

#[test]
fn without_inline_data() {
    fuzz(&[], "cache=4,noinline_data,noinline_dentry", 30, 200);
}

#[test]
fn formats() {
    let all = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr";
    fuzz(&["-O", "extra_attr"], "cache=4", 40, 200);
    fuzz(&["-O", all], "cache=4,noinline_xattr", 41, 200);
}
