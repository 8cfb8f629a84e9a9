//! Decides the numbers of a new volume, as mkfs.f2fs 1.15 does.
//!
//! The areas begin at a multiple of the zone size behind both superblocks. The SIT has an entry for
//! every segment. The NAT has a node number for each block that is left, but no more than its
//! version bitmap in the checkpoint allows. The summary area has a block for each segment that is
//! left. Kept back for cleaning are `reserved(p) = (2 (100 / p + 1) + 6)` sections, where `p` is
//! the overprovisioned percentage, plus that percentage of the rest; by default `p` is the value
//! that leaves users most.

use super::options::{MkfsError, Options};
use ondisk::f2fs::{
    BLOCK_BYTES, BLOCKS_PER_SEG, CP_BITMAP_AT, CP_CHECKSUM_AT, Log, NAT_PER_BLOCK, SIT_PER_BLOCK,
};

/// Logs, each of which needs a segment.
const LOGS: u32 = Log::ALL.len() as u32;
/// Segments that the kernel allows at most (16 TiB).
const SEGMENTS_MAX: u64 = 16 * 1024 * 1024 / 2;
/// Segments that the kernel demands at least.
const SEGMENTS_MIN: u64 = 9;
/// Bytes for both version bitmaps in the first block of a checkpoint.
const BITMAPS: u32 = (CP_CHECKSUM_AT - CP_BITMAP_AT) as u32;
/// Bytes of them that the SIT may use before it moves to the payload.
const SIT_BITMAP: u32 = BITMAPS - 64;
/// Part of the possible NAT that a large one has, in percent.
const LARGE_NAT_PERCENT: u32 = 20;

/// Numbers of a new volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Blocks of the volume.
    pub block_count: u64,
    /// Block at which the segments begin.
    pub segment0: u32,
    /// Segments of all areas.
    pub segments: u32,
    /// Segments of both copies of the SIT.
    pub segments_sit: u32,
    /// Segments of both copies of the NAT.
    pub segments_nat: u32,
    /// Segments of the summary area.
    pub segments_ssa: u32,
    /// Sections of the main area.
    pub sections: u32,
    /// Segments of the main area.
    pub segments_main: u32,
    /// Blocks of a checkpoint behind its first.
    pub cp_payload: u32,
    /// Overprovisioned part of the main area, in percent.
    pub overprovision: f64,
    /// Segments kept for cleaning.
    pub reserved: u32,
    /// Segments that users cannot fill, the reserved ones among them.
    pub overprov_segments: u32,
    /// First segment of each log.
    pub logs: [u32; 6],
    /// First block of the region of the journal, which lies behind the volume, and its number of
    /// blocks.
    pub journal: Option<(u64, u32)>,
}

impl Layout {
    /// Decides for these options.
    ///
    /// # Errors
    /// The size is too small or too large for them.
    pub fn new(options: &Options) -> Result<Layout, MkfsError> {
        let zone = u64::from(options.segs_per_sec) * u64::from(options.secs_per_zone);
        let device = options.size_bytes / BLOCK_BYTES as u64;
        let journal = journal(options, device)?;
        let block_count = journal.map_or(device, |(start, _)| start);
        let too_small = |need: &str| MkfsError::TooSmall {
            size_bytes: options.size_bytes,
            need: need.to_string(),
        };
        if block_count / u64::from(BLOCKS_PER_SEG) > SEGMENTS_MAX {
            return Err(MkfsError::TooLarge {
                size_bytes: options.size_bytes,
            });
        }
        if zone > SEGMENTS_MAX {
            return Err(too_small("a zone does not fit"));
        }
        let zone_blocks = zone * u64::from(BLOCKS_PER_SEG);
        let zones = (block_count / zone_blocks).saturating_sub(1);
        if zones * zone < SEGMENTS_MIN {
            return Err(too_small(
                "it needs at least ten segments of 2 MiB, in whole zones",
            ));
        }
        let areas = Areas::new((zones * zone) as u32, zone as u32, options.large_nat_bitmap);
        let main_zones = zones.saturating_sub(u64::from(areas.meta_zones));
        if main_zones <= u64::from(LOGS) {
            return Err(too_small(
                "each of six logs begins in a zone of its own: choose a larger volume or smaller zones",
            ));
        }
        let segments_main = (main_zones * zone) as u32;
        let kept = Kept::new(options, segments_main)?;
        Ok(Layout {
            block_count,
            segment0: zone_blocks as u32,
            segments: (zones * zone) as u32,
            segments_sit: areas.sit,
            segments_nat: areas.nat,
            segments_ssa: areas.ssa,
            sections: segments_main / options.segs_per_sec,
            segments_main,
            cp_payload: areas.payload,
            overprovision: kept.percent,
            reserved: kept.reserved,
            overprov_segments: kept.overprov,
            logs: first_segments(main_zones as u32, zone as u32),
            journal,
        })
    }
}

