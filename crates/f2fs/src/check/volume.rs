//! The volume under a check: superblocks, geometry, the checkpoint that counts, its summaries.

use super::Report;
use super::finding::{Finding, Findings, Kind};
use super::packs::{self, Pack};
use base::{BLOCK_BYTES, BlockNo, Bytes};
use ondisk::f2fs::{BlockAddr, CpFlags, Features, Geometry, Superblock, crc};

/// Reads blocks: an error becomes a finding.
pub(super) struct Reader<'a> {
    read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>,
    blocks: u64,
}

impl<'a> Reader<'a> {
    pub fn new(read: &'a dyn Fn(BlockNo) -> Result<Bytes, String>, blocks: u64) -> Reader<'a> {
        Reader { read, blocks }
    }

    /// The content of a block; `None`, with a finding, if it cannot be read.
    pub fn block(&self, addr: BlockAddr, found: &mut Findings) -> Option<Bytes> {
        match self.try_block(addr) {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                found.add(Finding::new(Kind::Unreadable, why).block(addr));
                None
            }
        }
    }

    /// The content of a block, or why it cannot be read.
    pub fn try_block(&self, addr: BlockAddr) -> Result<Bytes, String> {
        let block = u64::from(addr);
        if block >= self.blocks {
            return Err(format!(
                "lies behind the end of the device ({} blocks)",
                self.blocks
            ));
        }
        let bytes = (self.read)(BlockNo(block))?;
        if bytes.len() == BLOCK_BYTES {
            return Ok(bytes);
        }
        Err(format!("{} bytes instead of {BLOCK_BYTES}", bytes.len()))
    }
}

/// The volume as its last checkpoint sees it.
pub(super) struct Volume<'a> {
    pub reader: &'a Reader<'a>,
    pub sb: Superblock,
    pub geo: Geometry,
    pub features: Features,
    /// Where checksums of inodes start.
    pub seed: u32,
    pub pack: Pack,
}

impl<'a> Volume<'a> {
    /// Reads what leads to all the rest; `None`, with findings, if that cannot be done.
    pub fn load(
        reader: &'a Reader<'a>,
        found: &mut Findings,
        report: &mut Report,
    ) -> Option<Volume<'a>> {
        let (sb, geo) = superblocks(reader, found)?;
        let pack = packs::load(reader, &geo, found, report)?;
        report.version = pack.cp.version();
        let flags = pack.cp.flags();
        report.needs_recovery = !flags.has(CpFlags::UMOUNT) || !pack.orphans.is_empty();
        let noted = CpFlags(flags.0 & (CpFlags::ERROR.0 | CpFlags::FSCK.0));
        if !noted.is_empty() {
            let what = format!("the checkpoint has the mark {noted}");
            found.add(Finding::new(Kind::NeedsFsck, what).block(pack.start));
        }
        let (features, seed) = (sb.features(), crc(!0, &sb.uuid()));
        Some(Volume {
            reader,
            sb,
            geo,
            features,
            seed,
            pack,
        })
    }
}

/// The first sound superblock; a notice if the other one is not the same.
fn superblocks(reader: &Reader<'_>, found: &mut Findings) -> Option<(Superblock, Geometry)> {
    let load = |n: u32| -> Result<(Superblock, Geometry), String> {
        let block = reader.try_block(BlockAddr(n))?;
        let sb = Superblock::in_block(&block).map_err(|e| e.to_string())?;
        let geo = Geometry::new(&sb, reader.blocks).map_err(|e| e.to_string())?;
        Ok((sb, geo))
    };
    let mut damaged =
        |n: u32, why: String| found.add(Finding::new(Kind::SuperblockCopy, why).block(n));
    match (load(0), load(1)) {
        (Ok(first), Ok(second)) => {
            if first.0 != second.0 {
                damaged(1, "differs from the first superblock".to_string());
            }
            Some(first)
        }
        (Ok(sound), Err(why)) => {
            damaged(1, why);
            Some(sound)
        }
        (Err(why), Ok(sound)) => {
            damaged(0, why);
            Some(sound)
        }
        (Err(why), Err(other)) => {
            let what = format!("{why}; the second: {other}");
            found.add(Finding::new(Kind::Superblock, what).block(0u32));
            None
        }
    }
}
