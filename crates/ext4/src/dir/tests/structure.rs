//! Checks the whole structure of a directory as `e2fsck` would; shares no code with the operations
//! but the byte formats.

use super::memory::Memory;
use crate::dir::layout;
use base::BLOCK_BYTES;
use ondisk::ext4::DirEntries;

/// Checks the directory; answers its names (without `.` and `..`) and the levels of its index.
pub fn check(dir: &Memory) -> (Vec<Vec<u8>>, u8) {
    let mut names = Vec::new();
    if !dir.indexed {
        for (lblk, block) in dir.blocks.iter().enumerate() {
            for (n, name) in leaf_names(dir, block).into_iter().enumerate() {
                match (lblk, n) {
                    (0, 0) => assert_eq!(name, b"."),
                    (0, 1) => assert_eq!(name, b".."),
                    _ => names.push(name),
                }
            }
        }
        return (names, 0);
    }
    let root = layout::root_shape(&dir.facts, &dir.blocks[0])
        .expect("a whole root")
        .records(&dir.blocks[0]);
    let levels = root.root.expect("a root").levels;
    let mut leaves = Vec::new();
    let mut seen = vec![0u32];
    for (n, entry) in root.entries.iter().enumerate() {
        seen.push(entry.block);
        let begin = if n == 0 { 0 } else { entry.hash };
        if levels == 0 {
            leaves.push((begin, entry.block));
            continue;
        }
        let node = layout::node_shape(&dir.facts, &dir.blocks[entry.block as usize])
            .expect("a whole node")
            .records(&dir.blocks[entry.block as usize]);
        for (m, below) in node.entries.iter().enumerate() {
            seen.push(below.block);
            leaves.push((if m == 0 { begin } else { below.hash }, below.block));
        }
    }
    seen.sort_unstable();
    assert_eq!(
        seen,
        (0..dir.blocks.len() as u32).collect::<Vec<_>>(),
        "each block is referred to once"
    );
    for (n, &(begin, block)) in leaves.iter().enumerate() {
        let end = leaves.get(n + 1).map(|next| next.0);
        assert!(
            end.is_none_or(|end| end & !1 >= begin & !1),
            "leaves in order of their hash"
        );
        assert!(
            end.is_none_or(|end| end & 1 == 1 || end & !1 > begin & !1),
            "equal hashes only as continuation"
        );
        for name in leaf_names(dir, &dir.blocks[block as usize]) {
            let hash = layout::name_hash(&dir.facts, None, &name).major;
            assert!(hash >= begin & !1, "dir-I3: below the range");
            assert!(
                end.is_none_or(|end| hash < end & !1 || (end & 1 == 1 && hash == end & !1)),
                "dir-I3: above the range"
            );
            names.push(name);
        }
    }
    (names, levels)
}

fn leaf_names(dir: &Memory, block: &[u8]) -> Vec<Vec<u8>> {
    layout::verify_leaf(&dir.facts, block).expect("dir-I2: checksum");
    let limit = layout::leaf_limit(&dir.facts);
    assert_eq!(block.len(), BLOCK_BYTES);
    let entries = DirEntries::new(&block[..limit]).map(|entry| entry.expect("a whole leaf"));
    entries
        .filter(|entry| entry.ino.is_some())
        .map(|entry| entry.name.to_vec())
        .collect()
}

#[test]
fn the_walk_sees_a_stray_name() {
    use super::memory::{Memory, USUAL};
    let mut dir = Memory::new(USUAL);
    for n in 0..600 {
        let name = format!("file {n}");
        crate::dir::insert(
            &mut dir,
            name.as_bytes(),
            base::Ino(20),
            fscore::FileKind::File,
        )
        .expect("room");
    }
    check(&dir);
    let mut root = layout::root_shape(&dir.facts, &dir.blocks[0])
        .expect("whole")
        .records(&dir.blocks[0]);
    let middle = root.entries.len() / 2;
    root.entries[middle].hash += 0x0100_0000;
    let mut block = dir.blocks[0].to_vec();
    layout::put_index(&dir.facts, &mut block, &root);
    dir.blocks[0] = block.into();
    assert!(std::panic::catch_unwind(|| check(&dir)).is_err());
}
