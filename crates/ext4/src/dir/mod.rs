//! Directories: linear and hash-tree (HTree), over a small view of the directory's blocks.
//!
//! The operations know blocks by their logical number inside the directory and change them through
//! [`DirIo`] only, so the same code runs over an inode inside a journal handle and over a vector of
//! blocks in a test. Sources: kernel documentation `filesystems/ext4/directory.rst`; Cao et al.,
//! "Directory Indexing in the ext3 File System".
//!
//! Invariants:
//! - I1: an operation that returns an error which does not come from `DirIo` itself has changed
//!   nothing, or has left a directory that is whole (an index block was split, the leaf was not).
//!   `append` is called before the first write of a step, so that a full disk is such an error.
//! - I2: every block that is written carries its checksum (leaf tail or index tail) when the file
//!   system has metadata checksums. A block with a wrong checksum is refused before it is changed.
//! - I3: all names of a leaf hash into its range of the index: from its own hash to the next one,
//!   and to that hash itself if the next one is marked as a continuation (bit 0).
//! - I4: a cookie of [`read_entries`] stays valid over inserts, removals, splits and the change to
//!   a hash tree.
//! - I5: no content of a block makes an operation panic or run on without end; it ends in
//!   `FsError::Corrupt` that names inode and block.
//!
//! A directory without regard to case has [`DirFacts::folding`]: names are compared, and hashed, as
//! they fold, and kept as they were given. `.` and `..` are only themselves, also for names that
//! fold to them.
//!
//! Encryption is not supported here (such directories are refused); content in the inode is handled
//! by `inline`, which shows it as a block.

mod edit;
mod empty;
mod htree;
mod insert;
mod layout;
mod leaf;
mod lookup;
mod modify;
mod readdir;
#[cfg(test)]
mod tests;

use base::{Bytes, Ino};
use fscore::shell::names::is_dot;
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::Folding;
use ondisk::ext4::{HashVersion, InodeSeed, NAME_BYTES_MAX};
use std::borrow::Cow;
use std::sync::Arc;

pub use empty::{first_block, grown_block, is_empty};
pub use insert::{insert, insert_at};
pub use layout::LEAF_FORM;
pub use lookup::{Entry, Found, Probe, Vacancy, find, lookup, probe};
pub use modify::{parent, remove, remove_entry, replace, set_parent};
pub use readdir::{RawEntry, read_entries};

/// The maximum of directory blocks that one [`insert`] writes where an index has up to `levels`
/// levels below its root: the root, a node and its split partner of each level, the leaf and its
/// split partner. Of these at most [`insert_appends`] are new.
pub const fn insert_blocks(levels: u8) -> u32 {
    3 + 2 * levels as u32
}
/// The maximum of blocks that one [`insert`] appends: a node of each level and a leaf.
pub const fn insert_appends(levels: u8) -> u32 {
    1 + levels as u32
}

/// The properties of a directory that the layout of its blocks depends on.
#[derive(Clone, Debug)]
pub struct DirFacts {
    /// The directory's inode number.
    pub ino: Ino,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The inode's checksum seed (file-system seed, inode number, generation); `None` without
    /// `metadata_csum`.
    pub csum_seed: Option<InodeSeed>,
    /// Entries hold a file type (feature `filetype`).
    pub has_file_type: bool,
    /// New directories grow into hash trees (feature `dir_index`).
    pub dir_index: bool,
    /// The hash of a directory whose root names none: version of the superblock, signedness added.
    pub hash: HashVersion,
    /// The maximum of index levels below the root of a hash tree: 1, with feature `large_dir` 2.
    pub levels_max: u8,
    /// Offsets in block 0 where parts of inline content meet: the entry that begins there is never
    /// joined with the one before it.
    pub seams: &'static [usize],
    /// Seed of the hash (`s_hash_seed`).
    pub hash_seed: [u32; 4],
    /// How names fold, in a directory without regard to case.
    pub folding: Option<Arc<Folding>>,
}

/// A directory that can be read.
pub trait DirRead {
    /// The facts about the directory.
    fn facts(&self) -> &DirFacts;
    /// Blocks of the directory (`i_size` / block size).
    fn block_count(&self) -> u32;
    /// True if block 0 is the root of a hash tree (`EXT4_INDEX_FL`).
    fn is_indexed(&self) -> bool;
    /// Content of logical block `lblk`, all of it.
    ///
    /// # Errors
    /// I/O errors; `Corrupt` if the block is a hole.
    fn read(&self, lblk: u32) -> FsResult<Bytes>;
    /// As [`read`](Self::read), of a block that `check` finds right as a structure of this form:
    /// now, or earlier if nothing but this module has changed the block since.
    ///
    /// # Errors
    /// Those of `read` and of `check`.
    fn read_checked(
        &self,
        lblk: u32,
        form: u32,
        check: &dyn Fn(&[u8]) -> FsResult<()>,
    ) -> FsResult<Bytes> {
        let _ = form;
        let bytes = self.read(lblk)?;
        check(&bytes)?;
        Ok(bytes)
    }
}

