//! dir-I4: reading in small pieces while the directory changes.

use super::memory::{Memory, Setup, USUAL, setups};
use crate::dir::{insert, read_entries, remove};
use base::{Ino, Rng};
use fscore::FileKind;
use std::collections::{BTreeMap, BTreeSet};

fn name(n: u64) -> Vec<u8> {
    format!("entry number {n} of a directory that is being read").into_bytes()
}

/// Reads everything in pieces of `max`, with `between` called after each piece.
fn scan(
    dir: &mut Memory,
    max: usize,
    mut between: impl FnMut(&mut Memory),
) -> BTreeMap<Vec<u8>, usize> {
    let mut seen = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let piece = read_entries(dir, cookie, max).expect("reads");
        let Some(last) = piece.last() else {
            return seen;
        };
        assert!(last.next > cookie, "reading gets on");
        assert!(i64::try_from(last.next).is_ok(), "a cookie fits off_t");
        cookie = last.next;
        for entry in piece {
            *seen.entry(entry.name).or_insert(0) += 1;
        }
        between(dir);
    }
}

/// An entry that exists from the beginning to the end of a scan is seen exactly once, whatever
/// other entries come and go.
fn churn(setup: Setup, start: u64, max: usize) {
    let mut dir = Memory::new(setup);
    let stay: BTreeSet<Vec<u8>> = (0..start).map(name).collect();
    for name in &stay {
        insert(&mut dir, name, Ino(20), FileKind::File).expect("inserts");
    }
    let mut rng = Rng::named(start, "churn");
    let (mut next, mut guests) = (start, Vec::new());
    let seen = scan(&mut dir, max, |dir| {
        for _ in 0..3 {
            if next < start + 1500 {
                insert(dir, &name(next), Ino(21), FileKind::File).expect("inserts");
                guests.push(next);
                next += 1;
            }
            if guests.len() > 20 && rng.one_in(2) {
                let gone = guests.swap_remove(rng.below(guests.len() as u64) as usize);
                remove(dir, &name(gone)).expect("removes");
            }
        }
    });
    for name in &stay {
        assert_eq!(seen.get(name), Some(&1), "{}", name.escape_ascii());
    }
    assert_eq!(
        (seen.get(&b"."[..]), seen.get(&b".."[..])),
        (Some(&1), Some(&1))
    );
    assert!(next > start + 10 && seen.values().all(|&times| times == 1));
}

#[test]
fn entries_that_stay_are_seen_once() {
    for setup in setups() {
        for (start, max) in [(30, 1), (30, 7), (600, 16)] {
            churn(setup, start, max);
        }
    }
}

#[test]
fn removing_while_reading_empties_the_directory() {
    for setup in setups() {
        let mut dir = Memory::new(setup);
        for n in 0..300 {
            insert(&mut dir, &name(n), Ino(20), FileKind::File).expect("inserts");
        }
        let (mut cookie, mut removed) = (0, 0);
        loop {
            let piece = read_entries(&dir, cookie, 10).expect("reads");
            let Some(last) = piece.last() else { break };
            cookie = last.next;
            for entry in piece.iter().filter(|entry| entry.name.len() > 2) {
                remove(&mut dir, &entry.name).expect("removes");
                removed += 1;
            }
        }
        assert_eq!(removed, 300);
    }
}

#[test]
fn pieces_are_not_larger_than_wanted() {
    for setup in [
        USUAL,
        Setup {
            dir_index: false,
            ..USUAL
        },
    ] {
        let mut dir = Memory::new(setup);
        for n in 0..300 {
            insert(&mut dir, &name(n), Ino(20), FileKind::File).expect("inserts");
        }
        for max in [0, 1, 2, 3, 50, 302, 1000] {
            assert_eq!(
                read_entries(&dir, 0, max).expect("reads").len(),
                max.min(302)
            );
        }
        let end = read_entries(&dir, 0, 1000)
            .expect("reads")
            .last()
            .expect("many")
            .next;
        assert_eq!(read_entries(&dir, end, 10).expect("reads"), []);
        assert_eq!(read_entries(&dir, u64::MAX, 10).expect("reads"), []);
    }
}
