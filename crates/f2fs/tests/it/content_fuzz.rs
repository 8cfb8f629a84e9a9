//! Random reads, writes, truncations, fallocations, syncs, remounts and crashes of a few files,
//! compared with a model in memory.

use crate::common;
use base::{Ino, Rng};
use common::{Image, create, fork, have_tools, mount, read_all, truncate};
use fscore::{FallocateMode, FileSystem};
use std::sync::Arc;
use varve_f2fs::F2fs;

const FILES: usize = 4;
const BLOCK: u64 = 4096;

struct Shadow {
    ino: Ino,
    now: Vec<u8>,
    /// Content at the last fsync, if nothing changed since.
    synced: Option<Vec<u8>>,
    /// Content before the open atomic write.
    atomic: Option<Vec<u8>>,
}

struct Run {
    fs: Arc<F2fs>,
    ram: Arc<blockdev::Ram>,
    files: Vec<Shadow>,
    rng: Rng,
    options: String,
    crashes: u64,
}

impl Run {
    fn new(image: &Image, seed: u64, options: &str) -> Run {
        let ram = image.load();
        let fs = mount(&ram, options);
        let files = (0..FILES).map(|n| Shadow {
            ino: create(&fs, &format!("f{n}")).expect("made"),
            now: Vec::new(),
            synced: None,
            atomic: None,
        });
        Run {
            files: files.collect(),
            fs,
            ram,
            rng: Rng::named(seed, "content"),
            options: options.into(),
            crashes: 0,
        }
    }

    fn step(&mut self) {
        let n = self.rng.below(FILES as u64) as usize;
        match self.rng.below(100) {
            0..=44 => self.write(n),
            45..=52 => self.fallocate(n),
            53..=54 => self.shift(n),
            55..=66 => self.read(n),
            67..=79 => self.truncate(n),
            80..=88 => self.fsync(n),
            89..=91 => self.fs.sync().expect("sync"),
            92..=94 => self.fs.writeback(rt::now()).expect("writeback"),
            95..=96 => self.atomic(n),
            97 => self.remount(),
            _ => self.crash(),
        }
    }

    fn write(&mut self, n: usize) {
        let reach = match self.rng.below(4) {
            0 => 3_000,
            1 => 3_000_000,
            _ => 120_000,
        };
        let offset = self.rng.below(reach) as usize;
        let len = if self.rng.one_in(4) {
            self.rng.below(60_000)
        } else {
            self.rng.below(6_000)
        };
        let mut data = vec![0; len as usize + 1];
        self.rng.fill(&mut data);
        let file = &mut self.files[n];
        let wrote = self.fs.write(file.ino, offset as u64, &data);
        assert_eq!(wrote.expect("write"), data.len());
        if file.now.len() < offset + data.len() {
            file.now.resize(offset + data.len(), 0);
        }
        file.now[offset..offset + data.len()].copy_from_slice(&data);
        file.synced = None;
    }

    fn read(&mut self, n: usize) {
        let file = &self.files[n];
        let offset = self.rng.below(file.now.len() as u64 + 5000) as usize;
        let mut buf = vec![0xEE; self.rng.below(70_000) as usize];
        let got = self.fs.read(file.ino, offset as u64, &mut buf);
        let got = got.expect("read");
        let end = file.now.len().min(offset + buf.len());
        let expected = file.now.get(offset..end).unwrap_or_default();
        assert!(buf[..got] == *expected, "file {n} at {offset}: {got} bytes");
    }

    fn truncate(&mut self, n: usize) {
        self.end_atomic(n);
        let file = &mut self.files[n];
        let size = match self.rng.below(5) {
            0 => 0,
            1 => self.rng.below(4_000_000),
            2 => self.rng.below(4_000),
            _ => self.rng.below(file.now.len() as u64 + 1),
        };
        truncate(&self.fs, file.ino, size).expect("truncate");
        file.now.resize(size as usize, 0);
        file.synced = None;
    }

