//! Replay of the fast commits that Linux has left behind the last full commit.
//!
//! The changes are made by the ordinary code on a file system without log, whose changed blocks
//! stay in memory; the journal then logs these blocks as one more transaction and brings them home.
//! So a cut leaves all of a replay, or a log that asks for it again.
//!
//! - U1 what a tag says of an inode counts from the tag's place in the row on: fields by `Inode`,
//!   links by names, blocks by ranges. The replay carries out the state that the whole row leads
//!   to: all names that go are removed first, and those that come are added in the order of the
//!   row, in which they had room in their directories.
//! - U2 all blocks that change hands are freed before any is taken, and those that the tags name
//!   are taken before the allocator gives out blocks for nodes and directories: nothing is used
//!   twice.
//! - U3 a second replay changes nothing: an entry that is there already stays, and an entry that is
//!   to be removed may be missing.
//! - U4 a row that would not lead to a volume without faults is refused before anything is logged:
//!   names and links are counted before the first change, and each inode that remains is judged, as
//!   it would be after the row, by the rules of the offline checker. A fault of its kind that the
//!   inode had before the row is not the row's, and refuses nothing: a kernel that replays names
//!   into a directory that grows leaves such faults behind ([`judge`](Replay::judge)).
//! - U5 what the last name of a file frees is as much as the file, and the transaction that took
//!   the name may not have freed it: the file was open. Where the log has no room for all of that
//!   at once, the file goes on the list of orphans instead ([`Ending::Orphan`]), which changes its
//!   inode and the superblock only. The mount frees it from there in as many transactions as that
//!   takes (orphan-O1): a cut between them leaves it on the list. That the log has room for
//!   the rest is fast-W10.

mod judge;
mod mistakes;
mod names;

pub(crate) use mistakes::with_room;

use crate::dir;
use crate::extent::{Aim, STEP_CREDITS, Step};
use crate::inode::{Core, Inode};
use crate::options::MountOptions;
use crate::{Ext4, fault};
use base::{BlockNo, Bytes, Ino};
use block::Queue;
use fscore::{FileKind, FsError, FsResult};
use journal::Journal;
use mistakes::Mistakes;
use names::{Change, Names};
use ondisk::ext4 as disk;
use ondisk::ext4::{Extent, ExtentNode, FastCommitTag, InodeFlags, Superblock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of an inode before its block area, and where the fields behind the block area begin.
const FIELDS: (usize, usize) = (0x28, 0x64);

/// Fields in which a directory keeps its own blocks: size, sectors, flags, and the high halves of
/// the first two.
const OF_DIRECTORY: [Range<usize>; 5] =
    [0x04..0x08, 0x1C..0x20, 0x20..0x24, 0x6C..0x70, 0x74..0x76];

/// The maximum of names of a file, and of links of a directory as long as links are counted.
const LINKS_MAX: i64 = 65_000;
/// Entries of a directory that are read at once.
const ENTRIES: usize = 256;

/// Blocks of a file by number (Linux `EXT_MAX_BLOCKS`).
const BLOCKS_MAX: u64 = u32::MAX as u64;

/// What the row says of one inode.
struct Target {
    /// The inode as it is on the device; `None`: not in use.
    old: Option<disk::Inode>,
    /// Its fields as the last tag has them.
    fields: Option<Vec<u8>>,
    /// The inode as it lies there after each tag so far, for a replay that changes the fields in
    /// place ([`Mistakes::old_attributes`]).
    in_place: Vec<u8>,
    links: u32,
    /// Extents by their first block; they do not overlap.
    extents: BTreeMap<u32, Extent>,
    /// True if `extents` are not those on the device.
    moved: bool,
    /// True if this is another inode than the one that has the number on the device.
    new: bool,
    is_dir: bool,
    /// The directory in which the inode was made.
    parent: Ino,
    /// How many names the inode loses, and how many it gets.
    names: (i64, i64),
    /// Number of directories that are added to this one, less those removed from it.
    subdirs: i64,
}

impl Target {
    fn is_alive(&self) -> bool {
        self.links > 0
    }

    /// True if the inode has nothing in common with the one that has its number on the device.
    fn is_fresh(&self) -> bool {
        self.old.is_none() || self.new
    }

    /// True if the inode is in use without a name: it is on the list of orphans, which the mount
    /// goes through after the replay.
    fn was_orphan(&self) -> bool {
        self.old.as_ref().is_some_and(|old| old.links() == 0)
    }

    /// Number of names on the device.
    fn names_before(&self) -> i64 {
        match &self.old {
            Some(old) if old.is_dir() => i64::from(old.links() > 0),
            Some(old) => old.links().into(),
            None => 0,
        }
    }

    fn names_after(&self) -> i64 {
        self.names_before() - self.names.0 + self.names.1
    }

    /// The link count that the inode has to store.
    fn links_after(&self) -> i64 {
        let counted = match &self.old {
            _ if !self.is_dir => return self.names_after(),
            // 1 stands for more links than can be counted.
            Some(old) if !self.new && old.links() == 1 => return 1,
            Some(old) if !self.new => i64::from(old.links()) + self.subdirs,
            _ => 2 + self.subdirs,
        };
        if counted > LINKS_MAX { 1 } else { counted }
    }
}

/// What becomes of files whose last name goes (U5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The replay frees them.
    Freed,
    /// They go on the list of orphans. What is no regular file is small and is freed, and so is a
    /// file whose number is given out again.
    Orphan,
}

