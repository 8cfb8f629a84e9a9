//! Places of the log and the fixed metadata of an ext4 or ext3 volume, as they are before the
//! mount. So a write is known to be the log's, and a logged block has a role: by its place where
//! that is fixed, else by its content.

use super::ReadError;
use base::bytes::get_le32;
use base::{BLOCK_BYTES, BlockNo, Bytes, Lba, SECTORS_PER_BLOCK};
use ondisk::Corrupt;
use ondisk::ext4::{
    BlockPath, ExtentEntries, ExtentNode, GroupDesc, Inode, InodeFlags, SUPERBLOCK_AT, Superblock,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The role of a metadata block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Superblock.
    Superblock,
    /// Group descriptors.
    GroupDescriptors,
    /// Bitmap of blocks.
    BlockBitmap,
    /// Bitmap of inodes.
    InodeBitmap,
    /// Inode table.
    InodeTable,
    /// Node of an extent tree.
    ExtentTree,
    /// Extended attributes.
    Attributes,
    /// Entries of a directory, its hash tree included.
    Directory,
    /// File data in the log.
    Data,
}

impl Role {
    /// The role's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Superblock => "superblock",
            Role::GroupDescriptors => "group descriptors",
            Role::BlockBitmap => "block bitmap",
            Role::InodeBitmap => "inode bitmap",
            Role::InodeTable => "inode table",
            Role::ExtentTree => "extent tree",
            Role::Attributes => "extended attributes",
            Role::Directory => "directory",
            Role::Data => "file data",
        }
    }
}

/// A contiguous run of the log: its first log block, its place on the device, its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    at: u32,
    home: u64,
    len: u32,
}

/// The places of log and fixed metadata on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    log: Vec<Run>,
    /// Runs of fixed metadata, by their first block: length and role.
    fixed: BTreeMap<u64, (u64, Role)>,
}

/// Most levels of an extent tree: ext4 has no more.
const DEPTH_MAX: u16 = 5;
/// Magic number of a block of extended attributes, in the byte order of the medium.
const ATTRIBUTES_MAGIC: [u8; 4] = 0xEA02_0000u32.to_le_bytes();

impl Layout {
    /// Reads superblock, group descriptors and the journal's inode; `read` gives a block of 4 KiB.
    ///
    /// # Errors
    /// The device holds no ext4 or ext3 with blocks of 4 KiB and an internal journal, or it is
    /// damaged.
    pub fn read(read: &dyn Fn(BlockNo) -> Bytes) -> Result<Layout, ReadError> {
        let first = read(BlockNo(0));
        let sb = Superblock::parse(&first[SUPERBLOCK_AT as usize..])?;
        if sb.block_bytes() as usize != BLOCK_BYTES {
            let what = format!("blocks of {} bytes, not {BLOCK_BYTES}", sb.block_bytes());
            return Err(ReadError::Layout(what));
        }
        let groups = (0..sb.groups_count())
            .map(|group| {
                let (block, at) = sb.desc_place(group);
                GroupDesc::parse(&read(block)[at..], sb.desc_bytes())
            })
            .collect::<Result<Vec<_>, Corrupt>>()?;
        Ok(Layout {
            log: log_of(&sb, &groups, read)?,
            fixed: fixed(&sb, &groups),
        })
    }

    /// A log of one run, on a device without any other metadata.
    #[cfg(test)]
    pub(super) fn of_run(home: BlockNo, len: u32) -> Layout {
        let run = Run {
            at: 0,
            home: home.0,
            len,
        };
        Layout {
            log: vec![run],
            fixed: BTreeMap::new(),
        }
    }

    /// The log block at a block of the device, if there is one.
    pub fn log_block(&self, home: BlockNo) -> Option<u32> {
        let run = self
            .log
            .iter()
            .find(|r| (r.home..r.home + u64::from(r.len)).contains(&home.0))?;
        Some(run.at + (home.0 - run.home) as u32)
    }

