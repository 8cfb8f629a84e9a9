//! Directories: names in the inode, or in a file of dentry blocks hashed over levels
//! (`ondisk::f2fs::dir`).
//!
//! All functions here expect that the caller holds the directory's gate: shared for reading,
//! exclusive for changes. Inline entries count as entries of page 0, because they move there when
//! the directory grows out of its inode: so the place of an entry, and a position of `readdir`,
//! stay valid.
//!
//! Invariants:
//! - D1 a name stands at one level only, in the bucket of its hash, below `current_depth`; it is
//!   put at a level only if the buckets for its hash at all lower levels had no room;
//! - D2 an operation that fails with a POSIX error leaves the names of the directory as they were
//!   (their entries may have moved from the inode to a block);
//! - D3 what [`NameIndex`] says of a name agrees with the blocks of the directory.

mod edit;
mod index;
mod list;
mod names;

pub(crate) use edit::NewEntry;
pub(crate) use index::NameIndex;
pub(crate) use names::{identity, name_hash};

use crate::F2fs;
use crate::inode::Inode;
use crate::journal::capture::Edit;
use base::Ino;
use fscore::shell::names::is_dot;
use fscore::{FileKind, FsError, FsResult};
use index::Look;
use names::{Sought, is_stray};
use ondisk::f2fs as disk;
use ondisk::f2fs::{
    BLOCK_BYTES, Dentry, DentryLayout, FileType, Inline, InodeFlags, bucket_blocks, dentry_hash,
    dir_buckets, level_blocks,
};

/// Where an entry stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Page of the directory; 0 for inline entries.
    pub page: u64,
    pub slot: usize,
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub ino: Ino,
    pub place: Place,
    /// Under which it stands.
    pub hash: u32,
}

impl Found {
    fn new(page: u64, slot: usize, entry: &Dentry<'_>) -> Found {
        Found {
            ino: Ino(entry.ino.0),
            place: Place { page, slot },
            hash: entry.hash,
        }
    }
}

/// How a directory is laid out.
struct Shape {
    /// Of its inline entries, if it has them.
    inline: Option<DentryLayout>,
    depth: u32,
    dir_level: u8,
    /// Pages below its size.
    pages: u64,
    casefold: bool,
}

/// The file type that an entry says.
pub(crate) fn entry_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::Regular,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Char => FileType::Char,
        FileKind::Block => FileType::Block,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
    }
}

/// `None`: the entry does not say.
fn entry_kind(kind: FileType) -> Option<FileKind> {
    Some(match kind {
        FileType::Unknown => return None,
        FileType::Regular => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        FileType::Char => FileKind::Char,
        FileType::Block => FileKind::Block,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
    })
}

/// Puts `.` and `..` into an empty dentry block, or an inode.
pub(crate) fn put_dots(edit: &mut Edit<'_>, layout: &DentryLayout, ino: Ino, parent: Ino) {
    for (slot, name, ino) in [(0, &b"."[..], ino), (1, b"..", parent)] {
        let dot = Dentry {
            hash: dentry_hash(name),
            ino: disk::Nid(ino.0),
            kind: FileType::Directory,
            name,
        };
        edit.put_entry(layout, slot, &dot);
    }
}

impl Shape {
    fn of(dir: &Inode) -> Shape {
        let core = dir.core();
        let f = &core.fields;
        Shape {
            inline: f
                .inline
                .has(Inline::DENTRY)
                .then(|| f.inline_dentry_layout()),
            depth: f.current_depth,
            dir_level: f.dir_level,
            pages: f.size.div_ceil(BLOCK_BYTES as u64),
            casefold: f.flags.has(InodeFlags::CASEFOLD),
        }
    }

    /// The pages where a name with this hash may stand, level by level.
    fn buckets(&self, hash: u32) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let dir_level = self.dir_level;
        let mut base = 0;
        (0..self.depth.min(disk::MAX_DIR_HASH_DEPTH)).map(move |level| {
            let bucket = hash % dir_buckets(level, dir_level);
            let first = base + u64::from(bucket) * u64::from(bucket_blocks(level));
            base += level_blocks(level, dir_level);
            first..first + u64::from(bucket_blocks(level))
        })
    }
}

impl F2fs {
    /// The entry of `name`.
    ///
    /// # Errors
    /// EINVAL for a name that cannot be one here.
    pub(crate) fn dir_find(&self, dir: &Inode, name: &[u8]) -> FsResult<Option<Found>> {
        let shape = Shape::of(dir);
        let sought = self.sought(&shape, name)?;
        let (look, strays) = match (is_dot(name), dir.names.lock().as_ref()) {
            (true, _) | (_, None) => (Look::Search, true),
            (false, Some(index)) => (index.look(sought.hash), index.may_have_strays()),
        };
        let found = match look {
            Look::Absent => None,
            // No other name has this hash.
            Look::Page(page) => self.find_in_page(dir, &shape, page, &sought)?,
            Look::Search => self.search(dir, &shape, &sought)?,
        };
        match found {
            None if strays && sought.has_strays(self.options.lookup) => {
                self.find_stray(dir, &shape, &sought)
            }
            found => Ok(found),
        }
    }

