//! dir-I5: damage of every kind ends in an error that names the place, or in an answer, never in a
//! panic or an endless loop.

use super::memory::{Memory, Setup, USUAL};
use crate::dir::{
    insert, is_empty, layout, lookup, parent, read_entries, remove, replace, set_parent,
};
use base::bytes::{put_le16, put_le32};
use base::{BLOCK_BYTES, Ino, Rng};
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::ext4::DxEntry;

const PLAIN: Setup = Setup {
    checksums: false,
    ..USUAL
};

fn filled(setup: Setup, names: u32) -> Memory {
    let mut dir = Memory::new(setup);
    for n in 0..names {
        insert(&mut dir, &name(n), Ino(20), FileKind::File).expect("inserts");
    }
    dir
}

fn name(n: u32) -> Vec<u8> {
    format!("a name with number {n:010}").into_bytes()
}

fn change(dir: &mut Memory, lblk: usize, change: impl FnOnce(&mut [u8])) {
    let mut block = dir.blocks[lblk].to_vec();
    change(&mut block);
    dir.blocks[lblk] = block.into();
}

/// Runs all operations on a copy; answers the text of the first error.
fn everything(dir: &Memory) -> Option<String> {
    let mut first = None;
    let mut note = |result: FsResult<()>| {
        if let Err(error @ FsError::Corrupt { .. }) = result {
            let text = error.to_string();
            assert!(
                text.contains("directory inode 12, block "),
                "names the place: {text}"
            );
            first.get_or_insert(text);
        }
    };
    let copy = || Memory {
        facts: dir.facts.clone(),
        blocks: dir.blocks.clone(),
        ..*dir
    };
    note(is_empty(dir).map(drop));
    note(parent(dir).map(drop));
    note(set_parent(&mut copy(), Ino(3)));
    let (mut cookie, mut pieces) = (0, 0);
    loop {
        let piece = read_entries(dir, cookie, 100);
        let last = piece
            .as_ref()
            .ok()
            .and_then(|piece| piece.last())
            .map(|entry| entry.next);
        note(piece.map(drop));
        let Some(next) = last else { break };
        assert!(next > cookie, "reading gets on");
        cookie = next;
        pieces += 1;
        assert!(pieces < 1000, "reading ends");
    }
    let mut changed = copy();
    for n in 0..40 {
        note(lookup(dir, &name(n * 17)).map(drop));
        note(replace(&mut changed, &name(n * 17), Ino(30), FileKind::File).map(drop));
        note(insert(
            &mut changed,
            &[n as u8 + 65; 200],
            Ino(30),
            FileKind::File,
        ));
        note(remove(&mut changed, &name(n * 13)).map(drop));
    }
    first
}

fn refused(dir: &Memory, place: &str, why: &str) {
    let text = everything(dir).unwrap_or_else(|| panic!("expected: {why}"));
    assert!(text.contains(place) && text.contains(why), "{text}");
}

#[test]
fn damaged_entries() {
    type Damage = fn(&mut [u8]);
    let cases: [(Damage, &str); 7] = [
        (|b| put_le16(b, 24 + 4, 0), "rec_len"),
        (|b| put_le16(b, 24 + 4, 8), "rec_len"),
        (|b| put_le16(b, 24 + 4, 35), "rec_len"),
        (|b| put_le16(b, 24 + 4, 4096), "passes the end"),
        (|b| b[24 + 6] = 255, "name"),
        (|b| b[24 + 6] = 0, "no name"),
        (|b| b[24 + 8] = b'/', "slash"),
    ];
    for (damage, why) in cases {
        for dir_index in [true, false] {
            let mut dir = filled(Setup { dir_index, ..PLAIN }, 20);
            assert_eq!(everything(&dir), None);
            change(&mut dir, 0, damage);
            refused(&dir, "inode 12, block 0", why);
        }
    }
}

