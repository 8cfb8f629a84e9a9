//! Cuts during a checkpoint: one set of files was made durable, and then replaced by a second set.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

use crate::common::{caps, fresh};
use base::{Mutant, Nanos};
use block::Class;
use block::Queue;
use blockdev::{Image, Ram, SpecDisk};
use fscore::{Creds, Errno, FileKind, FileSystem, FsError};
use rt::{Outcome, Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

pub const MIB: u64 = 256;
const FILES: u64 = 120;
/// Files that fill a segment.
const BIG: u64 = 5;
/// New files that were fsynced before the checkpoint.
const SYNCED: u64 = 3;

/// What a cut left.
pub struct Cut {
    pub image: Image,
    /// The second state's `sync` had returned.
    pub acked: bool,
    /// So many new files were fsynced before.
    pub synced: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    Old,
    New,
}

fn quiet() -> MountOptions {
    MountOptions {
        timers: false,
        ..MountOptions::default()
    }
}

/// A new volume.
pub fn volume() -> Image {
    fresh(MIB).blocks().into_iter().collect()
}

fn stamp(set: &str, n: u64) -> Vec<u8> {
    format!("{set} {n};").into_bytes().repeat(500)
}

fn make(fs: &F2fs, set: &str, n: u64) -> Result<base::Ino, FsError> {
    let name = format!("{set} {n}");
    let creds = Creds::default();
    let attr = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds)?;
    fs.write(attr.ino, 0, &stamp(set, n))?;
    Ok(attr.ino)
}

/// Runs with a guard left out, or none, and answers what cuts during the second `sync` leave.
pub fn cuts(seed: u64, mutant: Option<Mutant>) -> Outcome<Vec<Cut>> {
    let image = volume();
    let config = SimConfig {
        mutant,
        ..SimConfig::seeded(seed)
    };
    Sim::new(config).run(move || {
        let disk = SpecDisk::from_image(caps(MIB << 20), image, seed);
        let fs = F2fs::mount(Queue::new(disk.clone()), quiet()).expect("mounts");
        for n in 0..FILES {
            make(&fs, "old", n).expect("room");
        }
        fs.sync().expect("sync");
        for n in 0..FILES {
            let name = format!("old {n}");
            fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
        }
        for n in 0..FILES {
            let ino = make(&fs, "new", n).expect("room");
            if n < SYNCED {
                fs.fsync(ino, false).expect("fsync");
            }
        }
        let mut cuts = Vec::new();
        let mut cut = |acked| {
            for image in [disk.snapshot(seed), disk.snapshot_lost()] {
                cuts.push(Cut {
                    image,
                    acked,
                    synced: SYNCED,
                });
            }
        };
        cut(false);
        let syncing = fs.clone();
        let task = rt::spawn("sync", move || syncing.sync());
        while !task.is_finished() {
            rt::sleep(Nanos::from_micros(90 + 17 * seed));
            cut(task.is_finished());
        }
        task.join().expect("no panic").expect("sync");
        cut(true);
        cuts
    })
}

/// A write fails in a checkpoint, the device recovers, and the volume is synced again: what cuts of
/// that leave.
pub fn failure(seed: u64, mutant: Option<Mutant>) -> Outcome<Vec<Cut>> {
    let image = volume();
    let config = SimConfig {
        mutant,
        ..SimConfig::seeded(seed)
    };
    Sim::new(config).run(move || {
        let disk = SpecDisk::from_image(caps(MIB << 20), image, seed);
        let fs = F2fs::mount(Queue::new(disk.clone()), quiet()).expect("mounts");
        for n in 0..FILES {
            make(&fs, "old", n).expect("room");
        }
        for n in 0..BIG {
            let name = format!("big {n}");
            let ino = fs.file(name);
            fs.write(ino, 0, &vec![3; 2 << 20]).expect("room");
        }
        fs.sync().expect("sync");
        for n in 0..FILES {
            let name = format!("old {n}");
            fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
            make(&fs, "new", n).expect("room");
        }
        for n in 0..BIG {
            let name = format!("big {n}");
            fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
        }
        disk.fail_writes(Some(Class::CheckpointPack));
        fs.sync().expect_err("a write failed");
        disk.heal();
        let again = fs.clone();
        let task = rt::spawn("sync", move || again.sync().is_ok());
        let mut cuts = Vec::new();
        let mut cut = || {
            cuts.push(Cut {
                image: disk.snapshot(seed),
                acked: false,
                synced: 0,
            });
        };
        while !task.is_finished() {
            rt::sleep(Nanos::from_micros(70 + 17 * seed));
            cut();
        }
        let _ = task.join();
        cut();
        cuts
    })
}

/// Which state mounts, if it is one, whole.
pub fn check(ram: &Arc<Ram>, cut: &Cut) -> Result<Found, String> {
    let fs = F2fs::mount(Queue::new(ram.clone()), quiet()).map_err(|e| e.to_string())?;
    let old = exists(&fs, "old", FILES - 1)?;
    for n in 0..FILES {
        let named = exists(&fs, "old", n)?;
        if named != old {
            return Err(format!("`old {n}` is there: {named}, the last one: {old}"));
        }
        let named = exists(&fs, "new", n)?;
        // Roll-forward brings some of the new ones back.
        let back = old && n < cut.synced;
        if named == (old && !back) {
            return Err(format!("`new {n}` is there: {named}, the old ones: {old}"));
        }
    }
    if old && cut.acked {
        return Err("an acknowledged sync is lost".into());
    }
    for n in 0..BIG {
        let name = format!("big {n}");
        match fs.unlink(fs.root(), name.as_bytes()) {
            Ok(()) | Err(FsError::Posix(Errno::NoEnt)) => {}
            Err(e) => return Err(format!("`{name}` cannot be removed: {e}")),
        }
    }
    let made = make(&fs, "after", 1).and_then(|_| fs.unmount());
    made.map_err(|e| format!("going on: {e}"))?;
    Ok(if old { Found::Old } else { Found::New })
}

fn exists(fs: &F2fs, set: &str, n: u64) -> Result<bool, String> {
    let name = format!("{set} {n}");
    let say = |e: FsError| format!("`{name}`: {e}");
    let ino = match fs.lookup(fs.root(), name.as_bytes()) {
        Ok(ino) => ino,
        Err(FsError::Posix(Errno::NoEnt)) => return Ok(false),
        Err(e) => return Err(say(e)),
    };
    let size = fs.getattr(ino).map_err(say)?.size as usize;
    let mut bytes = vec![0; size.min(100_000)];
    fs.read(ino, 0, &mut bytes).map_err(say)?;
    match bytes == stamp(set, n) {
        true => Ok(true),
        false => Err(format!("`{name}` holds something else, {size} bytes")),
    }
}