    /// The log block that a sector belongs to, and the number of the sector in it.
    pub fn log_sector(&self, lba: Lba) -> Option<(u32, u64)> {
        let block = self.log_block(BlockNo(lba.0 / SECTORS_PER_BLOCK))?;
        Some((block, lba.0 % SECTORS_PER_BLOCK))
    }

    /// The block of the device with a log block; `None` beyond the end of the log.
    pub fn home_of(&self, at: u32) -> Option<BlockNo> {
        let run = self
            .log
            .iter()
            .find(|r| (r.at..r.at + r.len).contains(&at))?;
        Some(BlockNo(run.home + u64::from(at - run.at)))
    }

    /// Number of blocks of the log, its superblock included.
    pub fn log_blocks(&self) -> u32 {
        self.log.iter().map(|r| r.len).sum()
    }

    /// The role of a block: by its place if it is fixed, else by its content.
    pub fn role(&self, home: BlockNo, content: &[u8]) -> Role {
        let before = self.fixed.range(..=home.0).next_back();
        match before {
            Some((first, (len, role))) if home.0 - first < *len => *role,
            _ if ExtentNode::parse(content).is_ok() => Role::ExtentTree,
            _ if content.starts_with(&ATTRIBUTES_MAGIC) => Role::Attributes,
            _ => Role::Directory,
        }
    }
}

fn fixed(sb: &Superblock, groups: &[GroupDesc]) -> BTreeMap<u64, (u64, Role)> {
    let mut fixed = BTreeMap::from([(0, (1, Role::Superblock))]);
    for (group, desc) in (0u32..).zip(groups) {
        let (descriptors, _) = sb.desc_place(group);
        fixed.insert(descriptors.0, (1, Role::GroupDescriptors));
        fixed.insert(desc.block_bitmap().0, (1, Role::BlockBitmap));
        fixed.insert(desc.inode_bitmap().0, (1, Role::InodeBitmap));
        let table = (sb.inode_table_blocks(), Role::InodeTable);
        fixed.insert(desc.inode_table().0, table);
    }
    fixed
}

