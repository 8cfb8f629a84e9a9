//! Images of devices in files, and the programs of other projects that make and judge such images
//! (mkfs, fsck).
#![allow(clippy::disallowed_methods)] // Those tools read files of the host.

use base::{BLOCK_BYTES, BlockNo};
use blockdev::{BlockDevice, Class, Ram, write_block};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

/// A program of another package, which may lie outside of a user's PATH.
///
/// The PATH of the program stays as it is: with another one it would be started by fork(2), which
/// copies the page tables of a test whose devices lie in memory.
pub fn tool(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut files = path
        .split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(name));
    let mut command = match files.find(|file| file.is_file()) {
        Some(file) => Command::new(file),
        None => Command::new(name),
    };
    command.env("LC_ALL", "C");
    command
}

/// Runs a program to its end.
///
/// # Panics
/// If it cannot be started.
pub fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Runs a program that must end without an error.
///
/// # Panics
/// With what it said, if it does not.
pub fn done(command: &mut Command) -> Output {
    let out = run(command);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}");
    out
}

/// True if all these programs of a package are installed; else it prints that the test is skipped.
pub fn have(package: &str, programs: &[&str]) -> bool {
    for name in programs {
        if tool(name).arg("-V").output().is_err() {
            eprintln!("skipped: {name} is not installed ({package})");
            return false;
        }
    }
    true
}

/// A folder with an image in it.
pub struct Image {
    /// The folder, which goes with this value.
    pub dir: TempDir,
    /// The image.
    pub path: PathBuf,
}

impl Image {
    /// An image of `mib` MiB of zeros, in a folder of its own.
    ///
    /// # Panics
    /// If the host has no room.
    pub fn zeros(mib: u64) -> Image {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("image");
        File::create(&path)
            .and_then(|f| f.set_len(mib << 20))
            .expect("an image file");
        Image { dir, path }
    }

    /// An image of a device.
    ///
    /// # Panics
    /// If the host has no room.
    pub fn of(ram: &Ram) -> Image {
        let image = Image::zeros(0);
        image.store(ram);
        image
    }

    /// Loads the image as a device in memory.
    pub fn load(&self) -> Arc<Ram> {
        load(&self.path)
    }

    /// Stores a device as the image.
    pub fn store(&self, ram: &Ram) {
        store(ram, &self.path);
    }
}

/// Stores a device in a file, with holes for blocks that were never written.
///
/// # Panics
/// If the host has no room.
pub fn store(ram: &Ram, path: &Path) {
    let mut file = File::create(path).expect("the image file");
    file.set_len(bytes(ram)).expect("room");
    for (n, block) in ram.blocks() {
        file.seek(SeekFrom::Start(n * BLOCK_BYTES as u64))
            .expect("seek");
        file.write_all(&block).expect("room for the image");
    }
}

/// Loads a sparse file as a device in memory.
///
/// # Panics
/// If it cannot be read.
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

/// Copies a device as it is now.
pub fn fork(ram: &Ram) -> Arc<Ram> {
    let content: blockdev::Image = ram.blocks().into_iter().collect();
    Arc::new(content.to_ram(bytes(ram)))
}

fn bytes(ram: &Ram) -> u64 {
    ram.caps().sectors * base::SECTOR_BYTES as u64
}
