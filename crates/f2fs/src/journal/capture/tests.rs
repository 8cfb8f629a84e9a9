//! Tests that `redo(before, capture(before, after)) == after`, for what operations do and for
//! arbitrary bytes.

use super::Parts;
use super::redo;
use crate::journal::capture;
use ondisk::f2fs::journal::{Content, Record};
use ondisk::f2fs::{
    AllocType, BLOCK_BYTES, BlockAddr, Dentry, DentryLayout, FOOTER_AT, Features, FileType, Footer,
    INODE_NID_SLOT0, Inline, InodeFields, InodeName, Log, MODE_CHAR, MODE_DIR, MODE_REGULAR,
    MODE_SYMLINK, NODE_COLD, NODE_FSYNC, Nid, SegNo, XATTR_NODE_OFFSET, addr_slot0, clear, footer,
    put, room_for, set_addr, set_footer, set_nid_slot, set_target,
};
use proptest::prelude::*;

const INO: Nid = Nid(40);
const DIR: Nid = Nid(7);

fn features() -> Features {
    Features::EXTRA_ATTR | Features::FLEXIBLE_INLINE_XATTR | Features::INODE_CRTIME
}

fn node_of(nid: Nid, ofs: u32, cold: bool) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut footer = Footer {
        nid,
        ino: INO,
        flags: if cold { NODE_COLD } else { 0 },
        ..Footer::default()
    };
    footer.set_ofs_of_node(ofs);
    set_footer(&mut block, &footer);
    block
}

fn inode_fields(mode: u16, inline: Inline) -> InodeFields {
    InodeFields {
        mode,
        inline: inline | Inline::EXTRA_ATTR | Inline::XATTR,
        extra_isize: 36,
        inline_xattr_size: 50,
        links: 1,
        blocks: 1,
        name: InodeName::new(b"name").expect("short"),
        ..InodeFields::default()
    }
}

fn inode_of(mode: u16, inline: Inline) -> Vec<u8> {
    let mut block = node_of(INO, 0, mode != MODE_DIR);
    inode_fields(mode, inline).encode_into(&mut block, features());
    block
}

/// One of each kind.
fn blocks() -> Vec<Vec<u8>> {
    let none = Inline::NONE;
    vec![
        inode_of(MODE_REGULAR, none),
        inode_of(MODE_REGULAR, Inline::DATA),
        inode_of(MODE_DIR, Inline::DENTRY),
        inode_of(MODE_DIR, none),
        inode_of(MODE_SYMLINK, Inline::DATA),
        inode_of(MODE_CHAR, none),
        node_of(Nid(50), 1, true),
        node_of(Nid(50), 2, false),
        node_of(Nid(51), 3, true),
        node_of(Nid(52), XATTR_NODE_OFFSET, true),
    ]
}

/// What writing the block sets is as in `like`.
fn settled(block: &[u8], like: &[u8]) -> Vec<u8> {
    let mut block = block.to_vec();
    block[FOOTER_AT..].copy_from_slice(&like[FOOTER_AT..]);
    if footer(like).is_inode() && 4 * addr_slot0(like) >= 0x174 {
        block[0x170..0x174].copy_from_slice(&like[0x170..0x174]);
    }
    block
}

/// Captures, redoes, compares; the records as text.
fn check_node(before: &[u8], after: &[u8]) -> Vec<String> {
    let foot = footer(after);
    let mut seen = Vec::new();
    let mut redone = before.to_vec();
    let mut twice = Vec::new();
    for _ in 0..2 {
        let mut scratch = before.to_vec();
        seen.clear();
        capture::node(&mut scratch, after, Parts::ALL, features(), &mut |record| {
            let done = redo::node(&mut redone, foot.nid, foot.ino, features(), record);
            assert!(done.expect("it fits"), "{record:?}");
            seen.push(format!("{record:?}"));
        });
        assert_eq!(settled(&redone, after), after, "{seen:?}");
        twice.push(redone.clone());
    }
    assert_eq!(twice[0], twice[1], "f2fs-journal-I5");
    seen
}

