//! Changes a directory: inserts and removes entries, and points an entry at another inode.

use super::{Found, Place, Shape, is_dot, name_hash, put_dots};
use crate::F2fs;
use crate::inode::Inode;
use crate::journal::capture::Edit;
use crate::ops::Op;
use base::Ino;
use fscore::{Errno, FsError, FsResult};
use ondisk::f2fs as disk;
use ondisk::f2fs::{
    BLOCK_BYTES, Dentry, DentryLayout, Features, FileType, Inline, InodeFields, MAX_DIR_HASH_DEPTH,
    Nid, dentry_slots, dir_buckets, level_blocks,
};

/// A name with what it shall stand for.
#[derive(Clone, Copy)]
pub(crate) struct NewEntry<'a> {
    pub name: &'a [u8],
    pub ino: Ino,
    pub kind: FileType,
}

impl<'a> NewEntry<'a> {
    fn dentry(&self, hash: u32) -> Dentry<'a> {
        Dentry {
            hash,
            ino: Nid(self.ino.0),
            kind: self.kind,
            name: self.name,
        }
    }
}

impl F2fs {
    /// Gives a new directory that does not live in its inode its first page.
    pub(crate) fn make_first_page(&self, op: &Op<'_>, dir: &Inode, parent: Ino) -> FsResult<()> {
        self.edit_dir_page(op, dir, 0, |edit| {
            put_dots(edit, &DentryLayout::BLOCK, dir.ino, parent);
        })?;
        dir.core().fields.size = BLOCK_BYTES as u64;
        self.put_inode(op, dir)
    }

    /// Adds a name that is not there. The caller puts the directory's inode.
    ///
    /// # Errors
    /// ENOSPC (dir-D2).
    pub(crate) fn dir_insert(&self, op: &Op<'_>, dir: &Inode, entry: NewEntry<'_>) -> FsResult<()> {
        let shape = Shape::of(dir);
        let hash = name_hash(self.folding_of(&shape), entry.name);
        if let Some(layout) = &shape.inline {
            let put = |edit: &mut Edit<'_>| put_if_room(edit, layout, &entry.dentry(hash));
            let slots = dentry_slots(entry.name.len());
            let may = dir
                .names
                .lock()
                .as_ref()
                .is_none_or(|i| i.may_hold(0, slots));
            if may && self.edit_node(op, dir.nid(), put)?.is_some() {
                self.note_added(dir, hash, 0);
                return Ok(());
            }
            self.leave_inode(op, dir, layout, &shape)?;
        }
        self.insert_in_blocks(op, dir, entry.dentry(hash))
    }

    fn insert_in_blocks(&self, op: &Op<'_>, dir: &Inode, entry: Dentry<'_>) -> FsResult<()> {
        let shape = Shape::of(dir);
        let slots = dentry_slots(entry.name.len());
        let mut base = 0;
        // dir-D1: level by level, the bucket of its hash in each.
        for level in 0..MAX_DIR_HASH_DEPTH {
            let buckets = dir_buckets(level, shape.dir_level);
            let per_bucket = u64::from(disk::bucket_blocks(level));
            let first = base + u64::from(entry.hash % buckets) * per_bucket;
            for page in first..first + per_bucket {
                if self.put_in_page(op, dir, &shape, page, slots, &entry)? {
                    let mut core = dir.core();
                    let f = &mut core.fields;
                    f.current_depth = f.current_depth.max(level + 1);
                    f.size = f.size.max((page + 1) * BLOCK_BYTES as u64);
                    drop(core);
                    self.note_added(dir, entry.hash, page);
                    return Ok(());
                }
            }
            base += level_blocks(level, shape.dir_level);
        }
        Err(Errno::NoSpc.into())
    }

    /// False if the page has no room.
    fn put_in_page(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        shape: &Shape,
        page: u64,
        slots: usize,
        entry: &Dentry<'_>,
    ) -> FsResult<bool> {
        let layout = &DentryLayout::BLOCK;
        let known = {
            let mut names = dir.names.lock();
            let index = names.get_or_insert_default();
            if !index.may_hold(page, slots) {
                return Ok(false);
            }
            index.room_of(page).is_some()
        };
        // A page that nothing is known of is looked at first: to change it means to write it.
        let fits = known
            || page >= shape.pages
            || self.with_dir_page(dir, page, |block| {
                disk::room_for(block, layout, entry.name.len()).is_some()
            })?;
        let put = fits
            && self
                .edit_dir_page(op, dir, page, |edit| put_if_room(edit, layout, entry))?
                .is_some();
        if !put || !known {
            let most = if put {
                disk::DENTRIES_PER_BLOCK
            } else {
                slots - 1
            };
            let mut names = dir.names.lock();
            names.get_or_insert_default().note_room(page, Some(most));
        }
        Ok(put)
    }