/// Carries the changes out and answers the blocks that have changed.
///
/// # Errors
/// A tag contradicts the file system, or needs what is not supported here: then run e2fsck. I/O
/// errors.
pub(crate) fn replay(
    queue: &Arc<Queue>,
    sb: &Superblock,
    options: &MountOptions,
    row: (Vec<FastCommitTag>, Ending),
) -> FsResult<Vec<(BlockNo, Bytes)>> {
    Ok(replayed(queue, sb, options, row)?.images)
}

/// What a replay has done.
struct Replayed {
    images: Vec<(BlockNo, Bytes)>,
    /// A directory has become larger; looked at only for [`Mistakes::full_directory`].
    directory_grew: bool,
}

fn replayed(
    queue: &Arc<Queue>,
    sb: &Superblock,
    options: &MountOptions,
    (tags, ending): (Vec<FastCommitTag>, Ending),
) -> FsResult<Replayed> {
    let mistakes = Mistakes::of(options);
    let mut options = options.clone();
    (options.scheme, options.read_only, options.discard) = (None, false, false);
    options.writeback_expire = None;
    let fs = Arc::new(Ext4::without_log(queue.clone(), sb.clone(), options)?);
    let mut replay = Replay {
        fs: &fs,
        targets: BTreeMap::new(),
        names: Names::default(),
        mistakes,
        ending,
    };
    let done = replay
        .gather(tags)
        .and_then(|()| replay.count_names())
        .and_then(|()| replay.check_targets())
        .and_then(|()| replay.carry_out());
    let images = fs.journal.unwritten();
    let done = done.and_then(|()| {
        if !mistakes.leave_faults() {
            replay.judge(&images)?;
        }
        Ok(mistakes.full_directory && replay.directory_grew()?)
    });
    // Nothing of this file system goes home from here.
    fs.journal
        .abort("fast commits: the journal goes on with it");
    let _ = fs.journal.stop();
    let replayed = |directory_grew| Replayed {
        images,
        directory_grew,
    };
    done.map(replayed).map_err(|e| match e {
        // The errno of a full volume or a missing entry would mean nothing to the caller that
        // mounts.
        FsError::Posix(errno) => wrong(format!("{errno}")),
        FsError::Corrupt { what } if !what.starts_with(WHAT) => wrong(what),
        other => other,
    })
}

const WHAT: &str = "fast commit";

fn wrong(what: String) -> FsError {
    FsError::corrupt(format!("{WHAT}: {what}; run e2fsck -f"))
}

struct Replay<'a> {
    fs: &'a Arc<Ext4>,
    targets: BTreeMap<Ino, Target>,
    names: Names,
    mistakes: Mistakes,
    ending: Ending,
}

