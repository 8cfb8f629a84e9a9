//! Volumes whose ring holds transactions that must not be redone; used by the tests of recovery and
//! by the catalogue of mutants.
#![allow(dead_code)]

use super::common::{Mistake, disk, mount, sim, volume};
use super::images;
use base::{BlockNo, Ino};
use block::{Class, Queue};
use blockdev::{Image, SpecDisk};
use fscore::{FallocateMode, FileKind, FileSystem, FsResult, XattrMode};
use ondisk::f2fs::journal::{JournalArea, JournalSuper, JournalVersion, RING_AT};
use ondisk::f2fs::{Features, Superblock};
use rt::SimConfig;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

const RING: u32 = 1024;

/// Everything that a user sees of a volume, by path.
pub type Tree = BTreeMap<String, String>;

fn look(fs: &F2fs, path: &str, ino: Ino, tree: &mut Tree) {
    let a = fs.getattr(ino).expect("attributes");
    let mut text = format!(
        "{:?} {:o} links {} owner {}:{} size {} sectors {} m {:?} c {:?} gen {}",
        a.kind, a.perm, a.nlink, a.uid, a.gid, a.size, a.sectors, a.mtime, a.ctime, a.generation
    );
    for name in fs.listxattr(ino).expect("names") {
        let value = fs.getxattr(ino, &name).expect("a value");
        let sum = base::checksum::crc32c(!0, &value);
        text += &format!(" x{}={}:{sum:x}", name.escape_ascii(), value.len());
    }
    match a.kind {
        FileKind::File => {
            let content = fs.content(ino);
            text += &format!(" data {:x}", base::checksum::crc32c(!0, &content));
        }
        FileKind::Symlink => {
            let target = fs.readlink(ino).expect("a target");
            text += &format!(" -> {}", target.escape_ascii());
        }
        FileKind::Dir => {
            let mut from = 0;
            loop {
                let some = fs.readdir(ino, from, 64).expect("entries");
                let Some(last) = some.last() else { break };
                from = last.next;
                for entry in some {
                    if !matches!(&entry.name[..], b"." | b"..") {
                        let path = format!("{path}/{}", entry.name.escape_ascii());
                        look(fs, &path, entry.ino, tree);
                    }
                }
            }
        }
        _ => text += &format!(" dev {}", a.rdev),
    }
    tree.insert(path.to_string(), text);
}

pub fn tree(fs: &F2fs) -> Tree {
    let mut tree = Tree::new();
    look(fs, "", fs.root(), &mut tree);
    tree
}

/// Mounts without using the journal: its ring is redone all the same.
pub fn mount_plain(disk: &Arc<SpecDisk>) -> FsResult<Arc<F2fs>> {
    F2fs::mount(Queue::new(disk.clone()), MountOptions::default())
}

pub fn write(fs: &F2fs, ino: Ino, at: u64, seed: u64, len: usize) {
    let data = images::pattern(seed, len);
    assert_eq!(fs.write(ino, at, &data).expect("written"), len);
}

/// What there is before each operation: files of all layouts, a directory of blocks, links,
/// attributes.
pub fn before(fs: &F2fs) {
    let root = fs.root();
    let small = fs.make(root, "small").expect("a file");
    write(fs, small, 0, 1, 700);
    let big = fs.make(root, "big").expect("a file");
    write(fs, big, 0, 2, 3 << 20);
    let far = fs.make(root, "far").expect("a file");
    write(fs, far, 16 << 20, 3, 9000);
    write(fs, far, 8 << 20, 4, 9000);
    let dir = fs.make_dir(root, "dir").expect("a directory");
    let many = fs.make_dir(root, "many").expect("a directory");
    for n in 0..400 {
        fs.make(many, format!("a rather long name of file {n}"))
            .expect("a file");
    }
    fs.make(dir, "victim").expect("a file");
    let kept = fs.make(dir, "kept").expect("a file");
    fs.link(kept, root, b"hard").expect("a link");
    let reserved = fs.make(root, "reserved").expect("a file");
    let mode = FallocateMode::Allocate;
    fs.fallocate(reserved, mode, 0, 40 << 12).expect("reserved");
    fs.make_link(root, b"soft", b"dir/kept").expect("a link");
    fs.setxattr(big, b"user.one", b"eins", XattrMode::Any)
        .expect("set");
    fs.setxattr(
        small,
        b"user.long",
        &images::pattern(5, 3000),
        XattrMode::Any,
    )
    .expect("set");
}

pub type Step = (&'static str, fn(&F2fs));

/// The plainest.
pub const CREATE: Step = ("create", |fs| {
    fs.make(fs.root(), "new").expect("a file");
});

/// Where what there was before an operation is when it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// In the same epoch.
    Beside,
    /// In an earlier one.
    Apart,
    /// At home: recovery finds it there, and in no record.
    Home,
}

