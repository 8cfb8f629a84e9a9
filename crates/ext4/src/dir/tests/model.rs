//! Random operations on a directory, compared with a `BTreeMap`.

use super::memory::{DIR, Memory, PARENT, Setup, USUAL, setups};
use super::structure::check;
use crate::dir::{
    Found, Probe, find, insert, insert_at, is_empty, layout, lookup, parent, probe, read_entries,
    remove, remove_entry, replace, set_parent,
};
use base::{Ino, Rng};
use fscore::{Errno, FileKind, FsResult};
use ondisk::ext4::DxEntry;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, (Ino, FileKind)>;

fn random_name(rng: &mut Rng, space: u64, long: bool) -> Vec<u8> {
    let number = rng.below(space);
    let mut name = format!("n{number}").into_bytes();
    let wanted = if long {
        255
    } else {
        1 + (number * 7919 % 40) as usize
    };
    while name.len() < wanted {
        name.push(128 + (name.len() as u64 * number % 127) as u8);
    }
    name
}

fn errno<T: std::fmt::Debug>(result: FsResult<T>) -> Errno {
    result.expect_err("an error").errno()
}

fn step(dir: &mut Memory, model: &mut Model, rng: &mut Rng, name: Vec<u8>, growth: u64) {
    let known = model.get(&name).copied();
    let noted = |kind| {
        if dir.facts.has_file_type {
            Some(kind)
        } else {
            None
        }
    };
    let found = known.map(|(ino, kind)| Found {
        ino,
        kind: noted(kind),
    });
    let ino = Ino(20 + rng.below(1000) as u32);
    let kind = if rng.one_in(3) {
        FileKind::Dir
    } else {
        FileKind::Symlink
    };
    assert_eq!(lookup(dir, &name).expect("lookup"), found);
    match rng.below(growth) {
        0 => match found {
            Some(found) if ino.0.is_multiple_of(2) => {
                let entry = find(dir, &name).expect("reads").expect("there");
                assert_eq!(entry.found(), found);
                remove_entry(dir, entry).expect("removes");
            }
            Some(found) => assert_eq!(remove(dir, &name).expect("removes"), found),
            None => assert_eq!(errno(remove(dir, &name)), Errno::NoEnt),
        },
        1 => match found {
            Some(found) => {
                assert_eq!(replace(dir, &name, ino, kind).expect("replaces"), found);
                model.insert(name, (ino, kind));
                return;
            }
            None => assert_eq!(errno(replace(dir, &name, ino, kind)), Errno::NoEnt),
        },
        _ => {
            if found.is_none() {
                match probe(dir, &name).expect("reads") {
                    Probe::Free(place) if ino.0.is_multiple_of(2) => {
                        insert_at(dir, place, &name, ino, kind)
                    }
                    _ => insert(dir, &name, ino, kind),
                }
                .expect("inserts");
                model.insert(name, (ino, kind));
            }
            return;
        }
    }
    model.remove(&name);
}

fn compare(dir: &Memory, model: &Model) -> u8 {
    let (mut names, levels) = check(dir);
    names.sort();
    assert!(names.iter().eq(model.keys()), "the names of the model");
    assert_eq!(is_empty(dir).expect("reads"), model.is_empty());
    let listed = read_entries(dir, 0, usize::MAX).expect("lists");
    let mut listed: Vec<_> = listed
        .into_iter()
        .map(|entry| (entry.name, entry.ino))
        .collect();
    listed.sort();
    let mut expected: Vec<_> = model
        .iter()
        .map(|(name, (ino, _))| (name.clone(), *ino))
        .collect();
    expected.extend([(b".".to_vec(), DIR), (b"..".to_vec(), PARENT)]);
    expected.sort();
    assert_eq!(listed, expected);
    levels
}

fn run(setup: Setup, steps: u64, space: u64, long: bool) -> u8 {
    let mut dir = Memory::new(setup);
    let mut model = Model::new();
    let mut rng = Rng::named(steps, "dir model");
    for phase in [8, 3] {
        for _ in 0..steps {
            let name = random_name(&mut rng, space, long);
            step(&mut dir, &mut model, &mut rng, name, phase);
        }
        compare(&dir, &model);
    }
    let levels = compare(&dir, &model);
    assert!(
        model.len() as u64 > space / 4,
        "the test fills the directory: {}",
        model.len()
    );
    while let Some((name, _)) = model.pop_last() {
        remove(&mut dir, &name).expect("removes");
        if model.len().is_multiple_of(250) {
            compare(&dir, &model);
        }
    }
    assert!(is_empty(&dir).expect("reads"));
    levels
}

#[test]
fn agrees_with_a_map() {
    for setup in setups() {
        run(setup, 1200, 1000, false);
    }
}