fn check_dir_block(before: &[u8], after: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut redone = before.to_vec();
    for _ in 0..2 {
        let mut scratch = before.to_vec();
        seen.clear();
        capture::dir_block(&mut scratch, after, Parts::ALL, (DIR, 3), &mut |record| {
            let done = redo::dir_block(&mut redone, DIR, 3, record);
            assert!(done.expect("it fits"), "{record:?}");
            let other = redo::dir_block(&mut redone, DIR, 4, record);
            assert!(!other.expect("another page"), "{record:?}");
            seen.push(format!("{record:?}"));
        });
        assert_eq!(redone, after, "{seen:?}");
    }
    seen
}

/// The chunks that differ, and what is kept of the block before: no more than those, and garbage in
/// the others.
fn parts_of(before: &[u8], after: &[u8]) -> (Parts, Vec<u8>) {
    let (mut parts, mut kept) = (Parts::NONE, vec![0xA5; BLOCK_BYTES]);
    for bytes in (0..BLOCK_BYTES).step_by(64).map(|at| at..at + 64) {
        if before[bytes.clone()] != after[bytes.clone()] {
            kept[bytes.clone()].copy_from_slice(&before[bytes.clone()]);
            parts = parts.and(bytes);
        }
    }
    (parts, kept)
}

fn check_node_parts(before: &[u8], after: &[u8]) {
    let (parts, mut kept) = parts_of(before, after);
    let foot = footer(after);
    let mut redone = before.to_vec();
    capture::node_in_parts(&mut kept, after, parts, None, features(), &mut |record| {
        let done = redo::node(&mut redone, foot.nid, foot.ino, features(), record);
        assert!(done.expect("it fits"), "{record:?}");
    });
    assert!(settled(&redone, after) == after, "{foot:?}");
}

fn check_dir_parts(before: &[u8], after: &[u8]) {
    let (parts, mut kept) = parts_of(before, after);
    let mut redone = before.to_vec();
    let page = (DIR, 3);
    capture::dir_block_in_parts(&mut kept, after, parts, page, None, &mut |record| {
        let done = redo::dir_block(&mut redone, DIR, 3, record);
        assert!(done.expect("it fits"), "{record:?}");
    });
    assert!(redone == after, "a page");
}

#[test]
#[should_panic(expected = "more than the parts")]
fn a_change_beside_its_parts_is_noticed() {
    let mut before = inode_of(MODE_REGULAR, Inline::NONE);
    let mut after = before.clone();
    after[8] = 9;
    let at = 4 * addr_slot0(&after) + 400;
    after[at] = 1;
    let parts = Parts::of_fields();
    capture::node(&mut before, &after, parts, features(), &mut |_| ());
}

fn kinds(seen: &[String]) -> Vec<&str> {
    seen.iter()
        .map(|s| s.split([' ', '{']).next().unwrap_or(s))
        .collect()
}

#[test]
fn what_did_not_change_is_not_logged() {
    for block in blocks() {
        assert!(check_node(&block, &block).is_empty());
        let mut written = block.clone();
        let mut foot = footer(&block);
        (foot.cp_ver, foot.next) = (77, BlockAddr(4711));
        foot.set(NODE_FSYNC, true);
        set_footer(&mut written, &foot);
        if foot.is_inode() {
            written[0x170..0x174].fill(9);
        }
        assert!(check_node(&block, &written).is_empty(), "{foot:?}");
    }
}

