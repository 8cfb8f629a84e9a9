//! Histories that were written to break the crash argument of Varve's own fast commits: what the
//! log holds behind an fsync and what lies at home then have to fit each other, also where an
//! operation began in the transaction before.

use crate::area::Area;
use crate::common::Image;
use crate::ours::Left;
use crate::replay::{is_synced, tree_of};
use crate::{VOLUMES, by_us, checked, have_tools, judged};
use base::Ino;
use block::Queue;
use fscore::{Creds, FileKind, FileSystem, SetAttr, XattrMode};
use rt::{Mutex, Sim, SimConfig};
use std::sync::Arc;
use varve_ext4::{Ext4, MountOptions};

const MIB: u64 = 24;
/// Bytes of a volume.
pub const BYTES: u64 = MIB << 20;
/// Both orders in which fast commits are written.
const MOUNTS: [&str; 2] = ["scheme=fast-commit", "scheme=fast-commit+adaptive"];

/// A mounted volume, and what it left behind its fsyncs.
pub struct Stage {
    fs: Arc<Ext4>,
    ram: Arc<blockdev::Ram>,
    left: Mutex<Vec<Left>>,
}

impl Stage {
    pub fn make(&self, name: &str) -> Ino {
        let (root, creds) = (self.fs.root(), Creds::default());
        let made = (self.fs).create(root, name.as_bytes(), FileKind::File, 0o640, 0, creds);
        made.expect("room").ino
    }

    pub fn write(&self, ino: Ino, at: u64, len: usize) {
        let data = crate::common::pattern(at + u64::from(ino.0), len);
        self.fs.write(ino, at, &data).expect("room");
    }

    fn unlink(&self, name: &str) {
        let gone = self.fs.unlink(self.fs.root(), name.as_bytes());
        gone.expect("there");
    }

    fn resize(&self, ino: Ino, size: u64) {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set).expect("a size");
    }

    /// A file that is unlinked, durably, and still open.
    fn orphan(&self, name: &str) -> Ino {
        let ino = self.make(name);
        self.write(ino, 0, 9000);
        self.fs.open(ino).expect("there");
        self.unlink(name);
        ino
    }

    /// Makes everything durable by a full commit.
    fn sync(&self) {
        self.fs.sync().expect("synced");
    }

    /// An fsync, and what a power cut leaves behind it.
    pub fn fsync(&self, ino: Ino, what: &str) {
        self.fs.writeback(base::Time(u64::MAX)).expect("room");
        self.fs.fsync(ino, false).expect("synced");
        self.snap(what);
    }

    fn snap(&self, what: &str) {
        self.left.lock().push(Left {
            image: self.ram.blocks().into_iter().collect(),
            bytes: MIB << 20,
            live: tree_of(&self.fs).expect("a walk"),
            fast: self.fs.journal().stats().fast_commits,
            what: what.into(),
        });
    }

    /// As `snap` while other tasks change the volume: what it shows is not looked at.
    fn snap_beside(&self, what: &str) {
        self.left.lock().push(Left {
            image: self.ram.blocks().into_iter().collect(),
            bytes: MIB << 20,
            live: crate::replay::Tree::new(),
            fast: self.fast_commits(),
            what: what.into(),
        });
    }

    fn fast_commits(&self) -> u64 {
        self.fs.journal().stats().fast_commits
    }
}

/// A fresh volume.
pub fn volume(mkfs: &[&str]) -> blockdev::Image {
    let mut all = vec!["-J", "size=4", "-N", "256"];
    all.extend(mkfs);
    let image = Image::new(MIB, &all);
    image.load().blocks().into_iter().collect()
}

/// Runs `history` on a volume and answers what it left.
pub fn left_by(blocks: blockdev::Image, mount: &str, history: fn(&Stage)) -> Vec<Left> {
    let mount = mount.to_string();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(blocks.to_ram(MIB << 20));
        let options = MountOptions::parse(&mount).expect("options");
        let stage = Stage {
            fs: Ext4::mount(Queue::new(ram.clone()), options).expect("mounts"),
            ram,
            left: Mutex::named("left", Vec::new()),
        };
        stage.make("first");
        stage.sync();
        history(&stage);
        stage.fs.unmount().expect("unmounts");
        std::mem::take(&mut *stage.left.lock())
    });
    outcome.unwrap()
}

/// Checks that each fsync of `history` left what was shown then, for Varve, and, if `others` says
/// so, that what e2fsck leaves otherwise is as the kernel has it.
fn holds(history: fn(&Stage)) {
    holds_for(true, history);
}

