//! Shows records as text, for dumps: fields under their names in the kernel's headers.

use super::{Content, PageKind, Record, attr};
use crate::f2fs::{BlockAddr, FileType};
use base::bytes::{get_le16, get_le32, get_le64};
use std::fmt;

/// Bytes of content that a dump shows.
const SHOWN: usize = 16;

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            Record::InodeNew { mask, fields, name } => {
                write!(f, " {}", Name(name))?;
                show_fields(f, mask, fields)
            }
            Record::InodeAttr { mask, fields } => show_fields(f, mask, fields),
            Record::DentSet { .. } | Record::DentClear { .. } | Record::DentIno { .. } => {
                self.show_dent(f)
            }
            Record::NodeNew { .. }
            | Record::NodePtr { .. }
            | Record::NodeDel { .. }
            | Record::InodeDel { .. } => self.show_node(f),
            Record::MapRun { .. }
            | Record::BlockRun { .. }
            | Record::BlockMask { .. }
            | Record::SumRun { .. } => self.show_blocks(f),
            Record::Bytes {
                content,
                nid,
                at,
                bytes,
            } => show_bytes(f, content, nid.0, at, bytes),
            Record::DataSum { addr, sums } => {
                let run = Run(addr, sums.count() as u16);
                write!(f, " {run}:")?;
                let mut shown = sums.iter().take(SHOWN);
                shown.try_for_each(|sum| write!(f, " {sum:#010x}"))?;
                f.write_str(if sums.count() > SHOWN { " ..." } else { "" })
            }
            Record::OrphanAdd | Record::OrphanDel => Ok(()),
            Record::Trunc { from: u64::MAX } => f.write_str(" done"),
            Record::Trunc { from } => write!(f, " from page {from}"),
            Record::Quota {
                kind,
                id,
                space,
                inodes,
            } => {
                let kind = ["user", "group", "project"].get(usize::from(kind));
                let kind = kind.unwrap_or(&"?");
                write!(f, " {kind} {id}: {space} bytes, {inodes} inodes")
            }
            Record::Head {
                log,
                alloc,
                seg,
                next,
            } => write!(f, " {log}: segment {seg}, block {next}, {alloc:?}"),
            Record::Page {
                what,
                number,
                page,
                block,
            } => match what {
                PageKind::Node => write!(f, " node {number}, {block:?}"),
                PageKind::Dentries => write!(f, " inode {number}, page {page}, {block:?}"),
                PageKind::Nat | PageKind::Sit => {
                    write!(f, " {} block {number}, {block:?}", what.word())
                }
            },
        }
    }
}

impl Record<'_> {
    fn show_node(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Record::NodeNew {
                nid,
                ofs,
                cold,
                version,
            } => {
                let heat = if cold { ", cold" } else { "" };
                write!(
                    f,
                    " node {nid} at {ofs} of the tree, version {version}{heat}"
                )
            }
            Record::NodePtr {
                parent,
                slot,
                child,
            } => write!(f, " node {parent} word {slot} -> node {child}"),
            Record::NodeDel { nid, version } => write!(f, " node {nid}, version {version}"),
            Record::InodeDel {
                first,
                count,
                version,
            } => {
                let last = first.0 + u32::from(count) - 1;
                write!(f, " inodes {first}..={last}, version {version}")
            }
            _ => Ok(()),
        }
    }

    fn show_dent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Record::DentSet {
                block,
                slot,
                hash,
                ino,
                kind,
                name,
            } => {
                let (name, place, kind) = (Name(name), Place(block, slot), Kind(kind));
                write!(
                    f,
                    " {name} at {place} -> inode {ino} ({kind}), hash {hash:#010x}"
                )
            }
            Record::DentClear { block, slot, slots } => {
                write!(f, " {}: {slots} slots", Place(block, slot))
            }
            Record::DentIno {
                block,
                slot,
                kind,
                ino,
            } => write!(f, " {} -> inode {ino} ({})", Place(block, slot), Kind(kind)),
            _ => Ok(()),
        }
    }

    fn show_blocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Record::MapRun {
                nid,
                slot,
                count,
                addr,
                dir,
            } => {
                let last = u32::from(slot) + u32::from(count) - 1;
                let dir = if dir { ", directory" } else { "" };
                write!(
                    f,
                    " node {nid} slots {slot}..={last} -> {}{dir}",
                    Run(addr, count)
                )
            }
            Record::BlockRun {
                addr,
                count,
                alloc,
                log,
            } => write!(f, " {} {}, {log}", Run(addr, count), Valid(alloc)),
            Record::BlockMask {
                seg,
                alloc,
                log,
                mask,
            } => {
                let count: u32 = mask.iter().map(|b| b.count_ones()).sum();
                write!(f, " segment {seg}: {count} blocks {}, {log}", Valid(alloc))
            }
            Record::SumRun {
                addr,
                count,
                version,
                nid,
                slot,
            } => {
                let run = Run(addr, count);
                write!(
                    f,
                    " {run} of node {nid} from slot {slot} on, version {version}"
                )
            }
            _ => Ok(()),
        }
    }
}