#[test]
fn two_levels_of_index() {
    let mut dir = Memory::new(USUAL);
    let mut model = Model::new();
    for n in 0..6500 {
        let mut name = format!("{n}").into_bytes();
        name.resize(255, b'.');
        insert(&mut dir, &name, Ino(9), FileKind::File).expect("inserts");
        model.insert(name, (Ino(9), FileKind::File));
    }
    assert_eq!(
        compare(&dir, &model),
        1,
        "the root had to move its entries down"
    );
    let mut rng = Rng::named(1, "two levels");
    for _ in 0..1500 {
        let name = random_name(&mut rng, 3000, true);
        step(&mut dir, &mut model, &mut rng, name, 4);
    }
    assert_eq!(compare(&dir, &model), 1);
}

#[test]
fn dots() {
    for setup in setups() {
        let mut dir = Memory::new(setup);
        for n in 0..500 {
            let dot = lookup(&dir, b".").expect("reads").expect("is there");
            assert_eq!((dot.ino, parent(&dir).expect("reads")), (DIR, Ino(2 + n)));
            set_parent(&mut dir, Ino(3 + n)).expect("writes");
            insert(&mut dir, format!("x{n}").as_bytes(), Ino(9), FileKind::File).expect("inserts");
        }
        check(&dir);
        for name in [&b"."[..], b".."] {
            assert_eq!(
                errno(insert(&mut dir, name, Ino(9), FileKind::File)),
                Errno::Exist
            );
            assert_eq!(errno(remove(&mut dir, name)), Errno::Inval);
        }
    }
}

#[test]
fn impossible_names() {
    let mut dir = Memory::new(USUAL);
    let cases: [(&[u8], Errno); 4] = [
        (b"", Errno::Inval),
        (b"a/b", Errno::Inval),
        (b"a\0", Errno::Inval),
        (&[b'x'; 256], Errno::NameTooLong),
    ];
    for (name, why) in cases {
        assert_eq!(errno(insert(&mut dir, name, Ino(9), FileKind::File)), why);
        assert_eq!(errno(lookup(&dir, name)), why);
        assert_eq!(errno(remove(&mut dir, name)), why);
    }
}

#[test]
fn a_second_entry_of_a_name_is_refused() {
    // Where whole leaves collide, an insert looks only at the first of them: see `insert`.
    for setup in setups()
        .into_iter()
        .filter(|setup| setup.hash_mask.is_none())
    {
        let mut dir = Memory::new(setup);
        for n in 0..200 {
            let name = format!("some name {n}");
            insert(&mut dir, name.as_bytes(), Ino(9), FileKind::File).expect("inserts");
            assert_eq!(
                errno(insert(&mut dir, name.as_bytes(), Ino(9), FileKind::File)),
                Errno::Exist
            );
        }
    }
}

/// dir-I1: for every number of blocks that the disk may have, an insert that does not fit leaves a
/// whole directory with the old names.
#[test]
fn full_disk() {
    for setup in [
        USUAL,
        Setup {
            hash_mask: Some(0),
            ..USUAL
        },
        Setup {
            dir_index: false,
            ..USUAL
        },
    ] {
        let mut dir = Memory::new(setup);
        let mut model = Model::new();
        let mut refused = 0;
        for n in 0..6000u64 {
            let name = random_name(&mut Rng::named(n, "full"), 1 << 40, true);
            dir.space = dir.blocks.len();
            match insert(&mut dir, &name, Ino(9), FileKind::File) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.errno(), Errno::NoSpc);
                    assert_eq!(lookup(&dir, &name).expect("reads"), None);
                    if n < 60 || n % 128 == 0 {
                        compare(&dir, &model);
                    }
                    refused += 1;
                    // The space grows by one block at a time, so that each append of a step fails
                    // once.
                    dir.space += 1;
                    if insert(&mut dir, &name, Ino(9), FileKind::File).is_err() {
                        dir.space = usize::MAX;
                        insert(&mut dir, &name, Ino(9), FileKind::File).expect("room");
                    }
                }
            }
            model.insert(name, (Ino(9), FileKind::File));
            if n > 200 && (setup.hash_mask.is_some() || !setup.dir_index) {
                break;
            }
        }
        compare(&dir, &model);
        assert!(refused > 10);
    }
}

/// A tree whose root and nodes are full refuses an insert with an error.
#[test]
fn full_index() {
    let mut dir = Memory::new(USUAL);
    let mut n = 0u32;
    while dir.blocks.len() < 3 {
        insert(
            &mut dir,
            format!("{n:0200}").as_bytes(),
            Ino(9),
            FileKind::File,
        )
        .expect("inserts");
        n += 1;
    }
    // A full node over block 1, and a full root over the node; the other entries lie above all
    // hashes.
    let above = |n: u32| DxEntry {
        hash: 0xFF00_0000 + n * 2,
        block: 2,
    };
    let fill = |first, limit: u32| {
        std::iter::once(DxEntry {
            hash: 0,
            block: first,
        })
        .chain((1..limit).map(above))
        .collect()
    };
    let node = layout::new_node(&dir.facts, fill(1, 510));
    dir.blocks.push(node.into());
    let mut root = layout::root_shape(&dir.facts, &dir.blocks[0])
        .expect("whole")
        .records(&dir.blocks[0]);
    root.root.as_mut().expect("a root").levels = 1;
    root.entries = fill(3, 507);
    let mut block = dir.blocks[0].to_vec();
    layout::put_index(&dir.facts, &mut block, &root);
    dir.blocks[0] = block.into();
    let before = loop {
        let before = dir.blocks.clone();
        match insert(
            &mut dir,
            format!("{n:0200}").as_bytes(),
            Ino(9),
            FileKind::File,
        ) {
            Ok(()) => n += 1,
            Err(error) => {
                assert_eq!(error.errno(), Errno::NoSpc);
                break before;
            }
        }
        assert_eq!(dir.blocks.len(), 4, "nothing can be split");
    };
    assert_eq!(dir.blocks, before, "dir-I1: nothing changed");
}

