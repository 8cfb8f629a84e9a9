//! fast_commit-U4: the checks of a row before the first change, and the checks of the resulting
//! inodes before anything is logged.

use super::names::Change;
use super::{ENTRIES, LINKS_MAX, Replay, Target, has_extents, wrong};
use crate::dir::{self, DirRead};
use crate::inode::{Core, Inode};
use crate::{check, fault};
use base::{BLOCK_BYTES, BlockNo, Bytes, Ino, SECTORS_PER_BLOCK};
use fscore::FsResult;
use ondisk::ext4 as disk;
use ondisk::ext4::InodeFlags;
use std::collections::{BTreeMap, BTreeSet};

impl Replay<'_> {
    /// fast_commit-U4: counts the names and links that each inode has after the row.
    pub(super) fn count_names(&mut self) -> FsResult<()> {
        let is_new = |ino| self.targets.get(&ino).is_some_and(|t| t.new);
        let own = |c: Change<'_>| (c.parent, c.ino);
        let gone: Vec<_> = self.names.gone(is_new).map(own).collect();
        let come: Vec<_> = self.names.come(is_new).map(own).collect();
        for (parent, ino) in gone {
            let target = self.target(ino)?;
            target.names.0 += 1;
            let was_dir = target.old.as_ref().is_some_and(disk::Inode::is_dir);
            self.target(parent)?.subdirs -= i64::from(was_dir);
        }
        for (parent, ino) in come {
            let target = self.target(ino)?;
            target.names.1 += 1;
            let is_dir = target.is_dir;
            if is_dir && (!target.is_fresh() || target.parent != parent) {
                return Err(wrong(format!("directory {ino} gets another name")));
            }
            let dir = self.target(parent)?;
            dir.subdirs += i64::from(is_dir);
            if !dir.is_dir || !dir.is_alive() {
                return Err(wrong(format!(
                    "a name in inode {parent}, which is no directory"
                )));
            }
        }
        Ok(())
    }

    /// fast_commit-U4: checks the targets as far as that is possible before anything has changed.
    pub(super) fn check_targets(&self) -> FsResult<()> {
        for (&ino, target) in &self.targets {
            let fault = self.names_fault(ino, target).or(self.fields_fault(target)?);
            if let Some(what) = fault {
                return Err(wrong(format!("inode {ino}: {what}")));
            }
            let was_dir = target.old.as_ref().filter(|old| old.is_dir());
            if let Some(old) = was_dir.filter(|_| target.new || !target.is_alive()) {
                self.check_emptied(ino, old)?;
            }
        }
        Ok(())
    }

    fn names_fault(&self, ino: Ino, target: &Target) -> Option<&'static str> {
        let (before, after) = (target.names_before(), target.names_after());
        if target.is_alive() != (after > 0) || after > LINKS_MAX {
            return Some("its links are not its names");
        }
        if target.is_alive() && target.is_fresh() && target.fields.is_none() {
            return Some("a name of what is not there");
        }
        if target.is_alive() && target.is_dir && (after != 1 || self.is_in_itself(ino)) {
            return Some("a directory that does not have one place");
        }
        let given_out = target.old.is_some() && target.new;
        if given_out && (target.names.0 != before || (target.is_alive() && target.was_orphan())) {
            return Some("given out again while something else has it");
        }
        None
    }

    /// True if a new directory lies below itself, so that the way up from it does not reach the
    /// root.
    fn is_in_itself(&self, ino: Ino) -> bool {
        let mut at = ino;
        for _ in 0..=self.targets.len() {
            match self.targets.get(&at) {
                Some(target) if target.is_fresh() && target.is_alive() => at = target.parent,
                _ => return false,
            }
        }
        true
    }

    fn fields_fault(&self, target: &Target) -> FsResult<Option<&'static str>> {
        if !target.is_alive() {
            return Ok(None);
        }
        let old = target.old.as_ref().filter(|_| !target.new);
        let new = match &target.fields {
            Some(fields) => Some(self.parsed(fields)?),
            None => target.old.clone(),
        };
        let Some(new) = new else {
            return Ok(None);
        };
        let by_extents = new.flags().has(InodeFlags::EXTENTS);
        if target.moved && !by_extents && !target.extents.is_empty() {
            return Ok(Some("blocks, and no extents"));
        }
        let inline = new.flags().has(InodeFlags::INLINE_DATA);
        if new.is_regular() && new.size() > crate::extent::size_max(self.fs.block_size) {
            return Ok(Some("a size that no file can have"));
        }
        if inline && !target.extents.is_empty() {
            return Ok(Some("blocks, and content in the inode"));
        }
        if new.xattr_block() != old.map_or(base::BlockNo(0), disk::Inode::xattr_block) {
            return Ok(Some("another block of attributes"));
        }
        let maps = (new.is_regular() || new.is_dir()) && !by_extents && !inline;
        let same_map = match old {
            Some(old) => !has_extents(old) && old.block_area() == new.block_area(),
            None => base::bytes::is_zero(new.block_area()),
        };
        if maps && target.fields.is_some() && !same_map {
            return Ok(Some("another map of blocks"));
        }
        Ok(None)
    }

    pub(super) fn parsed(&self, fields: &[u8]) -> FsResult<disk::Inode> {
        let bytes = self.fs.geo.inode_bytes();
        let mut raw = fields.to_vec();
        raw.resize(bytes.max(raw.len()), 0);
        disk::Inode::parse(&raw, bytes).map_err(fault::corrupt)
    }

    /// Checks, for a directory that is removed, that the row also removes all entries in it.
    fn check_emptied(&self, ino: Ino, old: &disk::Inode) -> FsResult<()> {
        let fs = self.fs;
        let dir = Inode::new(ino, Core::new(old.clone(), fs.newest_tid()));
        let mut from = 0;
        loop {
            let view = fs.view_dir(&dir);
            let entries = dir::read_entries(&view, from, ENTRIES)?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            let stays = |e: &&dir::RawEntry| {
                !matches!(&e.name[..], b"." | b"..") && !self.takes_entry(view.facts(), e)
            };
            if let Some(entry) = entries.iter().find(stays) {
                let name = entry.name.escape_ascii();
                return Err(wrong(format!("directory {ino} goes, and holds \"{name}\"")));
            }
            assert!(last.next > from, "dir-I4: cookies ascend");
            from = last.next;
        }
    }

    /// fast_commit-U4, the rest: checks the remaining inodes as they would be after the row.
    pub(super) fn judge(&self, images: &[(BlockNo, Bytes)]) -> FsResult<()> {
        let alive = self.targets.iter().filter(|(_, t)| t.is_alive());
        let (orphans, others): (Vec<_>, Vec<_>) = alive.partition(|(_, t)| t.was_orphan());
        let numbers = |list: Vec<(&Ino, &Target)>| list.iter().map(|(ino, _)| **ino).collect();
        let (orphans, others) = (numbers(orphans), numbers(others));
        let after = self.faults(images, (&others, &orphans));
        if after.is_empty() {
            return Ok(());
        }
        let older = |ino: &&Ino| !self.targets[*ino].is_fresh();
        let was = |list: &BTreeSet<Ino>| list.iter().filter(older).copied().collect();
        let before = self.faults(&[], (&was(&others), &was(&orphans)));
        match first_new(&before, &after) {
            Some(finding) => Err(wrong(finding.to_string())),
            None => Ok(()),
        }
    }

    /// The faults of these inodes and orphans if these images lay at home.
    fn faults(
        &self,
        images: &[(BlockNo, Bytes)],
        (inos, orphans): (&BTreeSet<Ino>, &BTreeSet<Ino>),
    ) -> Vec<check::Finding> {
        let fs = self.fs;
        let images: BTreeMap<u64, &Bytes> = images.iter().map(|(n, b)| (n.0, b)).collect();
        let bytes = fs.block_size.bytes();
        let piece = bytes.min(BLOCK_BYTES);
        let read = |block: BlockNo| {
            let mut content = fs
                .queue
                .read(block.lba(), SECTORS_PER_BLOCK)
                .map_err(|e| e.to_string())?
                .to_vec();
            // Images have the blocks of the volume, of which 4 KiB are some or a part of one.
            let start = block.0 as usize * BLOCK_BYTES;
            for (at, part) in (start..).step_by(piece).zip(content.chunks_mut(piece)) {
                if let Some(image) = images.get(&((at / bytes) as u64)) {
                    part.copy_from_slice(&image[at % bytes..][..piece]);
                }
            }
            Ok::<_, String>(content.into())
        };
        let blocks = fs.queue.caps().sectors / SECTORS_PER_BLOCK;
        check::of_inodes(&read, blocks, inos, orphans)
    }
}

