//! Makes the plans, by name and seed.

use crate::plan::{Op, Plan};
use base::Rng;
use fscore::{FallocateMode, FileKind};

type Make = fn(u64) -> Plan;

/// All plans: name, purpose, and the function that makes it.
pub const ALL: [(&str, &str, Make); 8] = [
    ("rich", "every kind of inode, content and attribute", rich),
    (
        "large",
        "files through indirect and double indirect nodes",
        large,
    ),
    ("acl", "directories that hand their ACL down", acl),
    ("change", "changes a tree of `rich`", change),
    ("random", "random operations; some fail", random),
    (
        "full",
        "fills the device, makes holes in it, overwrites",
        full,
    ),
    (
        "fsync",
        "what fsync promised since the last checkpoint",
        fsync,
    ),
    (
        "orphans",
        "files without a name that are still open",
        orphans,
    ),
];

/// A plan in the making.
#[derive(Default)]
struct Build(Vec<Op>);

impl Build {
    fn dir(&mut self, path: &str) {
        self.0.push(Op::Mkdir {
            path: path.into(),
            perm: 0o755,
        });
    }
    fn empty(&mut self, path: &str) {
        self.make(path, FileKind::File, 0);
    }
    fn make(&mut self, path: &str, kind: FileKind, rdev: u32) {
        self.0.push(Op::Make {
            path: path.into(),
            kind,
            perm: 0o640,
            rdev,
        });
    }
    fn file(&mut self, path: &str, len: usize, seed: u64) {
        self.empty(path);
        self.write(path, 0, len, seed);
    }
    fn write(&mut self, path: &str, offset: u64, len: usize, seed: u64) {
        self.0.push(Op::Write {
            path: path.into(),
            offset,
            len,
            seed,
        });
    }
    fn truncate(&mut self, path: &str, size: u64) {
        self.0.push(Op::Truncate {
            path: path.into(),
            size,
        });
    }
    fn fallocate(&mut self, path: &str, mode: FallocateMode, offset: u64, len: u64) {
        self.0.push(Op::Fallocate {
            path: path.into(),
            mode,
            offset,
            len,
        });
    }
    fn symlink(&mut self, path: &str, target: &str) {
        self.0.push(Op::Symlink {
            path: path.into(),
            target: target.into(),
        });
    }
    fn link(&mut self, from: &str, to: &str) {
        self.0.push(Op::Link {
            from: from.into(),
            to: to.into(),
        });
    }
    fn rename(&mut self, from: &str, to: &str, exchange: bool) {
        self.0.push(Op::Rename {
            from: from.into(),
            to: to.into(),
            exchange,
        });
    }
    fn unlink(&mut self, path: &str) {
        self.0.push(Op::Unlink { path: path.into() });
    }
    fn own(&mut self, path: &str, perm: u16, uid: u32, gid: u32) {
        self.0.push(Op::Own {
            path: path.into(),
            perm,
            uid,
            gid,
        });
    }
    fn xattr(&mut self, path: &str, name: &str, value: Vec<u8>) {
        self.0.push(Op::SetXattr {
            path: path.into(),
            name: name.into(),
            value,
        });
    }
    fn fsync(&mut self, path: &str, data_only: bool) {
        self.0.push(Op::Fsync {
            path: path.into(),
            data_only,
        });
    }
    fn hold(&mut self, path: &str) {
        self.0.push(Op::Hold { path: path.into() });
    }
    fn sure(self) -> Plan {
        Plan {
            ops: self.0,
            may_fail: false,
        }
    }
}

/// An ACL in the form of its attribute (posix_acl_xattr.h): version 2, then tag, permission,
/// identity.
fn acl_value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// Owner, a named user, group, mask, others.
fn acl_of(user: u32) -> Vec<u8> {
    let none = u32::MAX;
    acl_value(&[
        (1, 6, none),
        (2, 4, user),
        (4, 4, none),
        (0x10, 4, none),
        (0x20, 0, none),
    ])
}

fn rich(seed: u64) -> Plan {
    let mut b = Build::default();
    files(&mut b, seed);
    directories(&mut b, seed);
    attributes(&mut b, seed);
    b.sure()
}