fn show_bytes(
    f: &mut fmt::Formatter<'_>,
    what: Content,
    nid: u32,
    at: u16,
    bytes: &[u8],
) -> fmt::Result {
    let name = what.word();
    let bytes = match (what, bytes.split_at_checked(4)) {
        (Content::Dentries, Some((page, rest))) => {
            let place = Place(get_le32(page, 0), at);
            write!(f, " {name} of inode {nid}, byte {place:#}")?;
            rest
        }
        _ => {
            write!(f, " {name} of node {nid}, byte {at}")?;
            bytes
        }
    };
    write!(f, ", {} bytes:", bytes.len())?;
    for byte in bytes.iter().take(SHOWN) {
        write!(f, " {byte:02x}")?;
    }
    f.write_str(if bytes.len() > SHOWN { " ..." } else { "" })
}

/// ` name = value, ...`
fn show_fields(f: &mut fmt::Formatter<'_>, mask: u32, packed: &[u8]) -> fmt::Result {
    let Some(parts) = attr::split(mask, packed) else {
        return write!(f, " mask {mask:#x} with {} bytes", packed.len());
    };
    for (n, (field, bytes)) in parts.into_iter().enumerate() {
        write!(f, "{} {} = ", if n == 0 { "" } else { "," }, field.name)?;
        show_field(f, field.bit, bytes)?;
    }
    Ok(())
}

fn show_field(f: &mut fmt::Formatter<'_>, bit: u32, b: &[u8]) -> fmt::Result {
    match (bit, b.len()) {
        (attr::MODE, _) => write!(f, "{:#o}", get_le16(b, 0)),
        (attr::NAME, _) => {
            let used = (get_le32(b, 0) as usize).min(b.len() - 5);
            write!(f, "{}", Name(&b[5..5 + used]))
        }
        (attr::EXTENT, _) => {
            let (page, addr, len) = (get_le32(b, 0), BlockAddr(get_le32(b, 4)), get_le32(b, 8));
            write!(f, "{len} blocks of page {page} at {addr}")
        }
        (attr::ADVISE | attr::INLINE, _) => write!(f, "{:#04x}", b[0]),
        (attr::FLAGS, _) => write!(f, "{:#x}", get_le32(b, 0)),
        (attr::COMPRESS, _) => write!(f, "{}, cluster {}, {}", b[0], b[1], get_le16(b, 2)),
        (_, 12) => write!(f, "{}.{:09}", get_le64(b, 0) as i64, get_le32(b, 8)),
        (_, 8) => write!(f, "{}", get_le64(b, 0)),
        (_, 4) => write!(f, "{}", get_le32(b, 0)),
        (_, 2) => write!(f, "{}", get_le16(b, 0)),
        _ => write!(f, "{}", b[0]),
    }
}

struct Name<'a>(&'a [u8]);
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Page of a directory (or the inode), and a number in it: a slot, or with `#` whatever stands
/// before it.
struct Place(u32, u16);
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if f.alternate() { "" } else { "slot " };
        match self.0 {
            Record::INLINE => write!(f, "{what}{} in the inode", self.1),
            page => write!(f, "{what}{} of page {page}", self.1),
        }
    }
}

