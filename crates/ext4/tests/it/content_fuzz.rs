//! Random reads, writes, truncations, syncs, remounts and crashes of a few files, compared with a
//! shadow in memory.

use crate::common::{Image, fork, have_tools, mount, read_all};
use base::{Ino, Rng};
use fscore::{Errno, FallocateMode, FileSystem, SetAttr};
use std::sync::Arc;
use varve_ext4::Ext4;

const FILES: usize = 4;

struct Shadow {
    ino: Ino,
    now: Vec<u8>,
    /// Content at the last fsync, if nothing changed since.
    synced: Option<Vec<u8>>,
}

struct Run {
    fs: Arc<Ext4>,
    ram: Arc<blockdev::Ram>,
    files: Vec<Shadow>,
    rng: Rng,
    options: String,
    block_maps: bool,
}

impl Run {
    fn new(image: &Image, seed: u64, options: &str) -> Run {
        let ram = image.load();
        let fs = mount(&ram, options);
        let files = (0..FILES).map(|n| {
            let ino = fs
                .lookup(fs.root(), format!("f{n}").as_bytes())
                .expect("there");
            Shadow {
                ino,
                now: Vec::new(),
                synced: None,
            }
        });
        Run {
            files: files.collect(),
            fs,
            ram,
            rng: Rng::named(seed, "content"),
            options: options.into(),
            block_maps: false,
        }
    }

    fn step(&mut self) {
        let n = self.rng.below(FILES as u64) as usize;
        match self.rng.below(100) {
            0..=49 => self.write(n),
            50..=54 => self.fallocate(n),
            55..=69 => self.read(n),
            70..=81 => self.truncate(n),
            82..=91 => self.fsync(n),
            92..=94 => self.fs.sync().expect("sync"),
            95..=97 => self.fs.writeback(rt::now()).expect("writeback"),
            98 => self.remount(),
            _ => self.crash(),
        }
        self.fs.check();
    }

    fn write(&mut self, n: usize) {
        let reach = if self.rng.one_in(3) {
            3_000_000
        } else {
            120_000
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
        let wrote = self
            .fs
            .write(file.ino, offset as u64, &data)
            .expect("write");
        assert_eq!(wrote, data.len());
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
        let got = self
            .fs
            .read(file.ino, offset as u64, &mut buf)
            .expect("read");
        let end = file.now.len().min(offset + buf.len());
        let expected = file.now.get(offset..end).unwrap_or_default();
        assert!(buf[..got] == *expected, "file {n} at {offset}: {got} bytes");
    }

    fn truncate(&mut self, n: usize) {
        let file = &mut self.files[n];
        let size = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(4_000_000),
            _ => self.rng.below(file.now.len() as u64 + 1),
        };
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.fs.setattr(file.ino, &set).expect("truncate");
        file.now.resize(size as usize, 0);
        file.synced = None;
    }

    fn fallocate(&mut self, n: usize) {
        let offset = self.rng.below(400_000);
        let len = 1 + self.rng.below(300_000);
        let file = &mut self.files[n];
        let keep = self.rng.one_in(2);
        let mode = match keep {
            true => FallocateMode::KeepSize,
            false => FallocateMode::Allocate,
        };
        match self.fs.fallocate(file.ino, mode, offset, len) {
            Ok(()) if !keep && (offset + len) as usize > file.now.len() => {
                file.now.resize((offset + len) as usize, 0);
                file.synced = None;
            }
            Ok(()) => {}
            Err(e) => assert!(
                e.errno() == Errno::NotSup && self.block_maps,
                "fallocate: {e}"
            ),
        }
    }

    fn fsync(&mut self, n: usize) {
        let data_only = self.rng.one_in(2);
        let file = &mut self.files[n];
        self.fs.fsync(file.ino, data_only).expect("fsync");
        file.synced = Some(file.now.clone());
    }

    fn compare(&self, fs: &Ext4) {
        for (n, file) in self.files.iter().enumerate() {
            assert!(read_all(fs, file.ino) == file.now, "file {n}");
        }
    }

    fn remount(&mut self) {
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

    /// Checks a recovered copy of the device: everything that was synced and not changed since is
    /// there.
    fn crash(&mut self) {
        if self.options.contains("none") {
            return;
        }
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
    let image = Image::new(48, mkfs);
    let names: Vec<String> = (0..FILES)
        .map(|n| format!("write /dev/null f{n}"))
        .collect();
    image.debugfs_write(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut run = Run::new(&image, seed, mount_options);
    run.block_maps = mkfs.contains(&"ext3") || mkfs.contains(&"ext2");
    for _ in 0..steps {
        run.step();
    }
    run.compare(&run.fs);
    run.fs.unmount().expect("unmount");
    image.store(&run.ram);
    image.fsck();
    for (n, file) in run.files.iter().enumerate() {
        assert!(
            image.cat(&format!("f{n}")) == file.now,
            "debugfs reads file {n}"
        );
    }
}

#[test]
fn ordered() {
    for seed in 0..3 {
        fuzz(&[], "cache=4", seed, 400);
    }
}

#[test]
fn writeback() {
    fuzz(&[], "data=writeback,cache=4", 10, 400);
}

#[test]
fn journal() {
    fuzz(&[], "data=journal,cache=4", 20, 400);
}

#[test]
fn no_log() {
    fuzz(&[], "scheme=none,cache=4", 30, 400);
}

#[test]
fn old_formats() {
    fuzz(&["-O", "^64bit"], "", 40, 200);
    fuzz(&["-O", "^metadata_csum"], "", 41, 200);
    fuzz(&["-O", "^metadata_csum,uninit_bg,^64bit"], "", 42, 200);
    fuzz(&["-O", "^flex_bg,^huge_file,^dir_index"], "", 43, 200);
    fuzz(&["-I", "128"], "", 44, 200);
    fuzz(&["-O", "metadata_csum_seed"], "", 45, 200);
}

#[test]
fn block_maps() {
    fuzz(&["-t", "ext3"], "cache=4", 60, 400);
    fuzz(&["-t", "ext3"], "data=journal", 61, 200);
    fuzz(&["-t", "ext2"], "scheme=none", 62, 200);
}

#[test]
fn tiny_log() {
    fuzz(&["-J", "size=4"], "commit=600,cache=4", 50, 400);
}
