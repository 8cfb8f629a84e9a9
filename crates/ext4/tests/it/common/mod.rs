//! Images made by mke2fs, loaded into a RAM device, and checked by e2fsck and debugfs afterwards.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

pub mod cut_disk;
pub mod mounted;
pub mod trees;

use base::{BLOCK_BYTES, BlockNo, Bytes};
use block::{BlockDevice, Class, Queue};
use blockdev::{Ram, write_block};
use fscore::FsResult;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;
use varve_ext4::check::{Options, Report, check};
use varve_ext4::mkfs::{self, DeviceContent, Kind, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

/// A command of e2fsprogs, found also where it is not in the user's PATH.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.env("LC_ALL", "C");
    command
}

fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// True if all of e2fsprogs is installed; else prints that the test is skipped.
pub fn have_tools() -> bool {
    for name in ["mke2fs", "e2fsck", "debugfs", "dumpe2fs"] {
        if tool(name).arg("-V").output().is_err() {
            eprintln!("skipped: {name} is not installed (e2fsprogs)");
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
    /// Runs `mke2fs` with 4 KiB blocks and these further options on a file of `mib` MiB.
    pub fn new(mib: u64, options: &[&str]) -> Image {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("image");
        File::create(&path)
            .and_then(|f| f.set_len(mib << 20))
            .expect("an image file");
        let mut command = tool("mke2fs");
        command
            .args(["-q", "-F", "-b", "4096"])
            .args(if options.contains(&"-t") {
                &[][..]
            } else {
                &["-t", "ext4"]
            })
            .args(options)
            .arg(&path);
        let out = run(&mut command);
        assert!(
            out.status.success(),
            "mke2fs: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        Image { dir, path }
    }

    /// Makes a file system with Varve's own mkfs.
    pub fn ours(kind: Kind, mib: u64) -> Image {
        Image::of(kind, mib, BLOCK_BYTES as u32)
    }

    /// As [`Image::ours`], with blocks of `block_bytes`.
    pub fn of(kind: Kind, mib: u64, block_bytes: u32) -> Image {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("image");
        let image = Image { dir, path };
        image.store(&fresh_of(kind, mib, block_bytes));
        image
    }

    /// Runs commands of debugfs that change the image.
    pub fn debugfs_write(&self, commands: &[&str]) {
        let script = self.dir.path().join("script");
        std::fs::write(&script, commands.join("\n")).expect("a script");
        let out = run(tool("debugfs")
            .arg("-w")
            .arg("-f")
            .arg(&script)
            .arg(&self.path));
        assert!(
            out.status.success(),
            "debugfs: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// The output of debugfs for one request.
    pub fn debugfs(&self, request: &str) -> String {
        let out = run(tool("debugfs").arg("-R").arg(request).arg(&self.path));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The output of dumpe2fs for the superblock.
    pub fn dumpe2fs(&self) -> String {
        let out = run(tool("dumpe2fs").arg("-h").arg(&self.path));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The content of a file as debugfs reads it.
    pub fn cat(&self, path: &str) -> Vec<u8> {
        run(tool("debugfs")
            .arg("-R")
            .arg(format!("cat {path}"))
            .arg(&self.path))
        .stdout
    }

    /// The output of `e2fsck -fn`; panics if it, or Varve's own checker, finds a fault.
    pub fn fsck(&self) -> String {
        let out = run(tool("e2fsck").arg("-fn").arg(&self.path));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(0), "e2fsck -fn:\n{text}");
        let report = check_ram(&load(&self.path));
        assert!(report.is_clean(), "e2fsck is content:\n{}", said(&report));
        text
    }

    /// `e2fsck -fy`: its exit code and what it said.
    pub fn fsck_repair(&self) -> (Option<i32>, String) {
        let out = run(tool("e2fsck").arg("-fy").arg(&self.path));
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
        )
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
}

/// A device with a fresh file system by Varve's own mkfs.
pub fn fresh(kind: Kind, mib: u64) -> Arc<Ram> {
    fresh_of(kind, mib, BLOCK_BYTES as u32)
}

/// As [`fresh`], with blocks of `block_bytes`.
pub fn fresh_of(kind: Kind, mib: u64, block_bytes: u32) -> Arc<Ram> {
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let mut options = MkfsOptions::new(mib << 20, [3; 16], [5; 16], time);
    (options.kind, options.block_bytes) = (kind, block_bytes);
    let ram = Arc::new(Ram::new(mib << 20));
    mkfs::plan(&options)
        .expect("a volume")
        .write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
    ram
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

/// Runs Varve's own checker on a device.
pub fn check_ram(ram: &Ram) -> Report {
    let blocks: std::collections::BTreeMap<u64, Bytes> = ram.blocks().into_iter().collect();
    let read =
        |block: BlockNo| Ok::<_, String>(blocks.get(&block.0).cloned().unwrap_or_else(zeros));
    check(&read, &Options::new(ram.caps().sectors / 8))
}

/// The findings of a report, one on each line.
pub fn said(report: &Report) -> String {
    let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

pub fn try_mount(ram: &Arc<Ram>, options: &str) -> FsResult<Arc<Ext4>> {
    Ext4::mount(Queue::new(ram.clone()), MountOptions::parse(options)?)
}

pub fn mount(ram: &Arc<Ram>, options: &str) -> Arc<Ext4> {
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

/// Reads a whole file.
pub fn read_all(fs: &Ext4, ino: base::Ino) -> Vec<u8> {
    use fscore::FileSystem;
    let size = fs.getattr(ino).expect("getattr").size;
    let mut bytes = vec![0; size as usize];
    let n = fs.read(ino, 0, &mut bytes).expect("read");
    assert_eq!(n as u64, size);
    bytes
}

pub fn zeros() -> Bytes {
    vec![0; BLOCK_BYTES].into()
}
