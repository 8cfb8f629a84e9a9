//! The devices of the crash tests, and what is expected of each scheme on each of them.
//!
//! Every write of the journal's own superblock, and of the commit block, relies on one thing: a
//! write that is cut leaves the sector that matters old or new. A device promises it for its FUA
//! writes (`reliable_granule`), for all writes (`tear_granule`), or for small aligned ones
//! (`atomic_write_bytes`).

use super::*;
use blockdev::{PackOrder, Packed, RemapCaps};
use journal::{CommitBlock, FullFirst, Home, Record, RemapMode};

/// A device of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub name: &'static str,
    pub caps: fn() -> Caps,
    /// Metadata and file data in units of their own (see [`Workload::apart`]).
    pub apart: bool,
}

/// The expected outcome of a scheme on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// No violation, ever.
    Safe,
    /// Refused at the start: the guard full-first is off and would be needed.
    Refused,
    /// At least one violation, for this reason.
    Damage(Why),
}

/// The reason why a device does not suffice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A cut write of the journal superblock may leave garbage in its first sector, and there is no
    /// second copy: without its magic number or its checksum the log cannot be opened. No record
    /// format helps; JBD2 on Linux has the same need.
    Superblock,
    /// File data, written through the cache, damages stored metadata in the same programming unit,
    /// or other file data. Metadata whose images have left the log cannot be healed from it by any
    /// record format, and file data never can.
    DataBesideHomes,
    /// Log blocks written through the cache damage committed log blocks, or the superblock, beside
    /// them.
    LogBesideLog,
    /// Home writes through the cache damage homes beside them whose images have left the log.
    HomesBesideHomes,
}

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub preset: Preset,
    pub full_first: FullFirst,
    pub home: Option<Home>,
    pub commit_block: Option<CommitBlock>,
}

const fn preset(name: &'static str, preset: Preset) -> Column {
    Column {
        name,
        preset,
        full_first: FullFirst::Auto,
        home: None,
        commit_block: None,
    }
}

/// The presets, and single choices that can be made beside a preset.
pub const COLUMNS: [Column; 11] = [
    preset("jbd2", Preset::Jbd2),
    preset("flush-ahead", Preset::FlushAhead),
    preset("coalition-paper", Preset::CoalitionPaper),
    preset("coalition", Preset::Coalition),
    preset("emmc", Preset::Emmc),
    preset("emmc-paper", Preset::EmmcPaper),
    preset("adaptive", Preset::Adaptive),
    Column {
        full_first: FullFirst::On,
        ..preset("emmc, full-first=on", Preset::Emmc)
    },
    Column {
        full_first: FullFirst::Off,
        ..preset("emmc, full-first=off", Preset::Emmc)
    },
    Column {
        home: Some(Home::Copy),
        ..preset("coalition, home=copy", Preset::Coalition)
    },
    Column {
        commit_block: Some(CommitBlock::Always),
        ..preset("emmc, commit-block=on", Preset::Emmc)
    },
];

impl Column {
    pub fn scheme(&self) -> Scheme {
        let mut scheme = self.preset.scheme().expect("journaled");
        scheme.full_first = self.full_first;
        scheme.home = self.home.unwrap_or(scheme.home);
        if let Some(commit_block) = self.commit_block {
            scheme.record = Record::Coalition { commit_block };
        }
        scheme
    }
}

/// The schemes that point homes at the log.
pub const REMAPPING: [Column; 4] = [
    preset("jftl", Preset::Jftl),
    preset("jftl-paper", Preset::JftlPaper),
    Column {
        home: Some(Home::Remap {
            mode: RemapMode::Share,
        }),
        ..preset("flush-ahead, home=remap", Preset::FlushAhead)
    },
    Column {
        home: Some(Home::Remap {
            mode: RemapMode::Move,
        }),
        ..preset("flush-ahead, home=remap-move", Preset::FlushAhead)
    },
];

const S: Expect = Expect::Safe;
const R: Expect = Expect::Refused;
const SB: Expect = Expect::Damage(Why::Superblock);
const DH: Expect = Expect::Damage(Why::DataBesideHomes);
const LL: Expect = Expect::Damage(Why::LogBesideLog);
const HH: Expect = Expect::Damage(Why::HomesBesideHomes);

