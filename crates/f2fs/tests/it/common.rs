//! Images made by mkfs.f2fs and loaded into a RAM device; fsck.f2fs checks them afterwards.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

use block::Queue;
use blockdev::Ram;
use fscore::{FileSystem, FsResult};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use testkit::brief::MADE;
use testkit::image::{done, have};
use varve_f2fs::mkfs::{DeviceContent, JournalSize, Options, RING_AT, plan};
use varve_f2fs::{F2fs, MountOptions};

#[allow(unused_imports)] // Not every program that has this module needs all.
pub use testkit::{
    brief::pattern,
    image::{fork, load, run, store, tool},
};

pub const MIB: u64 = 1 << 20;

/// True if f2fs-tools are here; else says that the test is skipped.
pub fn have_tools() -> bool {
    have("f2fs-tools", &["mkfs.f2fs", "fsck.f2fs", "sload.f2fs"])
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
    /// Runs `mkfs.f2fs` with these options on a file of `mib` MiB.
    pub fn new(mib: u64, options: &[&str]) -> Image {
        let image = Image(testkit::image::Image::zeros(mib));
        let mut command = tool("mkfs.f2fs");
        done(command.args(["-q", "-f"]).args(options).arg(&image.path));
        image
    }

    /// Loads a tree of the host by `sload.f2fs`.
    pub fn sload(&self, tree: &Path) {
        done(tool("sload.f2fs").arg("-f").arg(tree).arg(&self.path));
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

    /// Stores a device and has it judged.
    pub fn judge(&self, ram: &Ram) {
        self.store(ram);
        self.fsck();
    }
}

pub fn try_mount(ram: &Arc<Ram>, options: &str) -> FsResult<Arc<F2fs>> {
    let options = MountOptions::parse(options)?;
    F2fs::mount(Queue::new(ram.clone()), options)
}

pub fn mount(ram: &Arc<Ram>, options: &str) -> Arc<F2fs> {
    try_mount(ram, options).unwrap_or_else(|e| panic!("mount with `{options}`: {e}"))
}

/// A device with a fresh volume of our own mkfs.
pub fn fresh(mib: u64) -> Arc<Ram> {
    made(&options_of(mib * MIB))
}

/// What the volumes of tests have in common.
pub fn options_of(bytes: u64) -> Options {
    Options::new(bytes, [7; 16], MADE)
}

/// A device with a fresh volume.
pub fn made(options: &Options) -> Arc<Ram> {
    let ram = Arc::new(Ram::new(options.size_bytes));
    let plan = plan(options).expect("a volume");
    plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
    ram
}

/// A volume by our own mkfs, or, with features, by mkfs.f2fs (without the tool: by our own mkfs,
/// without features).
pub fn featured(mib: u64, features: &str) -> Arc<Ram> {
    if features.is_empty() || !have_tools() {
        return fresh(mib);
    }
    Image::new(mib, &["-O", features]).load()
}

/// Bytes of a device with an F2FS of so many MiB, and a ring of so many blocks behind it.
pub fn bytes_with_ring(mib: u64, ring: u32) -> u64 {
    let region = u64::from(ring + RING_AT).next_multiple_of(512) * 4096;
    mib * MIB + region
}

/// A volume with a ring of so many blocks.
pub fn options_with_ring(mib: u64, ring: u32) -> Options {
    Options {
        journal: Some(JournalSize::Ring(ring)),
        ..options_of(bytes_with_ring(mib, ring))
    }
}

/// Stores a device and has it judged by fsck.f2fs, where that is installed.
pub fn judge(ram: &Ram) {
    if have_tools() {
        Image(testkit::image::Image::of(ram)).fsck();
    }
}

/// Unmounts a volume and has its device judged.
pub fn end(fs: &F2fs, ram: &Ram) {
    fs.unmount().expect("unmount");
    judge(ram);
}

/// What the spec lets a cut do to a cached write: blocks are old or new.
pub fn caps(bytes: u64) -> block::Caps {
    testkit::device::caps(bytes)
}

/// A volume that the harnesses of `testkit` use.
pub struct Volume {
    pub ram: Arc<Ram>,
    options: String,
}

impl Volume {
    pub fn new(ram: Arc<Ram>, options: &str) -> Volume {
        Volume {
            ram,
            options: options.into(),
        }
    }

    /// The volume of an image.
    pub fn of(image: &Image, options: &str) -> Volume {
        Volume::new(image.load(), options)
    }
}

impl testkit::volume::Volume for Volume {
    type Fs = F2fs;

    fn mount(&self) -> Arc<F2fs> {
        mount(&self.ram, &self.options)
    }
    fn fork(&self) -> Volume {
        Volume::new(fork(&self.ram), &self.options)
    }
    fn check(fs: &F2fs) {
        fs.check();
    }
    fn judge(&self) {
        judge(&self.ram);
    }
}
