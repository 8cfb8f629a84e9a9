//! Comparison with e2fsprogs: logs written by either side are recovered alike by both. Where mke2fs
//! is missing the tests end without a comparison; one that needs a loop mount says that it is
//! skipped.

use super::*;
use base::bytes::{get_le32, put_le32};
use base::checksum::crc32c;
use std::path::Path;
use std::process::Command;

pub const BLOCKS: u64 = 4096;
/// Free blocks of a fresh file system of 16 MiB, far behind its metadata.
pub const FREE: u64 = 3000;
const EXT4_SB: usize = 1024;
const RECOVER: u32 = 4;

pub fn run(tool: &str, args: &[&str], input: Option<&Path>) -> Option<String> {
    let mut command = Command::new(tool);
    command.args(args).env("DEBUGFS_PAGER", "cat");
    if let Some(script) = input {
        command.stdin(std::fs::File::open(script).expect("script"));
    }
    let out = command.output().ok()?;
    let both = [out.stdout, out.stderr].concat();
    Some(String::from_utf8_lossy(&both).into_owned())
}

/// An image with a journal of 1024 blocks and the place of that journal; `None` without e2fsprogs.
pub struct Image {
    dir: tempfile::TempDir,
    pub place: LogPlace,
}

impl Image {
    pub fn make(features: &str) -> Option<Image> {
        let dir = tempfile::tempdir().expect("temporary folder");
        let image = Image {
            dir,
            place: LogPlace::new(&[], BLOCKS).expect("empty"),
        };
        let path = image.path("fs");
        let size = format!("{BLOCKS}");
        let args = [
            "-q", "-F", "-t", "ext4", "-b", "4096", "-J", "size=4", "-O", features, &path, &size,
        ];
        // Without mke2fs there is nothing to compare with.
        run("mke2fs", &args, None)?;
        let list = run("debugfs", &["-R", "blocks <8>", &path], None).expect("runs");
        let blocks: Vec<u64> = list
            .split_whitespace()
            .filter_map(|w| w.parse().ok())
            .collect();
        assert_eq!(blocks.len(), 1024, "{list}");
        let runs: Vec<(BlockNo, u32)> = blocks.iter().map(|b| (BlockNo(*b), 1)).collect();
        let place = LogPlace::new(&runs, BLOCKS).expect("valid");
        Some(Image { place, ..image })
    }
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").into()
    }
    pub fn load(&self, name: &str) -> BTreeMap<u64, Bytes> {
        let bytes = std::fs::read(self.path(name)).expect("image");
        let blocks = bytes.chunks_exact(BLOCK_BYTES).enumerate();
        blocks
            .map(|(n, b)| (n as u64, Bytes::copy_from_slice(b)))
            .collect()
    }
    /// All blocks, as [`load`](Self::load) gives them.
    fn load_as(&self, content: &BTreeMap<u64, Bytes>) -> BTreeMap<u64, Bytes> {
        let block = |n| content.get(&n).cloned().unwrap_or_else(disk::zeros);
        (0..BLOCKS).map(|n| (n, block(n))).collect()
    }
    pub fn store(&self, name: &str, content: &BTreeMap<u64, Bytes>) {
        let all: Vec<u8> = (0..BLOCKS)
            .flat_map(|n| content.get(&n).cloned().unwrap_or_else(disk::zeros))
            .collect();
        std::fs::write(self.path(name), all).expect("writes");
    }
    pub fn rig(&self, name: &str) -> Rig {
        Rig::on(CrashDisk::new(BLOCKS, self.load(name)), self.place.clone())
    }
    /// Runs e2fsck on a copy and gives its content.
    pub fn fsck(&self, name: &str) -> BTreeMap<u64, Bytes> {
        let (from, to) = (self.path(name), self.path("fscked"));
        std::fs::copy(from, &to).expect("copies");
        let text = run("e2fsck", &["-fy", &to], None).expect("runs");
        assert!(text.contains("recovering journal"), "{text}");
        assert!(!text.contains("checksum"), "{text}");
        self.load("fscked")
    }
}