fn log_of(
    sb: &Superblock,
    groups: &[GroupDesc],
    read: &dyn Fn(BlockNo) -> Bytes,
) -> Result<Vec<Run>, ReadError> {
    let ino = sb.journal_ino();
    let place = sb
        .inode_place(ino)
        .ok_or_else(|| ReadError::Layout("the file system has no journal of its own".into()))?;
    let table = groups[place.group as usize].inode_table();
    let block = read(table.plus(place.table_block));
    let inode = Inode::parse(&block[place.offset..], sb.inode_bytes())?;
    let mut extents = Vec::new();
    if inode.flags().has(InodeFlags::EXTENTS) {
        walk(inode.block_area(), DEPTH_MAX, read, &mut extents)?;
    } else {
        let blocks = inode.size() / BLOCK_BYTES as u64;
        by_pointers(
            inode.block_area(),
            blocks.min(sb.blocks_count()),
            read,
            &mut extents,
        )?;
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut next = 0u32;
    for run in extents {
        let end = run.home + u64::from(run.len);
        if run.at != next || end > sb.blocks_count() {
            let what =
                format!("the journal's file has a hole or an end outside at its block {next}");
            return Err(ReadError::Layout(what));
        }
        next += run.len;
        runs.push(run);
    }
    if runs.is_empty() {
        return Err(ReadError::Layout("the journal's file is empty".into()));
    }
    Ok(runs)
}

fn walk(
    node: &[u8],
    depth: u16,
    read: &dyn Fn(BlockNo) -> Bytes,
    runs: &mut Vec<Run>,
) -> Result<(), ReadError> {
    let node = ExtentNode::parse(node)?;
    if node.depth > depth {
        let what = "a node of the journal's extent tree lies deeper than its parent says";
        return Err(ReadError::Layout(what.into()));
    }
    match node.entries {
        ExtentEntries::Leaf(extents) => runs.extend(extents.iter().map(|e| Run {
            at: e.logical,
            home: e.physical.0,
            len: e.len,
        })),
        ExtentEntries::Index(children) => {
            for child in children {
                walk(&read(child.child), node.depth - 1, read, runs)?;
            }
        }
    }
    Ok(())
}

/// The runs of a file of `blocks` blocks that has a block map (ext3).
fn by_pointers(
    area: &[u8],
    blocks: u64,
    read: &dyn Fn(BlockNo) -> Bytes,
    runs: &mut Vec<Run>,
) -> Result<(), ReadError> {
    // The pointer block that was read last, for each level.
    let mut held: [Option<(u32, Bytes)>; 3] = Default::default();
    for at in 0..blocks as u32 {
        let path = BlockPath::to(at, BLOCK_BYTES as u32)
            .ok_or_else(|| ReadError::Layout("the journal's file is too large".into()))?;
        let mut pointer = get_le32(area, path.slot * 4);
        for (level, &index) in path.indexes().iter().enumerate() {
            if held[level]
                .as_ref()
                .is_none_or(|(block, _)| *block != pointer)
            {
                held[level] = Some((pointer, read(BlockNo(pointer.into()))));
            }
            let (_, bytes) = held[level].as_ref().expect("read above");
            pointer = get_le32(bytes, index as usize * 4);
        }
        if pointer == 0 {
            let what = format!("the journal's file has a hole at its block {at}");
            return Err(ReadError::Layout(what));
        }
        match runs.last_mut() {
            Some(run) if run.home + u64::from(run.len) == u64::from(pointer) => run.len += 1,
            _ => runs.push(Run {
                at,
                home: pointer.into(),
                len: 1,
            }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rig::{Config, Fs, Preset};

    #[test]
    fn a_log_with_a_block_map_is_found_as_well() {
        let mut config = Config::new(Preset::default(), "loop-like", 3);
        config.fs = Fs::Ext3;
        config.journal_blocks = Some(4096);
        let model = config.format().unwrap();
        let layout = Layout::read(&|b| model.visible(b.0)).unwrap();
        assert_eq!(layout.log_blocks(), 4096);
        // Behind the twelve direct blocks lies a pointer block.
        let home = |at| layout.home_of(at).unwrap().0;
        assert_eq!((home(11), home(12)), (home(0) + 11, home(0) + 13));
        assert_eq!(layout.log_block(BlockNo(home(4095))), Some(4095));
        assert_eq!(layout.log_block(BlockNo(home(11) + 1)), None);
    }

    #[test]
    fn a_fresh_file_system_says_where_its_log_lies() {
        let mut config = Config::new(Preset::default(), "loop-like", 3);
        config.journal_blocks = Some(40_000);
        let model = config.format().unwrap();
        let layout = Layout::read(&|b| model.visible(b.0)).unwrap();
        assert_eq!(layout.log_blocks(), 40_000);
        let first = (0..config.bytes / BLOCK_BYTES as u64)
            .find(|b| layout.log_block(BlockNo(*b)) == Some(0))
            .unwrap();
        let superblock = ondisk::jbd2::Superblock::parse(&model.visible(first)).unwrap();
        assert_eq!(superblock.blocks_count(), 40_000);
        assert_eq!(
            layout.log_sector(Lba(first * SECTORS_PER_BLOCK + 9)),
            Some((1, 1))
        );
        let role = |block| layout.role(BlockNo(block), &[0; BLOCK_BYTES]);
        assert_eq!(
            [role(0), role(1)],
            [Role::Superblock, Role::GroupDescriptors]
        );
        let count = |wanted| layout.fixed.values().filter(|(_, r)| *r == wanted).count();
        assert_eq!([count(Role::BlockBitmap), count(Role::InodeTable)], [8, 8]);
    }

    #[test]
    fn a_file_system_without_a_log_is_refused() {
        let config = Config::new(Preset::None, "loop-like", 3);
        let model = config.format().unwrap();
        let e = Layout::read(&|b| model.visible(b.0)).unwrap_err();
        assert!(e.to_string().contains("no journal"), "{e}");
        let blank = config.blank().unwrap();
        assert!(Layout::read(&|b| blank.visible(b.0)).is_err());
    }
}