#[test]
fn a_change_is_the_record_that_describes_it() {
    let all = blocks();
    let [
        file,
        small,
        dir,
        big_dir,
        link,
        _,
        direct,
        _,
        indirect,
        xattr,
    ] = &all[..]
    else {
        unreachable!("ten of them")
    };
    let change = |block: &[u8], edit: &dyn Fn(&mut [u8])| {
        let mut after = block.to_vec();
        edit(&mut after);
        let seen = check_node(block, &after);
        kinds(&seen).join(" ")
    };
    let fields = |links| InodeFields {
        links,
        size: 8192,
        ..inode_fields(MODE_REGULAR, Inline::NONE)
    };
    let encode = |b: &mut [u8]| fields(2).encode_into(b, features());
    assert_eq!(change(file, &encode), "InodeAttr");
    let run = |b: &mut [u8]| (0..9).for_each(|n| set_addr(b, 200 + n, BlockAddr(70 + n as u32)));
    assert_eq!(change(direct, &run), "MapRun");
    assert_eq!(change(file, &run), "MapRun");
    assert_eq!(change(big_dir, &run), "MapRun");
    let two = |b: &mut [u8]| (0..2).for_each(|n| set_addr(b, 900 + n, BlockAddr(70)));
    assert_eq!(change(direct, &two), "MapRun MapRun", "not neighbours");
    let new = |b: &mut [u8]| (0..400).for_each(|n| set_addr(b, 300 + n, BlockAddr::NEW));
    assert_eq!(change(direct, &new), "MapRun");
    let child = |b: &mut [u8]| set_nid_slot(b, 500, Nid(99));
    assert_eq!(change(indirect, &child), "NodePtr");
    let root = |b: &mut [u8]| set_nid_slot(b, INODE_NID_SLOT0 + 4, Nid(99));
    assert_eq!(change(file, &root), "NodePtr");
    let text = |b: &mut [u8]| b[0x200..0x220].fill(b'x');
    assert_eq!(change(small, &text), "Bytes");
    assert_eq!(change(link, &text), "Bytes");
    assert_eq!(change(xattr, &text), "Bytes");
    let layout = inode_fields(MODE_DIR, Inline::DENTRY).inline_dentry_layout();
    let name = [b'n'; 255];
    let entry = Dentry {
        hash: 5,
        ino: Nid(11),
        kind: FileType::Regular,
        name: &name,
    };
    let insert = |b: &mut [u8]| put(b, &layout, 3, &entry);
    assert_eq!(change(dir, &insert), "DentSet");
}

#[test]
fn inline_data_that_moves_out_leaves_holes() {
    let mut before = inode_of(MODE_REGULAR, Inline::DATA);
    before[0x190..0xE00].fill(7);
    let mut after = inode_of(MODE_REGULAR, Inline::NONE);
    set_addr(&mut after, addr_slot0(&before), BlockAddr::NEW);
    let seen = check_node(&before, &after);
    assert_eq!(kinds(&seen), ["InodeAttr", "MapRun", "MapRun"], "{seen:?}");
}

#[test]
fn entries_of_a_directory_block() {
    let layout = DentryLayout::BLOCK;
    let empty = vec![0; BLOCK_BYTES];
    let entry = |name| Dentry {
        hash: 5,
        ino: Nid(11),
        kind: FileType::Regular,
        name,
    };
    let long = [b'l'; 255];
    let mut block = empty.clone();
    put(&mut block, &layout, 4, &entry(&long));
    assert_eq!(kinds(&check_dir_block(&empty, &block)), ["DentSet"]);
    let mut moved = block.clone();
    set_target(&mut moved, &layout, 4, Nid(12), FileType::Fifo);
    assert_eq!(kinds(&check_dir_block(&block, &moved)), ["DentIno"]);
    let mut gone = moved.clone();
    clear(&mut gone, &layout, 4);
    assert_eq!(kinds(&check_dir_block(&moved, &gone)), ["DentClear"]);
    // What was there still lies in the block.
    let mut again = gone.clone();
    put(&mut again, &layout, 4, &entry(b"short"));
    put(&mut again, &layout, 5, &entry(b"another one"));
    let seen = check_dir_block(&gone, &again);
    assert_eq!(kinds(&seen), ["DentSet", "DentSet"]);
    // A long name over two short ones: what lies in their entries is bytes.
    put(&mut gone, &layout, 4, &entry(&long));
    assert_eq!(kinds(&check_dir_block(&again, &gone))[0], "DentSet");
}

#[test]
fn a_new_node_comes_from_its_records_alone() {
    for mut after in blocks() {
        let foot = footer(&after);
        let mut redone = vec![0xA5; BLOCK_BYTES];
        let mut scratch = vec![0x5A; BLOCK_BYTES];
        after[0xF00..0xF10].fill(3);
        let mut seen = Vec::new();
        capture::new_node(&mut scratch, &after, 3, features(), &mut |record| {
            let done = redo::node(&mut redone, foot.nid, foot.ino, features(), record);
            assert!(done.expect("it fits"), "{record:?}");
            seen.push(format!("{record:?}"));
        });
        assert_eq!(settled(&redone, &after), after);
        assert_eq!(kinds(&seen)[0], "NodeNew");
        if foot.is_inode() {
            assert_eq!(kinds(&seen)[1], "InodeNew");
        }
    }
}