    /// Moves inline entries to blocks.
    fn leave_inode(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        layout: &DentryLayout,
        shape: &Shape,
    ) -> FsResult<()> {
        let node = self.node(dir.nid())?;
        let before = dir.core().fields.clone();
        let area = before.inline_data_range();
        let flexible = self.features.has(Features::FLEXIBLE_INLINE_XATTR);
        let mut fields = before.clone();
        become_blocks(&mut fields, flexible);
        // From now on addresses lie there, and the flags of the inode say so.
        self.rewrite_node(op, dir.nid(), |block| {
            block[area.clone()].fill(0);
            fields.encode_into(block, self.features);
        })?;
        become_blocks(&mut dir.core().fields, flexible);
        let moved = match shape.dir_level {
            0 => self.edit_dir_page(op, dir, 0, |edit| {
                edit.by_comparing(|page| copy_slots(&node, layout, page));
            }),
            _ => self.spread(op, dir, &node, layout),
        };
        if let Err(e) = moved {
            if matches!(e, FsError::Posix(_)) {
                self.return_to_inode(op, dir, &node, &before)?;
            }
            return Err(e);
        }
        if let Some(index) = dir.names.lock().as_mut() {
            index.note_room(0, Some(disk::DENTRIES_PER_BLOCK));
        }
        self.put_inode(op, dir)
    }

    /// Puts each inline entry into the bucket of its hash: directories whose first level has
    /// several.
    fn spread(&self, op: &Op<'_>, dir: &Inode, node: &[u8], layout: &DentryLayout) -> FsResult<()> {
        *dir.names.lock() = None;
        for entry in disk::iter(node, layout, 0) {
            let (_, entry) = entry.map_err(|e| super::damaged(dir, 0, e))?;
            self.insert_in_blocks(op, dir, entry)?;
        }
        Ok(())
    }

    /// There was no space for the entries in blocks (dir-D2).
    fn return_to_inode(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        node: &[u8],
        before: &InodeFields,
    ) -> FsResult<()> {
        let pages = Shape::of(dir).pages;
        let mut page = 0;
        while page < pages {
            let run = self.lookup(dir, &mut dir.tree.lock(), page, pages - page)?;
            if run.addr == disk::BlockAddr::NULL {
                page += run.len.max(1);
            } else {
                self.drop_dir_page(op, dir, page)?;
                page += 1;
            }
        }
        {
            let mut core = dir.core();
            let f = &mut core.fields;
            (f.inline, f.inline_xattr_size) = (before.inline, before.inline_xattr_size);
            (f.size, f.current_depth) = (before.size, before.current_depth);
        }
        if before.dir_level != 0 {
            *dir.names.lock() = None;
        }
        let area = before.inline_data_range();
        let fields = dir.core().fields.clone();
        self.rewrite_node(op, dir.nid(), |block| {
            fields.encode_into(block, self.features);
            block[area.clone()].copy_from_slice(&node[area])
        })?;
        self.put_inode(op, dir)
    }

    /// Removes an entry. The caller puts the directory's inode.
    pub(crate) fn dir_remove(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        found: &Found,
        name: &[u8],
    ) -> FsResult<()> {
        debug_assert!(!is_dot(name), "the dots stay");
        let Place { page, slot } = found.place;
        let shape = Shape::of(dir);
        let empty = match &shape.inline {
            Some(layout) => {
                self.edit_node(op, dir.nid(), |edit| edit.clear_entry(layout, slot))?;
                false
            }
            None => {
                let layout = &DentryLayout::BLOCK;
                self.edit_dir_page(op, dir, page, |edit| {
                    edit.clear_entry(layout, slot);
                    disk::is_empty(edit.bytes(), layout, 0)
                })?
            }
        };
        if let Some(index) = dir.names.lock().as_mut() {
            index.removed(found.hash);
            index.note_room(page, Some(disk::DENTRIES_PER_BLOCK));
        }
        if empty {
            self.drop_dir_page(op, dir, page)?;
        }
        Ok(())
    }