/// What the device has when everything of `step` is committed, and what a user saw then.
pub fn committed(step: &Step, begin: Before) -> (Image, Tree) {
    sim(3, || {
        let disk = disk(RING, volume(RING), 3);
        let fs = mount(&disk, "");
        before(&fs);
        match begin {
            Before::Beside => {}
            Before::Apart => fs.sync().expect("synced"),
            Before::Home => fs.write_home_now().expect("applied"),
        }
        (step.1)(&fs);
        fs.sync().expect("synced");
        let (left, seen) = (disk.snapshot_lost(), tree(&fs));
        fs.unmount().expect("unmounted");
        (left, seen)
    })
}

fn block(disk: &Arc<SpecDisk>, at: u64) -> Vec<u8> {
    let queue = Queue::new(disk.clone());
    queue.read(BlockNo(at).lba(), 8).expect("read").to_vec()
}

fn put(disk: &Arc<SpecDisk>, at: u64, bytes: Vec<u8>) {
    Queue::new(disk.clone())
        .write_fua(BlockNo(at).lba(), Class::Data, bytes.into())
        .expect("written");
}

/// Hides the journal from a mount, which then behaves as software that does not know it; or shows
/// it again.
fn forget_journal(disk: &Arc<SpecDisk>, area: Option<JournalArea>) -> JournalArea {
    let mut found = area;
    for at in 0..2 {
        let mut bytes = block(disk, at);
        let mut sb = Superblock::in_block(&bytes).expect("sound");
        match area {
            Some(area) => sb.set_journal(&area),
            None => {
                found = sb.journal().expect("sound");
                sb.clear_journal();
                sb.set_features(sb.features().without(Features::RO));
            }
        }
        sb.encode(&mut bytes);
        put(disk, at, bytes);
    }
    found.expect("a journal")
}

/// Both superblocks of the journal say this version; answers what they said before.
pub fn set_version(disk: &Arc<SpecDisk>, version: JournalVersion) -> JournalVersion {
    let sb = Superblock::in_block(&block(disk, 0)).expect("sound");
    let area = sb.journal().expect("sound").expect("a journal");
    let mut before = version;
    for copy in 0..2 {
        let at = area.super_block(copy);
        let sb = JournalSuper::parse(&block(disk, at)).expect("sound");
        before = sb.version;
        put(disk, at, JournalSuper { version, ..sb }.encode());
    }
    before
}

/// Whether a mount finds what other software wrote, after epochs of ours were left in the ring.
pub fn written_by_another(mistake: &Mistake) -> Result<String, String> {
    let (content, _) = committed(&CREATE, Before::Apart);
    let outcome = mistake.within(SimConfig::seeded(1)).run(move || {
        let disk = disk(RING, content, 7);
        let area = forget_journal(&disk, None);
        let fs = mount_plain(&disk).expect("a plain volume");
        fs.make(fs.root(), "theirs").expect("a file");
        let expected = tree(&fs);
        fs.unmount().expect("unmounted");
        forget_journal(&disk, Some(area));
        let fs = mount_plain(&disk).map_err(|e| e.to_string())?;
        let same = tree(&fs) == expected;
        let found = fs.journal_recovery().expect("a journal").case;
        let notes = fs.mount_notes().concat();
        fs.unmount().map_err(|e| e.to_string())?;
        match same {
            true => Ok(format!("{found} {notes}")),
            false => Err("another state".to_string()),
        }
    });
    mistake.asked(&outcome);
    match outcome.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => outcome.value.expect("no failure"),
    }
}

/// Whether a volume that was made over is empty, although its ring holds transactions of the one
/// before.
pub fn made_over(mistake: &Mistake) -> Result<char, String> {
    let (old, _) = committed(&CREATE, Before::Apart);
    let outcome = mistake.within(SimConfig::seeded(1)).run(move || {
        let before = disk(RING, old, 7);
        let disk = disk(RING, volume(RING), 7);
        let sb = Superblock::in_block(&block(&disk, 0)).expect("sound");
        let area = sb.journal().expect("sound").expect("a journal");
        for n in u64::from(RING_AT)..u64::from(area.blocks) {
            put(&disk, area.start + n, block(&before, area.start + n));
        }
        for copy in 0..2 {
            let at = area.super_block(copy);
            let sb = JournalSuper::parse(&block(&disk, at)).expect("sound");
            let sb = JournalSuper {
                clean: false,
                incarnation: sb.incarnation ^ 1 << 40,
                ..sb
            };
            put(&disk, at, sb.encode());
        }
        let fs = mount_plain(&disk).map_err(|e| e.to_string())?;
        let empty = fs.lookup(fs.root(), b"big").is_err();
        let found = fs.journal_recovery().expect("a journal").case;
        fs.unmount().map_err(|e| e.to_string())?;
        match empty {
            true => Ok(found),
            false => Err("files of the volume before".to_string()),
        }
    });
    mistake.asked(&outcome);
    match outcome.first_failure {
        Some(failure) => Err(failure.to_string()),
        None => outcome.value.expect("no failure"),
    }
}
