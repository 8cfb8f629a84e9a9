//! The volume under a check: its superblocks, its geometry, the checkpoint that counts, and the
//! summaries of that checkpoint.

use super::Report;
use super::finding::{Finding, Findings, Kind};
use super::packs::{self, Pack};
use crate::journal::ring::guard;
use crate::options::MountOptions;
use crate::superblock;
use fscore::check::Reader;
use ondisk::Folding;
use ondisk::f2fs::{BlockAddr, CpFlags, Features, Geometry, Superblock, crc};
use std::sync::Arc;

/// The volume as its last checkpoint sees it.
pub(super) struct Volume<'a> {
    pub reader: &'a Reader<'a>,
    pub sb: Superblock,
    pub geo: Geometry,
    pub features: Features,
    /// How directories with the flag compare names.
    pub folding: Option<Arc<Folding>>,
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
        // What a mount puts right: a damaged copy, and what another mount left.
        let damaged = |f: &Finding| f.kind == Kind::SuperblockCopy;
        report.needs_recovery = found.list.iter().any(damaged);
        let may_be_read = MountOptions {
            read_only: true,
            ..MountOptions::default()
        };
        if let Err(why) = superblock::check_features(&sb, &may_be_read) {
            found.at_block(0u32, Kind::Unsupported, why.to_string());
            return None;
        }
        let folding = superblock::folding(&sb).unwrap_or_else(|why| {
            found.at_block(0u32, Kind::Unsupported, why.to_string());
            None
        });
        if let Err(e) = sb.journal() {
            found.at_block(0u32, Kind::JournalArea, e.to_string());
        }
        let pack = packs::load(reader, &geo, found, report)?;
        let flags = pack.cp.flags();
        if let Some(what) = left_behind(&sb, &pack) {
            report.needs_recovery = true;
            found.at_block(pack.start, Kind::NotUnmounted, what);
        }
        let noted = CpFlags(flags.0 & (CpFlags::ERROR.0 | CpFlags::FSCK.0));
        if !noted.is_empty() {
            let what = format!("the checkpoint has the mark {noted}");
            found.at_block(pack.start, Kind::NeedsFsck, what);
        }
        let (features, seed) = (sb.features(), crc(!0, &sb.uuid()));
        Some(Volume {
            reader,
            sb,
            geo,
            features,
            folding,
            seed,
            pack,
        })
    }
}

/// What shows that the last mount did not end cleanly: it was not unmounted, or files without a
/// name were open at the unmount. `None`: nothing does.
fn left_behind(sb: &Superblock, pack: &Pack) -> Option<String> {
    let orphans = match pack.orphans.len() {
        0 => String::new(),
        n => format!("{n} inodes without a name wait to be freed"),
    };
    let dirty = if guard::is_up(sb) {
        "its journal may hold what the checkpoint does not"
    } else if !pack.cp.flags().has(CpFlags::UMOUNT) {
        "the mount that wrote the last checkpoint did not end"
    } else {
        return (!orphans.is_empty()).then_some(orphans);
    };
    let parts = [dirty, &orphans];
    let told: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(told.join("; "))
}

/// The first sound superblock; a notice if the other one is not the same.
fn superblocks(reader: &Reader<'_>, found: &mut Findings) -> Option<(Superblock, Geometry)> {
    let load = |n: u32| -> Result<(Superblock, Geometry), String> {
        let block = reader.try_block(BlockAddr(n))?;
        let sb = Superblock::in_block(&block).map_err(|e| e.to_string())?;
        let geo = Geometry::new(&sb, reader.blocks()).map_err(|e| e.to_string())?;
        Ok((sb, geo))
    };
    let mut add = |kind, n: u32, why: String| found.at_block(n, kind, why);
    match (load(0), load(1)) {
        (Ok(first), Ok(second)) => {
            if first.1 != second.1 || first.0.uuid() != second.0.uuid() {
                let what = "has another geometry or UUID than the first one";
                add(Kind::SuperblockOther, 1, what.to_string());
            } else if first.0 != second.0 {
                let what = "is not the same as the first one";
                add(Kind::SuperblockDiffers, 1, what.to_string());
            }
            Some(first)
        }
        (Ok(sound), Err(why)) => {
            add(Kind::SuperblockCopy, 1, why);
            Some(sound)
        }
        (Err(why), Ok(sound)) => {
            add(Kind::SuperblockCopy, 0, why);
            Some(sound)
        }
        (Err(why), Err(other)) => {
            let what = format!("{why}; the second: {other}");
            found.at_block(0u32, Kind::Superblock, what);
            None
        }
    }
}