impl Replay<'_> {
    /// U1.
    fn gather(&mut self, tags: Vec<FastCommitTag>) -> FsResult<()> {
        for tag in tags {
            match tag {
                FastCommitTag::AddRange(ino, extent) => {
                    if extent.logical_end() > BLOCKS_MAX {
                        return Err(wrong(format!(
                            "blocks of inode {ino} beyond what a file can have"
                        )));
                    }
                    self.fs
                        .check_range(extent.physical, extent.len, "a range")?;
                    let target = self.mapped(ino)?;
                    cut(
                        &mut target.extents,
                        extent.logical.into(),
                        extent.logical_end(),
                    );
                    target.extents.insert(extent.logical, extent);
                }
                FastCommitTag::DelRange(ino, first, len) => {
                    let end = u64::from(first) + u64::from(len);
                    cut(&mut self.mapped(ino)?.extents, first.into(), end);
                }
                FastCommitTag::Inode(ino, fields) => self.fields(ino, fields)?,
                FastCommitTag::Create(name) => {
                    let target = self.target(name.ino)?;
                    (target.parent, target.links) = (name.parent, 1);
                    self.name(true, &name)?;
                }
                FastCommitTag::Link(name) => {
                    self.target(name.ino)?.links += 1;
                    self.name(true, &name)?;
                }
                FastCommitTag::Unlink(name) => {
                    self.unlink(name.ino)?;
                    self.name(false, &name)?;
                }
            }
        }
        Ok(())
    }

    fn unlink(&mut self, ino: Ino) -> FsResult<()> {
        let target = self.target(ino)?;
        target.links = match target.is_dir {
            true => 0,
            false => target.links.saturating_sub(1),
        };
        if target.links == 0 {
            target.extents.clear();
            (target.moved, target.new) = (true, true);
        }
        Ok(())
    }

    fn fields(&mut self, ino: Ino, fields: Vec<u8>) -> FsResult<()> {
        let bytes = self.fs.geo.inode_bytes();
        let mut raw = fields.clone();
        raw.resize(bytes.max(raw.len()), 0);
        let inode = disk::Inode::parse(&raw, bytes).map_err(fault::corrupt)?;
        let target = self.target(ino)?;
        let same = |old: &disk::Inode| old.generation() == inode.generation();
        if !target.old.as_ref().is_some_and(same) && !target.new {
            target.extents.clear();
            (target.moved, target.new) = (true, true);
        }
        let type_of = |inode: &disk::Inode| disk::FileType::of_mode(inode.mode());
        let old = target.old.as_ref().filter(|_| !target.new);
        if old.is_some_and(|old| type_of(old) != type_of(&inode)) {
            return Err(wrong(format!("inode {ino} becomes one of another type")));
        }
        target.is_dir = inode.is_dir();
        target.links = inode.links().into();
        let end = fields.len().min(target.in_place.len());
        target.in_place[..end].copy_from_slice(&fields[..end]);
        target.fields = Some(fields);
        Ok(())
    }

    /// The target for an inode whose blocks change.
    fn mapped(&mut self, ino: Ino) -> FsResult<&mut Target> {
        let target = self.target(ino)?;
        let known = InodeFlags::EXTENTS.0 | InodeFlags::INLINE_DATA.0;
        let by_map = |old: &disk::Inode| old.flags().0 & known == 0;
        if target.is_dir || (!target.new && target.old.as_ref().is_some_and(by_map)) {
            return Err(wrong(format!(
                "blocks of inode {ino}, which has no extents"
            )));
        }
        target.moved = true;
        Ok(target)
    }

    fn target(&mut self, ino: Ino) -> FsResult<&mut Target> {
        if !self.targets.contains_key(&ino) {
            let target = self.load(ino)?;
            self.targets.insert(ino, target);
        }
        Ok(self.targets.get_mut(&ino).expect("inserted above"))
    }

    fn load(&self, ino: Ino) -> FsResult<Target> {
        let fs = self.fs;
        let first = fs.geo.first_ino();
        if (ino < first && ino != disk::ROOT_INO) || fs.geo.inode_place(ino).is_none() {
            return Err(wrong(format!("inode {ino} is none of a file")));
        }
        let old = match fs.is_ino_used(ino)? {
            true => Some(fs.read_inode(ino)?),
            false => None,
        };
        let mut target = Target {
            links: old.as_ref().map_or(0, |old| old.links().into()),
            is_dir: old.as_ref().is_some_and(disk::Inode::is_dir),
            in_place: match &old {
                Some(old) if self.mistakes.old_attributes => old.bytes().to_vec(),
                _ => vec![0; fs.geo.inode_bytes()],
            },
            old: old.clone(),
            fields: None,
            extents: BTreeMap::new(),
            moved: false,
            new: false,
            parent: disk::ROOT_INO,
            names: (0, 0),
            subdirs: 0,
        };
        if let Some(old) = old.filter(has_extents) {
            let inode = Inode::new(ino, Core::new(old, fs.newest_tid()));
            let all = fs.extents_of(&inode)?;
            target.extents = all.into_iter().map(|e| (e.logical, e)).collect();
        }
        Ok(target)
    }

    fn carry_out(&mut self) -> FsResult<()> {
        for (&ino, target) in &self.targets {
            self.free(ino, target)?;
        }
        self.fs.reap_pending()?;
        let alive = || self.targets.iter().filter(|(_, t)| t.is_alive());
        for (&ino, target) in alive() {
            self.put_fields(ino, target)?;
        }
        for (_, target) in alive().filter(|(_, t)| t.moved) {
            for extent in target.extents.values() {
                self.fs.transact(STEP_CREDITS, |tx| {
                    self.fs.take_range(tx, extent.physical, extent.len)
                })?;
            }
        }
        for (&ino, target) in alive() {
            self.put_mapping(ino, target)?;
        }
        let is_new = |ino| self.targets.get(&ino).is_some_and(|t| t.new);
        for change in self.names.gone(is_new) {
            self.take_name(change)?;
        }
        for change in self.names.come(is_new) {
            self.put_name(change)?;
        }
        for (&ino, target) in alive() {
            self.put_links(ino, target)?;
        }
        Ok(())
    }

    /// U2: frees the blocks that the inode had on the device and does not have any more, or has
    /// elsewhere.
    fn free(&self, ino: Ino, target: &Target) -> FsResult<()> {
        let Some(old) = &target.old else {
            return Ok(());
        };
        let goes = !target.is_alive() || target.new;
        let waits = goes && target.was_orphan();
        if waits || (!goes && !target.moved) {
            return Ok(());
        }
        let fs = self.fs;
        let inode = Arc::new(Inode::new(ino, Core::new(old.clone(), fs.newest_tid())));
        fs.inodes.replace(inode.clone());
        if goes {
            if self.ending == Ending::Orphan && !target.is_alive() && old.is_regular() {
                return self.leave_as_orphan(&inode);
            }
            // The inode is put on no list of orphans, because no part of this reaches the device
            // before all of it.
            inode.core().disk.set_links(0);
            return fs.evict_if_unused(&inode);
        }
        if inode.is_inline() {
            // The mapping begins empty: the inode maps only what the row gives it from now on.
            fs.inodes.remove(&inode);
            return Ok(());
        }
        fs.transact(STEP_CREDITS, |tx| {
            while fs.remove_last(tx, &inode, 0)? == Step::More {
                tx.ensure(STEP_CREDITS)?;
            }
            fs.put_inode(tx, &inode)
        })?;
        fs.inodes.remove(&inode);
        Ok(())
    }

    /// U5. The list begins with what the volume has on it already.
    fn leave_as_orphan(&self, inode: &Arc<Inode>) -> FsResult<()> {
        let fs = self.fs;
        let next = fs.sb.lock().last_orphan();
        {
            let mut core = inode.core();
            core.disk.set_links(0);
            core.disk.set_deletion_time(next.0);
        }
        fs.transact(STEP_CREDITS, |tx| {
            fs.put_inode(tx, inode)?;
            fs.update_superblock(tx, |sb| sb.set_last_orphan(inode.ino))
        })?;
        fs.inodes.remove(inode);
        Ok(())
    }

    /// Writes the fields of an inode, taking its number if it is new.
    fn put_fields(&self, ino: Ino, target: &Target) -> FsResult<()> {
        let Some(fields) = &target.fields else {
            return Ok(());
        };
        let fs = self.fs;
        let old = target.old.as_ref().filter(|_| !target.new);
        let unmapped = target.moved || !old.is_some_and(has_extents);
        let bytes = fs.geo.inode_bytes();
        let mut raw = old.map_or_else(|| vec![0; bytes], |old| old.bytes().to_vec());
        let end = fields.len().min(bytes);
        if self.mistakes.old_attributes {
            raw[end..].copy_from_slice(&target.in_place[end..bytes]);
        }
        raw[..FIELDS.0].copy_from_slice(&fields[..FIELDS.0]);
        raw[FIELDS.1..end].copy_from_slice(&fields[FIELDS.1..end]);
        if let Some(old) = old.filter(|old| old.is_dir()) {
            for own in OF_DIRECTORY {
                raw[own.clone()].copy_from_slice(&old.bytes()[own]);
            }
        }
        let mut inode = disk::Inode::parse(&raw, bytes).map_err(fault::corrupt)?;
        if target.was_orphan() {
            // For an orphan the deletion time holds the next orphan of the list, so it must stay.
            inode.set_deletion_time(target.old.as_ref().map_or(0, disk::Inode::deletion_time));
        }
        if target.is_dir && old.is_some() {
            // The content of a directory follows from the names in the row, and so do its blocks.
        } else if !inode.flags().has(InodeFlags::EXTENTS) {
            // The area holds the target of a short link, the numbers of a device, or inline
            // content.
            inode
                .block_area_mut()
                .copy_from_slice(&fields[FIELDS.0..FIELDS.1]);
        } else if unmapped && !(target.is_dir && old.is_some()) {
            ExtentNode::inline_root().encode(inode.block_area_mut());
        }
        if old.is_none() || target.moved {
            let counts = !self.mistakes.attribute_block;
            let attributes = u64::from(counts && inode.xattr_block().0 != 0);
            let sectors = fs.block_size.sectors_of(attributes);
            let fits = inode.set_sectors(sectors, fs.has_huge_files(), fs.geo.block_bytes());
            debug_assert!(fits, "one block");
        }
        if target.is_dir && old.is_none() {
            // This is the content at the time of the tag; the row names all of it, and the entries
            // removed since.
            if inode.flags().has(InodeFlags::INLINE_DATA) {
                fs.drop_inline(ino, &mut inode)?;
            }
            inode.set_size(0);
        }
        inode.set_links(1);
        fs.transact(STEP_CREDITS, |tx| {
            if old.is_none() {
                fs.claim_ino(tx, ino, target.is_dir)?;
            }
            let inode = Arc::new(Inode::new(ino, Core::new(inode.clone(), tx.tid())));
            fs.inodes.replace(inode.clone());
            fs.put_new_inode(tx, &inode)
        })
    }

    /// Maps the blocks, which are taken; gives a new directory its first one.
    fn put_mapping(&self, ino: Ino, target: &Target) -> FsResult<()> {
        let fs = self.fs;
        let fresh_dir = target.is_dir && (target.old.is_none() || target.new);
        if !target.moved && !fresh_dir {
            return Ok(());
        }
        let inode = fs.inode(ino)?;
        if inode.is_inline() {
            // The fields have brought the whole content already.
            return Ok(());
        }
        if fresh_dir {
            let content = dir::first_block(&fs.dir_facts(&inode), target.parent);
            return fs.transact(STEP_CREDITS, |tx| {
                fs.append_block(tx, &inode, content).map(drop)
            });
        }
        for &extent in target.extents.values() {
            fs.transact(STEP_CREDITS, |tx| {
                let _tree = inode.tree.write();
                fs.insert_extent(tx, &inode, extent)?;
                fs.add_clusters(&inode, extent.len.into())?;
                fs.put_inode(tx, &inode)
            })?;
        }
        Ok(())
    }

    /// Removes a name. In a directory that is removed itself, or whose number is another inode now,
    /// no name has to be removed.
    fn take_name(&self, change: Change<'_>) -> FsResult<()> {
        let fs = self.fs;
        let dir = &self.targets[&change.parent];
        if dir.new || !dir.is_alive() {
            return Ok(());
        }
        let parent = fs.inode(change.parent)?;
        fs.transact(STEP_CREDITS, |tx| {
            dir::remove(&mut fs.edit_dir(&parent, tx), change.name).map(drop)
        })
    }

    fn put_name(&self, change: Change<'_>) -> FsResult<()> {
        let fs = self.fs;
        let parent = fs.inode(change.parent)?;
        let kind: FileKind = fs.inode(change.ino)?.kind()?;
        fs.transact(STEP_CREDITS, |tx| {
            let mut edit = fs.edit_dir(&parent, tx);
            dir::insert(&mut edit, change.name, change.ino, kind)
        })
    }

    fn put_links(&self, ino: Ino, target: &Target) -> FsResult<()> {
        let fs = self.fs;
        let inode = fs.inode(ino)?;
        fs.transact(STEP_CREDITS, |tx| {
            let counted = match (&target.old, self.mistakes.new_directory && target.is_dir) {
                (Some(old), true) if !target.new => old.links().into(),
                (_, true) => i64::from(target.links),
                _ => target.links_after(),
            };
            let links = u16::try_from(counted).expect("counted up to LINKS_MAX");
            let mut core = inode.core();
            core.disk.set_links(links);
            if let Some(old) = &target.old
                && self.mistakes.directory_blocks
                && target.is_dir
            {
                let (huge, block_bytes) = (fs.has_huge_files(), fs.geo.block_bytes());
                let sectors = old.sectors(huge, block_bytes);
                let fits = core.disk.set_sectors(sectors, huge, block_bytes);
                debug_assert!(fits, "as before");
            }
            drop(core);
            fs.put_inode(tx, &inode)
        })
    }
}

