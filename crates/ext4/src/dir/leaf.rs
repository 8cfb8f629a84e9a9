//! A directory block that holds entries: checked reading, and the changes an entry can undergo.

use super::edit::Edit;
use super::layout::{self, Record};
use super::{DirFacts, DirIo, DirRead, Item, corrupt, read_block};
use base::{BLOCK_BYTES, Bytes, Ino};
use fscore::{Errno, FileKind, FsResult};

/// A block of entries whose checksum is right: a leaf, or the root of a hash tree with its two entries `.` and `..`.
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
    /// Offset of the record before it in this block, used or not.
    pub previous: Option<usize>,
}

/// Where a new entry can go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// Offset of the record that has the room.
    offset: usize,
    /// Bytes that the entry there keeps; 0: the record is unused.
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
    /// Takes a block that has been read already.
    pub(super) fn check(facts: &DirFacts, lblk: u32, bytes: Bytes) -> FsResult<Leaf> {
        layout::verify_leaf(facts, &bytes).map_err(|why| corrupt(facts, lblk, why))?;
        Ok(Leaf { lblk, form: Form::Leaf, facts: facts.clone(), bytes })
    }
    /// Reads the root of a hash tree for its entries `.` and `..`.
    pub(super) fn load_root(io: &dyn DirRead) -> FsResult<Leaf> {
        let bytes = read_block(io, 0)?;
        let facts = io.facts();
        layout::parse_root(facts, &bytes).map_err(|why| corrupt(facts, 0, why))?;
        Ok(Leaf { lblk: 0, form: Form::Root, facts: facts.clone(), bytes })
    }
    /// Where records end.
    fn limit(&self) -> usize {
        match self.form {
            Form::Leaf => layout::leaf_limit(&self.facts),
            Form::Root => BLOCK_BYTES,
        }
    }
    /// All records in order, used or not; damage ends the walk with an error.
    fn records(&self) -> impl Iterator<Item = FsResult<(usize, Record<'_>)>> {
        let limit = self.limit();
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let offset = next.filter(|&at| at < limit)?;
            match layout::record(&self.facts, &self.bytes, offset, limit) {
                Ok(record) => {
                    next = Some(offset + record.rec_len);
                    Some(Ok((offset, record)))
                }
                Err(why) => {
                    next = None;
                    let what = format!("entry at byte {offset}: {why}");
                    Some(Err(corrupt(&self.facts, self.lblk, what)))
                }
            }
        })
    }
    /// The records in use, in order of their place, each with its offset.
    pub(super) fn entries(&self) -> FsResult<Vec<(usize, Record<'_>)>> {
        self.records().filter(|found| !matches!(found, Ok((_, record)) if !record.in_use())).collect()
    }
    /// The entry called `name`.
    pub(super) fn find(&self, name: &[u8]) -> FsResult<Option<Spot>> {
        let mut previous = None;
        for found in self.records() {
            let (offset, record) = found?;
            if record.in_use() && record.name == name {
                let (ino, kind, rec_len) = (Ino(record.ino), record.kind, record.rec_len);
                return Ok(Some(Spot { ino, kind, offset, rec_len, previous }));
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
        let need = layout::record_bytes(name.len());
        let mut room = None;
        for found in self.records() {
            let (offset, record) = found?;
            if record.in_use() && record.name == name {
                return Err(Errno::Exist.into());
            }
            let keep = if record.in_use() { record.bytes() } else { 0 };
            if room.is_none() && record.rec_len - keep >= need {
                room = Some(Room { offset, keep, rec_len: record.rec_len });
            }
        }
        Ok(room)
    }
    /// Puts an entry into `room`, which came from [`room`](Self::room) of the same content.
    pub(super) fn insert(&self, io: &mut dyn DirIo, room: Room, item: &Item<'_>) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        let block = edit.bytes();
        if room.keep > 0 {
            layout::set_rec_len(block, room.offset, room.keep);
        }
        layout::put_record(&self.facts, block, room.offset + room.keep, room.rec_len - room.keep, item);
        self.seal_and_store(io, edit)
    }
    /// Takes `entry` out: its space goes to the record before it, or becomes an unused record at the head of the block.
    /// The name is wiped.
    pub(super) fn remove(&self, io: &mut dyn DirIo, entry: Spot) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        let block = edit.bytes();
        let rec_len = entry.rec_len;
        block[entry.offset..entry.offset + rec_len].fill(0);
        match entry.previous {
            Some(previous) => layout::set_rec_len(block, previous, entry.offset + rec_len - previous),
            None => layout::set_rec_len(block, entry.offset, rec_len),
        }
        self.seal_and_store(io, edit)
    }
    /// Points `entry` to another inode.
    pub(super) fn set_target(&self, io: &mut dyn DirIo, entry: Spot, ino: Ino, kind: FileKind) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        layout::set_target(&self.facts, edit.bytes(), entry.offset, ino, kind);
        self.seal_and_store(io, edit)
    }
    /// Writes this leaf anew, with `entries` packed at its head.
    pub(super) fn rewrite(&self, io: &mut dyn DirIo, entries: &[Record<'_>]) -> FsResult<()> {
        let packed = pack(&self.facts, entries);
        Edit::replace(self.lblk, &self.bytes, packed).store(io)
    }
    fn seal_and_store(&self, io: &mut dyn DirIo, mut edit: Edit) -> FsResult<()> {
        match self.form {
            Form::Leaf => layout::seal_leaf(&self.facts, edit.bytes()),
            Form::Root => layout::seal_root(&self.facts, edit.bytes()),
        }
        edit.store(io)
    }
}

/// A sealed leaf with these entries, one behind the other; the last one takes the space that is left.
pub(super) fn pack(facts: &DirFacts, entries: &[Record<'_>]) -> Vec<u8> {
    let mut block = layout::empty_leaf(facts);
    let limit = layout::leaf_limit(facts);
    let mut at = 0;
    for (n, entry) in entries.iter().enumerate() {
        let last = n + 1 == entries.len();
        let rec_len = if last { limit - at } else { entry.bytes() };
        layout::copy_record(facts, &mut block, at, rec_len, entry);
        at += rec_len;
    }
    layout::seal_leaf(facts, &mut block);
    block
}