#[test]
fn damaged_checksums() {
    let sound = filled(USUAL, 700);
    assert_eq!(everything(&sound), None);
    for lblk in 0..sound.blocks.len() {
        let mut dir = Memory {
            blocks: sound.blocks.clone(),
            facts: sound.facts.clone(),
            ..sound
        };
        change(&mut dir, lblk, |b| b[2000] ^= 1);
        // Of a root, the bytes beyond the index entries in use have no checksum.
        if lblk > 0 {
            refused(&dir, &format!("block {lblk}"), "checksum");
        }
        change(&mut dir, lblk, |b| b[2000] ^= 1);
        change(&mut dir, lblk, |b| b[BLOCK_BYTES - 1] ^= 1);
        refused(&dir, &format!("block {lblk}"), "checksum");
    }
}

fn with_root(dir: &mut Memory, edit: impl FnOnce(&mut ondisk::ext4::DxBlock)) {
    let shape = layout::root_shape(&dir.facts, &dir.blocks[0]).expect("whole");
    let mut root = shape.records(&dir.blocks[0]);
    edit(&mut root);
    let facts = dir.facts.clone();
    change(dir, 0, |block| layout::put_index(&facts, block, &root));
}

#[test]
fn damaged_roots() {
    let sound = || filled(PLAIN, 700);
    type Damage = fn(&mut [u8]);
    let cases: [(Damage, &str); 9] = [
        (|b| put_le16(b, 0x20, 509), "limit"),
        (|b| put_le16(b, 0x22, 509), "count"),
        (|b| put_le16(b, 0x22, 0), "count"),
        (|b| b[0x1C] = 6, "hash version"),
        (|b| b[0x1C] = 3, "hash version"),
        (|b| b[0x1D] = 9, "info_length"),
        (|b| b[0x1E] = 2, "levels"),
        (|b| put_le16(b, 12 + 4, 12), "index root"),
        (|b| put_le32(b, 0x24, 0), "points back"),
    ];
    for (damage, why) in cases {
        let mut dir = sound();
        change(&mut dir, 0, damage);
        refused(&dir, "inode 12, block 0", why);
    }
    let mut dir = sound();
    with_root(&mut dir, |root| root.entries[1].block = 1_000_000);
    refused(&dir, "block 1000000", "referred to");
    let mut dir = sound();
    with_root(&mut dir, |root| {
        root.entries[2].hash = root.entries[1].hash - 2
    });
    refused(&dir, "block 0", "order");
}

#[test]
fn leaf_in_the_place_of_another() {
    let mut dir = filled(USUAL, 700);
    with_root(&mut dir, |root| {
        root.entries[3].block = root.entries[1].block
    });
    refused(&dir, "block", "outside of the leaf's range");
}

/// An index that leads to one leaf again and again, with all its entries marked as one chain of
/// collisions.
#[test]
fn endless_chain() {
    let mut dir = filled(USUAL, 700);
    with_root(&mut dir, |root| {
        for entry in &mut root.entries[1..] {
            entry.hash = 1;
        }
        root.entries.resize(500, DxEntry { hash: 1, block: 2 });
    });
    let error = read_entries(&dir, 0, 10).expect_err("refused");
    assert_eq!(error.errno(), Errno::UClean);
    let mut dir = Memory::new(Setup {
        hash_mask: Some(0),
        ..USUAL
    });
    for n in 0..2000 {
        insert(&mut dir, &name(n), Ino(20), FileKind::File).expect("inserts");
    }
    with_root(&mut dir, |root| {
        root.entries.resize(500, DxEntry { hash: 1, block: 2 })
    });
    assert!(
        lookup(&dir, b"not there")
            .expect_err("refused")
            .to_string()
            .contains("more leaves")
    );
    assert!(
        read_entries(&dir, 0, usize::MAX)
            .expect_err("refused")
            .to_string()
            .contains("more leaves")
    );
}

#[test]
fn node_that_is_no_node() {
    let mut dir = filled(USUAL, 700);
    with_root(&mut dir, |root| {
        root.root.as_mut().expect("a root").levels = 1
    });
    refused(&dir, "block", "not an index block");
    let mut dir = filled(PLAIN, 700);
    let node = layout::new_node(&dir.facts, vec![DxEntry { hash: 0, block: 0 }]);
    dir.blocks[1] = node.into();
    with_root(&mut dir, |root| {
        root.root.as_mut().expect("a root").levels = 1
    });
    refused(&dir, "block 1", "points back");
}

