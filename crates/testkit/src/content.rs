//! Random reads, writes, truncations, fallocations, syncs, remounts and crashes of a few files,
//! compared with a shadow in memory. A crash is a cut that loses nothing: a copy of the device is
//! mounted. [`Run`] has one method for each step; each file system's test draws which step comes
//! next.

use crate::brief::Brief;
use crate::volume::Volume;
use base::{Ino, Rng};
use fscore::{Errno, FallocateMode, FileSystem};
use std::sync::Arc;

/// Files of a run.
pub const FILES: usize = 4;
const BLOCK: u64 = 4096;

/// A file, and what it has to hold.
pub struct File {
    /// Its inode.
    pub ino: Ino,
    /// Content now.
    pub now: Vec<u8>,
    /// Content at the last fsync, if nothing changed since.
    pub synced: Option<Vec<u8>>,
}

/// Files on a mounted volume.
pub struct Run<V: Volume> {
    /// The mount.
    pub fs: Arc<V::Fs>,
    /// The volume below.
    pub volume: V,
    /// The files, `f0` and so on.
    pub files: Vec<File>,
    /// Draws the steps.
    pub rng: Rng,
    /// Crashes so far.
    pub crashes: u64,
    /// Calls of fallocate that the volume has no way to do.
    pub not_supported: u64,
}

impl<V: Volume> Run<V> {
    /// Makes the files.
    pub fn new(volume: V, seed: u64) -> Run<V> {
        let fs = volume.mount();
        let files = (0..FILES).map(|n| File {
            ino: fs.file(format!("f{n}")),
            now: Vec::new(),
            synced: None,
        });
        Run {
            files: files.collect(),
            fs,
            volume,
            rng: Rng::named(seed, "content"),
            crashes: 0,
            not_supported: 0,
        }
    }

    /// Draws a file.
    pub fn draw(&mut self) -> usize {
        self.rng.below(FILES as u64) as usize
    }

    /// Writes somewhere.
    pub fn write(&mut self, n: usize) {
        let reach = match self.rng.below(4) {
            0 => 3_000,
            1 => 3_000_000,
            _ => 120_000,
        };
        let offset = self.rng.below(reach) as usize;
        let most = if self.rng.one_in(4) { 60_000 } else { 6_000 };
        let mut data = vec![0; self.rng.below(most) as usize + 1];
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

    /// Reads somewhere, and compares.
    pub fn read(&mut self, n: usize) {
        let file = &self.files[n];
        let offset = self.rng.below(file.now.len() as u64 + 5000) as usize;
        let mut buf = vec![0xEE; self.rng.below(70_000) as usize];
        let got = self.fs.read(file.ino, offset as u64, &mut buf);
        let got = got.expect("read");
        let end = file.now.len().min(offset + buf.len());
        let expected = file.now.get(offset..end).unwrap_or_default();
        assert!(buf[..got] == *expected, "file {n} at {offset}: {got} bytes");
    }

    /// Sets a size.
    pub fn truncate(&mut self, n: usize) {
        let file = &mut self.files[n];
        let size = match self.rng.below(5) {
            0 => 0,
            1 => self.rng.below(4_000_000),
            2 => self.rng.below(4_000),
            _ => self.rng.below(file.now.len() as u64 + 1),
        };
        self.fs.resize(file.ino, size).expect("truncate");
        file.now.resize(size as usize, 0);
        file.synced = None;
    }

    /// Allocates a range, or makes it zeros.
    pub fn fallocate(&mut self, n: usize, modes: &[FallocateMode]) {
        let offset = self.rng.below(400_000);
        let len = 1 + self.rng.below(300_000);
        let mode = modes[self.rng.below(modes.len() as u64) as usize];
        let file = &mut self.files[n];
        match self.fs.fallocate(file.ino, mode, offset, len) {
            Err(e) if e.errno() == Errno::NotSup => {
                self.not_supported += 1;
                return;
            }
            done => done.expect("fallocate"),
        }
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
        if mode != FallocateMode::KeepSize {
            file.synced = None;
        }
    }

    /// Takes blocks out, or puts a hole in.
    pub fn shift(&mut self, n: usize) {
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
            let mode = FallocateMode::CollapseRange;
            let done = self.fs.fallocate(file.ino, mode, offset as u64, len);
            done.expect("collapse");
            file.now.drain(offset..offset + len as usize);
        } else if file.now.len() < 6_000_000 {
            let len = (1 + self.rng.below(40)) * BLOCK;
            let mode = FallocateMode::InsertRange;
            let done = self.fs.fallocate(file.ino, mode, offset as u64, len);
            done.expect("insert");
            let hole = vec![0; len as usize];
            file.now.splice(offset..offset, hole);
        }
        file.synced = None;
    }

    /// Makes a file durable.
    pub fn fsync(&mut self, n: usize) {
        let data_only = self.rng.one_in(2);
        let file = &mut self.files[n];
        self.fs.fsync(file.ino, data_only).expect("fsync");
        file.synced = Some(file.now.clone());
    }

    /// Compares all files.
    pub fn compare(&self) {
        for (n, file) in self.files.iter().enumerate() {
            let read = self.fs.content(file.ino);
            let differs = read.iter().zip(&file.now).position(|(a, b)| a != b);
            assert!(
                read == file.now,
                "file {n}: {} of {} bytes, first difference {differs:?}",
                read.len(),
                file.now.len()
            );
        }
    }

    /// Unmounts, mounts again, and compares.
    pub fn remount(&mut self) {
        self.fs.unmount().expect("unmount");
        self.fs = self.volume.mount();
        self.compare();
        for (n, file) in self.files.iter_mut().enumerate() {
            file.synced = Some(file.now.clone());
            if n % 2 == 0 {
                self.fs.open(file.ino).expect("open");
            }
        }
    }

    /// The device as it is now, recovered: what was synced and not changed since is there.
    pub fn crash(&mut self) {
        if !self.volume.outlives_cuts() {
            return;
        }
        self.crashes += 1;
        let fs = self.volume.fork().mount();
        for (n, file) in self.files.iter().enumerate() {
            if let Some(synced) = &file.synced {
                assert!(fs.content(file.ino) == *synced, "file {n} after the crash");
            }
        }
        fs.unmount().expect("unmount");
    }

    /// Compares all files, and has the unmounted volume judged.
    pub fn end(&self) {
        self.compare();
        self.fs.unmount().expect("unmount");
        self.volume.judge();
    }
}
