//! Inodes that go, in the epoch that made them and in later ones, many with neighbouring numbers;
//! used by the tests of recovery and by the catalogue of mutants.
#![allow(dead_code)]

use super::common::{Mistake, disk, fsck, sim, try_mount, try_mount_alone, volume};
use super::foreign::{Before, Step, Tree, before, mount_plain, tree, write};
use base::Ino;
use blockdev::{Image, SpecDisk};
use fscore::{FileSystem, RenameMode, XattrMode};
use rt::SimConfig;
use std::collections::BTreeSet;
use testkit::Brief;
use varve_f2fs::{F2fs, JournalRecovery};

const RING: u32 = 1024;

/// Makes an inode of each shape in `dir`.
fn shapes(fs: &F2fs, dir: Ino) {
    fs.make(dir, "empty").expect("a file");
    let inline = fs.make(dir, "inline").expect("a file");
    write(fs, inline, 0, 1, 300);
    let blocks = fs.make(dir, "blocks").expect("a file");
    write(fs, blocks, 0, 2, 50_000);
    fs.fsync(blocks, false).expect("synced");
    let far = fs.make(dir, "far").expect("a file");
    write(fs, far, 16 << 20, 3, 9000);
    fs.setxattr(far, b"user.x", &[7; 3000], XattrMode::Any)
        .expect("set");
    fs.make_link(dir, b"link", &[b't'; 3800]).expect("made");
    let below = fs.make_dir(dir, "below").expect("a directory");
    for n in 0..250 {
        fs.make(below, format!("a rather long name of file {n}"))
            .expect("a file");
    }
}

/// Takes them away, in an order that is not that of their numbers.
fn remove(fs: &F2fs, dir: Ino) {
    let below = fs.lookup(dir, b"below").expect("there");
    for n in 0..250 {
        let name = format!("a rather long name of file {}", n * 7 % 250);
        fs.unlink(below, name.as_bytes()).expect("gone");
    }
    for name in ["far", "empty", "link", "blocks", "inline"] {
        fs.unlink(dir, name.as_bytes()).expect("gone");
    }
    fs.rmdir(dir, b"below").expect("gone");
}

/// Numbers of what `shapes` has made.
fn numbers(fs: &F2fs, dir: Ino) -> BTreeSet<Ino> {
    let below = fs.lookup(dir, b"below").expect("there");
    let entries = [dir, below].map(|dir| fs.readdir(dir, 0, 1000).expect("entries"));
    let own = entries.iter().flatten();
    let own = own.filter(|e| !matches!(&e.name[..], b"." | b".."));
    own.map(|entry| entry.ino).collect()
}

pub const STEPS: &[Step] = &[
    ("made and removed at once", |fs| {
        let dir = fs.make_dir(fs.root(), "new").expect("a directory");
        shapes(fs, dir);
        remove(fs, dir);
        fs.make(dir, "left").expect("a file");
    }),
    ("with the directory that they were in", |fs| {
        let dir = fs.make_dir(fs.root(), "new").expect("a directory");
        shapes(fs, dir);
        remove(fs, dir);
        fs.rmdir(fs.root(), b"new").expect("gone");
    }),
    ("removed an epoch later", |fs| {
        let dir = fs.make_dir(fs.root(), "new").expect("a directory");
        shapes(fs, dir);
        fs.sync().expect("synced");
        remove(fs, dir);
        fs.make(dir, "left").expect("a file");
    }),
    ("removed, and their numbers taken in the next epoch", |fs| {
        let dir = fs.make_dir(fs.root(), "new").expect("a directory");
        shapes(fs, dir);
        fs.sync().expect("synced");
        let old = numbers(fs, dir);
        remove(fs, dir);
        fs.sync().expect("synced");
        shapes(fs, dir);
        let same = numbers(fs, dir).intersection(&old).count();
        assert!(same > 50, "only {same} numbers are taken again");
        fs.sync().expect("synced");
        remove(fs, dir);
    }),
    ("removed while they are open, and closed later", |fs| {
        let dir = fs.make_dir(fs.root(), "new").expect("a directory");
        shapes(fs, dir);
        fs.sync().expect("synced");
        let open = ["far", "blocks", "inline"];
        let open = open.map(|name| fs.lookup(dir, name.as_bytes()).expect("there"));
        open.iter().for_each(|ino| fs.open(*ino).expect("open"));
        remove(fs, dir);
        fs.release(open[1]).expect("open");
        fs.sync().expect("synced");
        fs.release(open[0]).expect("open");
        fs.release(open[2]).expect("open");
    }),
    ("replaced", |fs| {
        let root = fs.root();
        let many = fs.lookup(root, b"many").expect("there");
        for n in 0..100 {
            let name = |n: u32| format!("a rather long name of file {n}").into_bytes();
            let (from, to) = (name(n), name(399 - n));
            fs.rename(many, &from, many, &to, RenameMode::Replace)
                .expect("replaced");
        }
    }),
];