/// Contents: inline, through the addresses in the inode, through direct nodes; holes; ranges
/// without data.
fn files(b: &mut Build, seed: u64) {
    b.dir("sizes");
    for (n, len) in [
        0, 1, 100, 3300, 3488, 3489, 3700, 4095, 4096, 4097, 20_000, 300_000,
    ]
    .into_iter()
    .enumerate()
    {
        b.file(&format!("sizes/{len}"), len, seed + n as u64);
    }
    // From inline to a block and on.
    b.write("sizes/100", 5000, 3000, seed);
    b.truncate("sizes/3300", 50);
    b.truncate("sizes/20000", 9_999);
    b.truncate("sizes/1", 123_456);
    b.file("direct nodes", 12 << 20, seed + 50);
    b.empty("sparse");
    for n in 0..600 {
        b.write("sparse", n * 20_000, 8, seed + n);
    }
    b.truncate("sparse", 30_000_000);
    b.empty("allocated");
    b.fallocate("allocated", FallocateMode::Allocate, 0, 300_000);
    b.write("allocated", 100_000, 50_000, seed + 61);
    b.fallocate("allocated", FallocateMode::KeepSize, 400_000, 100_000);
    b.file("punched", 1 << 20, seed + 62);
    b.fallocate("punched", FallocateMode::PunchHole, 10_000, 500_000);
    b.fallocate("punched", FallocateMode::ZeroRange, 700_001, 50_000);
    b.file("overwritten", 200_000, seed + 63);
    for n in 0..20 {
        b.write("overwritten", n * 9_001, 5_000, seed + 100 + n);
    }
}

/// Names: inline, in blocks, through several levels of the hash table; long ones; deleted ones;
/// further ones.
fn directories(b: &mut Build, seed: u64) {
    for d in 0..5 {
        b.dir(&format!("dir{d}"));
        for n in 0..40u64 {
            let len = (n * n * 97 % 50_000) as usize;
            b.file(&format!("dir{d}/file{n}"), len, seed + n);
        }
    }
    b.dir("deep");
    let mut path = String::from("deep");
    for n in 0..30 {
        path = format!("{path}/d{n}");
        b.dir(&path);
    }
    b.file(&format!("{path}/bottom"), 5000, seed);
    b.dir("many");
    for n in 0..2500 {
        b.empty(&format!("many/a rather long name for a file, number {n}"));
    }
    for n in (0..2500).filter(|n| n % 7 == 3) {
        b.unlink(&format!("many/a rather long name for a file, number {n}"));
    }
    b.dir("few");
    b.file(&format!("few/{}", "n".repeat(255)), 10, seed);
    b.dir(&format!("few/{}", "m".repeat(254)));
    b.file("few/%=\u{e4}\t.", 10, seed + 1);
    for n in 0..20 {
        b.link("dir0/file7", &format!("dir1/again{n}"));
    }
    b.rename("dir2/file5", "dir3/file5", false);
    b.rename("dir2/file6", "few/moved", false);
    b.rename("dir3/file8", "dir4/file9", true);
    b.rename("dir4", "few/dir4", false);
    b.rename("dir2", "few/dir4", true);
}