/// What a search has found counts only while the blocks that it looked at are the same.
#[test]
fn a_place_that_has_changed_is_not_used() {
    for setup in setups() {
        let mut dir = Memory::new(setup);
        let put = |dir: &mut Memory, name: &[u8]| {
            insert(dir, name, Ino(9), FileKind::File).expect("inserts");
        };
        put(&mut dir, b"old");
        let taken = probe(&dir, b"old").expect("reads");
        let free = probe(&dir, b"new").expect("reads");
        let place = probe(&dir, b"new").expect("reads");
        assert!(taken.is_current(&dir).expect("reads") && free.is_current(&dir).expect("reads"));
        put(&mut dir, b"new");
        assert!(!taken.is_current(&dir).expect("reads") && !free.is_current(&dir).expect("reads"));
        let Probe::Free(place) = place else {
            panic!("it was free");
        };
        let late = insert_at(&mut dir, place, b"late", Ino(10), FileKind::File);
        late.expect("inserts elsewhere");
        let mut names = check(&dir).0;
        names.sort();
        assert_eq!(names, [&b"late"[..], b"new", b"old"]);
        // That a name is missing says nothing where other blocks were searched as well.
        (0..400).for_each(|n| put(&mut dir, format!("some name {n}").as_bytes()));
        assert!(dir.blocks.len() > 1);
        let free = probe(&dir, b"missing").expect("reads");
        assert!(!free.is_current(&dir).expect("reads"));
    }
}

/// Another task may remove the directory itself between two looks.
#[test]
fn what_a_removed_directory_had_is_not_current() {
    let mut dir = Memory::new(USUAL);
    insert(&mut dir, b"name", Ino(9), FileKind::File).expect("inserts");
    let taken = probe(&dir, b"name").expect("reads");
    dir.blocks.clear();
    assert!(!taken.is_current(&dir).expect("no damage"));
}

/// A name is wiped together with what another writer has left behind it in the record.
#[test]
fn what_lies_behind_a_name_is_wiped() {
    for victim in ["only", "second"] {
        let mut dir = Memory::new(USUAL);
        insert(&mut dir, b"only", Ino(9), FileKind::File).expect("inserts");
        insert(&mut dir, b"second", Ino(10), FileKind::File).expect("inserts");
        remove(&mut dir, b"second").expect("removes");
        let mut block = dir.blocks[0].to_vec();
        block[4000..4010].fill(0xAB);
        layout::seal_leaf(&dir.facts, &mut block);
        dir.blocks[0] = block.into();
        if victim == "second" {
            insert(&mut dir, b"second", Ino(10), FileKind::File).expect("inserts");
        }
        remove(&mut dir, victim.as_bytes()).expect("removes");
        assert_eq!(dir.blocks[0][4000..4010], [0; 10], "{victim}");
        check(&dir);
    }
}

/// dir-I2: a checksum that follows the changes would carry damage on.
#[test]
fn a_leaf_with_a_wrong_checksum_is_not_changed() {
    let mut dir = Memory::new(USUAL);
    insert(&mut dir, b"name", Ino(9), FileKind::File).expect("inserts");
    let mut block = dir.blocks[0].to_vec();
    block[3000] ^= 1;
    dir.blocks[0] = block.into();
    let damaged = dir.blocks.clone();
    assert!(insert(&mut dir, b"other", Ino(9), FileKind::File).is_err());
    assert!(remove(&mut dir, b"name").is_err());
    assert!(set_parent(&mut dir, Ino(7)).is_err());
    assert_eq!(dir.blocks, damaged);
}

/// An insert writes only what it changes: the entry, the length of the one before it, the checksum.
#[test]
fn small_writes() {
    let mut dir = Memory::new(USUAL);
    insert(&mut dir, b"first", Ino(9), FileKind::File).expect("inserts");
    dir.written = 0;
    insert(&mut dir, b"second", Ino(10), FileKind::File).expect("inserts");
    assert!((16..64).contains(&dir.written), "{} bytes", dir.written);
    dir.written = 0;
    remove(&mut dir, b"second").expect("removes");
    assert!((16..64).contains(&dir.written), "{} bytes", dir.written);
    assert!(
        !dir.blocks[0].windows(6).any(|bytes| bytes == b"second"),
        "the name is wiped"
    );
}