    fn search(&self, dir: &Inode, shape: &Shape, sought: &Sought<'_>) -> FsResult<Option<Found>> {
        if shape.inline.is_some() {
            return self.find_in_page(dir, shape, 0, sought);
        }
        let mut looked = 0;
        for bucket in shape.buckets(sought.hash) {
            for page in bucket.start..bucket.end.min(shape.pages) {
                looked += 1;
                if let Some(found) = self.find_in_page(dir, shape, page, sought)? {
                    self.note_search(dir, shape, looked)?;
                    return Ok(Some(found));
                }
            }
        }
        self.note_search(dir, shape, looked)?;
        Ok(None)
    }

    fn find_in_page(
        &self,
        dir: &Inode,
        shape: &Shape,
        page: u64,
        sought: &Sought<'_>,
    ) -> FsResult<Option<Found>> {
        let find = |block: &[u8], layout: &DentryLayout| {
            disk::find(block, layout, sought.hash, |name| sought.is(name))
                .map(|(slot, entry)| Found::new(page, slot, &entry))
        };
        match &shape.inline {
            Some(layout) => self.with_node(dir.nid(), |block| find(block, layout)),
            None => self.with_dir_page(dir, page, |block| find(block, &DentryLayout::BLOCK)),
        }
    }

    /// Looks at all entries, whatever their hashes.
    fn find_stray(
        &self,
        dir: &Inode,
        shape: &Shape,
        sought: &Sought<'_>,
    ) -> FsResult<Option<Found>> {
        let mut found = None;
        self.walk(dir, shape, 0, |place, entry| {
            if sought.is(entry.name) {
                found = Some(Found::new(place.page, place.slot, entry));
            }
            Ok(found.is_none())
        })?;
        // The next miss is cheaper if it is known that there is none.
        self.note_search(dir, shape, shape.pages.max(1))?;
        Ok(found)
    }

    /// Calls `visit` with each entry that begins at or behind position `from`, until it says false.
    /// Damaged entries are errors.
    fn walk(
        &self,
        dir: &Inode,
        shape: &Shape,
        from: u64,
        mut visit: impl FnMut(Place, &Dentry<'_>) -> FsResult<bool>,
    ) -> FsResult<()> {
        const SLOTS: u64 = disk::DENTRIES_PER_BLOCK as u64;
        let mut first_slot = (from % SLOTS) as usize;
        let mut one_page =
            |page, block: &[u8], layout: &DentryLayout, first_slot| -> FsResult<bool> {
                // From the start: `first_slot` may be in the middle of an entry that came later.
                for entry in disk::iter(block, layout, 0) {
                    let (slot, entry) = entry.map_err(|e| damaged(dir, page, e))?;
                    if slot >= first_slot && !visit(Place { page, slot }, &entry)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            };
        if let Some(layout) = &shape.inline {
            if from < SLOTS {
                let block = self.node(dir.nid())?;
                one_page(0, &block, layout, first_slot)?;
            }
            return Ok(());
        }
        let mut page = from / SLOTS;
        while page < shape.pages {
            let run = self.lookup(dir, &mut dir.tree.lock(), page, shape.pages - page)?;
            if run.addr == disk::BlockAddr::NULL {
                page += run.len.max(1);
            } else {
                let block = self.dir_page(dir, page)?;
                if !one_page(page, &block, &DentryLayout::BLOCK, first_slot)? {
                    return Ok(());
                }
                page += 1;
            }
            first_slot = 0;
        }
        Ok(())
    }

    /// A search looked at so many pages: when searches have cost enough, the whole directory is
    /// read.
    fn note_search(&self, dir: &Inode, shape: &Shape, pages: u64) -> FsResult<()> {
        if !dir
            .names
            .lock()
            .get_or_insert_default()
            .searched(pages, shape.pages)
        {
            return Ok(());
        }
        let mut known = NameIndex::empty();
        let folding = self.folding_of(shape);
        self.walk(dir, shape, 0, |place, entry| {
            if !is_dot(entry.name) {
                known.added(entry.hash, place.page);
                if folding.is_some() && is_stray(folding, entry) {
                    known.has_stray();
                }
            }
            Ok(true)
        })?;
        // Names do not change while the gate is held, shared or not.
        dir.names.lock().get_or_insert_default().learn(known);
        Ok(())
    }
}

fn damaged(dir: &Inode, page: u64, e: ondisk::Corrupt) -> FsError {
    FsError::corrupt(format!("page {page} of directory inode {}: {e}", dir.ino))
}