fn holds_for(others: bool, history: fn(&Stage)) {
    // A file begins in its inode in the others, so nothing is told of it.
    let inline = |mkfs: &&[&str]| mkfs.iter().any(|o| o.contains("inline"));
    let volumes: Vec<&[&str]> = VOLUMES.into_iter().filter(|mkfs| !inline(mkfs)).collect();
    holds_on(&volumes, others, history);
}

fn holds_on(volumes: &[&[&str]], others: bool, history: fn(&Stage)) {
    if !have_tools() {
        return;
    }
    for mkfs in volumes {
        for mount in MOUNTS {
            let left = left_by(volume(mkfs), mount, history);
            assert!(!left.is_empty());
            for left in left {
                let context = format!("{mkfs:?}, {mount}, {} ({})", left.what, left.fast);
                let found =
                    by_us(&left.image, left.bytes).unwrap_or_else(|e| panic!("{context}: {e}"));
                checked(&found, &context);
                if left.live.is_empty() {
                    continue;
                }
                is_synced(&found.tree, &left.live, &context);
                if others {
                    judged(&left.image, left.bytes, &found, (false, &context));
                }
            }
        }
    }
}

/// The number of an inode that was an orphan on the medium is given out again: behind the fsync of
/// the new file the medium still names the number as that of an orphan.
#[test]
fn the_number_of_an_orphan_is_used_again() {
    holds(|stage| {
        let (old, older) = (stage.orphan("old"), stage.orphan("older"));
        stage.sync();
        stage.fs.release(old).expect("open");
        let new = stage.make("new");
        assert_eq!(new, old, "the number is used again");
        stage.write(new, 0, 5000);
        stage.fsync(new, "a new file with the number of an orphan");
        stage.fs.release(older).expect("open");
        let newer = stage.make("newer");
        stage.fsync(newer, "one more");
    });
}

/// An orphan of the medium is freed, and another file is synced: the list or file of orphans on
/// the medium is as it was.
#[test]
fn an_orphan_goes_and_another_file_is_synced() {
    holds(|stage| {
        let list = ["a", "b", "c"].map(|name| stage.orphan(name));
        let other = stage.make("other");
        stage.sync();
        stage.fs.release(list[1]).expect("open");
        stage.write(other, 0, 5000);
        stage.fsync(other, "the middle of three orphans has gone");
        stage.fs.release(list[2]).expect("open");
        stage.write(other, 5000, 5000);
        stage.fsync(other, "the newest, too");
        assert!(stage.fast_commits() <= 2);
    });
}

/// A truncation takes several handles, and another task syncs between them.
#[test]
fn a_file_is_cut_while_another_one_is_synced() {
    holds(|stage| {
        let (cut, other) = (stage.make("cut"), stage.make("other"));
        for n in 0..200 {
            stage.write(cut, n * 16_384, 4096);
        }
        stage.orphan("orphan");
        stage.sync();
        rt::scope(|scope| {
            let cutter = scope.spawn("cut", || {
                for n in (0..20).rev() {
                    stage.resize(cut, n * 160_000 + 77);
                    rt::sleep(base::Nanos::from_micros(7));
                }
            });
            for n in 0..30 {
                stage.write(other, n * 100, 100);
                stage.fs.fsync(other, false).expect("synced");
                stage.snap_beside(&format!("sync {n} beside a truncation"));
            }
            cutter.join().expect("no panic");
        });
        stage.write(other, 0, 100);
        stage.fsync(other, "cut to the end");
    });
}

/// An inode of 1024 bytes leaves no room for the head of its tag in a block of 1024.
#[test]
fn an_inode_as_large_as_a_block_is_told_of_in_another_way() {
    let mkfs: &[&str] = &["-b", "1024", "-I", "1024", "-O", "fast_commit"];
    holds_on(&[mkfs], true, |stage| {
        let new = stage.make("new");
        stage.write(new, 0, 5000);
        stage.fsync(new, "a new file");
        stage.write(new, 5000, 5000);
        stage.fsync(new, "more of it");
        assert_eq!(stage.fast_commits(), 1, "only of the file that was there");
    });
}

/// Neither Linux nor e2fsck accepts fast commits in a log that has less than 1024 blocks besides:
/// such a log gets full commits, and the feature does not appear in it.
#[test]
fn a_small_log_gets_full_commits() {
    if !have_tools() {
        return;
    }
    let mkfs: &[&str] = &["-b", "4096", "-O", "^fast_commit"];
    for mount in MOUNTS {
        let left = left_by(volume(mkfs), mount, opened_to_all).remove(0);
        assert_eq!(left.fast, 0);
        assert!(Area::of(&left.image).is_none());
        let found = by_us(&left.image, left.bytes).expect("mounts");
        is_synced(&found.tree, &left.live, mount);
        let seen = crate::replay::by_kernel(&left.image, left.bytes);
        assert!(seen.is_some(), "the kernel recovers it");
    }
}