/// Sets the flag that makes e2fsck replay the log.
pub fn set_needs_recovery(content: &mut BTreeMap<u64, Bytes>) {
    let mut block = content[&0].to_vec();
    let sb = &mut block[EXT4_SB..EXT4_SB + 1024];
    let incompat = get_le32(sb, 0x60) | RECOVER;
    put_le32(sb, 0x60, incompat);
    let crc = crc32c(!0, &sb[..0x3FC]);
    if get_le32(sb, 0x64) & 0x400 != 0 {
        put_le32(sb, 0x3FC, crc);
    }
    content.insert(0, block.into());
}

fn compare(ours: &CrashDisk, theirs: &BTreeMap<u64, Bytes>, what: &str) {
    for block in FREE..FREE + 600 {
        assert_eq!(ours.content(block), theirs[&block], "{what}: block {block}");
    }
}

const FEATURES: [&str; 3] = [
    "metadata_csum,64bit",
    "^metadata_csum,^64bit",
    "metadata_csum,^64bit",
];

#[test]
fn e2fsck_replays_our_log_as_we_do() {
    for features in FEATURES {
        let Some(image) = Image::make(features) else {
            return;
        };
        let rig = image.rig("fs");
        let journal = rig.start(Options {
            features_64bit: !features.contains("^64bit"),
            checksum_v3: !features.contains("^metadata_csum"),
            ..quiet()
        });
        write_a_few_transactions(&journal);
        crash(&journal);
        let mut content = rig.disk.visible();
        // The abort that ended the test left its error number; the file system had none.
        clear_errno(&mut content, &image.place);
        set_needs_recovery(&mut content);
        image.store("dirty", &content);
        let theirs = image.fsck("dirty");
        let ours = image.rig("dirty");
        let (_, report) = ours.recover().expect("recovers");
        assert!(
            report.transactions > 5 && report.images_revoked > 0,
            "{report:?}"
        );
        compare(&ours.disk, &theirs, features);
    }
}

fn clear_errno(content: &mut BTreeMap<u64, Bytes>, place: &LogPlace) {
    let home = place.block(crate::LogBlock(0)).0;
    let mut block = content[&home].to_vec();
    let mut sb = Superblock::parse(&block).expect("valid");
    sb.set_errno(0);
    sb.encode(&mut block);
    content.insert(home, block.into());
}

