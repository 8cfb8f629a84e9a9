//! Describes ext4 and ext3.

use super::{Section, corrupt, uuid};
use crate::VolumeError;
use base::Ino;
use blockdev::HostFile;
use ondisk::ext4::{Compat, GroupDesc, Inode, JournalDevice, Superblock};
use vfs::FsError;

const SUPERBLOCK_AT: u64 = 1024;

fn superblock(file: &HostFile) -> Result<Superblock, VolumeError> {
    let mut bytes = vec![0; 1024];
    file.read_exact_at(&mut bytes, SUPERBLOCK_AT)?;
    Superblock::parse(&bytes).map_err(corrupt)
}

/// Byte of the image where something lies.
fn place_of(block: u64, block_bytes: u64, offset: u64) -> Result<u64, VolumeError> {
    let at = block.checked_mul(block_bytes);
    let at = at.and_then(|at| at.checked_add(offset));
    at.ok_or_else(|| FsError::corrupt(format!("block {block} lies beyond any image")).into())
}

fn read(file: &HostFile, bytes: &mut [u8], at: u64, what: &str) -> Result<(), VolumeError> {
    let len = file.bytes();
    if at > len || len - at < bytes.len() as u64 {
        let why = format!("{what}: byte {at} lies beyond the end of the image, which has {len}");
        return Err(FsError::corrupt(why).into());
    }
    Ok(file.read_exact_at(bytes, at)?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Describes the superblock, and that of an external journal if its device is given.
pub fn info(file: &HostFile, journal: Option<&HostFile>) -> Result<Vec<Section>, VolumeError> {
    let sb = superblock(file)?;
    let kind = crate::kind_of(file)?.map_or("", |kind| kind.word());
    let mut s = Section::new(format!("{kind} superblock"), "superblock");
    s.text("kind", kind)
        .text("label", text(sb.label()))
        .text("uuid", uuid(sb.uuid()))
        .row("compatible features", format!("{:?}", sb.compat()))
        .row("incompatible features", format!("{:?}", sb.incompat()))
        .row(
            "read-only compatible features",
            format!("{:?}", sb.ro_compat()),
        )
        .row("state", format!("{:?}", sb.state()))
        .row("block bytes", sb.block_bytes())
        .row("blocks", sb.blocks_count())
        .row("blocks free", sb.free_blocks())
        .row("blocks reserved", sb.reserved_blocks())
        .row("reserve user id", sb.reserved_uid())
        .row("reserve group id", sb.reserved_gid())
        .row("inodes", sb.inodes_count())
        .row("inodes free", sb.free_inodes())
        .row("inode bytes", sb.inode_bytes())
        .row("groups", sb.groups_count())
        .row("journal inode", sb.journal_ino())
        .text("last mounted at", text(sb.last_mounted()))
        .moment("made", sb.mkfs_time())
        .moment("mounted", sb.mount_time())
        .moment("written", sb.write_time());
    if sb.compat().has(Compat::HAS_JOURNAL) && sb.journal_ino().0 == 0 {
        s.text("journal uuid", uuid(sb.journal_uuid()));
    }
    let mut sections = vec![s];
    if let Some(journal) = journal {
        sections.push(external(journal)?);
    }
    Ok(sections)
}

/// The external journal on a device.
fn external(file: &HostFile) -> Result<Section, VolumeError> {
    let mut head = vec![0; 8192.min(file.bytes() as usize)];
    file.read_exact_at(&mut head, 0)?;
    let rest = head.get(SUPERBLOCK_AT as usize..).unwrap_or_default();
    let device = JournalDevice::parse(rest).map_err(corrupt)?;
    let at = device.log_superblock().0 as usize * device.block_bytes as usize;
    let log = head.get(at..).unwrap_or_default();
    let log = ondisk::jbd2::Superblock::parse(log).map_err(corrupt)?;
    let users: Vec<String> = log.users().into_iter().map(uuid).collect();
    let mut s = Section::new("external journal", "external_journal");
    let ring = (log.first(), log.log_end());
    s.text("uuid", uuid(device.uuid))
        .row("block bytes", device.block_bytes)
        .row("blocks", log.blocks_count())
        .place(
            "ring",
            format!("{}..{}", ring.0, ring.1),
            &[("first_block", ring.0.into()), ("end_block", ring.1.into())],
        )
        .row("compatible features", format!("{:?}", log.compat()))
        .row("incompatible features", format!("{:?}", log.incompat()))
        .row("next transaction", log.sequence())
        .row("empty", log.is_clean())
        .row("error", log.errno())
        .list("users", users);
    Ok(s)
}

/// Describes an inode of the inode table.
pub fn inode(file: &HostFile, ino: u32) -> Result<Vec<Section>, VolumeError> {
    let sb = superblock(file)?;
    let place = (sb.inode_place(Ino(ino))).ok_or_else(|| {
        let count = sb.inodes_count();
        VolumeError::NoInode(format!("{ino}: inode numbers go from 1 to {count}"))
    })?;
    let block_bytes = u64::from(sb.block_bytes());
    let (block, offset) = sb.desc_place(place.group);
    let mut desc = vec![0; sb.desc_bytes()];
    let at = place_of(block.0, block_bytes, offset as u64)?;
    read(file, &mut desc, at, "group descriptor")?;
    let desc = GroupDesc::parse(&desc, sb.desc_bytes()).map_err(corrupt)?;
    let table = desc.inode_table().0.saturating_add(place.table_block);
    let at = place_of(table, block_bytes, place.offset as u64)?;
    let mut bytes = vec![0; sb.inode_bytes()];
    read(file, &mut bytes, at, "inode table")?;
    let inode = Inode::parse(&bytes, sb.inode_bytes()).map_err(corrupt)?;
    let mut s = Section::new(format!("inode {ino}"), "inode");
    s.row("number", ino)
        .row("group", place.group)
        .row("byte of the image", at)
        .text("mode", format!("{:#o}", inode.mode()))
        .row("links", inode.links())
        .row("user id", inode.uid())
        .row("group id", inode.gid())
        .row("size bytes", inode.size())
        .row("flags", format!("{:?}", inode.flags()))
        .row("generation", inode.generation())
        .text("accessed", format!("{:?}", inode.access_time()))
        .text("changed", format!("{:?}", inode.change_time()))
        .text("modified", format!("{:?}", inode.modify_time()))
        .text("made", format!("{:?}", inode.create_time()))
        .row("block of attributes", inode.xattr_block());
    let words = inode.block_area().chunks(16);
    for (i, words) in words.enumerate() {
        let hex: Vec<String> = words.iter().map(|b| format!("{b:02x}")).collect();
        s.text(&format!("block area +{}", i * 16), hex.join(" "));
    }
    Ok(vec![s])
}
