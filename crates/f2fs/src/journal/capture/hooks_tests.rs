//! Tests that operations log all they do: all records of all epochs, redone over the former state
//! of the volume, give its present state.

use super::shadow_tests::{Shadow, check};
use crate::file::Why;
use crate::inode::Inode;
use crate::journal::PagesLogged;
use crate::{F2fs, MountOptions};
use base::{BLOCK_BYTES, Ino, Rng};
use block::Queue;
use blockdev::{Count, Ram};
use fscore::{
    Creds, FallocateMode, FileKind, FileSystem, FsResult, RenameMode, SetAttr, XattrMode,
};
use ondisk::f2fs::{InodeFields, Nid};
use rt::{Sim, SimConfig};
use std::collections::BTreeSet;
use std::sync::Arc;

const CREDS: Creds = Creds {
    uid: 1,
    gid: 2,
    umask: 0,
};
const MIB: u64 = 1 << 20;

/// A fresh volume with a large ring, mounted without tasks.
pub(crate) fn mounted(more: &str) -> Arc<F2fs> {
    let options = MountOptions::parse(&format!("scheme=f2fsj,{more}")).expect("options");
    mounted_over(MountOptions {
        timers: false,
        ..options
    })
    .1
}

/// The same with these options, and its device, which counts.
pub(crate) fn mounted_over(options: MountOptions) -> (Arc<Count<Ram>>, Arc<F2fs>) {
    use crate::mkfs::{DeviceContent, JournalSize, Options, RING_AT, plan};
    let ring = 4096;
    let bytes = 96 * MIB + u64::from(ring + RING_AT).next_multiple_of(512) * BLOCK_BYTES as u64;
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let plans = Options {
        journal: Some(JournalSize::Ring(ring)),
        ..Options::new(bytes, [7; 16], time)
    };
    let ram = Arc::new(Count::new(Ram::new(bytes)));
    let plan = plan(&plans).expect("a volume");
    plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
    let fs = F2fs::mount(Queue::new(ram.clone()), options).expect("mounted");
    (ram, fs)
}

