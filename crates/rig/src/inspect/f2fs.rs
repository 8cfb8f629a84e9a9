//! Describes F2FS: superblock, checkpoint packs, and inodes, found through NAT.

use super::{Section, block, corrupt, uuid};
use crate::VolumeError;
use base::BLOCK_BYTES;
use blockdev::HostFile;
use ondisk::f2fs::journal::JournalSuper;
use ondisk::f2fs::{
    BlockAddr, Checkpoint, Features, Geometry, InodeFields, Log, NatEntry, Nid, SUPERBLOCK_AT,
    SummaryBlock, Superblock, bits, footer,
};
use vfs::FsError;

/// The first superblock that can be used, and its number.
pub(super) fn superblock(file: &HostFile) -> Result<(Superblock, Geometry, u64), VolumeError> {
    let blocks = file.bytes() / BLOCK_BYTES as u64;
    let mut first = None;
    for n in 0..2 {
        let bytes = block(file, n)?;
        let usable = Superblock::parse(&bytes[SUPERBLOCK_AT..])
            .and_then(|sb| Ok((Geometry::new(&sb, blocks)?, sb)));
        match usable {
            Ok((geo, sb)) => return Ok((sb, geo, n)),
            Err(e) => first = first.or(Some(e)),
        }
    }
    Err(corrupt(first.expect("two were tried")))
}

fn pack(file: &HostFile, geo: &Geometry, second: bool) -> Result<Checkpoint, VolumeError> {
    let at = u64::from(geo.cp_pack(second).0);
    let mut bytes = Vec::new();
    for n in 0..=u64::from(geo.cp_payload) {
        bytes.extend(block(file, at + n)?);
    }
    let head = Checkpoint::parse(&bytes, geo.cp_payload).map_err(corrupt)?;
    head.verify_checksum().map_err(corrupt)?;
    head.check(geo).map_err(corrupt)?;
    let last = block(file, at + u64::from(head.pack_blocks()) - 1)?;
    let last = Checkpoint::parse(&last, 0).map_err(corrupt)?;
    if last.version() != head.version() {
        let (head, last) = (head.version(), last.version());
        return Err(FsError::corrupt(format!(
            "torn: its first block has version {head}, its last {last}"
        ))
        .into());
    }
    Ok(head)
}

/// Describes the superblock and the checkpoint in force.
pub fn info(file: &HostFile) -> Result<Vec<Section>, VolumeError> {
    let (sb, geo, copy) = superblock(file)?;
    let mut s = Section::new(format!("f2fs superblock (copy {copy})"), "superblock");
    s.text("kind", "f2fs")
        .row("copy", copy)
        .text("label", sb.label())
        .text("uuid", uuid(sb.uuid()))
        .row("features", format!("{:?}", sb.features()))
        .text(
            "made or checked by",
            String::from_utf8_lossy(sb.version()).trim_end_matches('\0'),
        )
        .text("journal", region(&sb))
        .debug(&geo);
    let in_force = newest(file, &geo);
    let mut sections = vec![s];
    sections.extend(journal(file, &sb)?);
    match in_force {
        Ok((cp, second)) => {
            let mut s = describe(&cp, second, true);
            if let Some(applied) = cp.applied(&sb.uuid()) {
                s.row("epochs of the journal in it, up to", applied);
            }
            sections.push(s);
        }
        // `newest` tells of the first pack only.
        Err(_) => sections.extend(checkpoints(file)?),
    }
    Ok(sections)
}

/// Where the journal lies (F2FSJ), and whether the volume is guarded from others because of it.
fn region(sb: &Superblock) -> String {
    let hidden = if sb.is_hidden() {
        "; hidden from others"
    } else {
        ""
    };
    match sb.journal() {
        Ok(None) => "none".into(),
        Ok(Some(area)) => format!(
            "{} blocks from block {} on{hidden}",
            area.blocks, area.start
        ),
        Err(e) => format!("unusable: {e}"),
    }
}

/// The region of the journal, if there is one, what guards it, and the newer one of its
/// superblocks.
fn journal(file: &HostFile, sb: &Superblock) -> Result<Option<Section>, VolumeError> {
    let mut s = Section::new("journal (F2FSJ)", "journal");
    let area = match sb.journal() {
        Ok(None) => return Ok(None),
        Ok(Some(area)) => area,
        Err(e) => {
            s.text("unusable", e);
            return Ok(Some(s));
        }
    };
    let ro = sb.features().has(Features::RO);
    s.row("first block", area.start)
        .row("blocks", area.blocks)
        .text("uuid", uuid(area.uuid))
        .text(
            "guard",
            match (sb.is_hidden(), ro) {
                (true, _) => "magic: hidden from others",
                (false, true) => "ro-bit: read-only for others",
                (false, false) => "none",
            },
        );
    let [first, second] = [
        block(file, area.super_block(0))?,
        block(file, area.super_block(1))?,
    ];
    match JournalSuper::choose(&first, &second) {
        Ok(found) => {
            s.row("unmounted, nothing to redo", found.clean)
                .row("blocks of the ring", found.ring_blocks)
                .row("tail: block of the ring", found.tail)
                .row("tail: epoch", found.tail_epoch)
                .row("behind checkpoint version", found.checkpoint_version)
                .text("incarnation", format!("{:016x}", found.incarnation));
        }
        Err(faults) => {
            let [first, second] = *faults;
            s.text("superblock 0, unusable", first)
                .text("superblock 1, unusable", second);
        }
    }
    Ok(Some(s))
}

