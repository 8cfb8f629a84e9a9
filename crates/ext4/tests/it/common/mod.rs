//! Images made by mke2fs, loaded into a RAM device, and checked by e2fsck and debugfs afterwards.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

pub mod cut_disk;
pub mod mounted;
pub mod trees;

use base::{BLOCK_BYTES, BlockNo, Bytes};
use block::{BlockDevice, Queue};
use blockdev::Ram;
use fscore::{FileSystem, FsResult};
use std::ops::Deref;
use std::sync::Arc;
use testkit::brief::MADE;
use testkit::image::{done, have, run};
use varve_ext4::check::{Options, Report, check};
use varve_ext4::mkfs::{self, DeviceContent, Kind, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

#[allow(unused_imports)] // Not every program that has this module needs all.
pub use testkit::{
    brief::pattern,
    image::{fork, load, tool},
};

/// True if all of e2fsprogs is installed; else prints that the test is skipped.
pub fn have_tools() -> bool {
    have("e2fsprogs", &["mke2fs", "e2fsck", "debugfs", "dumpe2fs"])
}

/// A folder with an image in it.
pub struct Image(testkit::image::Image);

impl Deref for Image {
    type Target = testkit::image::Image;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Image {
    /// Runs `mke2fs` with 4 KiB blocks and these further options on a file of `mib` MiB.
    pub fn new(mib: u64, options: &[&str]) -> Image {
        let image = Image(testkit::image::Image::zeros(mib));
        let kind = match options.contains(&"-t") {
            true => &[][..],
            false => &["-t", "ext4"],
        };
        let mut command = tool("mke2fs");
        command.args(["-q", "-F", "-b", "4096"]).args(kind);
        done(command.args(options).arg(&image.path));
        image
    }

    /// An image of a device.
    pub fn of(ram: &Ram) -> Image {
        Image(testkit::image::Image::of(ram))
    }

    /// Makes a file system with Varve's own mkfs.
    pub fn ours(kind: Kind, mib: u64) -> Image {
        Image::of(&fresh(kind, mib))
    }

    /// Runs commands of debugfs that change the image.
    pub fn debugfs_write(&self, commands: &[&str]) {
        let script = self.dir.path().join("script");
        std::fs::write(&script, commands.join("\n")).expect("a script");
        done(
            tool("debugfs")
                .args(["-w", "-f"])
                .args([&script, &self.path]),
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

    /// Stores a device and has it judged.
    pub fn judge(&self, ram: &Ram) {
        self.store(ram);
        self.fsck();
    }

    /// The image as a device in memory, and a mount of it.
    pub fn mount(&self, options: &str) -> (Arc<Ram>, Arc<Ext4>) {
        let ram = self.load();
        let fs = mount(&ram, options);
        (ram, fs)
    }

    /// Unmounts a device of [`Image::mount`], and has it judged.
    pub fn end(&self, fs: &Ext4, ram: &Ram) {
        fs.unmount().expect("unmount");
        self.judge(ram);
    }

    /// `e2fsck -fy`: its exit code and what it said.
    pub fn fsck_repair(&self) -> (Option<i32>, String) {
        let out = run(tool("e2fsck").arg("-fy").arg(&self.path));
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
        )
    }
}

/// A device with a fresh file system by Varve's own mkfs.
pub fn fresh(kind: Kind, mib: u64) -> Arc<Ram> {
    fresh_of(kind, mib, BLOCK_BYTES as u32)
}

/// As [`fresh`], with blocks of `block_bytes`.
pub fn fresh_of(kind: Kind, mib: u64, block_bytes: u32) -> Arc<Ram> {
    let mut options = options_of(mib);
    (options.kind, options.block_bytes) = (kind, block_bytes);
    made(&options)
}

/// What the volumes of tests have in common.
pub fn options_of(mib: u64) -> MkfsOptions {
    MkfsOptions::new(mib << 20, [3; 16], [5; 16], MADE)
}

/// A device with a fresh volume.
pub fn made(options: &MkfsOptions) -> Arc<Ram> {
    written(&mkfs::plan(options).expect("a volume"), options.size_bytes)
}

/// A device of `bytes` bytes on which a plan was carried out.
pub fn written(plan: &mkfs::Plan, bytes: u64) -> Arc<Ram> {
    let ram = Arc::new(Ram::new(bytes));
    plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
    ram
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

pub fn zeros() -> Bytes {
    vec![0; BLOCK_BYTES].into()
}

/// A volume that the harnesses of `testkit` use.
pub struct Volume {
    pub ram: Arc<Ram>,
    options: String,
    /// Where e2fsck finds it; without an image Varve's checker alone judges it.
    image: Option<Arc<Image>>,
}

impl Volume {
    /// A volume in memory.
    pub fn new(ram: Arc<Ram>, options: &str) -> Volume {
        Volume {
            ram,
            options: options.into(),
            image: None,
        }
    }

    /// The volume of an image, in which it is judged.
    pub fn of(image: &Arc<Image>, options: &str) -> Volume {
        Volume {
            image: Some(image.clone()),
            ..Volume::new(image.load(), options)
        }
    }
}

impl testkit::volume::Volume for Volume {
    type Fs = Ext4;

    fn mount(&self) -> Arc<Ext4> {
        mount(&self.ram, &self.options)
    }
    fn fork(&self) -> Volume {
        Volume {
            ram: fork(&self.ram),
            options: self.options.clone(),
            image: self.image.clone(),
        }
    }
    fn check(fs: &Ext4) {
        fs.check();
    }
    fn judge(&self) {
        let report = check_ram(&self.ram);
        assert!(report.is_clean(), "{}: {}", self.options, said(&report));
        if let Some(image) = &self.image {
            image.judge(&self.ram);
        }
    }
    fn outlives_cuts(&self) -> bool {
        !self.options.contains("none")
    }
}