/// An edit that some operation might make, or none would.
#[derive(Clone, Debug)]
enum Edit {
    Bytes(usize, Vec<u8>),
    Words(usize, usize, u32, bool),
    Attr(u32, u64),
    Put(Vec<u8>, u32),
    Clear(usize),
    Target(usize, u32),
}

fn edit() -> impl Strategy<Value = Edit> {
    let bytes = (0..FOOTER_AT, prop::collection::vec(any::<u8>(), 1..40));
    let special = prop_oneof![Just(0), Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()];
    let words = (0..1013usize, 1..60usize, special, any::<bool>());
    prop_oneof![
        bytes.prop_map(|(at, b)| Edit::Bytes(at, b)),
        words.prop_map(|(at, n, a, up)| Edit::Words(at, n, a, up)),
        (any::<u32>(), any::<u64>()).prop_map(|(links, size)| Edit::Attr(links, size)),
        (prop::collection::vec(any::<u8>(), 1..255), any::<u32>())
            .prop_map(|(name, ino)| Edit::Put(name, ino)),
        (0..214usize).prop_map(Edit::Clear),
        (0..214usize, any::<u32>()).prop_map(|(slot, ino)| Edit::Target(slot, ino)),
    ]
}

fn apply(block: &mut [u8], end: usize, layout: Option<&DentryLayout>, edit: &Edit) {
    match edit {
        Edit::Bytes(at, bytes) => {
            let to = end.min(at + bytes.len());
            block[*at..to].copy_from_slice(&bytes[..to - at]);
        }
        Edit::Words(at, n, first, up) => {
            for i in 0..(*n).min(end / 4 - at) {
                let addr = if *up {
                    first.wrapping_add(i as u32)
                } else {
                    *first
                };
                set_addr(block, at + i, BlockAddr(addr));
            }
        }
        Edit::Attr(links, size) => {
            if let Ok(mut fields) = InodeFields::parse(block, features())
                && end < BLOCK_BYTES
                && footer(block).is_inode()
            {
                (fields.links, fields.size) = (*links, *size);
                fields.encode_into(block, features());
            }
        }
        Edit::Put(name, ino) => {
            if let Some(l) = layout
                && let Some(slot) = room_for(block, l, name.len())
            {
                let (ino, kind) = (Nid(*ino), FileType::Regular);
                let hash = ino.0.rotate_left(7);
                let dentry = Dentry {
                    hash,
                    ino,
                    kind,
                    name,
                };
                put(block, l, slot, &dentry);
            }
        }
        Edit::Clear(slot) => {
            if let Some(l) = layout {
                clear(block, l, slot % l.max);
            }
        }
        Edit::Target(slot, ino) => {
            if let Some(l) = layout {
                set_target(block, l, slot % l.max, Nid(*ino), FileType::Fifo);
            }
        }
    }
}

fn layout_of(block: &[u8]) -> Option<DentryLayout> {
    let fields = InodeFields::parse(block, features()).ok()?;
    let inode = footer(block).is_inode() && fields.inline.has(Inline::DENTRY);
    inode.then(|| fields.inline_dentry_layout())
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        Just(Content::InlineData),
        Just(Content::XattrNode),
        Just(Content::Node),
        Just(Content::Dentries),
    ]
}