/// Escapes, revokes, two descriptors in one transaction, reuse of a revoked block.
fn write_a_few_transactions(journal: &Journal) {
    let magic = |n: u8| {
        let mut block = vec![n; BLOCK_BYTES];
        block[..4].copy_from_slice(&ondisk::jbd2::MAGIC.to_be_bytes());
        Bytes::from(block)
    };
    type Work = fn(&mut crate::Handle<'_>, &dyn Fn(u8) -> Bytes) -> Result<(), JournalError>;
    let work: [(u32, Work); 8] = [
        (2, |h, _| {
            (0..2).try_for_each(|n| h.create(BlockNo(FREE + n), filled(1)))
        }),
        (1, |h, m| h.create(BlockNo(FREE + 2), m(2))),
        (200, |h, _| {
            (10..200).try_for_each(|n| h.create(BlockNo(FREE + n), filled(3)))
        }),
        (1, |h, _| h.forget(BlockNo(FREE + 1))),
        (1, |h, _| {
            (20..30).try_for_each(|n| h.forget(BlockNo(FREE + n)))
        }),
        (1, |h, m| h.create(BlockNo(FREE + 25), m(5))),
        (2, |h, _| {
            h.forget(BlockNo(FREE + 30))?;
            h.create(BlockNo(FREE + 30), filled(6))
        }),
        (1, |h, _| h.write(BlockNo(FREE), 100, b"the end")),
    ];
    for (credits, work) in work {
        let mut handle = journal.start(credits).expect("room");
        work(&mut handle, &magic).expect("works");
        journal
            .commit(handle.finish().expect("runs"))
            .expect("commits");
    }
}

#[test]
fn we_replay_a_log_of_debugfs_as_e2fsck_does() {
    for (features, open) in [
        ("metadata_csum,64bit", "jo -c"),
        ("^metadata_csum,^64bit", "jo"),
        ("metadata_csum,64bit", "jo -c -v 2"),
    ] {
        let Some(image) = Image::make(features) else {
            return;
        };
        for (name, byte) in [("a", b'A'), ("b", b'B'), ("m", 0)] {
            let mut block = vec![byte; BLOCK_BYTES];
            if name == "m" {
                block[..4].copy_from_slice(&ondisk::jbd2::MAGIC.to_be_bytes());
            }
            std::fs::write(image.path(name), [block.clone(), block].concat()).expect("writes");
        }
        let f = |name: &str| image.path(name);
        let script = format!(
            "{open}\njw -b {},{} {}\njw -b {} {}\njw -r {}\njw -b {},{} {}\njc\n",
            FREE,
            FREE + 1,
            f("a"),
            FREE + 2,
            f("m"),
            FREE + 1,
            FREE + 2,
            FREE + 3,
            f("b"),
        );
        std::fs::write(f("script"), script).expect("writes");
        let text = run("debugfs", &["-w", "-f", &f("script"), &f("fs")], None).expect("runs");
        let theirs = image.fsck("fs");
        let ours = image.rig("fs");
        let (_, report) = ours
            .recover()
            .unwrap_or_else(|e| panic!("{open}: {e}\n{text}"));
        assert_eq!(
            (report.transactions, report.images_revoked),
            (4, 1),
            "{report:?}\n{text}"
        );
        compare(&ours.disk, &theirs, open);
        assert_eq!(ours.disk.content(FREE + 3)[0], b'B');
    }
}

/// Mounts through a loop device, changing nothing; `None` where that is not allowed.
pub fn kernel_mounts(path: &str, point: &str) -> Option<bool> {
    std::fs::create_dir_all(point).expect("a mount point");
    let out = Command::new("mount")
        .args(["-o", "loop", path, point])
        .output()
        .ok()?;
    if out.status.success() {
        run("umount", &[point], None).expect("umount");
        return Some(true);
    }
    let why = String::from_utf8_lossy(&out.stderr).to_lowercase();
    if why.contains("bad superblock") {
        return Some(false);
    }
    eprintln!("skipped: no loop mount: {why}");
    None
}

/// A dirty log with coalition blocks keeps other programs off, and they leave it as it is; dumpe2fs
/// names the bit. After recovery all of them take the file system.
#[test]
fn other_programs_refuse_a_dirty_coalition_log() {
    let Some(image) = Image::make("metadata_csum,64bit") else {
        return;
    };
    let rig = image.rig("fs");
    let journal = rig.start(Options {
        scheme: crate::Preset::Emmc.scheme(),
        ..quiet()
    });
    for n in 0..5u8 {
        let mut handle = journal.start(1).expect("room");
        handle
            .create(BlockNo(FREE + u64::from(n)), filled(n + 1))
            .expect("credit");
        journal
            .commit(handle.finish().expect("runs"))
            .expect("commits");
    }
    crash(&journal);
    let mut content = rig.disk.visible();
    set_needs_recovery(&mut content);
    image.store("dirty", &content);
    let path = image.path("dirty");
    for option in ["-fn", "-fy"] {
        let text = run("e2fsck", &[option, &path], None).expect("runs");
        assert!(
            text.contains("unknown incompatible feature flag"),
            "{option}: {text}"
        );
    }
    let point = image.path("mnt");
    let refused = kernel_mounts(&path, &point);
    assert_ne!(refused, Some(true), "the kernel took a log it cannot read");
    let text = run("dumpe2fs", &["-h", &path], None).expect("runs");
    assert!(text.contains("FEATURE_I12"), "{text}");
    assert!(image.load("dirty") == image.load_as(&content), "changed");

    let rig = image.rig("dirty");
    let (_, report) = rig.recover().expect("recovers");
    assert_eq!((report.coalitions, report.blocks_replayed), (5, 5));
    image.store("clean", &rig.disk.visible());
    let path = image.path("clean");
    let text = run("dumpe2fs", &["-h", &path], None).expect("runs");
    assert!(!text.contains("FEATURE_I12"), "{text}");
    assert!(refused.is_none() || kernel_mounts(&path, &point) == Some(true));
    let text = run("e2fsck", &["-fy", &path], None).expect("runs");
    assert!(
        !text.contains("unknown") && !text.contains("WARNING"),
        "{text}"
    );
}
