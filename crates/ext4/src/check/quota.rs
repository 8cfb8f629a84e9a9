//! Checks quotas kept in hidden files: the sums that they note against those of the inodes.
//!
//! Such a file is a tree of blocks of 1 KiB (format `vfsv1`): header and information in block 0,
//! the root in block 1. Four levels hold references to blocks below; the leaves hold one record for
//! each owner.

use super::finding::Kind;
use super::mapping::find;
use super::state::{Charge, KINDS, QuotaFile, State};
use super::volume::Volume;
use base::bytes::{get_le32, get_le64, is_zero};
use ondisk::ext4::{Inode, InodeFlags, ROOT_INO, RoCompat, Superblock};
use std::collections::{BTreeMap, BTreeSet};

/// Where the superblock names the inodes of the quota files.
const FIELDS: [(usize, &str); KINDS] = [
    (0x240, "s_usr_quota_inum"),
    (0x244, "s_grp_quota_inum"),
    (0x26C, "s_prj_quota_inum"),
];
/// The magic numbers at the start of the quota files.
const MAGIC: [u32; KINDS] = [0xD9C0_1F11, 0xD9C0_1927, 0xD9C0_3F14];
const VERSION: u32 = 1;
/// Reserved inodes that have another purpose.
const OTHERS: [u32; 8] = [1, 2, 5, 6, 7, 8, 9, 10];
/// The numbers of the tree format.
const BLOCK: u64 = 1024;
const LEVELS: u32 = 4;
const LEAF_HEAD: usize = 16;
const RECORD: usize = 72;

/// The quota whose file the inode is, if any.
pub(super) fn kind_of(sb: &Superblock, ino: u32) -> Option<usize> {
    let quota = sb.ro_compat().has(RoCompat::QUOTA) && ino != 0;
    FIELDS
        .iter()
        .position(|&(at, _)| quota && get_le32(&sb.bytes()[..], at) == ino)
}

/// Checks the numbers of the quota inodes in the superblock.
pub(super) fn check_fields(sb: &Superblock, bad: &mut dyn FnMut(String)) {
    let quota = sb.ro_compat().has(RoCompat::QUOTA);
    for (at, field) in FIELDS {
        let ino = get_le32(&sb.bytes()[..], at);
        if ino != 0 && !quota {
            bad(format!("{field} = {ino} without feature quota"));
        } else if OTHERS.contains(&ino) || ino > sb.inodes_count() {
            bad(format!(
                "{field} = {ino}, which cannot be the inode of a quota"
            ));
        }
    }
}

/// Charges the owners of an inode in use for what it has.
pub(super) fn charge(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    charge: Charge,
) {
    let sb = &volume.sb;
    let reserved = ino != ROOT_INO.0 && ino < sb.first_ino().0;
    let system = kind_of(sb, ino).is_some() || ino == sb.orphan_file_ino().0;
    if reserved || system || inode.flags().has(InodeFlags::EA_INODE) {
        return;
    }
    if !sb.ro_compat().has(RoCompat::QUOTA) {
        return;
    }
    let owners = [inode.uid(), inode.gid(), inode.project()];
    for (charges, owner) in state.charges.iter_mut().zip(owners) {
        let sum = charges.entry(owner).or_default();
        sum.bytes = sum.bytes.saturating_add(charge.bytes);
        sum.inodes += charge.inodes;
    }
}

/// Compares the files with what was charged.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>) {
    let sb = &volume.sb;
    if !sb.ro_compat().has(RoCompat::QUOTA) {
        return;
    }
    for (kind, (at, _)) in FIELDS.into_iter().enumerate() {
        let ino = get_le32(&sb.bytes()[..], at);
        if ino == 0 {
            continue;
        }
        let stored = match &state.quotas[kind] {
            Some(file) => Tree::read(volume, file, kind),
            None => Err("the file of the quota is no regular file in use".into()),
        };
        match stored {
            Ok(stored) => compare(state, ino, &stored, kind),
            Err(what) => state.at_inode(ino, Kind::Quota, what),
        }
    }
}

fn compare(state: &mut State<'_>, ino: u32, stored: &BTreeMap<u32, Charge>, kind: usize) {
    let charged = std::mem::take(&mut state.charges[kind]);
    let owners: BTreeSet<u32> = charged.keys().chain(stored.keys()).copied().collect();
    for owner in owners {
        let has = charged.get(&owner).copied().unwrap_or_default();
        let what = match stored.get(&owner) {
            Some(noted) if *noted == has => continue,
            Some(noted) => format!(
                "owner {owner}: {} bytes and {} inodes noted, {} and {} found",
                noted.bytes, noted.inodes, has.bytes, has.inodes
            ),
            None => format!("owner {owner} is not noted"),
        };
        state.found.at_inode(ino, Kind::Quota, what);
    }
}

/// The tree of a file on the way through it.
struct Tree<'t> {
    volume: &'t Volume<'t>,
    file: &'t QuotaFile,
    /// ext4-check-C2: no block is read twice.
    seen: BTreeSet<u32>,
    owners: BTreeMap<u32, Charge>,
}

impl Tree<'_> {
    fn read(
        volume: &Volume<'_>,
        file: &QuotaFile,
        kind: usize,
    ) -> Result<BTreeMap<u32, Charge>, String> {
        let mut tree = Tree {
            volume,
            file,
            seen: BTreeSet::new(),
            owners: BTreeMap::new(),
        };
        let head = tree.block(0)?;
        let (magic, version) = (get_le32(&head, 0), get_le32(&head, 4));
        if magic != MAGIC[kind] || version != VERSION {
            return Err(format!(
                "its file begins with {magic:#x}, version {version}; should be {:#x}, version {VERSION}",
                MAGIC[kind]
            ));
        }
        tree.node(1, LEVELS)?;
        Ok(tree.owners)
    }

    fn block(&self, nr: u32) -> Result<base::Bytes, String> {
        let (at, block) = (u64::from(nr) * BLOCK, self.volume.block_bytes() as u64);
        let place = find(&self.file.runs, at / block);
        let place = place.ok_or_else(|| format!("block {nr} of its tree is not mapped"))?;
        let bytes = self.volume.reader.try_block(place)?;
        let from = (at % block) as usize;
        Ok(bytes.slice(from..from + BLOCK as usize))
    }

    /// A block with `levels` levels of references.
    fn node(&mut self, nr: u32, levels: u32) -> Result<(), String> {
        if !self.seen.insert(nr) {
            return match levels {
                // A leaf holds records of several owners.
                0 => Ok(()),
                _ => Err(format!("block {nr} of its tree is referred to twice")),
            };
        }
        let block = self.block(nr)?;
        if levels == 0 {
            self.leaf(&block);
            return Ok(());
        }
        for word in block.chunks_exact(4).map(|word| get_le32(word, 0)) {
            if word != 0 {
                self.node(word, levels - 1)?;
            }
        }
        Ok(())
    }

    fn leaf(&mut self, block: &[u8]) {
        for record in block[LEAF_HEAD..].chunks_exact(RECORD) {
            if is_zero(record) {
                continue;
            }
            let charge = Charge {
                inodes: get_le64(record, 24),
                bytes: get_le64(record, 48),
            };
            self.owners.insert(get_le32(record, 0), charge);
        }
    }
}
