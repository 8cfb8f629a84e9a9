//! The data path above a journal that remaps (`home=remap`): the same histories and the same judge
//! as `data_path_cuts`, in every data mode. Each cut is recovered by REMAP. Where the log keeps its
//! blocks (`jftl`), a cut is also recovered as any other program would: by copying, on a device
//! without REMAP, and by `e2fsck -fy`.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use crate::data_path::{Cut, MIB, Tear, explore_with, judge, judge_recovered};

const MIB_OF_VOLUME: u64 = 16;
/// One cut in this many is given to e2fsck.
const FSCK_ONE_IN: usize = 12;

const BYTES: u64 = MIB_OF_VOLUME * MIB;

/// Recovers as a stock kernel and e2fsck do.
fn stock(cut: &Cut, n: usize) -> Result<(), String> {
    judge_recovered(cut, (&cut.content, None), BYTES, Tear::Blocks)
        .map_err(|why| format!("copied: {why}"))?;
    if !n.is_multiple_of(FSCK_ONE_IN) || !crate::common::have_tools() {
        return Ok(());
    }
    let image = crate::common::Image::new(MIB_OF_VOLUME, &["-q"]);
    image.store(&cut.content.to_ram(BYTES));
    let (code, said) = image.fsck_repair();
    if !matches!(code, Some(0 | 1)) || said.contains("checksum") {
        return Err(format!("e2fsck -fy says {code:?}: {said}"));
    }
    let recovered = image.load().blocks().into_iter().collect();
    judge_recovered(cut, (&recovered, None), BYTES, Tear::Blocks)
        .map_err(|why| format!("e2fsck: {why}"))
}

fn survives(seeds: std::ops::Range<u64>, options: &str) {
    let judged = explore_with(
        seeds,
        MIB_OF_VOLUME,
        Tear::Blocks,
        options,
        |cut, seed, n| {
            let own = judge(cut, BYTES, Tear::Blocks, options);
            let both = own.and_then(|()| match options.contains("jftl-paper") {
                true => Ok(()),
                false => stock(cut, n),
            });
            if let Err(why) = both {
                panic!("seed {seed}, cut {n}, {options}: {why}");
            }
        },
    );
    assert!(judged > 20, "only {judged} cuts");
    println!("{options}: {judged} cuts");
}

#[test]
fn journaled_data() {
    survives(400..404, "scheme=jftl,data=journal,discard");
}

#[test]
fn ordered_and_writeback() {
    survives(410..413, "scheme=jftl,data=ordered");
    survives(420..423, "scheme=jftl,data=writeback,discard");
}

#[test]
fn as_published() {
    survives(430..433, "scheme=jftl-paper,data=journal,discard");
    survives(440..442, "scheme=jftl-paper,data=ordered");
}

/// Run by hand, e.g. `FROM=1000 SEEDS=200 OPTIONS=scheme=jftl,data=journal`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from = number("FROM").unwrap_or(0);
    let options = std::env::var("OPTIONS").unwrap_or("scheme=jftl,data=journal,discard".into());
    survives(from..from + number("SEEDS").unwrap_or(50), &options);
}