fn opened_to_all(stage: &Stage) {
    let first = stage.fs.lookup(stage.fs.root(), b"first").expect("there");
    let set = SetAttr {
        perm: Some(0o666),
        ..SetAttr::default()
    };
    stage.fs.setattr(first, &set).expect("may");
    stage.fsync(first, "permissions");
}

/// fast-W10: the area holds a fast commit that is right but for being one, as a file could put it
/// there under another scheme, and its transaction is the one that was running at the cut.
#[test]
fn what_lay_in_the_area_before_is_no_fast_commit() {
    if !have_tools() {
        return;
    }
    for mount in MOUNTS {
        let clean = volume(VOLUMES[1]);
        let made = left_by(clean.clone(), mount, opened_to_all).remove(0);
        let area = Area::of(&made.image).expect("an area");
        let mut planted = clean;
        area.write(&mut planted, &area.read(&made.image));
        let left = left_by(planted, mount, |stage| stage.snap("planted")).remove(0);
        let found = by_us(&left.image, left.bytes).expect("mounts");
        checked(&found, mount);
        is_synced(&found.tree, &left.live, mount);
        assert_eq!(found.fast_commits, 0);
    }
}

/// A directory grows by many blocks, gets an index, and loses some of its names. The replay of
/// e2fsck makes no room in a full directory.
#[test]
fn a_directory_grows_and_shrinks_by_fast_commits() {
    holds_for(false, |stage| {
        let long = |n: u64| format!("{n:0>200}");
        let first = stage.make("kept");
        for n in 0..120 {
            let ino = stage.make(&long(n * 7919 % 1000));
            if n % 6 == 5 {
                stage.fsync(ino, &format!("{n} names more"));
            }
        }
        for n in 0..20 {
            stage.unlink(&long(n * 7919 % 1000));
        }
        stage.write(first, 0, 100);
        stage.fsync(first, "20 names less");
        let stats = stage.fs.journal().stats();
        assert!(
            stage.fast_commits() > 0,
            "{} refused, {} full",
            stats.fast_refused,
            stats.transactions
        );
    });
}

/// fast_record-B2: the kernel gives a new pipe the mapping that its number had before, and does not
/// count a block of attributes.
#[test]
fn what_the_replay_of_the_kernel_damages_is_no_fast_commit() {
    holds(|stage| {
        let (old, other) = (stage.make("old"), stage.make("other"));
        stage.write(old, 0, 9000);
        stage.sync();
        stage.unlink("old");
        stage.sync();
        let (fs, creds) = (&stage.fs, Creds::default());
        let before = stage.fast_commits();
        let pipe = fs.create(fs.root(), b"pipe", FileKind::Fifo, 0o600, 0, creds);
        assert_eq!(pipe.expect("room").ino, old, "the number is used again");
        stage.write(other, 0, 3000);
        stage.fsync(other, "a pipe with a used number");
        let value = [b'v'; 700];
        fs.setxattr(other, b"user.long", &value, XattrMode::Any)
            .expect("room");
        stage.sync();
        stage.write(other, 3000, 3000);
        stage.fsync(other, "a file with a block of attributes");
        assert_eq!(stage.fast_commits(), before);
    });
}

/// Nothing is left for a replay to use that the running system did not use. The kernel refuses some
/// of these volumes.
#[test]
fn fast_commits_of_a_full_volume_are_replayed() {
    holds_for(false, |stage| {
        let (ballast, comb) = (stage.make("ballast"), stage.make("comb"));
        for n in 0..300 {
            stage.write(comb, n * 8192, 1000);
        }
        stage.sync();
        let (mut at, mut step) = (0, 1 << 20);
        while step >= 1024 {
            match stage.fs.write(ballast, at, &vec![7; step]) {
                Ok(n) => at += n as u64,
                Err(_) => step /= 2,
            }
        }
        let _ = stage.fs.sync();
        for n in 0..24u64 {
            // The last bytes go bit by bit: names, tree blocks, and data over holes.
            at = at.saturating_sub(2048);
            stage.resize(ballast, at);
            let (root, creds) = (stage.fs.root(), Creds::default());
            let name = format!("{n:0>220}");
            let made = stage
                .fs
                .create(root, name.as_bytes(), FileKind::File, 0o600, 0, creds);
            let _ = stage.fs.write(comb, n * 8192 + 4096, &[1; 700]);
            if let Ok(made) = made
                && stage.fs.writeback(base::Time(u64::MAX)).is_ok()
                && stage.fs.fsync(comb, false).is_ok()
                && stage.fs.fsync(made.ino, false).is_ok()
                && n % 4 == 3
            {
                stage.snap(&format!("{n} of a full volume"));
            }
        }
    });
}
