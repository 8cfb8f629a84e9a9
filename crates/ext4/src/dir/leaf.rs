//! A directory block that holds entries: reads it with checks, and changes its entries.
//!
//! A change of an entry touches a few bytes, so nothing copies or sums up the block for it: the
//! pieces that change are written, and the checksum, which was right, changes by what they change
//! (`crc32c_change`). A leaf whose block still has the same content is as good as one read again
//! ([`Leaf::is_current`]).

use super::edit::Edit;
use super::{
    DirFacts, DirIo, DirRead, Item, Sought, check_lblk, check_size, corrupt, layout, read_block,
};
use base::bytes::is_zero;
use base::fill::zero_bytes;
use base::{Bytes, Ino};
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::ext4::{
    DIR_REC_LEN_AT, DirEntries, DirEntry, DirHead, encode_dir_entry, encode_dir_rec_len,
    put_dir_entry,
};

/// The maximum of pieces that a change of an entry writes, its checksum apart.
const PIECES_MAX: usize = 3;

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
        let facts = io.facts();
        check_lblk(io, lblk)?;
        let bytes = io.read_checked(lblk, layout::LEAF_FORM, &|bytes| {
            check_size(facts, lblk, bytes)?;
            layout::verify_leaf(facts, bytes).map_err(|why| corrupt(facts, lblk, why))
        })?;
        Ok(Leaf {
            lblk,
            form: Form::Leaf,
            facts: facts.clone(),
            bytes,
        })
    }
    /// True if the block still has the content of this leaf. A directory that was removed meanwhile
    /// has no block any more.
    pub(super) fn is_current(&self, io: &dyn DirRead) -> FsResult<bool> {
        if self.lblk >= io.block_count() {
            return Ok(false);
        }
        let now = read_block(io, self.lblk)?;
        Ok(now.as_ptr() == self.bytes.as_ptr() || now == self.bytes)
    }
    /// Reads the root of a hash tree for its entries `.` and `..`.
    pub(super) fn load_root(io: &dyn DirRead) -> FsResult<Leaf> {
        let bytes = read_block(io, 0)?;
        let facts = io.facts();
        layout::root_shape(facts, &bytes).map_err(|why| corrupt(facts, 0, why))?;
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
    /// The name of an entry of this block.
    pub(super) fn name(&self, entry: &Spot) -> &[u8] {
        &self.bytes[entry.offset + layout::NAME_AT..][..entry.name_len]
    }
    /// The kind that an entry of this block notes.
    pub(super) fn kind(&self, entry: &DirEntry<'_>) -> Option<FileKind> {
        layout::kind(&self.facts, entry.file_type)
    }
    /// A corruption report that names this block.
    pub(super) fn corrupt(&self, what: impl std::fmt::Display) -> FsError {
        corrupt(&self.facts, self.lblk, what)
    }
    /// The entry that is looked for, or else the first place where an entry of that name fits.
    pub(super) fn search(&self, sought: &Sought<'_>) -> FsResult<Result<Spot, Option<Room>>> {
        let need = layout::item_bytes(sought.name);
        let (mut previous, mut room) = (None, None);
        let records = &self.bytes[..self.limit()];
        let mut offset = 0;
        while offset < records.len() {
            // Most records are only passed, so no more of them is looked at than that takes.
            let Some(head) = DirHead::read(records, offset) else {
                break;
            };
            let DirHead { rec_len, .. } = head;
            if self.facts.seams.contains(&offset) {
                previous = None;
            }
            if let Some(ino) = head.ino() {
                let found = &records[offset + layout::NAME_AT..][..head.name_len];
                if found.is_empty() {
                    break;
                }
                if sought.is(found) {
                    let kind = layout::kind(&self.facts, head.file_type());
                    return Ok(Ok(Spot {
                        ino,
                        kind,
                        offset,
                        rec_len,
                        name_len: head.name_len,
                        previous,
                    }));
                }
            }
            if room.is_none() && rec_len - head.used_bytes() >= need {
                room = Some(Room {
                    offset,
                    keep: head.used_bytes(),
                    rec_len,
                });
            }
            previous = Some(offset);
            offset += rec_len;
        }
        if offset < records.len() {
            // The walk that tells all of a record tells also what is wrong with this one.
            self.records().try_for_each(|record| record.map(drop))?;
        }
        Ok(Err(room))
    }
    /// The first place where an entry called `name` fits.
    ///
    /// # Errors
    /// EEXIST if this block has the name.
    pub(super) fn room(&self, name: &[u8]) -> FsResult<Option<Room>> {
        self.search(&Sought::new(&self.facts, name))?
            .map_or_else(Ok, |_| Err(Errno::Exist.into()))
    }
    /// Puts an entry into `room`, which came from [`room`](Self::room) of the same content.
    pub(super) fn insert(self, io: &mut dyn DirIo, room: Room, item: &Item<'_>) -> FsResult<()> {
        let Room {
            offset,
            keep,
            rec_len,
        } = room;
        let noted = layout::file_type(&self.facts, item.kind);
        let entry = encode_dir_entry(rec_len - keep, Some(item.ino), noted, item.name);
        let kept = encode_dir_rec_len(keep);
        let pieces: [(usize, &[u8]); 2] =
            [(offset + keep, &entry), (offset + DIR_REC_LEN_AT, &kept)];
        let changed = if keep > 0 { &pieces[..] } else { &pieces[..1] };
        self.change(io, changed)
    }
    /// Takes `entry` out: its space goes to the record before it, or becomes an unused record at
    /// the head of the block. The name is wiped, and so is what lies behind it in the record.
    pub(super) fn remove(self, io: &mut dyn DirIo, entry: Spot) -> FsResult<()> {
        let end = entry.offset + entry.rec_len;
        let used = entry.offset + layout::NAME_AT + entry.name_len;
        let wiped = if is_zero(&self.bytes[used..end]) {
            used
        } else {
            end
        };
        match entry.previous {
            Some(previous) => {
                let len = encode_dir_rec_len(end - previous);
                let zeros = zero_bytes(wiped - entry.offset);
                self.change(
                    io,
                    &[(entry.offset, zeros), (previous + DIR_REC_LEN_AT, &len[..])],
                )
            }
            None => {
                let len = encode_dir_rec_len(entry.rec_len);
                let behind = entry.offset + DIR_REC_LEN_AT + len.len();
                let pieces: [(usize, &[u8]); 3] = [
                    (entry.offset, zero_bytes(DIR_REC_LEN_AT)),
                    (entry.offset + DIR_REC_LEN_AT, &len),
                    (behind, zero_bytes(wiped - behind)),
                ];
                self.change(io, &pieces)
            }
        }
    }
    /// Points `entry` to another inode.
    pub(super) fn set_target(
        self,
        io: &mut dyn DirIo,
        entry: Spot,
        ino: Ino,
        kind: FileKind,
    ) -> FsResult<()> {
        let name_at = entry.offset + layout::NAME_AT;
        let name = &self.bytes[name_at..name_at + entry.name_len];
        let noted = layout::file_type(&self.facts, kind);
        let new = encode_dir_entry(entry.rec_len, Some(ino), noted, name);
        self.change(io, &[(entry.offset, &new[..])])
    }
    /// Writes pieces (offset and bytes) that do not overlap, and the checksum.
    fn change(self, io: &mut dyn DirIo, pieces: &[(usize, &[u8])]) -> FsResult<()> {
        if self.form == Form::Root {
            let mut edit = Edit::of(self.lblk, &self.bytes);
            for (at, piece) in pieces {
                edit.bytes()[*at..at + piece.len()].copy_from_slice(piece);
            }
            layout::seal_index(&self.facts, true, edit.bytes());
            return edit.store(io).map(drop);
        }
        let differs = |(at, piece): &(usize, &[u8])| self.bytes[*at..at + piece.len()] != **piece;
        if !pieces.iter().any(differs) {
            return Ok(());
        }
        let seal = layout::seal_with(&self.facts, &self.bytes, pieces);
        let seal = seal.map_err(|why| self.corrupt(why))?;
        let lblk = self.lblk;
        // With the content in hand the journal would have to copy the block.
        drop(self);
        let mut all: [(usize, &[u8]); PIECES_MAX + 1] = Default::default();
        all[..pieces.len()].copy_from_slice(pieces);
        let mut count = pieces.len();
        if let Some((at, checksum)) = &seal {
            all[count] = (*at, checksum);
            count += 1;
        }
        io.write(lblk, &all[..count])
    }
    /// Writes this leaf anew, with `entries` packed at its head.
    pub(super) fn rewrite(&self, io: &mut dyn DirIo, entries: &[DirEntry<'_>]) -> FsResult<()> {
        let packed = pack(&self.facts, entries);
        Edit::replace(self.lblk, &self.bytes, packed).store(io)?;
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