/// The first finding of `after` that is not there `before`: of another kind, or of another inode.
fn first_new<'f>(
    before: &[check::Finding],
    after: &'f [check::Finding],
) -> Option<&'f check::Finding> {
    let known: BTreeSet<_> = before.iter().map(|f| (f.kind, f.ino)).collect();
    let new = |f: &&check::Finding| !known.contains(&(f.kind, f.ino));
    // Where there are too many to keep, one that is new may be among the others.
    let kept = after.get(check::INODES_LIMIT - 1);
    after.iter().find(new).or(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use check::{Finding, Kind};

    #[test]
    fn only_what_was_not_there_before_is_new() {
        let of = |kind, ino: u32| Finding::new(kind, String::new()).ino(ino);
        let sectors = |ino| of(Kind::InodeSectors, ino);
        assert_eq!(first_new(&[sectors(2)], &[sectors(2)]), None);
        let after = [sectors(2), sectors(12)];
        assert_eq!(first_new(&[sectors(2)], &after), Some(&after[1]));
        let after = [sectors(2), of(Kind::InodeSize, 2)];
        assert_eq!(first_new(&[sectors(2)], &after), Some(&after[1]));
        let many = vec![sectors(2); check::INODES_LIMIT];
        assert!(first_new(&many[..1], &many).is_some());
    }
}