fn has_extents(inode: &disk::Inode) -> bool {
    (inode.is_regular() || inode.is_symlink()) && inode.flags().has(InodeFlags::EXTENTS)
}

/// Takes the blocks from `first` to before `end` out of extents that do not overlap. A row may have
/// a million ranges, so only those that overlap the blocks are looked at.
fn cut(extents: &mut BTreeMap<u32, Extent>, first: u64, end: u64) {
    let Ok(from) = u32::try_from(first) else {
        return;
    };
    let before = extents.range(..from).next_back();
    let start = before
        .filter(|(_, e)| e.logical_end() > first)
        .map_or(from, |(&at, _)| at);
    let touched: Vec<Extent> = extents
        .range(start..)
        .map(|(_, e)| *e)
        .take_while(|e| u64::from(e.logical) < end)
        .collect();
    for e in touched {
        extents.remove(&e.logical);
        let (from, to) = (u64::from(e.logical), e.logical_end());
        if from < first {
            let len = (to.min(first) - from) as u32;
            extents.insert(e.logical, Extent { len, ..e });
        }
        if to > end {
            let skip = (end.max(from) - from) as u32;
            let rest = Extent {
                logical: e.logical + skip,
                len: e.len - skip,
                physical: e.physical.plus(skip.into()),
                ..e
            };
            extents.insert(rest.logical, rest);
        }
    }
}

