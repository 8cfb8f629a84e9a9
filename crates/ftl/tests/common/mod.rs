//! Small chips, and an oracle that knows what may be left after a cut.
#![allow(dead_code)]

pub mod model;
pub mod remapping;

use base::{Bytes, Rng, Time};
use std::collections::BTreeMap;
use varve_ftl::nand::{BlockId, Geometry, Media, Nand, Pairing, Timing};
use varve_ftl::{Config, Ftl, SlcArea};

pub const TIMING: Timing = Timing {
    read_us: 25.0,
    program_us: 100.0,
    erase_us: 500.0,
    bus_ns_per_byte: 10.0,
    program_bus_ns_per_byte: None,
    spare_on_bus: true,
    cache_program: true,
    bus_gaps: false,
};

pub const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 2,
    planes: 1,
    blocks_per_plane: 20,
    pages_per_block: 8,
    page_bytes: 2048,
    spare_bytes: 120,
    nop: 1,
    endurance: 100_000,
    pairing: Pairing::None,
};

pub const CONFIG: Config = Config {
    unit_bytes: 512,
    units: 600,
    lanes: 2,
    gc_slack: 1,
    checkpoint_blocks: 12,
    slc: None,
    housekeeping: varve_ftl::Housekeeping::PLAIN,
};

/// Four dies that run far apart from each other.
pub const WIDE: Geometry = Geometry {
    dies_per_channel: 4,
    blocks_per_plane: 12,
    ..GEOMETRY
};
pub const WIDE_CONFIG: Config = Config { lanes: 4, ..CONFIG };

/// Units larger than pages, as on the device of the JFTL paper.
pub const SMALL_PAGES: Geometry = Geometry {
    page_bytes: 512,
    spare_bytes: 8,
    pages_per_block: 32,
    nop: 4,
    ..GEOMETRY
};
pub const BIG_UNITS: Config = Config {
    unit_bytes: 4096,
    units: 60,
    checkpoint_blocks: 12,
    slc: None,
    housekeeping: varve_ftl::Housekeeping::PLAIN,
    lanes: 1,
    gc_slack: 1,
};

/// A small SLC area.
pub const AREA: SlcArea = SlcArea {
    blocks: 6,
    bits_per_cell: 2,
    read_us: 12.0,
    program_us: 30.0,
    erase_us: 250.0,
    endurance: 100_000,
};

/// `config` with an SLC area of `blocks`.
pub fn with_area(config: Config, blocks: u32) -> Config {
    let slc = Some(SlcArea { blocks, ..AREA });
    Config { slc, ..config }
}

pub fn fresh(geometry: Geometry, config: Config) -> Ftl {
    let mut ftl = Ftl::format(Nand::new(Media::blank(geometry), TIMING), config).unwrap();
    ftl.settle();
    ftl
}

/// A unit whose content is its own number and the number of the write.
pub fn unit(bytes: u32, lpn: u32, id: u32) -> Bytes {
    let word = [lpn.to_le_bytes(), id.to_le_bytes()].concat();
    word.repeat(bytes as usize / 8).into()
}

pub fn id_of(data: &[u8]) -> u32 {
    assert!(
        data.chunks(8).all(|c| c == &data[..8]),
        "a mixture of contents"
    );
    u32::from_le_bytes(data[4..8].try_into().unwrap())
}

/// For each unit, the writes since the last one that must survive, which is `values[0]`. 0 stands
/// for zeros.
#[derive(Clone, Default)]
pub struct Oracle {
    values: BTreeMap<u32, Vec<u32>>,
    /// Flushes that are not complete: when they will be, and how long each unit's list was.
    flushes: Vec<(Time, BTreeMap<u32, usize>)>,
}