/// Describes both checkpoint packs.
pub fn checkpoints(file: &HostFile) -> Result<Vec<Section>, VolumeError> {
    let (_, geo, _) = superblock(file)?;
    let sections = [false, true].map(|second| match pack(file, &geo, second) {
        Ok(cp) => {
            let mut s = describe(&cp, second, false);
            for (nid, entry) in nat_journal(file, &geo, &cp, second).unwrap_or_default() {
                s.row(&format!("NAT journal: node {nid}"), format!("{entry:?}"));
            }
            s
        }
        Err(e) => {
            let (name, key) = pack_name(second);
            let mut s = Section::new(name, key);
            s.text("unusable", e);
            s
        }
    });
    Ok(sections.into())
}

/// The name of a pack, and its key for programs.
fn pack_name(second: bool) -> (&'static str, &'static str) {
    match second {
        true => ("second pack", "checkpoint_second_pack"),
        false => ("first pack", "checkpoint_first_pack"),
    }
}

fn describe(cp: &Checkpoint, second: bool, in_force: bool) -> Section {
    let (name, key) = pack_name(second);
    let title = match in_force {
        true => format!("checkpoint: {name}, in force"),
        false => format!("checkpoint: {name}"),
    };
    let mut s = Section::new(title, key);
    s.row("version", cp.version())
        .row("flags", format!("{:?}", cp.flags()))
        .row("blocks of the pack", cp.pack_blocks())
        .row("blocks of users", cp.user_block_count())
        .row("blocks in use", cp.valid_block_count())
        .row("nodes", cp.valid_node_count())
        .row("inodes", cp.valid_inode_count())
        .row("segments free", cp.free_segments())
        .row("segments overprovisioned", cp.overprov_segments())
        .row("segments reserved", cp.reserved_segments())
        .row("next free node number", cp.next_free_nid())
        .row("seconds mounted", cp.elapsed_time())
        .row("orphan blocks", cp.orphan_blocks());
    for log in Log::ALL {
        let place = format!(
            "segment {}, block {}",
            cp.cur_segno(log),
            cp.cur_blkoff(log)
        );
        let numbers = [
            ("segment", u64::from(cp.cur_segno(log))),
            ("block", u64::from(cp.cur_blkoff(log))),
        ];
        s.place(&format!("log {log:?}"), place, &numbers);
    }
    s
}

pub(super) fn newest(file: &HostFile, geo: &Geometry) -> Result<(Checkpoint, bool), VolumeError> {
    match (pack(file, geo, false), pack(file, geo, true)) {
        (Ok(a), Ok(b)) if b.version() > a.version() => Ok((b, true)),
        (Ok(a), _) => Ok((a, false)),
        (Err(_), Ok(b)) => Ok((b, true)),
        (Err(e), Err(_)) => Err(e),
    }
}

/// NAT entries in the summary of the hot data log.
fn nat_journal(
    file: &HostFile,
    geo: &Geometry,
    cp: &Checkpoint,
    second: bool,
) -> Result<Vec<(Nid, NatEntry)>, VolumeError> {
    let at = u64::from(geo.cp_pack(second).0) + u64::from(cp.pack_start_sum());
    let bytes = block(file, at)?;
    if cp.flags().has(ondisk::f2fs::CpFlags::COMPACT_SUM) {
        return Ok(ondisk::f2fs::nat_journal(&bytes[..ondisk::f2fs::JOURNAL_BYTES]).collect());
    }
    let summary = SummaryBlock::parse(&bytes).map_err(corrupt)?;
    Ok(summary.nat_journal().collect())
}

/// Describes the inode block that the checkpoint in force leads to.
pub fn inode(file: &HostFile, ino: u32) -> Result<Vec<Section>, VolumeError> {
    let (sb, geo, _) = superblock(file)?;
    let nid = Nid(ino);
    if ino == 0 || ino >= geo.max_nid {
        let max = geo.max_nid - 1;
        return Err(VolumeError::NoInode(format!(
            "{ino}: node numbers go from 1 to {max}"
        )));
    }
    let (cp, second) = newest(file, &geo)?;
    let journal = nat_journal(file, &geo, &cp, second)?;
    let entry = match journal.iter().find(|(n, _)| *n == nid) {
        Some((_, entry)) => *entry,
        None => {
            let (off, index) = geo.nat_block(nid);
            let other = bits::test_bit(cp.nat_bitmap(), off as usize);
            NatEntry::get(&block(file, u64::from(geo.nat_addr(off, other).0))?, index)
        }
    };
    let mut s = Section::new(format!("node {ino}"), "node");
    s.debug(&entry);
    if entry.addr == BlockAddr::NULL || !geo.is_main(entry.addr) {
        s.text("state", "not in use");
        return Ok(vec![s]);
    }
    let bytes = block(file, u64::from(entry.addr.0))?;
    let mut foot = Section::new("footer", "footer");
    foot.debug(&footer(&bytes));
    let mut sections = vec![s, foot];
    if footer(&bytes).is_inode() {
        let fields = InodeFields::parse(&bytes, sb.features()).map_err(corrupt)?;
        let mut s = Section::new("inode", "inode");
        s.text("mode, octal", format!("{:#o}", fields.mode))
            .debug(&fields);
        sections.push(s);
    }
    Ok(sections)
}