/// Any record; `data` is what it holds.
fn hostile(which: u8, words: [u32; 4], content: Content, data: &[u8]) -> Record<'_> {
    let [a, b, c, d] = words;
    let (slot, count) = (b as u16, c as u16);
    let block = if d & 1 == 0 { Record::INLINE } else { 3 };
    let kind = FileType::Regular;
    let mask = if d & 4 == 0 { a } else { b & 0x1FF_FFFF };
    match which % 12 {
        0 => Record::InodeNew {
            mask,
            fields: data,
            name: data,
        },
        1 => Record::InodeAttr { mask, fields: data },
        2 => Record::DentSet {
            block,
            slot,
            hash: a,
            ino: Nid(c),
            kind,
            name: data,
        },
        3 => Record::DentClear {
            block,
            slot,
            slots: c as u8,
        },
        4 => Record::DentIno {
            block,
            slot,
            kind,
            ino: Nid(a),
        },
        5 => Record::MapRun {
            nid: INO,
            slot,
            count,
            addr: BlockAddr(a),
            dir: false,
        },
        6 => Record::NodeNew {
            nid: INO,
            ofs: a,
            cold: true,
            version: 0,
        },
        7 => Record::NodePtr {
            parent: INO,
            slot,
            child: Nid(a),
        },
        8 => Record::Head {
            log: Log::HotData,
            alloc: AllocType::Lfs,
            seg: SegNo(a),
            next: slot,
        },
        _ => Record::Bytes {
            content,
            nid: if d & 2 == 0 { INO } else { DIR },
            at: slot,
            bytes: data,
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn edits_come_back(
        which in 0..10usize,
        first in prop::collection::vec(edit(), 0..20),
        then in prop::collection::vec(edit(), 0..8),
    ) {
        let mut before = blocks().swap_remove(which);
        let layout = layout_of(&before);
        let run = |block: &mut Vec<u8>, edits: &[Edit]| {
            for edit in edits {
                // Fields stay sane most of the time: an odd layout is another test's.
                if let Edit::Bytes(at, _) | Edit::Words(at, ..) = edit
                    && *at < 0x190
                    && which < 6
                    && !edits.len().is_multiple_of(4)
                {
                    continue;
                }
                apply(block, FOOTER_AT, layout.as_ref(), edit);
            }
        };
        run(&mut before, &first);
        let mut after = before.clone();
        run(&mut after, &then);
        check_node(&before, &after);
        check_node_parts(&before, &after);
    }

    #[test]
    fn any_bytes_come_back(which in 0..10usize, seed in any::<u64>(), part in 1..4096usize) {
        let template = blocks().swap_remove(which);
        let mut rng = base::Rng::named(seed, "any bytes");
        let mut fill = |from: usize| {
            let mut block = template.clone();
            for b in &mut block[from..FOOTER_AT] {
                *b = rng.below(256) as u8;
            }
            block
        };
        let before = fill(if seed & 1 == 0 { 0 } else { 0x190 });
        let mut after = fill(if seed & 1 == 0 { 0 } else { 0x190 });
        let part = part.min(FOOTER_AT);
        after[part..FOOTER_AT].copy_from_slice(&before[part..FOOTER_AT]);
        check_node(&before, &after);
        check_dir_block(&before, &after);
        check_node_parts(&before, &after);
        check_dir_parts(&before, &after);
    }

    #[test]
    fn entries_come_back(
        first in prop::collection::vec(edit(), 0..40),
        then in prop::collection::vec(edit(), 0..8),
    ) {
        let layout = DentryLayout::BLOCK;
        let mut before = vec![0; BLOCK_BYTES];
        first.iter().for_each(|e| apply(&mut before, BLOCK_BYTES, Some(&layout), e));
        let mut after = before.clone();
        then.iter().for_each(|e| apply(&mut after, BLOCK_BYTES, Some(&layout), e));
        check_dir_block(&before, &after);
        check_dir_parts(&before, &after);
    }

    #[test]
    fn hostile_records(
        which in 0..10usize,
        odd in prop::collection::vec(edit(), 0..4),
        records in prop::collection::vec((any::<u8>(), any::<[u32; 4]>(), content(), prop::collection::vec(any::<u8>(), 0..300), any::<bool>()), 1..20),
    ) {
        let mut block = blocks().swap_remove(which);
        odd.iter().for_each(|e| apply(&mut block, BLOCK_BYTES, None, e));
        for (kind, mut words, content, data, small) in records {
            if small {
                words.iter_mut().for_each(|w| *w &= 0x3FF);
            }
            let record = hostile(kind, words, content, &data);
            let foot = footer(&block);
            for (nid, ino) in [(foot.nid, foot.ino), (INO, INO), (DIR, INO)] {
                // One of another owner may have been redone just now.
                let was = block.clone();
                if redo::node(&mut block, nid, ino, features(), &record).is_err()
                    && !matches!(record, Record::InodeNew { .. } | Record::InodeAttr { .. })
                {
                    prop_assert!(block == was || footer(&was) != footer(&block));
                }
            }
            let _ = redo::dir_block(&mut block, DIR, 3, &record);
            let _ = redo::node(&mut block[..100], INO, INO, features(), &record);
        }
    }
}
