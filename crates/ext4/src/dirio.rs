//! Gives module `dir` access to the blocks of a directory inode.

use crate::Ext4;
use crate::dir::{self, DirFacts, DirIo, DirRead};
use crate::inline::SEAMS;
use crate::inode::Inode;
use crate::map::Span;
use crate::tx::Tx;
use base::{BlockNo, Bytes, Ino};
use fscore::{Errno, FsError, FsResult};
use journal::Checked;
use ondisk::Folding;
use ondisk::ext4::{Compat, HashVersion, Incompat, InodeFlags, Superblock, SuperblockFlags};
use std::sync::Arc;

/// A directory outside of a handle, for reading only. The gate is held.
pub(crate) struct DirView<'a> {
    fs: &'a Ext4,
    inode: &'a Inode,
    facts: DirFacts,
}

/// A directory inside a handle. The gate is held exclusively.
pub(crate) struct DirEdit<'a, 't> {
    view: DirView<'a>,
    tx: &'a mut Tx<'t>,
}

/// The maximum of index levels below the root of a hash tree.
pub(crate) fn index_levels_max(sb: &Superblock) -> u8 {
    1 + u8::from(sb.incompat().has(Incompat::LARGE_DIR))
}

impl Ext4 {
    /// The maximum of index levels below the root of a hash tree. It is that of the superblock as
    /// it was at mount, after recovery, because the credits for which the log was found large
    /// enough depend on it. A feature flag that is set later counts from the next mount on.
    pub(crate) fn index_levels_max(&self) -> u8 {
        index_levels_max(&self.geo)
    }

    /// The properties of this directory that the layout of its blocks depends on.
    pub(crate) fn dir_facts(&self, inode: &Inode) -> DirFacts {
        let geo = &self.geo;
        let inline = inode.is_inline();
        let version = geo.default_hash().unwrap_or(HashVersion::HalfMd4);
        let unsigned = geo.flags().has(SuperblockFlags::UNSIGNED_HASH);
        DirFacts {
            ino: inode.ino,
            block_bytes: match inline {
                true => self.inline_dir_bytes(inode),
                false => self.block_size.bytes(),
            },
            csum_seed: match inline {
                true => None,
                false => self.inode_seed(inode),
            },
            seams: if inline { &SEAMS } else { &[] },
            levels_max: self.index_levels_max(),
            has_file_type: geo.incompat().has(Incompat::FILETYPE),
            dir_index: geo.compat().has(Compat::DIR_INDEX),
            hash: version.with_unsigned(unsigned),
            hash_seed: geo.hash_seed(),
            folding: self.folding_of(inode).cloned(),
        }
    }

    /// How names fold in this directory; `None` if they do not.
    pub(crate) fn folding_of(&self, dir: &Inode) -> Option<&Arc<Folding>> {
        let folding = self.folding.as_ref()?;
        let folds = dir.core().disk.flags().has(InodeFlags::CASEFOLD);
        folds.then_some(folding)
    }

    pub(crate) fn view_dir<'a>(&'a self, inode: &'a Inode) -> DirView<'a> {
        DirView {
            fs: self,
            inode,
            facts: self.dir_facts(inode),
        }
    }

    pub(crate) fn edit_dir<'a, 't>(
        &'a self,
        inode: &'a Inode,
        tx: &'a mut Tx<'t>,
    ) -> DirEdit<'a, 't> {
        DirEdit {
            view: self.view_dir(inode),
            tx,
        }
    }
}

/// What a block of this form is checked as. With the seed of the inode: a block that two
/// directories share is checked for each.
fn found_as(facts: &DirFacts, form: u32) -> Checked {
    let seed = facts.csum_seed.map_or(facts.ino.0, |seed| seed.0);
    u64::from(form) << 32 | u64::from(seed)
}

impl DirView<'_> {
    fn block(&self, lblk: u32) -> FsResult<BlockNo> {
        match self.fs.lookup_span(self.inode, lblk, 1)? {
            Span::Data { start, .. } => Ok(start),
            Span::Hole { .. } | Span::Unwritten { .. } => Err(FsError::corrupt(format!(
                "directory inode {}, block {lblk}: a hole",
                self.inode.ino
            ))),
        }
    }
}

