//! What the formats of `ondisk` need from the facts of a directory: limits, checksums, kinds, and
//! the shape of a root.

use super::{DirFacts, Item};
use fscore::FileKind;
use ondisk::ext4::{
    DIR_ENTRY_MIN_BYTES, DIR_TAIL_BYTES, DirEntries, DirEntry, DirHash, DxBlock, DxEntry,
    DxRootInfo, DxShape, FileType, HashVersion, dir_checksum_with, dir_entry_bytes, dir_hash,
    put_dir_entry, put_dir_tail, set_dir_rec_len, update_dir_checksum, verify_dir_checksum,
};

/// Names leaves among the structures of directories, for [`DirRead::read_checked`].
///
/// [`DirRead::read_checked`]: super::DirRead::read_checked
pub const LEAF_FORM: u32 = 1;
/// Offset of the name in an entry.
pub(super) const NAME_AT: usize = 8;

/// Where the records of a leaf end.
pub(super) fn leaf_limit(facts: &DirFacts) -> usize {
    let tail = if facts.csum_seed.is_some() {
        DIR_TAIL_BYTES
    } else {
        0
    };
    facts.block_bytes - tail
}

/// A leaf without entries, not sealed.
pub(super) fn empty_leaf(facts: &DirFacts) -> Vec<u8> {
    let mut block = vec![0; facts.block_bytes];
    set_dir_rec_len(&mut block, 0, leaf_limit(facts));
    if facts.csum_seed.is_some() {
        put_dir_tail(&mut block);
    }
    block
}

/// Sets the checksum of a leaf.
pub(super) fn seal_leaf(facts: &DirFacts, block: &mut [u8]) {
    if let Some(seed) = facts.csum_seed {
        update_dir_checksum(seed, block);
    }
}

/// Place and value of the checksum of a leaf that has a right one, once these pieces are written
/// over it.
pub(super) fn seal_with(
    facts: &DirFacts,
    block: &[u8],
    pieces: &[(usize, &[u8])],
) -> Result<Option<(usize, [u8; 4])>, String> {
    match facts.csum_seed {
        Some(_) => dir_checksum_with(block, pieces)
            .map(Some)
            .map_err(|e| e.to_string()),
        None => Ok(None),
    }
}

/// Checks tail and checksum of a leaf.
pub(super) fn verify_leaf(facts: &DirFacts, block: &[u8]) -> Result<(), String> {
    match facts.csum_seed {
        Some(seed) => verify_dir_checksum(seed, block).map_err(|why| why.to_string()),
        None => Ok(()),
    }
}

/// The kind that an entry notes.
pub(super) fn kind(facts: &DirFacts, noted: FileType) -> Option<FileKind> {
    if !facts.has_file_type {
        return None;
    }
    Some(match noted {
        FileType::Unknown | FileType::Invalid => return None,
        FileType::Regular => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::CharDevice => FileKind::Char,
        FileType::BlockDevice => FileKind::Block,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::Symlink => FileKind::Symlink,
    })
}

/// What an entry notes for a kind.
pub(super) fn file_type(facts: &DirFacts, kind: FileKind) -> FileType {
    match facts.has_file_type {
        true => FileType::of_mode(kind.mode_bits()),
        false => FileType::Unknown,
    }
}

/// Writes a new entry.
pub(super) fn put_item(
    facts: &DirFacts,
    block: &mut [u8],
    offset: usize,
    rec_len: usize,
    item: &Item<'_>,
) {
    let noted = file_type(facts, item.kind);
    put_dir_entry(block, offset, rec_len, Some(item.ino), noted, item.name);
}

/// The hash of a name; `root` is the hash version that the root of the directory's tree names, if
/// it has a tree.
pub(super) fn name_hash(facts: &DirFacts, root: Option<HashVersion>, name: &[u8]) -> DirHash {
    let hash = dir_hash(
        root.unwrap_or(facts.hash),
        &facts.hash_seed,
        &facts.hashed(name),
    );
    #[cfg(test)]
    let hash = super::tests::coarse(facts.hash_seed, hash);
    hash
}

