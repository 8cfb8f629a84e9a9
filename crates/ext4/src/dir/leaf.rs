//! A directory block that holds entries: reads it with checks, and changes its entries.

use super::edit::Edit;
use super::{DirFacts, DirIo, DirRead, Item, corrupt, layout, read_block};
use base::{Bytes, Ino};
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::ext4::{DirEntries, DirEntry, put_dir_entry, set_dir_rec_len};

/// A block of entries whose checksum is right: a leaf, or the root of a hash tree with its two
/// entries `.` and `..`.
pub(super) struct Leaf {
    /// Logical number of the block.
    pub lblk: u32,
    form: Form,
    facts: DirFacts,
    bytes: Bytes,
}

/// Which checksum the block carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Leaf,
    Root,
}

/// The place of an entry in its block, and what it points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub ino: Ino,
    pub kind: Option<FileKind>,
    pub offset: usize,
    pub rec_len: usize,
    name_len: usize,
    /// Offset of the record before it in this block, used or not; `None` if the entry lies right
    /// behind a seam.
    pub previous: Option<usize>,
}

/// Where a new entry can go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// Offset of the record that has the room.
    offset: usize,
    /// Bytes that the entry in this record keeps; 0: the record is unused.
    keep: usize,
    /// Length of that record.
    rec_len: usize,
}