impl Ext4 {
    /// Mounts a volume for a replay, or for a rehearsal of one: only superblock and groups are
    /// read, and nothing is written home.
    pub(crate) fn without_log(
        queue: Arc<Queue>,
        sb: Superblock,
        options: MountOptions,
    ) -> FsResult<Ext4> {
        let groups = crate::group::Groups::load(&queue, &sb)?;
        let settings = journal::Options {
            scheme: None,
            commit_interval: None,
            writeback_expire: None,
            block_size: crate::superblock::block_size(&sb)?,
            ..journal::Options::default()
        };
        let journal = Journal::without_log(queue.clone(), settings).map_err(fault::journal)?;
        Ext4::assemble(queue, journal, options, sb, groups)
    }

    /// All extents of an inode.
    pub(crate) fn extents_of(&self, inode: &Inode) -> FsResult<Vec<Extent>> {
        let _tree = inode.tree.read();
        let mut list: Vec<Extent> = Vec::new();
        let mut from = 0;
        loop {
            let path = self.find_path(inode, Aim::Block(from))?;
            list.extend(path.leaf().iter().filter(|e| e.logical >= from));
            // The loop ends because each leaf lies behind the one before.
            match path.next_leaf() {
                Some(next) if next > from => from = next,
                _ => return Ok(list),
            }
        }
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod guards;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_out() {
        let extent = |logical, len, physical| Extent {
            logical,
            len,
            physical: BlockNo(physical),
            unwritten: false,
        };
        let by_start = |list: &[Extent]| list.iter().map(|e| (e.logical, *e)).collect();
        let mut list: BTreeMap<u32, Extent> = by_start(&[extent(0, 10, 100), extent(20, 5, 300)]);
        cut(&mut list, 3, 6);
        let three = [extent(0, 3, 100), extent(6, 4, 106), extent(20, 5, 300)];
        assert_eq!(list, by_start(&three));
        cut(&mut list, 8, 22);
        let left = [extent(0, 3, 100), extent(6, 2, 106), extent(22, 3, 302)];
        assert_eq!(list, by_start(&left));
        cut(&mut list, 3, 3);
        cut(&mut list, 1 << 32, u64::MAX);
        assert_eq!(list, by_start(&left));
        cut(&mut list, 0, u64::MAX);
        assert!(list.is_empty());
    }
}
