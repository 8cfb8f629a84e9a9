//! POSIX features beyond files and names: holes, flags, ACLs, whiteouts, projects, access times.

mod acls;
mod flags;
mod seek;
mod times;
mod whiteouts;

use crate::common::{MIB, caps, fresh};
use base::Ino;
use block::Queue;
use blockdev::{Image, Ram, SpecDisk};
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, SetAttr};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_f2fs::mkfs::{DeviceContent, JournalSize, Options, RING_AT, plan};
use varve_f2fs::{F2fs, MountOptions};

const BLOCK: u64 = 4096;

#[track_caller]
fn errno<T: std::fmt::Debug>(result: FsResult<T>) -> Errno {
    result.expect_err("refused").errno()
}

const ROOT: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0o022,
};

/// Of a journal.
const RING: u32 = 1024;

/// Options of the volumes that these tests run on: without a journal, and with one.
const KINDS: [&str; 2] = ["checkpoint=enable", "scheme=f2fsj"];

fn file(fs: &F2fs, dir: Ino, name: &str, perm: u16) -> Ino {
    let made = fs.create(dir, name.as_bytes(), FileKind::File, perm, 0, ROOT);
    made.expect("create").ino
}

fn set_perm(fs: &F2fs, ino: Ino, perm: u16) -> FsResult<()> {
    let set = SetAttr {
        perm: Some(perm),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).map(drop)
}

/// Bytes of the device of a volume of 64 MiB with a journal behind it.
fn journal_bytes() -> u64 {
    let region = u64::from(RING + RING_AT).next_multiple_of(512);
    64 * MIB + region * BLOCK
}

/// A volume that these options fit.
fn volume(options: &str) -> Arc<Ram> {
    if options == KINDS[0] {
        return fresh(64);
    }
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let options = Options {
        journal: Some(JournalSize::Ring(RING)),
        ..Options::new(journal_bytes(), [7; 16], time)
    };
    let ram = Arc::new(Ram::new(journal_bytes()));
    let plan = plan(&options).expect("a volume");
    plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
    ram
}

/// Runs `work` on a mount over a device that loses its power then: what is left.
fn after_power_cut(
    start: Image,
    options: &'static str,
    seed: u64,
    work: impl FnOnce(&F2fs) + Send + 'static,
) -> Arc<Ram> {
    let bytes = match options == KINDS[0] {
        true => 64 * MIB,
        false => journal_bytes(),
    };
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(bytes), start, seed);
        let parsed = MountOptions::parse(options).expect("options");
        let fs = F2fs::mount(Queue::new(disk.clone()), parsed).expect("mounts");
        work(&fs);
        let left = disk.power_off(seed);
        // Ends its tasks.
        let _ = fs.unmount();
        left
    });
    Arc::new(outcome.unwrap().to_ram(bytes))
}