/// Checks checksum and shape of a root, `.` and `..` included.
pub(super) fn root_shape(facts: &DirFacts, block: &[u8]) -> Result<DxShape, String> {
    let mut entries = DirEntries::new(block);
    let mut expect = |name: &[u8], rec_len| match entries.next() {
        Some(Ok(entry))
            if entry.name == name && entry.ino.is_some() && entry.rec_len == rec_len =>
        {
            Ok(())
        }
        _ => Err(format!(
            "an index root holds \".\" and \"..\" alone, without \"{}\"",
            name.escape_ascii()
        )),
    };
    expect(b".", DIR_ENTRY_MIN_BYTES)?;
    expect(b"..", facts.block_bytes - DIR_ENTRY_MIN_BYTES)?;
    index_shape(facts, block, true)
}

/// Checks checksum and shape of an interior node.
pub(super) fn node_shape(facts: &DirFacts, block: &[u8]) -> Result<DxShape, String> {
    match looks_like_node(block) {
        true => index_shape(facts, block, false),
        false => Err("not an index block".into()),
    }
}

/// True if the block has the shape of an interior node.
pub(super) fn looks_like_node(block: &[u8]) -> bool {
    matches!(DirEntries::new(block).next(), Some(Ok(entry)) if entry.ino.is_none() && entry.rec_len == block.len())
}

fn index_shape(facts: &DirFacts, block: &[u8], is_root: bool) -> Result<DxShape, String> {
    if let Some(seed) = facts.csum_seed {
        DxBlock::verify_checksum(seed, is_root, block).map_err(|why| why.to_string())?;
    }
    let shape = if is_root {
        DxShape::of_root
    } else {
        DxShape::of_node
    };
    shape(block, facts.csum_seed.is_some()).map_err(|why| why.to_string())
}

/// The hash that a root names, with the signedness of the file system.
pub(super) fn root_hash(facts: &DirFacts, info: &DxRootInfo) -> Result<HashVersion, String> {
    HashVersion::from_code(info.hash_version)
        .filter(|&version| version == version.with_unsigned(false))
        .map(|version| version.with_unsigned(facts.hash != facts.hash.with_unsigned(false)))
        .ok_or_else(|| {
            format!(
                "hash version {} of the index root is not known",
                info.hash_version
            )
        })
}

/// Sets the checksum of an index block.
pub(super) fn seal_index(facts: &DirFacts, is_root: bool, block: &mut [u8]) {
    if let Some(seed) = facts.csum_seed {
        DxBlock::update_checksum(seed, is_root, block);
    }
}

/// Writes an index block over `block`, and seals it.
pub(super) fn put_index(facts: &DirFacts, block: &mut [u8], index: &DxBlock) {
    index.encode(block);
    seal_index(facts, index.root.is_some(), block);
}

/// A new interior node.
pub(super) fn new_node(facts: &DirFacts, entries: Vec<DxEntry>) -> Vec<u8> {
    let mut block = vec![0; facts.block_bytes];
    let limit = DxBlock::capacity(false, facts.block_bytes, facts.csum_seed.is_some());
    put_index(
        facts,
        &mut block,
        &DxBlock {
            root: None,
            limit,
            entries,
        },
    );
    block
}

/// A new root over one leaf.
pub(super) fn new_root(
    facts: &DirFacts,
    dot: &DirEntry<'_>,
    dotdot: &DirEntry<'_>,
    leaf: u32,
) -> Vec<u8> {
    let mut block = vec![0; facts.block_bytes];
    let first = DIR_ENTRY_MIN_BYTES;
    put_dir_entry(&mut block, 0, first, dot.ino, dot.file_type, dot.name);
    put_dir_entry(
        &mut block,
        first,
        facts.block_bytes - first,
        dotdot.ino,
        dotdot.file_type,
        dotdot.name,
    );
    let hash_version = facts.hash.with_unsigned(false).code();
    let root = Some(DxRootInfo {
        hash_version,
        levels: 0,
        flags: 0,
    });
    let limit = DxBlock::capacity(true, facts.block_bytes, facts.csum_seed.is_some());
    let entries = vec![DxEntry {
        hash: 0,
        block: leaf,
    }];
    put_index(
        facts,
        &mut block,
        &DxBlock {
            root,
            limit,
            entries,
        },
    );
    block
}

/// Bytes of an entry called `name`.
pub(super) fn item_bytes(name: &[u8]) -> usize {
    dir_entry_bytes(name.len())
}
