//! Rings damaged anywhere: the transactions read from the tail on are a prefix of those written,
//! each unchanged, and a listing ends. Nothing panics. The bodies are plain functions, for any
//! fuzzer.

use super::record_tests::{Owned, records};
use super::*;
use crate::f2fs::{BLOCK_BYTES, Nid};
use proptest::collection::vec;
use proptest::prelude::*;
use std::convert::Infallible;

const RING: RingArea = RingArea {
    first: 0,
    blocks: 24,
};
const LIFE: u64 = 5;

/// What to do to a ring.
#[derive(Clone, Debug)]
enum Damage {
    /// Block, byte, bits.
    Flip(u32, usize, u8),
    /// This block becomes that one.
    Copy(u32, u32),
    /// Sectors of this one become those of that one.
    Mix(u32, u32, u8),
    /// The block is not written, or erased.
    Erase(u32),
}

fn damages() -> impl Strategy<Value = Damage> {
    let block = || 0..RING.blocks;
    prop_oneof![
        (block(), 0..BLOCK_BYTES, 1u8..).prop_map(|(a, at, bits)| Damage::Flip(a, at, bits)),
        (block(), block()).prop_map(|(a, b)| Damage::Copy(a, b)),
        (block(), block(), any::<u8>()).prop_map(|(a, b, mask)| Damage::Mix(a, b, mask)),
        block().prop_map(Damage::Erase),
    ]
}

fn block(image: &[u8], n: u32) -> &[u8] {
    let at = (n % RING.blocks) as usize * BLOCK_BYTES;
    &image[at..at + BLOCK_BYTES]
}

fn put(image: &mut [u8], n: u32, bytes: &[u8]) {
    let at = (n % RING.blocks) as usize * BLOCK_BYTES;
    image[at..at + BLOCK_BYTES].copy_from_slice(bytes);
}

fn harm(image: &mut [u8], damage: &Damage) {
    match *damage {
        Damage::Flip(n, at, bits) => image[n as usize * BLOCK_BYTES + at] ^= bits,
        Damage::Copy(to, from) => {
            let bytes = block(image, from).to_vec();
            put(image, to, &bytes);
        }
        Damage::Mix(to, from, mask) => {
            let (mut mixed, other) = (block(image, to).to_vec(), block(image, from).to_vec());
            for sector in (0..8).filter(|n| mask & 1 << n != 0) {
                let at = sector * 512..(sector + 1) * 512;
                mixed[at.clone()].copy_from_slice(&other[at]);
            }
            put(image, to, &mixed);
        }
        Damage::Erase(n) => put(image, n, &vec![0; BLOCK_BYTES]),
    }
}

fn transaction(incarnation: u64, epoch: u64, groups: &[Vec<Owned>]) -> Transaction {
    let mut t = Transaction {
        incarnation,
        epoch,
        ..Transaction::default()
    };
    for (n, group) in groups.iter().enumerate() {
        let mut bytes = Vec::new();
        group.iter().for_each(|r| r.record().encode(&mut bytes));
        let group = Group {
            ino: Nid(n as u32),
            generation: 1,
            records: group.len() as u32,
            bytes: &bytes,
        };
        t.descriptor.groups += put_group(&mut t.payload, &group);
        t.descriptor.records += group.records;
    }
    t
}

/// Writes transactions from `tail` on, as long as they fit; those that did.
fn write(image: &mut [u8], tail: u32, life: u64, epochs: &[Vec<Vec<Owned>>]) -> Vec<Transaction> {
    let (mut at, mut used, mut all) = (tail, 0, Vec::new());
    for (n, groups) in epochs.iter().enumerate() {
        let t = transaction(life, n as u64 + 1, groups);
        used += t.blocks();
        if used > RING.blocks {
            break;
        }
        for (n, block) in t.encode().chunks(BLOCK_BYTES).enumerate() {
            put(image, RING.step(at, n as u64), block);
        }
        at = RING.step(at, t.blocks().into());
        all.push(t);
    }
    all
}

/// The transactions from `tail` on.
fn chain(image: &[u8], tail: u32) -> Vec<Transaction> {
    let (mut at, mut used, mut all) = (tail, 0, Vec::new());
    while used < RING.blocks {
        let epoch = all.len() as u64 + 1;
        let Ok(mut assembly) = Assembly::begin(block(image, at), LIFE, epoch) else {
            break;
        };
        let blocks = assembly.blocks();
        let mut rest = (1..blocks.min(RING.blocks.into())).map(|n| RING.step(at, n));
        while assembly.missing() > 0 {
            let pushed = rest.next().map(|n| assembly.push(block(image, n)));
            if !matches!(pushed, Some(Ok(()))) {
                return all;
            }
        }
        let Ok(t) = assembly.finish() else { break };
        used += t.blocks();
        at = RING.step(at, blocks);
        all.push(t);
    }
    all
}

/// The body: a ring with an older life under it, damaged.
fn damaged_ring(old: &[Vec<Vec<Owned>>], new: &[Vec<Vec<Owned>>], tail: u32, harms: &[Damage]) {
    let mut image = vec![0; RING.blocks as usize * BLOCK_BYTES];
    write(&mut image, 0, LIFE - 1, old);
    let made = write(&mut image, tail, LIFE, new);
    assert!(chain(&image, tail) == made, "all of it, before the damage");
    harms.iter().for_each(|damage| harm(&mut image, damage));
    let found = chain(&image, tail);
    assert!(found.len() <= made.len() && found == made[..found.len()]);
    listed(&image, tail, &made);
}

/// The list covers each block, and has no whole transaction of this life that was not written so.
fn listed(image: &[u8], tail: u32, made: &[Transaction]) {
    let mut blocks = 0;
    let mut read = |n: u32| Ok::<_, Infallible>(block(image, n).to_vec());
    let done = list_ring(&RING, tail, &mut read, &mut |found| {
        blocks += found.blocks;
        assert!(!found.describe(None).to_string().is_empty());
        if let What::Transaction(t) = found.what {
            assert!(t.incarnation != LIFE || made.contains(&t));
        }
        Ok(())
    });
    assert!(done.is_ok() && (RING.blocks..2 * RING.blocks).contains(&blocks));
}

/// The body for bytes: records, groups and blocks as they come.
fn any_bytes(bytes: &[u8]) {
    for record in Records::new(bytes).flatten() {
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(Records::new(&again).next(), Some(Ok(record)));
        assert!(!record.to_string().is_empty());
    }
    for group in Groups::new(bytes).flatten() {
        assert!(group.iter().count() <= bytes.len() / 4 + 1);
    }
    let mut image = vec![0; RING.blocks as usize * BLOCK_BYTES];
    let len = bytes.len().min(image.len());
    image[..len].copy_from_slice(&bytes[..len]);
    assert!(chain(&image, 0).is_empty());
    listed(&image, 0, &[]);
}

fn epochs() -> impl Strategy<Value = Vec<Vec<Vec<Owned>>>> {
    vec(vec(vec(records(), 0..5), 0..5), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn damaged_rings(old in epochs(), new in epochs(), tail in 0..RING.blocks, harms in vec(damages(), 0..4)) {
        damaged_ring(&old, &new, tail, &harms);
    }

    #[test]
    fn bytes_that_are_no_ring(bytes in vec(any::<u8>(), 0..9000), tame in any::<bool>()) {
        let mut bytes = bytes;
        if tame && bytes.len() > 8 {
            bytes[..8].copy_from_slice(b"F2JB\x01\x00\x48\x00");
        }
        any_bytes(&bytes);
    }
}
