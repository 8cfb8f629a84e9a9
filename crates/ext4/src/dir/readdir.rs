//! Reading a directory in pieces, with cookies that stay valid (dir-I4).
//!
//! A hash tree, and a one-block directory that can become one, is read in the order of (major hash,
//! minor hash), as the kernel does: an entry keeps its hash wherever splits move it. Any other
//! directory is read in the order of its bytes, because there an entry never moves.

use super::htree::Path;
use super::leaf::Leaf;
use super::{DirRead, corrupt, is_dot, layout};
use base::Ino;
use fscore::{FileKind, FsResult};
use ondisk::ext4::{DirEntry, DirHash};

/// One entry as the directory has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawEntry {
    /// The inode.
    pub ino: Ino,
    /// Its kind; `None` without feature `filetype`.
    pub kind: Option<FileKind>,
    /// The name.
    pub name: Vec<u8>,
    /// Cookie of what comes after this entry, below 2^63.
    pub next: u64,
}

/// Entries from cookie `from` on (0: the start), `.` and `..` included; empty at the end. At most
/// `max`, unless more than `max` names share one hash in all its bits: those have one cookie and
/// come together.
///
/// # Errors
/// I/O errors; `Corrupt`.
pub fn read_entries(io: &dyn DirRead, from: u64, max: usize) -> FsResult<Vec<RawEntry>> {
    let mut out = Answer {
        entries: Vec::new(),
        from,
        max,
    };
    if max == 0 {
        return Ok(out.entries);
    }
    if io.is_indexed() {
        read_tree(io, &mut out)?;
    } else if io.facts().dir_index && io.block_count() == 1 {
        read_hashed_block(io, &mut out)?;
    } else {
        read_list(io, &mut out)?;
    }
    Ok(out.entries)
}

/// The entries gathered so far, and the limits of the answer.
struct Answer {
    entries: Vec<RawEntry>,
    from: u64,
    max: usize,
}

impl Answer {
    fn is_full(&self) -> bool {
        self.entries.len() >= self.max
    }
}

/// Cookies of `.` and `..` in hash order; names follow.
const DOT: u64 = 0;
const DOTDOT: u64 = 1;
const NAMES: u64 = 2;

/// The cookie of a name in hash order: bit 0 of a major hash is never set.
fn cookie(hash: DirHash) -> u64 {
    NAMES + (u64::from(hash.major >> 1) << 32 | u64::from(hash.minor))
}

/// The major hash from which a cookie goes on.
fn major(cookie: u64) -> u32 {
    ((cookie.saturating_sub(NAMES) >> 32) as u32) << 1
}

/// `.` and `..`.
fn read_dots(block: &Leaf, out: &mut Answer) -> FsResult<()> {
    for entry in block.entries()? {
        let at = match entry.name {
            b"." => DOT,
            b".." => DOTDOT,
            _ => continue,
        };
        if at >= out.from && !out.is_full() {
            out.entries.push(raw_entry(block, &entry, at + 1)?);
        }
    }
    Ok(())
}

/// Reads a one-block directory in hash order.
fn read_hashed_block(io: &dyn DirRead, out: &mut Answer) -> FsResult<()> {
    let block = Leaf::load(io, 0)?;
    read_dots(&block, out)?;
    let mut found = Vec::new();
    for entry in block.entries()? {
        if !is_dot(entry.name) {
            let hash = layout::name_hash(io.facts(), None, entry.name);
            gather(&block, &entry, hash, out.from, &mut found)?;
        }
    }
    emit(found, out);
    Ok(())
}

/// Reads a hash tree, a leaf and its continuations at a time.
fn read_tree(io: &dyn DirRead, out: &mut Answer) -> FsResult<()> {
    read_dots(&Leaf::load_root(io)?, out)?;
    let mut path = Path::probe(io, major(out.from))?;
    let mut begin = path.own_hash();
    let mut found = Vec::new();
    for _ in 0..io.block_count() {
        gather_leaf(io, &path, out.from, &mut found)?;
        let continued = path.next_hash().is_some_and(|next| next & 1 == 1);
        if !continued && !emit(std::mem::take(&mut found), out) {
            return Ok(());
        }
        if !path.advance(io)? {
            return Ok(());
        }
        let next = path.own_hash();
        if next < begin {
            return Err(corrupt(
                io.facts(),
                0,
                format!("index not sorted: {next:#x} after {begin:#x}"),
            ));
        }
        begin = next;
    }
    Err(corrupt(
        io.facts(),
        0,
        "the index has more leaves than the directory has blocks",
    ))
}

/// Collects the names of the path's leaf that come at or after cookie `from`.
fn gather_leaf(
    io: &dyn DirRead,
    path: &Path,
    from: u64,
    found: &mut Vec<RawEntry>,
) -> FsResult<()> {
    let leaf = path.load_leaf(io)?;
    for entry in leaf.entries()? {
        let Some(hash) = path.hash_here(io, entry.name) else {
            let hash = path.hash(io, entry.name).major;
            let what =
                format!("a name of hash {hash:#x} lies outside of the leaf's range in the index");
            return Err(leaf.corrupt(what));
        };
        gather(&leaf, &entry, hash, from, found)?;
    }
    Ok(())
}

fn gather(
    leaf: &Leaf,
    entry: &DirEntry<'_>,
    hash: DirHash,
    from: u64,
    found: &mut Vec<RawEntry>,
) -> FsResult<()> {
    let at = cookie(hash);
    if at >= from {
        found.push(raw_entry(leaf, entry, at + 1)?);
    }
    Ok(())
}

/// Hands over `found` in hash order; false when the answer is full. Names with one cookie stay
/// together, because no cookie could continue a call that ended between them.
fn emit(mut found: Vec<RawEntry>, out: &mut Answer) -> bool {
    found.sort_by(|a, b| (a.next, &a.name).cmp(&(b.next, &b.name)));
    for group in found.chunk_by(|a, b| a.next == b.next) {
        let fits = out.entries.len() + group.len() <= out.max;
        if !fits && !out.entries.is_empty() {
            return false;
        }
        out.entries.extend_from_slice(group);
    }
    !out.is_full()
}

/// Reads a directory in the order of its bytes; a cookie is an offset.
fn read_list(io: &dyn DirRead, out: &mut Answer) -> FsResult<()> {
    let block_bytes = io.facts().block_bytes as u64;
    let first = u32::try_from(out.from / block_bytes).unwrap_or(u32::MAX);
    for lblk in first..io.block_count() {
        let leaf = Leaf::load(io, lblk)?;
        let base = u64::from(lblk) * block_bytes;
        for entry in leaf.entries()? {
            let at = base + entry.offset as u64;
            if at < out.from {
                continue;
            }
            if out.is_full() {
                return Ok(());
            }
            out.entries
                .push(raw_entry(&leaf, &entry, at + entry.rec_len as u64)?);
        }
    }
    Ok(())
}

/// Makes an entry for the caller. A name with `/` or NUL in it is refused, because it would name
/// something else there.
fn raw_entry(leaf: &Leaf, entry: &DirEntry<'_>, next: u64) -> FsResult<RawEntry> {
    if entry.name.iter().any(|&b| b == b'/' || b == 0) {
        return Err(leaf.corrupt(format!(
            "a slash or a NUL in the name at byte {}",
            entry.offset
        )));
    }
    let ino = entry.ino.unwrap_or_default();
    Ok(RawEntry {
        ino,
        kind: leaf.kind(entry),
        name: entry.name.to_vec(),
        next,
    })
}
