//! Mutations of metadata, each judged by fsck.f2fs, by our checker, and by mounts.

use super::excuses;
use super::judge::{self, Judged};
use super::targets::{Blocks, Target, Volume, block};
use crate::common::{Image, fork, run as execute, tool};
use base::{BlockNo, Bytes, Rng};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::FsError;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use testkit::corpus::Tally;

/// A mutated volume.
pub struct Case {
    /// What was changed, in words.
    pub change: String,
    /// Checksums were made good.
    pub deep: bool,
    pub changed: Blocks,
}

/// Changes so many fields.
fn mutate(volume: &Volume, rng: &mut Rng, fields: usize) -> Option<Case> {
    // A structure by its kind first, so that the frequent ones do not crowd out the rest.
    let mut kinds: BTreeMap<&str, Vec<&Target>> = BTreeMap::new();
    for target in &volume.targets {
        kinds.entry(&target.name).or_default().push(target);
    }
    let kinds: Vec<_> = kinds.into_values().collect();
    let mut case = Case {
        change: String::new(),
        deep: !rng.one_in(6),
        changed: Blocks::new(),
    };
    for _ in 0..fields {
        let of_kind = pick(rng, &kinds);
        let target = (*pick(rng, of_kind)).clone();
        let (at, len) = *pick(rng, &target.fields);
        let other = block(&volume.blocks, pick(rng, of_kind).block);
        let old = match case.changed.get(&target.block) {
            Some(bytes) => bytes.clone(),
            None => block(&volume.blocks, target.block),
        };
        let mut new = old.to_vec();
        let said = change(rng, &mut new[at..at + len], &other[at..at + len]);
        case.change += &format!(
            "{} at block {}: {said} at {at:#x}; ",
            target.name, target.block
        );
        case.changed.insert(target.block, Bytes::from(new));
        if case.deep {
            volume.mend(&target, &mut case.changed);
        }
    }
    // Making the checksum good may have taken the change back.
    let differs = case
        .changed
        .iter()
        .any(|(n, bytes)| *bytes != block(&volume.blocks, *n));
    differs.then_some(case)
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

fn change(rng: &mut Rng, field: &mut [u8], other: &[u8]) -> String {
    let bits = 8 * field.len() as u64;
    let mut value = [0; 8];
    value[..field.len()].copy_from_slice(field);
    let old = u64::from_le_bytes(value);
    let new = match rng.below(9) {
        0 => 0,
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        3 => u64::MAX,
        4 => old ^ 0x80,
        5 => rng.next_u64(),
        6 => {
            value[..other.len()].copy_from_slice(other);
            u64::from_le_bytes(value)
        }
        _ => old ^ (1 << rng.below(bits)),
    };
    field.copy_from_slice(&new.to_le_bytes()[..field.len()]);
    format!(
        "{old:#x} -> {:#x} ({} bytes)",
        new & (u64::MAX >> (64 - bits)),
        field.len()
    )
}

/// What fsck.f2fs says: whether it is content, and its words.
fn fsck(image: &Path) -> (bool, String) {
    let output = execute(
        tool("timeout")
            .args(["20", "fsck.f2fs", "--dry-run"])
            .arg(image),
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let marks = ["[Fail]", "[ASSERT]", "[FIX]"];
    let speaks = |line: &&str| marks.iter().any(|mark| line.contains(mark));
    let clean = output.status.code() == Some(0) && !text.lines().any(|l| speaks(&l));
    let said: Vec<&str> = text.lines().filter(speaks).take(6).collect();
    (
        clean,
        format!("{:?} {}", output.status.code(), said.join("\n    ")),
    )
}

/// Runs the cases of these seeds.
pub fn run(image: &Image, seeds: std::ops::Range<u64>, fields: usize) -> Tally {
    let ram = image.load();
    let volume = Volume::of(ram.blocks().into_iter().collect());
    let file = File::options()
        .write(true)
        .open(&image.path)
        .expect("the image");
    let put = |n: u64, bytes: &[u8]| file.write_all_at(bytes, n * 4096).expect("room");
    let mut tally = Tally::default();
    for seed in seeds {
        let mut rng = Rng::named(seed, "f2fs fsck corpus");
        let Some(case) = mutate(&volume, &mut rng, fields) else {
            continue;
        };
        let mutated = fork(&ram);
        for (n, bytes) in &case.changed {
            put(*n, bytes);
            write_block(&mutated, BlockNo(*n).lba(), Class::Data, bytes.clone()).expect("in range");
        }
        let (clean, text) = fsck(&image.path);
        for n in case.changed.keys() {
            put(*n, &block(&volume.blocks, *n));
        }
        tally.cases += 1;
        let place = format!(
            "seed {seed}: {}{}",
            case.change,
            if case.deep { "" } else { "sums bad" }
        );
        let answer = catch_unwind(AssertUnwindSafe(|| ours(&mutated)));
        let (judged, broken) = match answer {
            Ok(answer) => answer,
            Err(_) => {
                tally.disputed.push(format!("{place}\n  fsck-I1: a panic"));
                continue;
            }
        };
        if let Some(broken) = broken {
            tally
                .disputed
                .push(format!("{place}\n  {broken}\n  ours: {}", judged.said()));
        }
        tally.count(
            (!clean, !judged.is_clean()),
            || excuses::excuse(!clean, &judged, &text),
            || {
                let ours = judged.said();
                format!("{place}\n  fsck-I4: fsck.f2fs: {text}\n  ours: {ours}")
            },
        );
    }
    tally
}

/// Our verdict, and which of fsck-I2 and fsck-I3 does not hold.
fn ours(ram: &Arc<Ram>) -> (Judged, Option<String>) {
    let judged = judge::judge(ram);
    let clean = judged.is_clean();
    let read = judge::read_all(ram);
    let written = judge::recover(&fork(ram));
    let broken = match (clean, read, written) {
        (true, Err(e), _) => Some(format!("fsck-I3: reading: {e}")),
        (true, _, Err(e)) if !matches!(e, FsError::Incompatible { .. }) => {
            Some(format!("fsck-I2: mount to write: {e}"))
        }
        _ => None,
    };
    (judged, broken)
}