fn sim<R>(seed: u64, body: impl FnOnce() -> R) -> R {
    let outcome = Sim::new(SimConfig::random(seed)).run(body);
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

fn create(fs: &F2fs, dir: Ino, name: &str) -> Ino {
    let made = fs.create(dir, name.as_bytes(), FileKind::File, 0o644, 0, CREDS);
    made.expect("created").ino
}

fn size(n: u64) -> SetAttr {
    SetAttr {
        size: Some(n),
        ..SetAttr::default()
    }
}

/// A name goes, while the file is open if its number is given: then one epoch says that it is an
/// orphan, and another one that it is none any more.
fn unlink(fs: &F2fs, open: Option<Ino>, dir: Ino, name: &[u8]) -> FsResult<()> {
    let Some(ino) = open else {
        return fs.unlink(dir, name);
    };
    fs.open(ino)?;
    let gone = fs.unlink(dir, name).and_then(|()| fs.fsync(ino, false));
    fs.release(ino).and(gone)
}

/// One operation, whatever it says.
fn random_op(fs: &F2fs, rng: &mut Rng, dirs: &[Ino]) {
    let dir = dirs[rng.below(dirs.len() as u64) as usize];
    let other = dirs[rng.below(dirs.len() as u64) as usize];
    let long = rng.below(8) == 0;
    let name = |rng: &mut Rng| match long {
        true => format!("{:0>255}", rng.below(6)),
        false => format!("n{}", rng.below(12)),
    };
    let (a, b) = (name(rng), name(rng));
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let file = FileSystem::lookup(fs, dir, a).ok();
    let at = match rng.below(8) {
        0 => rng.below(12 * MIB),
        _ => rng.below(96 * 1024),
    };
    let len = 1 + rng.below(40_000);
    let block = BLOCK_BYTES as u64;
    let _ = match (rng.below(24), file) {
        (0..=3, _) => fs.create(dir, a, FileKind::File, 0o600, 0, CREDS).map(drop),
        (4, _) => fs.mkdir(dir, a, 0o700, CREDS).map(drop),
        (5, _) => {
            let target = vec![b't'; 1 + rng.below(4000) as usize];
            fs.symlink(dir, a, &target, CREDS).map(drop)
        }
        (6, _) => fs
            .create(dir, a, FileKind::Char, 0o600, 0x1234_5678, CREDS)
            .map(drop),
        (7, _) => unlink(fs, file.filter(|_| rng.below(2) == 0), dir, a),
        (8, _) => fs.rmdir(dir, a),
        (9, _) => fs.rename(dir, a, other, b, RenameMode::Replace),
        (10, _) => fs.rename(dir, a, other, b, RenameMode::Exchange),
        (11, Some(ino)) => fs.link(ino, other, b).map(drop),
        (12..=14, Some(ino)) => {
            let data = vec![at as u8; len as usize];
            fs.write(ino, at, &data).map(drop)
        }
        (15, Some(ino)) => fs.setattr(ino, &size(at)).map(drop),
        (16, Some(ino)) => {
            let modes = [
                FallocateMode::Allocate,
                FallocateMode::KeepSize,
                FallocateMode::PunchHole,
                FallocateMode::ZeroRange,
            ];
            fs.fallocate(ino, modes[rng.below(4) as usize], at, len)
        }
        (17, Some(ino)) => {
            let value = vec![7; rng.below(3000) as usize];
            fs.setxattr(ino, b"user.x", &value, XattrMode::Any)
        }
        (18, Some(ino)) => fs.removexattr(ino, b"user.x"),
        (19, Some(ino)) => {
            let (at, len) = (at / block * block, (len / block + 1) * block);
            match rng.below(2) {
                0 => fs.collapse_range(ino, at, len),
                _ => fs.insert_range(ino, at, len),
            }
        }
        (20, Some(ino)) => fs.atomic_begin(ino).and_then(|()| {
            fs.write(ino, at, &vec![3; len as usize])?;
            match rng.below(3) {
                0 => fs.atomic_abort(ino),
                _ => fs.atomic_commit(ino),
            }
        }),
        (21, Some(ino)) => fs.fsync(ino, rng.below(2) == 0),
        (22, Some(ino)) => match fs.inode(ino) {
            Ok(inode) => fs.write_pages(&inode, 0..u64::MAX, Why::Flush),
            Err(e) => Err(e),
        },
        (_, Some(ino)) => {
            let mode = SetAttr {
                perm: Some(0o600 | rng.below(64) as u16),
                ..SetAttr::default()
            };
            fs.setattr(ino, &mode).map(drop)
        }
        _ => Ok(()),
    };
}

/// Answers the kinds of records.
fn run_random(seed: u64, tasks: u64, ops: u64, more: &str) -> BTreeSet<String> {
    run_beside(seed, tasks, ops, more, |_, _| {}).0
}

/// A journal of pages: after each epoch its pages and its records have made the same of the volume.
/// Answers blocks that were copied late.
fn run_pages(seed: u64, tasks: u64, ops: u64, more: &str) -> (BTreeSet<String>, PagesLogged) {
    let more = format!("records=pages,jlow=5,{more}");
    run_beside(seed, tasks, ops, &more, |fs, fresh| {
        let journal = fs.journal.as_ref().expect("a journal");
        let all: Vec<_> = journal.committed.lock().iter().cloned().collect();
        let (mut pages, mut records) = (fresh.clone(), fresh.clone());
        for epoch in all {
            pages.redo_epoch(fs, &epoch.groups);
            records.redo_epoch(fs, &epoch.records);
            pages.assert_same(&records, fs.features);
            // f2fs-journal-I5.
            let mut again = pages.clone();
            again.redo_images(fs, &epoch.groups);
            again.assert_same(&pages, fs.features);
        }
    })
}

fn run_beside(
    seed: u64,
    tasks: u64,
    ops: u64,
    more: &str,
    judge: impl FnOnce(&F2fs, &Shadow),
) -> (BTreeSet<String>, PagesLogged) {
    sim(seed, || {
        let fs = mounted(more);
        let mut shadow = Shadow::new(&fs);
        let fresh = shadow.clone();
        let before = fs.segs.valid_blocks();
        let root = fs.root();
        let mut dirs = vec![root];
        for n in 0..2 {
            let name = format!("dir{n}");
            dirs.push(
                fs.mkdir(root, name.as_bytes(), 0o755, CREDS)
                    .expect("made")
                    .ino,
            );
        }
        rt::scope(|s| {
            for task in 0..tasks {
                let (fs, dirs) = (&fs, &dirs);
                s.spawn("worker", move || {
                    let mut rng = Rng::named(seed * 100 + task, "hooks");
                    for _ in 0..ops {
                        random_op(fs, &mut rng, dirs);
                    }
                });
            }
            let fs = &fs;
            s.spawn("committer", move || {
                let mut rng = Rng::named(seed, "committer");
                for _ in 0..ops / 4 {
                    rt::sleep(base::Nanos(rng.below(200_000)));
                    fs.commit_all(crate::journal::CommitReason::Timer)
                        .expect("committed");
                }
            });
        });
        check(&fs, &mut shadow, before);
        judge(&fs, &fresh);
        fs.check();
        let kinds = shadow.kinds.into_iter().map(|(_, kind)| kind).collect();
        let stats = fs.journal_stats().expect("a journal");
        assert_eq!(stats.applied, 0, "the test sees all epochs");
        (kinds, stats.pages)
    })
}

#[test]
fn pages_of_an_epoch_are_what_its_records_make() {
    let (mut kinds, mut logged) = (BTreeSet::new(), PagesLogged::default());
    for (seed, tasks, more) in [
        (30, 1, ""),
        (31, 3, ""),
        (32, 3, "noinline_data,noinline_dentry"),
        (33, 3, "lists=global,switch=wait,fast-forward=off"),
        (34, 3, "noinline_dentry"),
    ] {
        let (some, pages) = run_pages(seed, tasks, 120, more);
        kinds.extend(some);
        logged.add(&pages);
    }
    for kind in "BlockRun MapRun NodeDel NodeNew OrphanAdd OrphanDel Page".split(' ') {
        assert!(kinds.contains(kind), "{kind} among {kinds:?}");
    }
    for kind in "Bytes DentClear DentIno InodeNew NodePtr".split(' ') {
        let left = !kinds.contains(kind);
        assert!(left || kind == "Bytes" || kind == "NodePtr", "{kind}");
    }
    let parts = [logged.node, logged.dentry, logged.nat, logged.sit];
    assert!(parts.iter().all(|&n| n > 0), "{logged:?}");
    assert!(logged.late > 0 && logged.left_out > 0, "{logged:?}");
}

#[test]
fn records_are_what_operations_did() {
    let mut kinds = BTreeSet::new();
    for seed in 0..6 {
        kinds.append(&mut run_random(seed, 1, 250, ""));
    }
    let all = "BlockRun Bytes DentClear DentIno DentSet InodeAttr InodeDel InodeNew MapRun NodeDel NodeNew NodePtr OrphanAdd OrphanDel";
    for kind in all.split(' ') {
        assert!(kinds.contains(kind), "{kind} among {kinds:?}");
    }
}

#[test]
fn records_are_what_operations_did_side_by_side() {
    for seed in 10..18 {
        run_random(seed, 3, 120, "");
    }
}

#[test]
fn records_are_what_operations_did_without_inline_content() {
    for seed in 20..24 {
        run_random(seed, 2, 150, "noinline_data,noinline_dentry");
    }
}

#[test]
fn records_are_what_operations_did_without_ideas() {
    let lists = "lists=global";
    let all = "records=pages,lists=global,switch=wait,fast-forward=off";
    for (seed, more) in (30..38).zip([lists, "switch=wait", all, all].into_iter().cycle()) {
        run_random(seed, 3, 100, more);
    }
}

/// Runs an operation and answers the records that it left, by inode (in the order of `inodes`),
/// each kind once; behind them those of no inode, if there are any.
fn logged(fs: &F2fs, shadow: &mut Shadow, inodes: &[Ino], op: impl FnOnce()) -> String {
    let before = shadow.kinds.len();
    op();
    fs.commit_all(crate::journal::CommitReason::Sync)
        .expect("committed");
    shadow.redo(fs);
    let new = &shadow.kinds[before..];
    let mut parts = Vec::new();
    for ino in inodes {
        let own = new.iter().filter(|(of, _)| of.0 == ino.0);
        let kinds: BTreeSet<&str> = own.map(|(_, kind)| &kind[..]).collect();
        parts.push(kinds.into_iter().collect::<Vec<_>>().join(" "));
    }
    let of_volume: BTreeSet<&str> = (new.iter().filter(|(of, _)| *of == Nid(0)))
        .map(|(_, kind)| &kind[..])
        .collect();
    if !of_volume.is_empty() {
        parts.push(of_volume.into_iter().collect::<Vec<_>>().join(" "));
    }
    for (ino, kind) in new {
        let known = *ino == Nid(0) || inodes.contains(&Ino(ino.0));
        assert!(known, "{kind} of inode {ino}");
    }
    parts.join("; ")
}

/// Which inodes an operation logs, and what of them.
#[test]
fn every_operation_leaves_its_records() {
    sim(1, || {
        let fs = &mounted("noinline_data");
        let mut shadow = Shadow::new(fs);
        let root = fs.root();
        let mut kinds = |inodes: &[Ino], op: &dyn Fn()| {
            // Times are those of the last tick: they change from one operation to the next.
            rt::sleep(base::Nanos::from_millis(10));
            logged(fs, &mut shadow, inodes, op)
        };
        let lookup = |name: &str| FileSystem::lookup(&**fs, root, name.as_bytes()).expect("there");
        // The number of the next inode is that behind the last one.
        let next = |n: u32| Ino(root.0 + n);
        let made = "InodeNew NodeNew";
        let named = "DentSet InodeAttr";
        let got = kinds(&[next(1), root], &|| {
            create(fs, root, "file");
        });
        assert_eq!(got, format!("{made}; {named}"));
        let file = lookup("file");
        let long = "l".repeat(255);
        let got = kinds(&[next(2), root], &|| {
            create(fs, root, &long);
        });
        assert_eq!(got, format!("{made}; {named}"), "a name of 255 bytes");
        let got = kinds(&[next(3), root], &|| {
            fs.mkdir(root, b"dir", 0o755, CREDS).expect("made");
        });
        assert_eq!(got, format!("DentSet {made}; {named}"));
        let dir = lookup("dir");
        let got = kinds(&[next(4), root], &|| {
            fs.symlink(root, b"link", b"target", CREDS).expect("made");
        });
        assert_eq!(
            got,
            format!("BlockRun InodeAttr InodeNew MapRun NodeNew; {named}"),
            "in a block, as inline data is off"
        );
        let got = kinds(&[file], &|| {
            fs.write(file, 0, &[1; 5000]).expect("written");
        });
        assert_eq!(got, "InodeAttr MapRun", "reserved");
        let got = kinds(&[file], &|| fs.fsync(file, true).expect("synced"));
        assert_eq!(got, "BlockRun InodeAttr MapRun", "mapped, and the size");
        let got = kinds(&[file], &|| fs.fsync(file, false).expect("synced"));
        assert_eq!(got, "", "nothing to do");
        let mode = SetAttr {
            perm: Some(0o600),
            ..SetAttr::default()
        };
        let got = kinds(&[file], &|| {
            fs.setattr(file, &mode).expect("set");
        });
        assert_eq!(got, "InodeAttr");
        let got = kinds(&[file], &|| {
            let value = [1; 20];
            fs.setxattr(file, b"user.a", &value, XattrMode::Any)
                .expect("set");
        });
        assert_eq!(got, "Bytes InodeAttr");
        let got = kinds(&[file], &|| {
            let value = [1; 3000];
            fs.setxattr(file, b"user.b", &value, XattrMode::Any)
                .expect("set");
        });
        assert_eq!(got, "Bytes InodeAttr NodeNew");
        let got = kinds(&[file], &|| fs.removexattr(file, b"user.b").expect("gone"));
        assert_eq!(got, "Bytes InodeAttr NodeDel");
        let got = kinds(&[file, root], &|| {
            fs.link(file, root, b"second").expect("linked");
        });
        assert_eq!(got, format!("InodeAttr; {named}"));
        let got = kinds(&[file, root], &|| fs.unlink(root, b"second").expect("gone"));
        assert_eq!(got, "InodeAttr; DentClear InodeAttr");
        let got = kinds(&[file, root, dir], &|| {
            fs.rename(root, b"file", dir, b"moved", RenameMode::Replace)
                .expect("renamed");
        });
        assert_eq!(got, format!("InodeAttr; DentClear InodeAttr; {named}"));
        let other = next(2);
        let got = kinds(&[other, file, root, dir], &|| {
            fs.rename(root, long.as_bytes(), dir, b"moved", RenameMode::Exchange)
                .expect("exchanged");
        });
        assert_eq!(
            got,
            "InodeAttr; InodeAttr; DentIno InodeAttr; DentIno InodeAttr"
        );
        fs.open(file).expect("open");
        let got = kinds(&[file, root], &|| {
            fs.unlink(root, long.as_bytes()).expect("gone");
        });
        assert_eq!(got, "InodeAttr OrphanAdd; DentClear InodeAttr");
        let got = kinds(&[file], &|| fs.release(file).expect("closed"));
        assert!(
            got.contains("OrphanDel") && got.ends_with("; BlockRun InodeDel"),
            "{got}"
        );
        let got = kinds(&[other], &|| {
            let (mode, len) = (FallocateMode::Allocate, 4 * MIB);
            fs.fallocate(other, mode, 0, len).expect("reserved");
        });
        assert_eq!(got, "InodeAttr MapRun NodeNew NodePtr");
        let got = kinds(&[other], &|| {
            fs.setattr(other, &size(0)).expect("cut");
        });
        assert_eq!(got, "InodeAttr MapRun NodeDel NodePtr");
        let brief = |name: &str| {
            let file = create(fs, root, name);
            fs.write(file, 0, &[1; 5000]).expect("written");
            fs.fsync(file, false).expect("synced");
            file
        };
        // last_name-L1: no list of orphans, no attributes of what nobody reads again.
        let (first, second) = (brief("first"), brief("second"));
        let empty = create(fs, root, "empty");
        kinds(&[first, second, empty, root], &|| {});
        let got = kinds(&[root], &|| fs.unlink(root, b"first").expect("gone"));
        assert_eq!(got, "DentClear InodeAttr; BlockRun InodeDel");
        let got = kinds(&[empty, root], &|| {
            fs.rename(root, b"empty", root, b"second", RenameMode::Replace)
                .expect("replaced");
        });
        let moved = "InodeAttr; DentClear DentIno InodeAttr";
        assert_eq!(got, format!("{moved}; BlockRun InodeDel"));
        let got = kinds(&[root], &|| fs.unlink(root, b"second").expect("gone"));
        assert_eq!(got, "DentClear InodeAttr; InodeDel");
        let made = fs.mkdir(root, b"brief", 0o755, CREDS).expect("made").ino;
        kinds(&[made, root], &|| {});
        let got = kinds(&[root], &|| fs.rmdir(root, b"brief").expect("gone"));
        assert_eq!(got, "DentClear InodeAttr; InodeDel");
        let got = kinds(&[], &|| {
            fs.unlink(root, b"nothing").expect_err("no such name");
            fs.rmdir(root, b"dir").expect_err("not empty");
            fs.unlink(root, b"dir").expect_err("a directory");
            create_again(fs, root);
        });
        assert_eq!(got, "", "a failed operation leaves nothing");
        let got = kinds(&[], &|| {
            let mut buf = [0; 10];
            fs.read(other, 0, &mut buf).expect("read");
            fs.readdir(root, 0, 100).expect("listed");
        });
        assert_eq!(got, "", "reading leaves nothing");
    });
}

fn create_again(fs: &F2fs, root: Ino) {
    let made = fs.create(root, b"dir", FileKind::File, 0o644, 0, CREDS);
    made.expect_err("the name is there");
    let made = fs.create(root, &[b'x'; 256], FileKind::File, 0o644, 0, CREDS);
    made.expect_err("too long");
}

/// writeback-W3: what a write gave a file shows when its pages are mapped, and not before.
#[test]
fn a_size_shows_when_its_pages_are_mapped() {
    sim(1, || {
        let fs = &mounted("noinline_data");
        let file = create(fs, fs.root(), "file");
        let inode = fs.inode(file).expect("there");
        let node_size = |inode: &Inode| {
            let block = fs.node(inode.nid()).expect("there");
            InodeFields::parse(&block, fs.features)
                .expect("an inode")
                .size
        };
        fs.write(file, 0, &[1; 10_000]).expect("written");
        assert_eq!(
            (node_size(&inode), fs.getattr(file).expect("there").size),
            (0, 10_000)
        );
        fs.write_pages(&inode, 0..1, Why::Flush).expect("sent");
        assert_eq!(node_size(&inode), 4096, "one page of it");
        fs.write_pages(&inode, 0..u64::MAX, Why::Flush)
            .expect("sent");
        assert_eq!(node_size(&inode), 10_000);
        fs.write(file, 10_000, &[2; 10_000]).expect("written");
        fs.setattr(file, &size(15_000)).expect("cut");
        assert_eq!(node_size(&inode), 15_000, "somebody has set it");
        fs.write(file, 15_000, &[2; 20_000]).expect("written");
        let block = BLOCK_BYTES as u64;
        fs.fallocate(file, FallocateMode::PunchHole, 0, 10 * block)
            .expect("punched");
        assert_eq!(
            node_size(&inode),
            35_000,
            "nothing is left that would say it"
        );
        let core = inode.core();
        assert_eq!(core.node_size, core.fields.size);
    });
}
