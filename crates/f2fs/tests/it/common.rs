//! Images made by mkfs.f2fs and loaded into a RAM device; fsck.f2fs checks them afterwards.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

use base::{BLOCK_BYTES, BlockNo, Ino};
use block::{BlockDevice, Class, Queue};
use blockdev::{Ram, write_block};
use fscore::{Creds, FileKind, FileSystem, FsResult, SetAttr};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;
use varve_f2fs::{F2fs, MountOptions};

/// A tool of f2fs-tools; they live outside of many users' PATH.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.env("LC_ALL", "C");
    command
}

pub fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// True if f2fs-tools are here; else says that the test is skipped.
pub fn have_tools() -> bool {
    for name in ["mkfs.f2fs", "fsck.f2fs", "sload.f2fs"] {
        if tool(name).arg("-V").output().is_err() {
            eprintln!("skipped: {name} is not installed (f2fs-tools)");
            return false;
        }
    }
    true
}

/// A folder with an image in it.
pub struct Image {
    pub dir: TempDir,
    pub path: PathBuf,
}

impl Image {
    /// Runs `mkfs.f2fs` with these options on a file of `mib` MiB.
    pub fn new(mib: u64, options: &[&str]) -> Image {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("image");
        File::create(&path)
            .and_then(|f| f.set_len(mib << 20))
            .expect("an image file");
        let out = run(tool("mkfs.f2fs")
            .args(["-q", "-f"])
            .args(options)
            .arg(&path));
        assert!(
            out.status.success(),
            "mkfs.f2fs: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        Image { dir, path }
    }

    /// Loads a tree of the host by `sload.f2fs`.
    pub fn sload(&self, tree: &Path) {
        let out = run(tool("sload.f2fs").arg("-f").arg(tree).arg(&self.path));
        assert!(
            out.status.success(),
            "sload.f2fs: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// What `fsck.f2fs --dry-run` says; panics unless it is content.
    pub fn fsck(&self) -> String {
        let out = run(tool("fsck.f2fs").arg("--dry-run").arg(&self.path));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let content = out.status.code() == Some(0)
            && !text.contains("[Fail]")
            && !text.contains("[ASSERT]")
            && !text.contains("[FIX]");
        assert!(content, "fsck.f2fs --dry-run: {:?}\n{text}", out.status);
        text
    }

    /// The image as a device in memory.
    pub fn load(&self) -> Arc<Ram> {
        load(&self.path)
    }

    /// Stores a device as the image.
    pub fn store(&self, ram: &Ram) {
        let mut file = File::create(&self.path).expect("the image file");
        file.set_len(ram.caps().sectors * 512).expect("room");
        for (n, block) in ram.blocks() {
            file.seek(SeekFrom::Start(n * BLOCK_BYTES as u64))
                .expect("seek");
            file.write_all(&block).expect("room for the image");
        }
    }

    /// Stores a device and has it judged.
    pub fn judge(&self, ram: &Ram) {
        self.store(ram);
        self.fsck();
    }
}

/// Loads a sparse file.
pub fn load(path: &Path) -> Arc<Ram> {
    let mut file = File::open(path).expect("the image");
    let len = file.metadata().expect("its size").len();
    let ram = Ram::new(len);
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        let end =
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).expect("a hole or the end");
        let first = start / BLOCK_BYTES as u64;
        let last = end.div_ceil(BLOCK_BYTES as u64);
        file.seek(SeekFrom::Start(first * BLOCK_BYTES as u64))
            .expect("seek");
        for n in first..last {
            let mut block = vec![0; BLOCK_BYTES];
            file.read_exact(&mut block).expect("whole blocks");
            if block.iter().any(|&b| b != 0) {
                write_block(&ram, BlockNo(n).lba(), Class::Data, block.into()).expect("in range");
            }
        }
        at = last * BLOCK_BYTES as u64;
    }
    Arc::new(ram)
}

pub fn try_mount(ram: &Arc<Ram>, options: &str) -> FsResult<Arc<F2fs>> {
    let options = MountOptions::parse(options)?;
    F2fs::mount(Queue::new(ram.clone()), options)
}

pub fn mount(ram: &Arc<Ram>, options: &str) -> Arc<F2fs> {
    try_mount(ram, options).unwrap_or_else(|e| panic!("mount with `{options}`: {e}"))
}

/// A copy of the device as it is now.
pub fn fork(ram: &Ram) -> Arc<Ram> {
    let copy = Ram::new(ram.caps().sectors * 512);
    for (n, block) in ram.blocks() {
        write_block(&copy, BlockNo(n).lba(), Class::Data, block).expect("in range");
    }
    Arc::new(copy)
}

/// Bytes that depend on a seed and their place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    base::Rng::named(seed, "pattern").fill(&mut bytes);
    bytes
}

/// Makes a file in the root.
pub fn create(fs: &F2fs, name: &str) -> FsResult<Ino> {
    let creds = Creds::default();
    let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds);
    made.map(|attr| attr.ino)
}

/// Reads a whole file.
pub fn read_all(fs: &F2fs, ino: Ino) -> Vec<u8> {
    let size = fs.getattr(ino).expect("getattr").size;
    let mut bytes = vec![0; size as usize];
    let n = fs.read(ino, 0, &mut bytes).expect("read");
    assert_eq!(n as u64, size);
    bytes
}

pub fn truncate(fs: &F2fs, ino: Ino, size: u64) -> FsResult<()> {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).map(drop)
}

pub const MIB: u64 = 1 << 20;

/// A device with a fresh volume of our own mkfs.
pub fn fresh(mib: u64) -> Arc<Ram> {
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let options = varve_f2fs::mkfs::Options::new(mib * MIB, [7; 16], time);
    let ram = Arc::new(Ram::new(mib * MIB));
    let plan = varve_f2fs::mkfs::plan(&options).expect("a volume");
    let before = varve_f2fs::mkfs::DeviceContent::Zeros;
    plan.write(&Queue::new(ram.clone()), before)
        .expect("written");
    ram
}

/// Stores a device and has it judged by fsck.f2fs, where that is installed.
pub fn judge(ram: &Ram) {
    if have_tools() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("image");
        Image { dir, path }.judge(ram);
    }
}

/// What the spec lets a cut do to a cached write: blocks are old or new.
pub fn caps(bytes: u64) -> block::Caps {
    block::Caps {
        sectors: bytes / base::SECTOR_BYTES as u64,
        sector_bytes: base::SECTOR_BYTES as u32,
        volatile_cache: true,
        fua: true,
        reliable_granule: Some(4096),
        tear_granule: Some(4096),
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: true,
        remap: None,
        max_transfer_sectors: 256,
    }
}