/// Two leaves that have changed places: a split must not carry their names into the index.
#[test]
fn leaf_with_stray_names_is_not_split() {
    let mut dir = filled(USUAL, 700);
    with_root(&mut dir, |root| {
        let (a, b) = (root.entries[1].block, root.entries[3].block);
        (root.entries[1].block, root.entries[3].block) = (b, a);
    });
    let errors =
        (0..2000).filter_map(|n| insert(&mut dir, &name(5000 + n), Ino(20), FileKind::File).err());
    let mut errors = errors.map(|error| error.to_string()).peekable();
    assert!(errors.peek().is_some(), "both leaves fill up");
    assert!(
        errors.all(|text| text.contains("outside of the leaf's range")),
        "dir-I3"
    );
}

/// A node that begins again at the hashes of the node before it: reading must not go back.
#[test]
fn nodes_out_of_order() {
    let mut dir = filled(USUAL, 700);
    let root = layout::root_shape(&dir.facts, &dir.blocks[0])
        .expect("whole")
        .records(&dir.blocks[0]);
    let lblk = dir.blocks.len() as u32;
    let mut again = root.entries.clone();
    again[0].block = lblk;
    let mut empty = layout::empty_leaf(&dir.facts);
    layout::seal_leaf(&dir.facts, &mut empty);
    let first = layout::new_node(&dir.facts, root.entries);
    let second = layout::new_node(&dir.facts, again);
    dir.blocks
        .extend([empty, first, second].map(base::Bytes::from));
    with_root(&mut dir, |root| {
        root.root.as_mut().expect("a root").levels = 1;
        let last = DxEntry {
            hash: 0xFFFF_FF00,
            block: lblk + 2,
        };
        root.entries = vec![
            DxEntry {
                hash: 0,
                block: lblk + 1,
            },
            last,
        ];
    });
    let text = read_entries(&dir, 0, usize::MAX)
        .expect_err("refused")
        .to_string();
    assert!(text.contains("not sorted"), "{text}");
}

/// A leaf of unused records, each too small for the name, is packed, not split.
#[test]
fn leaf_of_small_unused_records() {
    let mut dir = filled(PLAIN, 700);
    for lblk in 1..dir.blocks.len() {
        change(&mut dir, lblk, |block| {
            block.fill(0);
            for at in (0..BLOCK_BYTES - 16).step_by(12) {
                put_le16(block, at + 4, 12);
            }
            put_le16(block, BLOCK_BYTES - 16 + 4, 16);
        });
    }
    let blocks = dir.blocks.len();
    insert(&mut dir, &[b'x'; 200], Ino(20), FileKind::File).expect("there is a lot of room");
    assert!(lookup(&dir, &[b'x'; 200]).expect("reads").is_some());
    assert_eq!(dir.blocks.len(), blocks);
}

#[test]
fn empty_of_blocks() {
    let mut dir = Memory::new(USUAL);
    dir.blocks.clear();
    assert!(is_empty(&dir).is_err());
    assert!(insert(&mut dir, b"x", Ino(20), FileKind::File).is_err());
    dir.indexed = true;
    assert!(lookup(&dir, b"x").is_err() && read_entries(&dir, 0, 10).is_err());
}

#[test]
fn random_damage() {
    let mut rng = Rng::named(1, "damage");
    for setup in [
        PLAIN,
        Setup {
            dir_index: false,
            ..PLAIN
        },
    ] {
        for names in [10, 400] {
            let sound = filled(setup, names);
            let mut found = 0;
            for _ in 0..40 {
                let mut dir = Memory {
                    blocks: sound.blocks.clone(),
                    facts: sound.facts.clone(),
                    ..sound
                };
                for _ in 0..=rng.below(4) {
                    let lblk = rng.below(dir.blocks.len() as u64) as usize;
                    // Most of the damage hits the heads of blocks, where the structure is.
                    let reach = if rng.one_in(2) {
                        64
                    } else {
                        BLOCK_BYTES as u64
                    };
                    let (at, byte) = (rng.below(reach) as usize, rng.next_u64() as u8);
                    change(&mut dir, lblk, |block| block[at] = byte);
                }
                found += u32::from(everything(&dir).is_some());
            }
            assert!(found > 5, "the damage is seen: {found}");
        }
    }
}