/// What the device has when everything of `step` is committed, and what a user saw then.
fn life(step: &Step, begin: Before, mistake: &Mistake) -> Result<(Image, Tree), String> {
    let life = mistake.within(SimConfig::random(3)).run(|| {
        let disk = disk(RING, volume(RING), 3);
        let fs = try_mount_alone(&disk, "").expect("mounted");
        before(&fs);
        match begin {
            Before::Beside => {}
            Before::Apart => fs.sync().expect("synced"),
            Before::Home => fs.write_home_now().expect("applied"),
        }
        (step.1)(&fs);
        fs.sync().expect("synced");
        // An apply of the same mistake would stumble before a cut is looked at.
        (disk.snapshot_lost(), tree(&fs))
    });
    mistake.asked(&life);
    match life.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => Ok(life.value.expect("no failure")),
    }
}

/// Recovers what was left, with the ring that goes on or with a pack; it is what a user saw, and
/// whole.
fn recovered(content: &Image, expected: &Tree, goes_on: bool) -> Result<Image, String> {
    let (content, expected) = (content.clone(), expected.clone());
    sim(4, move || {
        let disk = disk(RING, content, 4);
        let fs = match goes_on {
            true => try_mount(&disk, ""),
            false => mount_plain(&disk),
        };
        let fs = fs.map_err(|e| e.to_string())?;
        let found = fs.journal_recovery().expect("a journal").clone();
        if found.case != 'I' || found.miscounted {
            return Err(format!("{}: {}", found.case, found.message));
        }
        // Orphans and images end the ring (resume-G2).
        let simple = super::SCHEME == "scheme=f2fsj";
        if goes_on && simple && found.kept == 0 {
            return Err("the ring does not go on".to_string());
        }
        if tree(&fs) != expected {
            return Err("another tree".to_string());
        }
        fs.check();
        fs.unmount().map_err(|e| e.to_string())?;
        Ok(disk.visible())
    })
}

/// What a mount finds of what a cut leaves of `fs` on `life`.
fn found_behind_a_cut(fs: &F2fs, life: &SpecDisk, ring: u32, options: &str) -> JournalRecovery {
    let left = life.snapshot_lost();
    fs.unmount().expect("unmounted");
    let next = disk(ring, left, 4);
    let fs = try_mount_alone(&next, options).expect("mounted");
    let found = fs.journal_recovery().expect("a journal").clone();
    fs.check();
    fs.unmount().expect("unmounted");
    found
}

/// What a recovery redoes of 298 of 300 empty files that were home, and are removed in one epoch:
/// inodes that go, and records. The first and the last stay, with the directory's blocks.
pub fn neighbours() -> (u64, u64) {
    sim(4, || {
        let life = disk(RING, volume(RING), 4);
        let fs = try_mount_alone(&life, "").expect("mounted");
        for n in 0..300 {
            fs.make(fs.root(), format!("{n}")).expect("a file");
        }
        fs.write_home_now().expect("applied");
        for n in 1..299 {
            fs.unlink(fs.root(), format!("{n}").as_bytes())
                .expect("gone");
        }
        fs.sync().expect("synced");
        let found = found_behind_a_cut(&fs, &life, RING, "");
        (found.nodes_freed, found.records)
    })
}

/// The chain of the ring, whose epochs make and remove more files than there may be dirty nodes.
pub fn temporary_files() -> (u64, u64) {
    const RING: u32 = 3072;
    sim(4, || {
        let life = disk(RING, volume(RING), 4);
        let fs = try_mount_alone(&life, "cache=16").expect("mounted");
        for _ in 0..3 {
            for _ in 0..5000 {
                fs.make(fs.root(), "temporary").expect("a file");
                fs.unlink(fs.root(), b"temporary").expect("gone");
            }
            fs.make(fs.root(), "left").expect("a file");
            fs.sync().expect("synced");
            fs.unlink(fs.root(), b"left").expect("gone");
        }
        fs.sync().expect("synced");
        let found = found_behind_a_cut(&fs, &life, RING, "cache=16");
        assert!(found.epochs >= 4 && found.nodes_freed > 15_000, "{found:?}");
        (found.spilled, found.epochs - found.kept)
    })
}

/// Each step, wherever what it changes was before; answers how many were looked at.
pub fn each(mistake: &Mistake) -> Result<u32, String> {
    let mut looked_at = 0;
    for step in STEPS {
        for begin in [Before::Beside, Before::Apart, Before::Home] {
            let named = |why: String| format!("{}, {begin:?}: {why}", step.0);
            let (content, expected) = life(step, begin, mistake).map_err(named)?;
            for goes_on in [false, true] {
                let left = recovered(&content, &expected, goes_on);
                let left = left.map_err(|why| named(format!("trim-T6: {why}")))?;
                if mistake.mutant.is_none() {
                    fsck(RING, &left);
                }
                looked_at += 1;
            }
        }
    }
    Ok(looked_at)
}
