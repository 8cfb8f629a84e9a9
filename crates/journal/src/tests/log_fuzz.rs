//! Logs of all kinds, damaged anywhere: recovery ends with the state after some prefix of the
//! transactions, or with an error and nothing written. It never panics and never reads without
//! bound. The body is a plain function, for any fuzzer.

use super::hostile::{LOG, V3};
use super::mixed::{Author, Do};
use super::*;
use crate::LogBlock;
use ondisk::jbd2::{BlockKind, Header};
use proptest::prelude::*;

/// What to do to the log.
#[derive(Clone, Debug)]
enum Damage {
    /// Log block, byte, bits.
    Flip(u32, usize, u8),
    /// This log block becomes that one.
    Copy(u32, u32),
    /// Sectors of this one become those of that one.
    Mix(u32, u32, u8),
    Erase(u32),
}

/// One transaction: stock, self-committing or with a commit block; home, offset, length, content.
type Recipe = (u8, Vec<(u8, u64, usize, usize, u8)>);

/// Builds the log; the contents of the blocks after each prefix of it.
fn build(recipes: &[Recipe]) -> (Author, Vec<BTreeMap<u64, Vec<u8>>>) {
    let mut a = Author::new(V3);
    let mut prefixes = vec![a.now.clone()];
    for (n, (form, what)) in recipes.iter().enumerate() {
        let tid = n as u32 + 1;
        if *form == 0 {
            let homes: std::collections::BTreeSet<u64> = what.iter().map(|w| w.1).collect();
            a.stock(tid, 10, &homes.into_iter().collect::<Vec<_>>());
        } else {
            let records = what.iter().map(|&(kind, home, at, len, byte)| match kind {
                0 => Do::Full(home, vec![byte; BLOCK_BYTES]),
                _ => Do::Delta(home, at, vec![byte; len]),
            });
            // One record per block and transaction, as commits write them.
            let mut seen = std::collections::BTreeSet::new();
            let records: Vec<Do> = records
                .filter(|r| match r {
                    Do::Full(home, _) | Do::Delta(home, ..) => seen.insert(*home),
                    Do::Revoke(_) => true,
                })
                .collect();
            match form {
                1 => a.transaction(tid, 10, records),
                _ => a.committed(tid, 10, records),
            };
        }
        prefixes.push(a.now.clone());
    }
    (a, prefixes)
}

fn apply(a: &mut Author, damage: &Damage) {
    let place = a.forge.place.clone();
    let at = |n: u32| place.block(LogBlock(n)).0;
    let get = |a: &Author, n: u32| {
        let block = a.forge.content.get(&at(n));
        block.cloned().unwrap_or_else(disk::zeros)
    };
    let (to, bytes) = match *damage {
        Damage::Flip(n, byte, bits) => {
            let mut block = get(a, n).to_vec();
            block[byte] ^= bits;
            (n, block.into())
        }
        // A commit block names no number of blocks before it: one that stands where its transaction
        // begins is, to any reader of the stock format, an empty transaction.
        Damage::Copy(_, from) | Damage::Mix(_, from, _) if is_commit(&get(a, from)) => return,
        Damage::Copy(n, from) => (n, get(a, from)),
        Damage::Mix(n, from, sectors) => {
            let (mut block, other) = (get(a, n).to_vec(), get(a, from));
            for s in (0..8).filter(|s| sectors >> s & 1 == 1) {
                block[s * 512..(s + 1) * 512].copy_from_slice(&other[s * 512..(s + 1) * 512]);
            }
            (n, block.into())
        }
        Damage::Erase(n) => (n, disk::zeros()),
    };
    a.forge.content.insert(at(to), bytes);
}

fn is_commit(block: &[u8]) -> bool {
    Header::parse(block).is_ok_and(|h| h.kind == BlockKind::Commit)
}

/// The body.
fn check(recipes: &[Recipe], damages: &[Damage]) {
    let (mut a, prefixes) = build(recipes);
    damages.iter().for_each(|d| apply(&mut a, d));
    let before = a.forge.rig().disk.visible();
    let rig = a.forge.rig();
    match rig.recover() {
        Ok((_, report)) => {
            let state = &prefixes[report.transactions as usize];
            for (home, content) in state {
                assert!(
                    rig.disk.content(*home) == content[..],
                    "block {home}: {report:?}"
                );
            }
        }
        Err(e) => {
            assert_eq!(
                rig.disk.len(),
                0,
                "an error comes before the first write: {e}"
            );
            assert!(rig.disk.visible() == before);
        }
    }
    let blocks = rig.queue.stats().sectors_read / base::SECTORS_PER_BLOCK;
    assert!(blocks < 64 * u64::from(LOG), "{blocks} blocks read");
}

fn damage() -> impl Strategy<Value = Damage> {
    let block = || 1..16u32;
    prop_oneof![
        (block(), 0..BLOCK_BYTES, 1..=255u8)
            .prop_map(|(n, byte, bits)| Damage::Flip(n, byte, bits)),
        (block(), 0..0x60usize, 1..=255u8).prop_map(|(n, byte, bits)| Damage::Flip(n, byte, bits)),
        (block(), block()).prop_map(|(n, from)| Damage::Copy(n, from)),
        (block(), block(), any::<u8>()).prop_map(|(n, from, s)| Damage::Mix(n, from, s)),
        block().prop_map(Damage::Erase),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn damaged_logs_recover_to_a_prefix_or_not_at_all(
        recipes in prop::collection::vec(
            (0..3u8, prop::collection::vec((0..3u8, 40..48u64, 0..2000usize, 1..1500usize, any::<u8>()), 1..4)),
            1..5,
        ),
        damages in prop::collection::vec(damage(), 0..3),
    ) {
        check(&recipes, &damages);
    }
}