/// The region of the journal: at the end of the device, from the start of a segment on.
fn journal(options: &Options, device: u64) -> Result<Option<(u64, u32)>, MkfsError> {
    let Some(size) = options.journal else {
        return Ok(None);
    };
    let region = size.region(device)?;
    let start = device.saturating_sub(region.into());
    Ok(Some((start - start % u64::from(BLOCKS_PER_SEG), region)))
}

/// Segments of the fixed areas.
struct Areas {
    sit: u32,
    nat: u32,
    ssa: u32,
    payload: u32,
    meta_zones: u32,
}

impl Areas {
    fn new(segments: u32, zone: u32, large_nat: bool) -> Areas {
        let sit = segments
            .div_ceil(SIT_PER_BLOCK as u32)
            .div_ceil(BLOCKS_PER_SEG)
            * 2;
        let left = u64::from(segments.saturating_sub(2 + sit)) * u64::from(BLOCKS_PER_SEG);
        let nat_blocks = left.div_ceil(NAT_PER_BLOCK as u64) as u32;
        let wanted = nat_blocks.div_ceil(BLOCKS_PER_SEG);
        let sit_bitmap = sit / 2 * BLOCKS_PER_SEG / 8;
        let (nat, payload) = if large_nat {
            let nat = (wanted * LARGE_NAT_PERCENT / 100).max(1);
            let over = (sit_bitmap + nat * BLOCKS_PER_SEG / 8).saturating_sub(BITMAPS);
            (nat, over.div_ceil(BLOCK_BYTES as u32))
        } else {
            let (room, payload) = match sit_bitmap > SIT_BITMAP {
                true => (BITMAPS, sit_bitmap.div_ceil(BLOCK_BYTES as u32)),
                false => (BITMAPS - sit_bitmap, 0),
            };
            (wanted.min(room * 8 / BLOCKS_PER_SEG), payload)
        };
        let before = 2 + sit + 2 * nat;
        let ssa = (segments.saturating_sub(before) + 1).div_ceil(BLOCKS_PER_SEG);
        let meta = (before + ssa).next_multiple_of(zone);
        Areas {
            sit,
            nat: 2 * nat,
            ssa: meta - before,
            payload,
            meta_zones: meta / zone,
        }
    }
}

/// What users cannot fill.
struct Kept {
    percent: f64,
    reserved: u32,
    overprov: u32,
}

impl Kept {
    fn new(options: &Options, main: u32) -> Result<Kept, MkfsError> {
        let section = f64::from(options.segs_per_sec);
        let percent = match options.overprovision_percent {
            Some(percent) => percent,
            None => best_percent(f64::from(main), section),
        };
        let reserved = reserved(percent, section) as u64;
        if options.overprovision_percent.is_none() && u64::from(main - LOGS) < reserved {
            let need =
                "nothing would be left to users; 52 MiB do without other options".to_string();
            return Err(MkfsError::TooSmall {
                size_bytes: options.size_bytes,
                need,
            });
        }
        if u64::from(main - LOGS) < reserved {
            return Err(MkfsError::Reserved {
                percent,
                reserved,
                segments: main,
            });
        }
        let reserved = reserved as u32;
        let overprov = reserved + (f64::from(main - reserved) * percent / 100.0) as u32;
        if overprov >= main {
            return Err(MkfsError::Reserved {
                percent,
                reserved: overprov.into(),
                segments: main,
            });
        }
        Ok(Kept {
            percent,
            reserved,
            overprov,
        })
    }
}

/// Segments that cleaning needs if `percent` are kept back.
fn reserved(percent: f64, section: f64) -> f64 {
    (2.0 * (100.0 / percent + 1.0) + f64::from(LOGS)) * section
}

/// The part that leaves users most, in percent; 0 if none leaves anything.
fn best_percent(main: f64, section: f64) -> f64 {
    // The sums of mkfs.f2fs, rounding included.
    let (mut candidate, end, step) = if main < 256.0 {
        (10.0, 95.0, 5.0)
    } else {
        (0.01, 10.0, 0.01)
    };
    let (mut best, mut most) = (0.0, 0.0);
    while candidate <= end {
        let kept = reserved(candidate, section);
        let over = (main - kept) * candidate / 100.0;
        let left = main - kept - over;
        if over >= 0.0 && left > most {
            (best, most) = (candidate, left);
        }
        candidate += step;
    }
    best
}

/// Each log begins in a zone of its own: nodes and hot data in front, cold data at a quarter, warm
/// data at half.
fn first_segments(zones: u32, zone: u32) -> [u32; 6] {
    let (hot_node, warm_node, cold_node) = (0, zone, 2 * zone);
    let hot_data = 3 * zone;
    let cold_data = ((zones >> 2).saturating_sub(1) * zone).max(hot_data + zone);
    let warm_data = ((zones >> 1).saturating_sub(1) * zone).max(cold_data + zone);
    [
        hot_data, warm_data, cold_data, hot_node, warm_node, cold_node,
    ]
}