impl Leaf {
    /// Reads block `lblk` and checks its checksum.
    pub(super) fn load(io: &dyn DirRead, lblk: u32) -> FsResult<Leaf> {
        let bytes = read_block(io, lblk)?;
        Leaf::check(io.facts(), lblk, bytes)
    }
    /// Checks a block that has been read already.
    pub(super) fn check(facts: &DirFacts, lblk: u32, bytes: Bytes) -> FsResult<Leaf> {
        layout::verify_leaf(facts, &bytes).map_err(|why| corrupt(facts, lblk, why))?;
        Ok(Leaf {
            lblk,
            form: Form::Leaf,
            facts: facts.clone(),
            bytes,
        })
    }
    /// Reads the root of a hash tree for its entries `.` and `..`.
    pub(super) fn load_root(io: &dyn DirRead) -> FsResult<Leaf> {
        let bytes = read_block(io, 0)?;
        let facts = io.facts();
        layout::parse_root(facts, &bytes).map_err(|why| corrupt(facts, 0, why))?;
        Ok(Leaf {
            lblk: 0,
            form: Form::Root,
            facts: facts.clone(),
            bytes,
        })
    }
    /// Where records end.
    fn limit(&self) -> usize {
        match self.form {
            Form::Leaf => layout::leaf_limit(&self.facts),
            Form::Root => self.facts.block_bytes,
        }
    }
    /// All records in order, used or not; damage ends the walk with an error.
    fn records(&self) -> impl Iterator<Item = FsResult<DirEntry<'_>>> {
        DirEntries::new(&self.bytes[..self.limit()]).map(|found| match found {
            Ok(record) if record.ino.is_some() && record.name.is_empty() => {
                Err(self.corrupt(format!("entry at byte {} has no name", record.offset)))
            }
            Ok(record) => Ok(record),
            Err(why) => Err(self.corrupt(why)),
        })
    }
    /// The entries (records in use), in order of their place.
    pub(super) fn entries(&self) -> FsResult<Vec<DirEntry<'_>>> {
        self.records()
            .filter(|found| !matches!(found, Ok(record) if record.ino.is_none()))
            .collect()
    }
    /// The kind that an entry of this block notes.
    pub(super) fn kind(&self, entry: &DirEntry<'_>) -> Option<FileKind> {
        layout::kind(&self.facts, entry)
    }
    /// A corruption report that names this block.
    pub(super) fn corrupt(&self, what: impl std::fmt::Display) -> FsError {
        corrupt(&self.facts, self.lblk, what)
    }
    /// The entry called `name`.
    pub(super) fn find(&self, name: &[u8]) -> FsResult<Option<Spot>> {
        let mut previous = None;
        for record in self.records() {
            let record = record?;
            let DirEntry {
                offset, rec_len, ..
            } = record;
            if self.facts.seams.contains(&offset) {
                previous = None;
            }
            if let Some(ino) = record.ino.filter(|_| record.name == name) {
                let (kind, name_len) = (self.kind(&record), name.len());
                return Ok(Some(Spot {
                    ino,
                    kind,
                    offset,
                    rec_len,
                    name_len,
                    previous,
                }));
            }
            previous = Some(offset);
        }
        Ok(None)
    }
    /// The first place where an entry called `name` fits.
    ///
    /// # Errors
    /// EEXIST if this block has the name.
    pub(super) fn room(&self, name: &[u8]) -> FsResult<Option<Room>> {
        let need = layout::item_bytes(name);
        let mut room = None;
        for record in self.records() {
            let record = record?;
            if record.ino.is_some() && record.name == name {
                return Err(Errno::Exist.into());
            }
            if room.is_none() && record.free_bytes() >= need {
                let DirEntry {
                    offset, rec_len, ..
                } = record;
                room = Some(Room {
                    offset,
                    keep: record.used_bytes(),
                    rec_len,
                });
            }
        }
        Ok(room)
    }
    /// Puts an entry into `room`, which came from [`room`](Self::room) of the same content.
    pub(super) fn insert(&self, io: &mut dyn DirIo, room: Room, item: &Item<'_>) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        let block = edit.bytes();
        if room.keep > 0 {
            set_dir_rec_len(block, room.offset, room.keep);
        }
        layout::put_item(
            &self.facts,
            block,
            room.offset + room.keep,
            room.rec_len - room.keep,
            item,
        );
        self.seal_and_store(io, edit)
    }
    /// Takes `entry` out: its space goes to the record before it, or becomes an unused record at
    /// the head of the block. The name is wiped.
    pub(super) fn remove(&self, io: &mut dyn DirIo, entry: Spot) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        let block = edit.bytes();
        let rec_len = entry.rec_len;
        block[entry.offset..entry.offset + rec_len].fill(0);
        match entry.previous {
            Some(previous) => set_dir_rec_len(block, previous, entry.offset + rec_len - previous),
            None => set_dir_rec_len(block, entry.offset, rec_len),
        }
        self.seal_and_store(io, edit)
    }
    /// Points `entry` to another inode.
    pub(super) fn set_target(
        &self,
        io: &mut dyn DirIo,
        entry: Spot,
        ino: Ino,
        kind: FileKind,
    ) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        let name_at = entry.offset + layout::NAME_AT;
        let name = &self.bytes[name_at..name_at + entry.name_len];
        let noted = layout::file_type(&self.facts, kind);
        put_dir_entry(
            edit.bytes(),
            entry.offset,
            entry.rec_len,
            Some(ino),
            noted,
            name,
        );
        self.seal_and_store(io, edit)
    }
    /// Writes this leaf anew, with `entries` packed at its head.
    pub(super) fn rewrite(&self, io: &mut dyn DirIo, entries: &[DirEntry<'_>]) -> FsResult<()> {
        let packed = pack(&self.facts, entries);
        Edit::replace(self.lblk, &self.bytes, packed).store(io)?;
        Ok(())
    }
    fn seal_and_store(&self, io: &mut dyn DirIo, mut edit: Edit) -> FsResult<()> {
        match self.form {
            Form::Leaf => layout::seal_leaf(&self.facts, edit.bytes()),
            Form::Root => layout::seal_index(&self.facts, true, edit.bytes()),
        }
        edit.store(io)?;
        Ok(())
    }
}

/// A sealed leaf with these entries, one behind the other; the last one takes the space that is
/// left.
pub(super) fn pack(facts: &DirFacts, entries: &[DirEntry<'_>]) -> Vec<u8> {
    let mut block = layout::empty_leaf(facts);
    let limit = layout::leaf_limit(facts);
    let mut at = 0;
    for (n, entry) in entries.iter().enumerate() {
        let last = n + 1 == entries.len();
        let rec_len = if last { limit - at } else { entry.used_bytes() };
        put_dir_entry(
            &mut block,
            at,
            rec_len,
            entry.ino,
            entry.file_type,
            entry.name,
        );
        at += rec_len;
    }
    layout::seal_leaf(facts, &mut block);
    block
}