/// Kinds, owners, times, extended attributes in the inode and in a block of their own.
fn attributes(b: &mut Build, seed: u64) {
    b.dir("kinds");
    b.make("kinds/fifo", FileKind::Fifo, 0);
    b.make("kinds/socket", FileKind::Socket, 0);
    b.make("kinds/null", FileKind::Char, (1 << 8) | 3);
    // Above 8 bits of the minor number: the new encoding of device numbers.
    b.make(
        "kinds/disk",
        FileKind::Block,
        (300 & 0xff) | (77 << 8) | ((300 & !0xff) << 12),
    );
    b.symlink("kinds/short", "../dir0/file1");
    b.symlink("kinds/long", &"x/".repeat(400));
    b.symlink("kinds/longest", &"y".repeat(4000));
    b.file("owned", 10, seed);
    b.own("owned", 0o6755, 70_000, 4_000_000_000);
    b.own("dir1", 0o1777, 5, 6);
    b.dir("times");
    for (n, (secs, nanos)) in [
        (0, 0),
        (1, 999_999_999),
        (2_147_483_648, 5),
        (4_294_967_296, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("times/{n}");
        b.empty(&path);
        b.0.push(Op::Times { path, secs, nanos });
    }
    b.dir("xattrs");
    for (n, len) in [0usize, 1, 20, 150, 600, 3000].into_iter().enumerate() {
        let path = format!("xattrs/{n}");
        b.file(&path, 100 * n, seed);
        b.xattr(&path, "user.value", crate::plan::content(seed, 0, len));
        b.xattr(&path, "trusted.other", b"t".to_vec());
    }
    for n in 0..25 {
        b.xattr("xattrs", &format!("user.number {n}"), vec![b'v'; n * 4]);
    }
    for n in (0..25).step_by(4) {
        let name = format!("user.number {n}");
        b.0.push(Op::RemoveXattr {
            path: "xattrs".into(),
            name,
        });
    }
    b.xattr("xattrs/1", "user.value", b"replaced".to_vec());
    b.xattr("xattrs/2", "security.word", b"s".to_vec());
    b.file("xattrs/acl", 10, seed);
    b.xattr("xattrs/acl", "system.posix_acl_access", acl_of(77));
}

fn acl(seed: u64) -> Plan {
    let mut b = Build::default();
    b.dir("heir");
    b.xattr("heir", "system.posix_acl_default", acl_of(1000));
    b.file("heir/file", 10, seed);
    b.dir("heir/dir");
    b.file("heir/dir/file", 10, seed);
    b.sure()
}

/// Offsets on both sides of where the way to a block changes; most of the file is holes.
fn large(seed: u64) -> Plan {
    let mut b = Build::default();
    b.dir("large");
    b.empty("large/sparse");
    let (direct, indirect) = (2 * 1018u64, 2 * 1018 * 1018);
    for (n, steps) in [
        0,
        direct,
        direct + indirect,
        direct + indirect + 1018 * 1018,
    ]
    .into_iter()
    .enumerate()
    {
        for first in [873, 923] {
            b.write(
                "large/sparse",
                (steps + first - 3) * 4096 + 77,
                6 * 4096,
                seed + n as u64,
            );
        }
    }
    b.empty("large/cut");
    b.write(
        "large/cut",
        (923 + direct + indirect + 5) * 4096,
        50_000,
        seed + 9,
    );
    b.write("large/cut", (923 + direct + 7) * 4096, 50_000, seed + 10);
    b.truncate("large/cut", (923 + direct + 9) * 4096 + 100);
    b.empty("large/allocated");
    b.fallocate("large/allocated", FallocateMode::Allocate, 0, 5 << 20);
    b.empty("large/tail");
    b.write("large/tail", 6 << 30, 4096, seed + 11);
    b.0.push(Op::Fallocate {
        path: "large/tail".into(),
        mode: FallocateMode::PunchHole,
        offset: 4096,
        len: (6 << 30) - 8192,
    });
    b.sure()
}

/// Changes of every kind, on a tree of [`rich`].
fn change(seed: u64) -> Plan {
    let mut b = Build::default();
    let seed = seed + 1000;
    for n in 0..20 {
        b.unlink(&format!("dir0/file{n}"));
    }
    for n in (0..2500).filter(|n| n % 7 != 3 && n % 3 == 0) {
        b.unlink(&format!("many/a rather long name for a file, number {n}"));
    }
    b.dir("made");
    for n in 0..200u64 {
        b.file(
            &format!("made/new file {n}"),
            (n * 331 % 20_000) as usize,
            seed + n,
        );
    }
    for n in 0..400 {
        b.write("sparse", n * 24_000 + 4096, 5000, seed + n);
    }
    b.write("allocated", 30_000, 50_000, seed);
    b.truncate("direct nodes", 5_000_001);
    b.truncate("sizes/300000", 0);
    b.write("sizes/4096", 4096, 4096, seed);
    b.rename("dir3", "made/moved", false);
    b.unlink("kinds/longest");
    b.symlink("made/link", &"z".repeat(200));
    b.xattr("xattrs/3", "user.value", vec![1; 2000]);
    b.0.push(Op::RemoveXattr {
        path: "xattrs/5".into(),
        name: "user.value".into(),
    });
    b.0.push(Op::Sync);
    for n in 0..50 {
        b.write("overwritten", n * 3_777, 4_000, seed + n);
        if n % 10 == 0 {
            b.fsync("overwritten", n % 20 == 0);
        }
    }
    b.sure()
}

/// Random operations on few names, so that they meet; which of them fail, and how, is part of the
/// answer.
fn random(seed: u64) -> Plan {
    let mut rng = Rng::named(seed, "random plan");
    let mut b = Build::default();
    for d in 0..4 {
        b.dir(&format!("r{d}"));
    }
    for _ in 0..1500 {
        let dir = |rng: &mut Rng| match rng.below(6) {
            n @ 0..4 => format!("r{n}"),
            n => format!("r{}/sub{}", n - 4, rng.below(3)),
        };
        let name = |rng: &mut Rng| {
            let dir = dir(rng);
            format!("{dir}/f{}", rng.below(30))
        };
        let (path, other, n) = (name(&mut rng), name(&mut rng), rng.next_u64());
        let offset = n % 100 * 2500;
        let len = rng.below(30_000);
        match rng.below(24) {
            0..4 => b.empty(&path),
            4..10 => b.write(&path, offset, len as usize, n),
            10 => b.truncate(&path, offset),
            11 => b.fallocate(&path, FallocateMode::PunchHole, offset, len + 1),
            12 => b.fallocate(&path, FallocateMode::Allocate, offset, len + 1),
            13 => b.fallocate(&path, FallocateMode::ZeroRange, offset, len + 1),
            14 | 15 => b.unlink(&path),
            16 | 17 => b.rename(&path, &other, rng.one_in(4)),
            18 => b.link(&path, &other),
            19 => {
                let path = format!("r{}/sub{}", rng.below(2), rng.below(3));
                match rng.one_in(3) {
                    true => b.0.push(Op::Rmdir { path }),
                    false => b.dir(&path),
                }
            }
            20 => b.xattr(&path, "user.x", vec![n as u8; (n % 300) as usize]),
            21 => b.fsync(&path, n.is_multiple_of(2)),
            // Symbolic links under names of their own: a path through one is for the layer above a
            // file system.
            22 => {
                let (from, to) = (format!("r{}/s{}", n % 4, n % 5), format!("r2/s{}", n % 7));
                match n % 8 {
                    0 => b.unlink(&from),
                    1 | 2 => b.rename(&from, &to, n % 16 == 1),
                    _ => b.symlink(&from, &"t".repeat((n % 50 + 1) as usize)),
                }
            }
            _ if rng.one_in(10) => b.0.push(Op::Sync),
            _ => b.write(&path, 0, 10, n),
        }
    }
    Plan {
        ops: b.0,
        may_fail: true,
    }
}

/// Fills a device of about 100 MiB until nothing fits, frees every third file, overwrites at
/// random: segments with holes are written into.
fn full(seed: u64) -> Plan {
    let mut rng = Rng::named(seed, "full plan");
    let mut b = Build::default();
    b.dir("full");
    for n in 0..700 {
        b.file(&format!("full/{n}"), 200_000, n);
    }
    b.0.push(Op::Sync);
    for n in (0..700).step_by(3) {
        b.unlink(&format!("full/{n}"));
    }
    b.0.push(Op::Sync);
    for n in 0..1500 {
        let file = rng.below(700) / 3 * 3 + 1;
        b.write(&format!("full/{file}"), rng.below(46) * 4096, 8192, n);
        if n % 100 == 99 {
            b.fsync(&format!("full/{file}"), false);
        }
    }
    for n in 0..200 {
        b.file(&format!("full/again{n}"), 30_000, n);
    }
    Plan {
        ops: b.0,
        may_fail: true,
    }
}

/// Everything up to the sync is in a checkpoint; of what follows, only the fsyncs promise
/// something.
fn fsync(seed: u64) -> Plan {
    let mut b = Build::default();
    b.dir("base");
    b.dir("old");
    for n in 0..30 {
        b.file(&format!("base/{n}"), 5000 * n as usize, seed + n);
    }
    b.0.push(Op::Sync);
    for n in 0..30 {
        let path = format!("base/{n}");
        b.write(&path, n * 1000, 9000, seed + 40 + n);
        if n % 3 == 0 {
            b.fsync(&path, n % 2 == 0);
        }
    }
    for n in 0..20 {
        let path = format!("old/new{n}");
        b.file(&path, 300 * n as usize, seed + 90 + n);
        if n % 2 == 0 {
            b.fsync(&path, false);
        }
    }
    b.file("base/large", 5 << 20, seed + 200);
    b.fsync("base/large", false);
    b.truncate("base/20", 100);
    b.fsync("base/20", false);
    b.truncate("base/large", 4_500_000);
    b.write("base/large", 1 << 20, 100_000, seed + 201);
    b.fsync("base/large", true);
    b.xattr("base/5", "user.x", vec![7; 500]);
    b.own("base/5", 0o600, 3, 4);
    b.fsync("base/5", false);
    b.rename("base/6", "old/renamed", false);
    b.fsync("old/renamed", false);
    b.link("base/9", "old/linked");
    b.fsync("old/linked", false);
    b.file("base/last", 10_000, seed + 300);
    b.fsync("base/last", false);
    b.write("base/last", 3000, 100, seed + 301);
    b.file("base/never", 10_000, seed + 302);
    b.sure()
}

fn orphans(seed: u64) -> Plan {
    let mut b = Build::default();
    b.dir("o");
    for n in 0..40 {
        let path = format!("o/{n}");
        b.file(&path, 20_000 * (n as usize % 5), seed + n);
        if n % 2 == 0 {
            b.hold(&path);
        }
    }
    b.file("o/large", 8 << 20, seed);
    b.hold("o/large");
    b.0.push(Op::Sync);
    for n in (0..40).step_by(2) {
        b.unlink(&format!("o/{n}"));
    }
    b.unlink("o/large");
    b.0.push(Op::Sync);
    b.file("o/after", 5000, seed);
    b.fsync("o/after", false);
    b.sure()
}
