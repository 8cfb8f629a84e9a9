//! Single mutations of metadata, judged by e2fsck and by Varve's checker.

use super::excuses;
use super::targets::{Blocks, Target, Volume, block};
use crate::common::{Image, said, tool};
use base::{Bytes, Rng};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use testkit::corpus::Tally;
use varve_ext4::check::{Options, Report, check};

/// A mutated volume.
pub struct Case {
    pub target: Target,
    /// What was changed, in words.
    pub change: String,
    /// True if the checksum was corrected.
    pub deep: bool,
    pub changed: Blocks,
}

/// Changes `fields` fields of one structure.
pub fn mutate(volume: &Volume, rng: &mut Rng, fields: usize) -> Option<Case> {
    // A kind of structure is drawn first, so that frequent structures do not crowd out the others.
    let mut kinds: BTreeMap<String, Vec<&Target>> = BTreeMap::new();
    for target in &volume.targets {
        let kind = target.name.trim_end_matches(|c: char| !c.is_alphabetic());
        kinds.entry(kind.into()).or_default().push(target);
    }
    let pick = |rng: &mut Rng, len: usize| rng.below(len as u64) as usize;
    let kinds: Vec<_> = kinds.into_values().collect();
    let of_kind = &kinds[pick(rng, kinds.len())];
    let target = of_kind[pick(rng, of_kind.len())].clone();
    let old = block(&volume.blocks, target.block);
    let mut new = old.to_vec();
    let part = &mut new[target.offset..target.offset + target.len];
    let changes: Vec<String> = (0..fields).map(|_| change(rng, part)).collect();
    let change = changes.join(", ");
    if new == old {
        return None;
    }
    let mut changed = Blocks::from([(target.block, Bytes::from(new))]);
    let deep = !rng.one_in(6);
    if deep {
        volume.mend(&target, &mut changed);
    }
    // Correcting the checksum may have undone the change.
    let differs = changed
        .iter()
        .any(|(n, bytes)| *bytes != block(&volume.blocks, *n));
    differs.then_some(Case {
        target,
        change,
        deep,
        changed,
    })
}

fn change(rng: &mut Rng, bytes: &mut [u8]) -> String {
    let len = bytes.len() as u64;
    let width = [1, 1, 2, 2, 4, 4, 4][rng.below(7) as usize];
    let at = (rng.below(len / width) * width) as usize;
    let field = at..at + width as usize;
    let mut value = [0; 8];
    value[..width as usize].copy_from_slice(&bytes[field.clone()]);
    let old = u64::from_le_bytes(value);
    let new = match rng.below(8) {
        0 => 0,
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        3 => u64::MAX,
        4 => old ^ 0x80,
        5 => rng.next_u64(),
        _ => old ^ (1 << rng.below(width * 8)),
    };
    bytes[field].copy_from_slice(&new.to_le_bytes()[..width as usize]);
    let mask = u64::MAX >> (64 - 8 * width);
    format!("{:#x} -> {:#x} ({width} bytes at {at:#x})", old, new & mask)
}

/// The verdict of e2fsck: exit code and output.
pub fn e2fsck(path: &Path) -> (i32, String) {
    let out = tool("e2fsck")
        .arg("-fn")
        .arg(path)
        .output()
        .expect("e2fsck");
    let text = [out.stdout, out.stderr].concat();
    (
        out.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The verdict of Varve's checker.
pub fn ours(volume: &Volume, changed: &Blocks, blocks: u64) -> Report {
    let read = |n: base::BlockNo| {
        let found = changed.get(&n.0).cloned();
        Ok::<_, String>(found.unwrap_or_else(|| block(&volume.blocks, n.0)))
    };
    check(&read, &Options::new(blocks))
}

/// Runs the cases of these seeds; each changes `fields` fields of one structure.
pub fn run(image: &Image, seeds: std::ops::Range<u64>, fields: usize) -> Tally {
    let ram = image.load();
    let volume = Volume::of(ram.blocks().into_iter().collect());
    let blocks = volume.sb.blocks_count();
    let mut file = File::options()
        .write(true)
        .open(&image.path)
        .expect("the image");
    let mut put = |n: u64, bytes: &[u8]| {
        file.seek(SeekFrom::Start(n * 4096)).expect("seek");
        file.write_all(bytes).expect("room");
    };
    let mut tally = Tally::default();
    for seed in seeds {
        let mut rng = Rng::named(seed, "fsck corpus");
        let Some(case) = mutate(&volume, &mut rng, fields) else {
            continue;
        };
        case.changed.iter().for_each(|(n, bytes)| put(*n, bytes));
        let (code, text) = e2fsck(&image.path);
        for n in case.changed.keys() {
            put(*n, &block(&volume.blocks, *n));
        }
        let report = ours(&volume, &case.changed, blocks);
        tally.cases += 1;
        // Some of what e2fsck would mend does not count for its exit code.
        let asks = text
            .lines()
            .any(|line| line.contains("? no") && !line.contains("could be"));
        let theirs = code != 0 || asks;
        tally.count(
            (theirs, !report.is_clean()),
            || excuses::excuse(&case, theirs, &report),
            || {
                format!(
                    "seed {seed}: {} at block {}: {}, {}\n  e2fsck ({code}): {}\n  ours: {}",
                    case.target.name,
                    case.target.block,
                    case.change,
                    if case.deep {
                        "checksum good"
                    } else {
                        "checksum bad"
                    },
                    text.trim().replace('\n', "\n    "),
                    said(&report)
                )
            },
        );
    }
    tally
}