    /// Lets an entry stand for another inode.
    pub(crate) fn dir_retarget(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        place: Place,
        ino: Ino,
        kind: FileType,
    ) -> FsResult<()> {
        let Place { page, slot } = place;
        match &Shape::of(dir).inline {
            Some(layout) => self.edit_node(op, dir.nid(), |edit| {
                edit.set_target(layout, slot, Nid(ino.0), kind);
            }),
            None => self.edit_dir_page(op, dir, page, |edit| {
                edit.set_target(&DentryLayout::BLOCK, slot, Nid(ino.0), kind);
            }),
        }
    }

    fn note_added(&self, dir: &Inode, hash: u32, page: u64) {
        if let Some(index) = dir.names.lock().as_mut() {
            index.added(hash, page);
        }
    }
}

fn put_if_room(edit: &mut Edit<'_>, layout: &DentryLayout, entry: &Dentry<'_>) -> Option<usize> {
    let slot = disk::room_for(edit.bytes(), layout, entry.name.len())?;
    edit.put_entry(layout, slot, entry);
    Some(slot)
}

/// Copies all slots of an inode to an empty dentry block: same places.
fn copy_slots(node: &[u8], from: &DentryLayout, page: &mut [u8]) {
    let to = DentryLayout::BLOCK;
    page.fill(0);
    for (from, to) in [
        (&from.bitmap, &to.bitmap),
        (&from.entries, &to.entries),
        (&from.names, &to.names),
    ] {
        page[to.start..to.start + from.len()].copy_from_slice(&node[from.clone()]);
    }
    // The bits behind the last inline slot mean something now.
    for slot in from.max..8 * from.bitmap.len() {
        page[to.bitmap.start + slot / 8] &= !(1 << (slot % 8));
    }
}

/// The fields of a directory whose entries have left its inode.
fn become_blocks(f: &mut InodeFields, flexible: bool) {
    f.inline = f.inline.without(Inline::DENTRY).without(Inline::DOTS);
    f.size = f.size.max(BLOCK_BYTES as u64);
    f.current_depth = f.current_depth.max(1);
    if !flexible && !f.inline.has(Inline::XATTR) {
        // The room for attributes was kept free for the sake of the inline entries only.
        f.inline_xattr_size = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_places() {
        let fields = InodeFields {
            inline: Inline::DENTRY | Inline::XATTR,
            inline_xattr_size: 50,
            ..InodeFields::default()
        };
        let from = fields.inline_dentry_layout();
        let mut node = vec![0; BLOCK_BYTES];
        let mut edit = Edit::unlogged(&mut node, Features::NONE);
        put_dots(&mut edit, &from, Ino(9), Ino(3));
        let long = NewEntry {
            name: &[b'x'; 100],
            ino: Ino(11),
            kind: FileType::Fifo,
        };
        put_if_room(&mut edit, &from, &long.dentry(7)).expect("room");
        // Garbage behind the last slot.
        node[from.bitmap.end - 1] |= 0xC0;
        let mut page = vec![0xFF; BLOCK_BYTES];
        copy_slots(&node, &from, &mut page);
        let list = |buf: &[u8], layout: &DentryLayout| {
            let all = disk::iter(buf, layout, 0).map(|e| e.expect("valid"));
            all.map(|(slot, e)| (slot, e.name.to_vec(), e.ino))
                .collect::<Vec<_>>()
        };
        assert_eq!(list(&page, &DentryLayout::BLOCK), list(&node, &from));
        assert_eq!(list(&page, &DentryLayout::BLOCK).len(), 3);
    }

    #[test]
    fn room_of_attributes_is_given_back_only_if_there_are_none() {
        for (inline, flexible, words) in [
            (Inline::DENTRY, false, 0),
            (Inline::DENTRY | Inline::XATTR, false, 50),
            (Inline::DENTRY, true, 50),
        ] {
            let mut f = InodeFields {
                inline,
                inline_xattr_size: 50,
                ..InodeFields::default()
            };
            become_blocks(&mut f, flexible);
            assert_eq!((f.inline_xattr_size, f.size), (words, 4096));
            assert!(!f.inline.has(Inline::DENTRY));
        }
    }
}