    fn fallocate(&mut self, n: usize) {
        self.end_atomic(n);
        let offset = self.rng.below(400_000);
        let len = 1 + self.rng.below(300_000);
        let file = &mut self.files[n];
        let modes = [
            FallocateMode::Allocate,
            FallocateMode::KeepSize,
            FallocateMode::PunchHole,
            FallocateMode::ZeroRange,
        ];
        let mode = modes[self.rng.below(4) as usize];
        let done = self.fs.fallocate(file.ino, mode, offset, len);
        done.expect("fallocate");
        file.synced = None;
        let end = (offset + len) as usize;
        let grows = matches!(mode, FallocateMode::Allocate | FallocateMode::ZeroRange);
        if grows && end > file.now.len() {
            file.now.resize(end, 0);
        }
        if matches!(mode, FallocateMode::PunchHole | FallocateMode::ZeroRange) {
            let end = end.min(file.now.len());
            let start = end.min(offset as usize);
            file.now[start..end].fill(0);
        }
    }

    fn shift(&mut self, n: usize) {
        self.end_atomic(n);
        let file = &mut self.files[n];
        let pages = file.now.len() as u64 / BLOCK;
        if pages < 3 {
            return;
        }
        let at = self.rng.below(pages - 1);
        let offset = (at * BLOCK) as usize;
        if self.rng.one_in(2) {
            let len = (1 + self.rng.below(pages - at - 1)) * BLOCK;
            if offset as u64 + len >= file.now.len() as u64 {
                return;
            }
            let done = self.fs.collapse_range(file.ino, offset as u64, len);
            done.expect("collapse");
            file.now.drain(offset..offset + len as usize);
        } else if file.now.len() < 6_000_000 {
            let len = (1 + self.rng.below(40)) * BLOCK;
            let done = self.fs.insert_range(file.ino, offset as u64, len);
            done.expect("insert");
            let hole = vec![0; len as usize];
            file.now.splice(offset..offset, hole);
        }
        file.synced = None;
    }

    /// Begins an atomic write, or ends the one that is open.
    fn atomic(&mut self, n: usize) {
        let file = &mut self.files[n];
        if file.atomic.is_none() {
            self.fs.atomic_begin(file.ino).expect("begins");
            file.atomic = Some(file.now.clone());
            file.synced = None;
        } else {
            self.end_atomic(n);
        }
    }

    fn end_atomic(&mut self, n: usize) {
        let file = &mut self.files[n];
        let Some(before) = file.atomic.take() else {
            return;
        };
        if self.rng.one_in(2) {
            self.fs.atomic_commit(file.ino).expect("commits");
            file.synced = Some(file.now.clone());
        } else {
            self.fs.atomic_abort(file.ino).expect("aborts");
            file.now = before;
        }
    }

    fn fsync(&mut self, n: usize) {
        let data_only = self.rng.one_in(2);
        let file = &mut self.files[n];
        self.fs.fsync(file.ino, data_only).expect("fsync");
        if file.atomic.is_none() {
            file.synced = Some(file.now.clone());
        }
    }

    fn compare(&self, fs: &F2fs) {
        for (n, file) in self.files.iter().enumerate() {
            let read = read_all(fs, file.ino);
            let differs = read.iter().zip(&file.now).position(|(a, b)| a != b);
            assert!(
                read == file.now,
                "file {n}: {} of {} bytes, first difference {differs:?}",
                read.len(),
                file.now.len()
            );
        }
    }

    fn remount(&mut self) {
        for n in 0..FILES {
            self.end_atomic(n);
        }
        self.fs.unmount().expect("unmount");
        self.fs = mount(&self.ram, &self.options);
        self.compare(&self.fs);
        for (n, file) in self.files.iter_mut().enumerate() {
            file.synced = Some(file.now.clone());
            if n % 2 == 0 {
                self.fs.open(file.ino).expect("open");
            }
        }
    }

    /// The device as it is now, recovered: what was synced and not changed since is there.
    fn crash(&mut self) {
        self.crashes += 1;
        let fs = mount(&fork(&self.ram), &self.options);
        for (n, file) in self.files.iter().enumerate() {
            if let Some(synced) = &file.synced {
                assert!(
                    read_all(&fs, file.ino) == *synced,
                    "file {n} after the crash"
                );
            }
        }
        fs.unmount().expect("unmount");
    }
}

fn fuzz(mkfs: &[&str], mount_options: &str, seed: u64, steps: usize) {
    if !have_tools() {
        return;
    }
    let image = Image::new(128, mkfs);
    let mut run = Run::new(&image, seed, mount_options);
    for _ in 0..steps {
        run.step();
    }
    for n in 0..FILES {
        run.end_atomic(n);
    }
    run.compare(&run.fs);
    run.fs.unmount().expect("unmount");
    image.judge(&run.ram);
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