struct Run(BlockAddr, u16);
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.is_data(), self.1) {
            (true, 2..) => {
                let last = u64::from(self.0.0) + u64::from(self.1) - 1;
                write!(f, "{}..={last}", self.0)
            }
            _ => write!(f, "{}", self.0),
        }
    }
}

struct Valid(bool);
impl fmt::Display for Valid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "valid" } else { "not valid" })
    }
}

struct Kind(FileType);
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            FileType::Unknown => "unknown",
            FileType::Regular => "file",
            FileType::Directory => "directory",
            FileType::Char => "character device",
            FileType::Block => "block device",
            FileType::Fifo => "pipe",
            FileType::Socket => "socket",
            FileType::Symlink => "symlink",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Block, Sums};
    use super::*;
    use crate::f2fs::{AllocType, Log, Nid, SegNo};

    #[test]
    fn records_in_words() {
        let dent = Record::DentSet {
            block: 3,
            slot: 7,
            hash: 0xAB,
            ino: Nid(9),
            kind: FileType::Regular,
            name: b"a\"\xFF",
        };
        assert_eq!(
            dent.to_string(),
            r#"DENT_SET "a\"\xff" at slot 7 of page 3 -> inode 9 (file), hash 0x000000ab"#
        );
        let map = Record::MapRun {
            nid: Nid(5),
            slot: 3,
            count: 2,
            addr: BlockAddr(100),
            dir: false,
        };
        assert_eq!(map.to_string(), "MAP_RUN node 5 slots 3..=4 -> 100..=101");
        let mut block = vec![0; 4096];
        block[..2].copy_from_slice(&0o100_644u16.to_le_bytes());
        (block[0x10], block[0x30], block[0x40]) = (200, 5, 6);
        let mask = attr::MODE | attr::SIZE | attr::MTIME;
        let fields = &attr::pack(&block, mask)[..];
        assert_eq!(
            Record::InodeAttr { mask, fields }.to_string(),
            "INODE_ATTR i_mode = 0o100644, i_size = 200, i_mtime = 5.000000006"
        );
        attr::set_name(&mut block, b"new");
        let fields = &attr::pack(&block, attr::NAME)[..];
        let named = Record::InodeAttr {
            mask: attr::NAME,
            fields,
        };
        assert_eq!(named.to_string(), "INODE_ATTR i_name = \"new\"");
        let bytes = Record::Bytes {
            content: Content::Dentries,
            nid: Nid(3),
            at: 30,
            bytes: &[1, 0, 0, 0, 0xEE],
        };
        assert_eq!(
            bytes.to_string(),
            "BYTES dentries of inode 3, byte 30 of page 1, 1 bytes: ee"
        );
        let head = Record::Head {
            log: Log::WarmData,
            alloc: AllocType::Ssr,
            seg: SegNo(4),
            next: 512,
        };
        assert_eq!(
            head.to_string(),
            "HEAD warm data: segment 4, block 512, Ssr"
        );
        assert_eq!(Record::Trunc { from: u64::MAX }.to_string(), "TRUNC done");
        let page = |what, page| {
            let (number, block) = (9, Block(&[0; 4096]));
            let record = Record::Page {
                what,
                number,
                page,
                block,
            };
            record.to_string()
        };
        let crc = "block with crc32c 0x6706be76";
        assert_eq!(page(PageKind::Node, 0), format!("PAGE node 9, {crc}"));
        assert_eq!(
            page(PageKind::Dentries, 2),
            format!("PAGE inode 9, page 2, {crc}")
        );
        assert_eq!(page(PageKind::Sit, 0), format!("PAGE SIT block 9, {crc}"));
        assert_eq!(Record::OrphanAdd.to_string(), "ORPHAN_ADD");
        let sums = Sums::from_bytes(&[1, 0, 0, 0, 0xFE, 0, 0, 0]);
        let record = Record::DataSum {
            addr: BlockAddr(100),
            sums,
        };
        assert_eq!(
            record.to_string(),
            "DATA_SUM 100..=101: 0x00000001 0x000000fe"
        );
        let record = Record::InodeDel {
            first: Nid(7),
            count: 3,
            version: 2,
        };
        assert_eq!(record.to_string(), "INODE_DEL inodes 7..=9, version 2");
    }
}
