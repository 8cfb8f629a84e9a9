//! The checker against fsck.f2fs 1.15: equal verdicts on volumes with one byte of metadata changed
//! (f2fs-check-C3), and no panic on any of them (f2fs-check-C2). Says `skipped: no ...` where a
//! tool is missing.

use crate::common::{self, load, options_of};
use base::{BLOCK_BYTES, BlockNo, Bytes, Rng};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use varve_f2fs::check::{Kind, Options, Report, check};
use varve_f2fs::mkfs;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 128 * MIB;
/// Changes of each volume: a sample; 2500 and 1500 gave no other exceptions.
const FLIPS: u64 = 120;

/// The blocks of a volume that are not zero.
#[derive(Clone)]
struct Image(BTreeMap<u64, Bytes>);

impl Image {
    fn of(path: &Path) -> Image {
        Image(load(path).blocks().into_iter().collect())
    }

    fn check(&self) -> Report {
        let zeros = Bytes::from(vec![0; BLOCK_BYTES]);
        let read =
            |block: BlockNo| Ok::<_, Infallible>(self.0.get(&block.0).unwrap_or(&zeros).clone());
        check(&read, &Options::new(SIZE / BLOCK_BYTES as u64))
    }

    /// With one byte changed.
    fn flipped(&self, block: u64, at: usize, mask: u8) -> Image {
        let mut image = self.clone();
        let mut bytes = image
            .0
            .get(&block)
            .map_or_else(|| vec![0; BLOCK_BYTES], |b| b.to_vec());
        bytes[at] ^= mask;
        image.0.insert(block, bytes.into());
        image
    }
}

fn tool(name: &str, args: &[&str], image: &Path) -> Option<Output> {
    match common::tool(name).args(args).arg(image).output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("skipped: no {name}");
            None
        }
    }
}

/// What fsck.f2fs says; `None` if it is not there. Of a wrong hash it says only what it would mend
/// (`[FIX]`).
fn fsck(image: &Path) -> Option<(bool, String)> {
    let output = tool("fsck.f2fs", &["--dry-run"], image)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let speaks = ["[Fail]", "[ASSERT]", "[FIX]"]
        .iter()
        .any(|word| text.contains(word));
    let clean = output.status.code() == Some(0) && !speaks;
    Some((clean, text))
}

/// A volume of mkfs.f2fs with a tree of sload.f2fs.
fn filled(features: &str) -> Option<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    file.as_file().set_len(SIZE).expect("sparse file");
    let args = if features.is_empty() {
        vec!["-q"]
    } else {
        vec!["-q", "-O", features]
    };
    tool("mkfs.f2fs", &args, file.path())?;
    let tree = tempfile::tempdir().expect("temporary directory");
    let at = |name: &str| tree.path().join(name);
    std::fs::create_dir_all(at("sub/deep")).expect("room");
    for n in 0..30 {
        std::fs::write(at(&format!("sub/file {n}")), vec![n as u8; 700 * n]).expect("room");
    }
    for n in 0..250 {
        std::fs::write(
            at(&format!(
                "sub/deep/a name that is long enough to fill blocks {n}"
            )),
            "",
        )
        .expect("room");
    }
    std::fs::write(at("big"), vec![7; 9 << 20]).expect("room");
    std::os::unix::fs::symlink("big", at("link")).expect("room");
    let source = tree.path().to_str().expect("a path of ASCII").to_string();
    let output = tool("sload.f2fs", &["-f", &source], file.path())?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    Some(file)
}

#[test]
fn a_new_volume_is_clean() {
    let plan = mkfs::plan(&options_of(SIZE)).expect("a volume");
    let image = Image(
        plan.blocks()
            .iter()
            .map(|(n, b)| (n.0, b.clone()))
            .collect(),
    );
    let report = image.check();
    assert_eq!(report.findings, []);
    assert!(report.is_clean() && !report.needs_recovery);
    assert_eq!(
        (
            report.inodes,
            report.directories,
            report.nodes,
            report.blocks
        ),
        (1, 1, 1, 2)
    );
    assert_eq!(
        (
            report.packs,
            Image(BTreeMap::new()).check().findings[0].kind
        ),
        ([true; 2], Kind::Superblock)
    );
}