impl DirRead for DirView<'_> {
    fn facts(&self) -> &DirFacts {
        &self.facts
    }
    fn block_count(&self) -> u32 {
        if self.inode.is_inline() {
            return 1;
        }
        (self.inode.core().disk.size() / self.fs.block()) as u32
    }
    fn is_indexed(&self) -> bool {
        self.inode.core().disk.flags().has(InodeFlags::INDEX)
    }
    fn read(&self, lblk: u32) -> FsResult<Bytes> {
        match self.inode.is_inline() {
            true => self.fs.inline_dir_block(self.inode),
            false => self.fs.read_meta(self.block(lblk)?),
        }
    }
    fn read_checked(
        &self,
        lblk: u32,
        form: u32,
        check: &dyn Fn(&[u8]) -> FsResult<()>,
    ) -> FsResult<Bytes> {
        if self.inode.is_inline() {
            let bytes = self.fs.inline_dir_block(self.inode)?;
            check(&bytes)?;
            return Ok(bytes);
        }
        let found = found_as(&self.facts, form);
        self.fs.read_meta_checked(self.block(lblk)?, found, check)
    }
}

impl DirRead for DirEdit<'_, '_> {
    fn facts(&self) -> &DirFacts {
        &self.view.facts
    }
    fn block_count(&self) -> u32 {
        self.view.block_count()
    }
    fn is_indexed(&self) -> bool {
        self.view.is_indexed()
    }
    fn read(&self, lblk: u32) -> FsResult<Bytes> {
        self.view.read(lblk)
    }
    fn read_checked(
        &self,
        lblk: u32,
        form: u32,
        check: &dyn Fn(&[u8]) -> FsResult<()>,
    ) -> FsResult<Bytes> {
        self.view.read_checked(lblk, form, check)
    }
}

impl DirIo for DirEdit<'_, '_> {
    fn write(&mut self, lblk: u32, pieces: &[(usize, &[u8])]) -> FsResult<()> {
        if self.view.inode.is_inline() {
            let view = &self.view;
            for (offset, bytes) in pieces {
                (view.fs).write_inline_dir(self.tx, view.inode, *offset, bytes)?;
            }
            return Ok(());
        }
        let block = self.view.block(lblk)?;
        let end = pieces.iter().map(|(offset, bytes)| offset + bytes.len());
        let end = end.max().unwrap_or(0);
        self.tx.write_pieces(block, end, pieces.iter().copied())
    }

    fn append(&mut self, content: Bytes) -> FsResult<u32> {
        let (lblk, _) = (self.view.fs).append_block(self.tx, self.view.inode, content)?;
        Ok(lblk)
    }

    fn widen(&mut self) -> FsResult<bool> {
        let (fs, inode) = (self.view.fs, self.view.inode);
        if !inode.is_inline() {
            return Ok(false);
        }
        fs.widen_inline_dir(self.tx, inode)?;
        self.view.facts = fs.dir_facts(inode);
        Ok(true)
    }

    fn set_indexed(&mut self) -> FsResult<()> {
        {
            let mut core = self.view.inode.core();
            let flags = core.disk.flags() | InodeFlags::INDEX;
            core.disk.set_flags(flags);
        }
        self.view.fs.put_inode(self.tx, self.view.inode)
    }
}

impl Ext4 {
    /// Gives a new directory its first block.
    pub(crate) fn append_first_block(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        parent: Ino,
    ) -> FsResult<()> {
        let facts = self.dir_facts(inode);
        let content = dir::first_block(&facts, parent);
        let (_, block) = self.append_block(tx, inode, content.clone())?;
        // Its checksum was just made, so the first search need not make it again.
        let found = found_as(&facts, dir::LEAF_FORM);
        self.journal.note_checked(block, &content, found);
        Ok(())
    }

    /// Adds a block to a directory or symbolic link; answers its logical number and its place.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed: no space, or a directory so large that it would need
    /// `large_dir`.
    pub(crate) fn append_block(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        content: Bytes,
    ) -> FsResult<(u32, BlockNo)> {
        let lblk = (inode.core().disk.size() / self.block()) as u32;
        let size = u64::from(lblk + 1) * self.block();
        // Directories of 2 GiB and more need feature large_dir.
        if size >= 1 << 31 {
            return Err(Errno::NoSpc.into());
        }
        let (block, _) = {
            let _tree = inode.tree.write();
            self.map_hole(tx, inode, lblk, 1)?
        };
        tx.create(block, content)?;
        inode.core().set_size(size);
        self.put_inode(tx, inode)?;
        Ok((lblk, block))
    }
}