/// What each column does on each device of [`CELLS`].
///
/// - Where FUA writes are old or new by sector and stored data is protected, everything is safe:
///   deltas rely on reliable home writes (track-D2), full images heal what a normal home write
///   tears, checksums find torn log blocks.
/// - `no-fua`, `atomic-4k`: home writes may be torn to garbage (several blocks in one write are not
///   atomic), so deltas need full images first, which is the default, and switching that off is
///   refused.
/// - `packs-*`, `fifo`, `barrier`: such promises change the commands, never what is safe.
/// - `unreliable`, `no-fua-torn`: no scheme's superblock is safe.
/// - Collateral damage: with file data beside metadata no scheme is safe. With units of their own
///   (`collateral-apart`) it depends on what goes through the cache: nothing but file data in the
///   schemes that write log and homes with FUA.
#[rustfmt::skip]
pub const TABLE: &[(&str, [Expect; 11])] = &[
    //                       jbd2 ahead paper coal emmc both adapt on off copy block
    ("emmc",                 [S, S, S, S, S, S, S, S, S, S, S]),
    ("granule-4k",           [S, S, S, S, S, S, S, S, S, S, S]),
    ("sector-4k",            [S, S, S, S, S, S, S, S, S, S, S]),
    ("powersafe",            [S, S, S, S, S, S, S, S, S, S, S]),
    ("cache-off",            [S, S, S, S, S, S, S, S, S, S, S]),
    ("no-fua",               [S, S, S, S, S, S, S, S, R, S, S]),
    ("packs-prefix",         [S, S, S, S, S, S, S, S, S, S, S]),
    ("packs-any",            [S, S, S, S, S, S, S, S, S, S, S]),
    ("fifo",                 [S, S, S, S, S, S, S, S, S, S, S]),
    ("barrier",              [S, S, S, S, S, S, S, S, S, S, S]),
    ("atomic-4k",            [S, S, S, S, S, S, S, S, R, S, S]),
    ("unreliable",           [SB, SB, SB, SB, SB, SB, SB, SB, R, SB, SB]),
    ("no-fua-torn",          [SB, SB, SB, SB, SB, SB, SB, SB, R, SB, SB]),
    ("collateral",           [DH, DH, DH, DH, DH, DH, DH, DH, R, DH, DH]),
    ("collateral-apart",     [LL, HH, LL, S, S, S, S, S, R, HH, S]),
    ("collateral-cache-off", [DH, DH, DH, DH, DH, DH, DH, DH, R, DH, DH]),
];

/// An eMMC 5.x as its standard describes it: volatile cache in any order, reliable writes by
/// sector, other writes may leave garbage in their own sectors, stored data is protected.
pub fn emmc() -> Caps {
    Caps {
        sectors: 0,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(512),
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: false,
        remap: None,
        max_transfer_sectors: 2048,
    }
}

const PREFIX: Packed = Packed {
    order: PackOrder::Prefix,
    writes_max: 8,
};
const ANY_SUBSET: Packed = Packed {
    order: PackOrder::AnySubset,
    writes_max: 8,
};

const fn cell(name: &'static str, caps: fn() -> Caps) -> Cell {
    Cell {
        name,
        caps,
        apart: false,
    }
}

/// The matrix.
pub const CELLS: &[Cell] = &[
    cell("emmc", emmc),
    cell("granule-4k", || Caps {
        reliable_granule: Some(4096),
        ..emmc()
    }),
    cell("sector-4k", || Caps {
        sector_bytes: 4096,
        reliable_granule: Some(4096),
        ..emmc()
    }),
    cell("powersafe", || Caps {
        tear_granule: Some(512),
        ..emmc()
    }),
    cell("cache-off", || Caps {
        volatile_cache: false,
        ..emmc()
    }),
    cell("no-fua", || Caps {
        fua: false,
        reliable_granule: None,
        tear_granule: Some(512),
        ..emmc()
    }),
    cell("packs-prefix", || Caps {
        packed: Some(PREFIX),
        ..emmc()
    }),
    cell("packs-any", || Caps {
        packed: Some(ANY_SUBSET),
        ..emmc()
    }),
    cell("fifo", || Caps {
        cache_fifo: true,
        packed: Some(PREFIX),
        ..emmc()
    }),
    cell("barrier", || Caps {
        barrier: true,
        ..emmc()
    }),
    cell("atomic-4k", || Caps {
        reliable_granule: None,
        atomic_write_bytes: 4096,
        ..emmc()
    }),
    cell("unreliable", || Caps {
        reliable_granule: None,
        ..emmc()
    }),
    cell("no-fua-torn", || Caps {
        fua: false,
        reliable_granule: None,
        ..emmc()
    }),
    cell("collateral", || Caps {
        no_collateral: false,
        ..emmc()
    }),
    Cell {
        name: "collateral-apart",
        caps: || Caps {
            no_collateral: false,
            ..emmc()
        },
        apart: true,
    },
    cell("collateral-cache-off", || Caps {
        no_collateral: false,
        volatile_cache: false,
        ..emmc()
    }),
];

fn remap(granule: u32, pairs_max: u32) -> Caps {
    Caps {
        remap: Some(RemapCaps { granule, pairs_max }),
        discard: true,
        ..emmc()
    }
}

/// Devices with REMAP. Every column of [`REMAPPING`] is safe on each of them; none of them anywhere
/// else, where they are refused.
pub const REMAP_CELLS: &[Cell] = &[
    cell("remap", || remap(4096, 1 << 14)),
    // A list is more than one batch.
    cell("remap-pairs", || remap(512, 3)),
    // Only every fourth block lies on the granule of home, and of the log: next to nothing is
    // remapped.
    cell("remap-granule", || remap(16384, 1 << 14)),
    cell("remap-no-fua", || Caps {
        fua: false,
        reliable_granule: None,
        tear_granule: Some(512),
        ..remap(4096, 1 << 14)
    }),
    cell("remap-cache-off", || Caps {
        volatile_cache: false,
        ..remap(4096, 1 << 14)
    }),
    cell("remap-fifo", || Caps {
        cache_fifo: true,
        packed: Some(PREFIX),
        ..remap(4096, 1 << 14)
    }),
];