#[test]
fn filled_volumes_are_clean() {
    for features in ["", "extra_attr,inode_checksum,inode_crtime,sb_checksum"] {
        let Some(file) = filled(features) else {
            return;
        };
        let (clean, text) = fsck(file.path()).expect("fsck.f2fs comes with mkfs.f2fs");
        assert!(clean, "{text}");
        let report = Image::of(file.path()).check();
        assert!(report.is_clean(), "{features}: {:#?}", report.findings);
        assert_eq!((report.inodes, report.directories), (285, 3), "{features}");
    }
}

/// Blocks of metadata of the volume: everything outside of the main area, nodes, and blocks of
/// entries.
fn metadata(image: &Image) -> Vec<u64> {
    let sb = ondisk::f2fs::Superblock::in_block(&image.0[&0]).expect("sound");
    let main = u64::from(sb.main_addr());
    let is_meta = |(&n, bytes): (&u64, &Bytes)| {
        let footer = ondisk::f2fs::footer(bytes);
        let node = (3..4000).contains(&footer.nid.0) && (3..4000).contains(&footer.ino.0);
        let entries = bytes
            .windows(10)
            .any(|w| w == b"a name tha" || w == b"file 3\0\0\0\0");
        (n < main || node || entries).then_some(n)
    };
    image.0.iter().filter_map(is_meta).collect()
}

#[test]
fn verdicts_are_those_of_fsck() {
    compare_verdicts("extra_attr,inode_checksum,inode_crtime,sb_checksum");
}

/// Without checksums every field is judged by itself.
#[test]
fn verdicts_are_those_of_fsck_without_checksums() {
    compare_verdicts("");
}

/// Where the verdicts may differ, by name.
fn excepted(clean: bool, report: &Report) -> bool {
    let only = |kind: Kind| report.findings.iter().all(|f| f.kind == kind);
    match clean {
        // node-place: fsck.f2fs does not look at the place that a node notes; roll-forward and
        // cleaning do. link-count of 0: fsck.f2fs takes the file for one that is being deleted,
        // though it has a name.
        true => {
            let zero = report
                .findings
                .iter()
                .all(|f| f.what.starts_with("0 links"));
            only(Kind::NodePlace) || only(Kind::LinkCount) && zero
        }
        // superblock-copy: fsck.f2fs believes a first superblock without checksum whose section
        // count is wrong; we take the second, and say so.
        false => !report.findings.is_empty() && only(Kind::SuperblockCopy),
    }
}

fn compare_verdicts(features: &str) {
    let Some(file) = filled(features) else {
        return;
    };
    let image = Image::of(file.path());
    let blocks = metadata(&image);
    let mut rng = Rng::named(1, "flips");
    let mut differ = Vec::new();
    for _ in 0..FLIPS {
        let block = blocks[rng.below(blocks.len() as u64) as usize];
        let bytes = &image.0[&block];
        let used: Vec<usize> = (0..BLOCK_BYTES).filter(|&n| bytes[n] != 0).collect();
        let at = match rng.below(4) {
            0 => rng.below(BLOCK_BYTES as u64) as usize,
            _ => used[rng.below(used.len() as u64) as usize],
        };
        let mask = 1 << rng.below(8);
        let report = image.flipped(block, at, mask).check();
        let place = block * BLOCK_BYTES as u64;
        file.as_file()
            .write_all_at(&[bytes[at] ^ mask], place + at as u64)
            .expect("writable");
        let (clean, text) = fsck(file.path()).expect("was there before");
        file.as_file().write_all_at(bytes, place).expect("writable");
        if clean != report.is_clean() && !excepted(clean, &report) {
            let said = text
                .lines()
                .filter(|l| l.contains("[Fail]") || l.contains("ASSERT") || l.contains("FIX"));
            let said: Vec<&str> = said.collect();
            let ours = report
                .findings
                .iter()
                .map(|f| f.to_string())
                .collect::<Vec<_>>();
            differ.push(format!(
                "block {block}+{at:#x} ^{mask:#x}: fsck clean={clean} {said:?}, ours {ours:?}"
            ));
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {FLIPS}:\n{}",
        differ.len(),
        differ.join("\n")
    );
}