impl Oracle {
    pub fn write(&mut self, lpn: u32, id: u32) {
        self.values.entry(lpn).or_insert_with(|| vec![0]).push(id);
    }
    pub fn flush(&mut self, end: Time) {
        self.flushes.push((
            end,
            self.values.iter().map(|(l, v)| (*l, v.len())).collect(),
        ));
    }
    /// The values that each unit may have after a cut.
    pub fn at(&self, cut: Time) -> BTreeMap<u32, &[u32]> {
        let last = self.flushes.iter().rfind(|(end, _)| *end <= cut);
        let from = |lpn| {
            last.and_then(|(_, lens)| lens.get(lpn))
                .map_or(0, |len| len - 1)
        };
        self.values
            .iter()
            .map(|(lpn, v)| (*lpn, &v[from(lpn)..]))
            .collect()
    }
    /// Checks a recovered device; the answered oracle knows exactly what is there.
    pub fn check(&self, ftl: &Ftl, cut: Time, what: &str) -> Oracle {
        let mut next = Oracle::default();
        for (lpn, allowed) in self.at(cut) {
            let data = ftl
                .content(lpn)
                .unwrap_or_else(|e| panic!("{what}: {e}, allowed {allowed:?}"));
            let id = id_of(&data);
            assert!(
                allowed.contains(&id),
                "{what}: unit {lpn} holds {id}, allowed {allowed:?}"
            );
            assert!(
                id == 0 || data[..4] == lpn.to_le_bytes(),
                "{what}: unit {lpn} holds another unit's content"
            );
            next.values.insert(lpn, vec![id]);
        }
        next
    }
}

/// A kind of load.
#[derive(Clone, Copy)]
pub struct Mix {
    /// Longest pause between two writes, nanoseconds.
    pub pause: u64,
    /// One operation in this many is a TRIM.
    pub trims: u64,
    /// One operation in this many is a flush.
    pub flushes: u64,
    /// One operation in this many makes a block fail; 0: none.
    pub failures: u64,
}

/// A host that keeps up with the chips.
pub const CALM: Mix = Mix {
    pause: 60_000,
    trims: 20,
    flushes: 10,
    failures: 0,
};
/// A host that runs far ahead of the chips.
pub const BURST: Mix = Mix {
    pause: 3_000,
    trims: 5,
    flushes: 60,
    failures: 0,
};
/// Chips that fail all the time.
pub const FAILING: Mix = Mix {
    pause: 20_000,
    trims: 20,
    flushes: 20,
    failures: 12,
};

/// One random operation of the calm mix; answers with the new time.
pub fn step(ftl: &mut Ftl, oracle: &mut Oracle, rng: &mut Rng, now: Time, id: u32) -> Time {
    step_of(CALM, ftl, oracle, rng, now, id)
}

/// One random operation; answers with the new time.
pub fn step_of(
    mix: Mix,
    ftl: &mut Ftl,
    oracle: &mut Oracle,
    rng: &mut Rng,
    now: Time,
    id: u32,
) -> Time {
    let units = ftl.layout().units;
    let lpn = match rng.one_in(2) {
        true => rng.below(u64::from(units)) as u32,
        false => rng.below(u64::from(units) / 8) as u32,
    };
    ftl.advance(now);
    if mix.failures > 0 && rng.one_in(mix.failures) {
        let block = BlockId(rng.below(u64::from(ftl.layout().blocks)) as u32);
        match rng.one_in(4) {
            true => ftl.nand_mut().fail_next_erase(block),
            false => ftl.nand_mut().fail_next_program(block),
        }
    }
    if rng.one_in(mix.flushes) {
        let end = ftl.flush(now).unwrap();
        oracle.flush(end);
        // A host usually waits for its flush, but need not.
        return if rng.one_in(4) || mix.pause < 10_000 {
            now
        } else {
            end
        };
    }
    if rng.one_in(mix.trims) {
        let count = 1 + rng.below(6.min(u64::from(units - lpn))) as u32;
        ftl.trim(now, lpn..lpn + count).unwrap();
        (lpn..lpn + count).for_each(|l| oracle.write(l, 0));
        return now;
    }
    let data = unit(ftl.layout().unit_bytes, lpn, id);
    ftl.write(now, lpn, data).unwrap();
    oracle.write(lpn, id);
    now + base::Nanos(rng.below(mix.pause))
}