/// A directory that can be changed.
pub trait DirIo: DirRead {
    /// Overwrites pieces (offset and bytes) of block `lblk`.
    ///
    /// # Errors
    /// Errors of the journal.
    fn write(&mut self, lblk: u32, pieces: &[(usize, &[u8])]) -> FsResult<()>;
    /// Adds a block with this content at the end, grows `i_size`, answers its logical number.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; errors of the journal.
    fn append(&mut self, content: Bytes) -> FsResult<u32>;
    /// Makes more room in block 0 if it is inline content, in the inode or by moving it to a block;
    /// false if it is not inline.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; errors of the journal.
    fn widen(&mut self) -> FsResult<bool> {
        Ok(false)
    }
    /// Sets `EXT4_INDEX_FL`.
    ///
    /// # Errors
    /// Errors of the journal.
    fn set_indexed(&mut self) -> FsResult<()>;
}

/// A corruption report that names the directory and the block.
fn corrupt(facts: &DirFacts, lblk: u32, what: impl std::fmt::Display) -> FsError {
    FsError::corrupt(format!(
        "directory inode {}, block {lblk}: {what}",
        facts.ino
    ))
}

/// The report for a directory of size 0.
fn no_block(io: &dyn DirRead) -> FsError {
    corrupt(io.facts(), 0, "missing: a directory has at least one block")
}

/// Reads a block and checks that it has the size of a block.
fn read_block(io: &dyn DirRead, lblk: u32) -> FsResult<Bytes> {
    check_lblk(io, lblk)?;
    let bytes = io.read(lblk)?;
    check_size(io.facts(), lblk, &bytes)?;
    Ok(bytes)
}

/// Refuses a block beyond the end of the directory.
fn check_lblk(io: &dyn DirRead, lblk: u32) -> FsResult<()> {
    let blocks = io.block_count();
    if lblk >= blocks {
        let what = format!("referred to, but the directory has {blocks} blocks");
        return Err(corrupt(io.facts(), lblk, what));
    }
    Ok(())
}

/// Refuses content that is not one block.
fn check_size(facts: &DirFacts, lblk: u32, bytes: &[u8]) -> FsResult<()> {
    let whole = facts.block_bytes;
    if bytes.len() != whole {
        let what = format!("{} bytes instead of {whole}", bytes.len());
        return Err(corrupt(facts, lblk, what));
    }
    Ok(())
}

/// A new entry.
#[derive(Clone, Copy, Debug)]
struct Item<'a> {
    ino: Ino,
    kind: FileKind,
    name: &'a [u8],
}

/// A name that is looked for.
#[derive(Debug)]
struct Sought<'a> {
    name: &'a [u8],
    /// What it folds to, in a directory without regard to case; `None` if only the same bytes are
    /// the same name.
    folded: Option<(&'a Folding, Vec<u8>)>,
}

impl<'a> Sought<'a> {
    /// Looks for `name` in a directory with these facts.
    fn new(facts: &'a DirFacts, name: &'a [u8]) -> Sought<'a> {
        let folding = facts.folding.as_deref().filter(|_| !is_dot(name));
        Sought {
            name,
            folded: folding.and_then(|folding| Some((folding, folding.fold(name)?))),
        }
    }
    /// True if the entry `found` has this name.
    fn is(&self, found: &[u8]) -> bool {
        found == self.name
            || self
                .folded
                .as_ref()
                .is_some_and(|(folding, folded)| !is_dot(found) && folding.is_same(folded, found))
    }
}

impl DirFacts {
    /// Bytes that two names of the directory share exactly if they are the same.
    pub fn identity<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        let folding = self.folding.as_ref();
        folding.map_or(Cow::Borrowed(name), |folding| folding.identity(name).into())
    }
    /// The name as it is hashed.
    fn hashed<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        let folded = self.folding.as_ref().and_then(|folding| folding.fold(name));
        folded.map_or(Cow::Borrowed(name), Cow::Owned)
    }
}

/// Refuses bytes that cannot be a name here.
fn check_name(facts: &DirFacts, name: &[u8]) -> FsResult<()> {
    check_bytes(name)?;
    match &facts.folding {
        Some(folding) if folding.refuses(name) => Err(Errno::Inval.into()),
        _ => Ok(()),
    }
}

/// Refuses bytes that cannot be a name.
fn check_bytes(name: &[u8]) -> FsResult<()> {
    if name.is_empty() || name.iter().any(|&b| b == 0 || b == b'/') {
        return Err(Errno::Inval.into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::NameTooLong.into());
    }
    Ok(())
}
