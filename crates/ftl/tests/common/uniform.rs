//! Random writes to a device in counting mode, to be compared with the closed forms.

use base::Rng;
use varve_ftl::nand::{Geometry, Pairing};
use varve_ftl::{Config, Counting, Housekeeping, Policy, theory};

/// Data blocks, slots in each, over-provisioning.
pub type Shape = (u32, u32, f64);

/// The shapes of the table in docs/results/write-amplification.md.
pub const TABLE: [Shape; 7] = [
    (1024, 32, 0.10),
    (1024, 32, 0.25),
    (1024, 32, 0.40),
    (1024, 64, 0.10),
    (1024, 64, 0.25),
    (512, 256, 0.10),
    (512, 256, 0.25),
];

/// A device with exactly `blocks` data blocks.
pub fn device((blocks, slots, rho): Shape, policy: Policy) -> Counting {
    let config = Config {
        unit_bytes: 4096,
        units: (f64::from(blocks * slots) / (1.0 + rho)) as u64,
        lanes: 1,
        gc_slack: 0,
        checkpoint_blocks: 1,
        slc: None,
        housekeeping: Housekeeping {
            policy,
            ..Housekeeping::PLAIN
        },
    };
    let mut geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes: 1,
        blocks_per_plane: blocks,
        pages_per_block: slots,
        page_bytes: 4096,
        spare_bytes: 64,
        nop: 1,
        endurance: 100_000,
        pairing: Pairing::None,
    };
    loop {
        if let Ok(made) = Counting::new(config, geometry)
            && made.layout().blocks - 2 * made.layout().area == blocks
        {
            return made;
        }
        geometry.blocks_per_plane += 1;
    }
}

/// What the host writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// Any unit, all with the same chance.
    Uniform,
    /// Four of five writes go to a fifth of the units.
    HotCold,
    /// Any unit; one request in this many is a TRIM of a unit in use.
    Trims(u64),
}

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Units programmed per unit written.
    pub amplification: f64,
    /// Slots that could hold data per mapped unit, on average.
    pub alpha: f64,
}

/// Fills a device, writes `warm` times its units, then counts over `counted` times its units.
pub fn measure(shape: Shape, policy: Policy, load: Load, warm: u64, counted: u64) -> Outcome {
    let mut ftl = device(shape, policy);
    let units = u64::from(ftl.layout().units);
    let mut rng = Rng::named(1, "amplification");
    for lpn in 0..units as u32 {
        ftl.write(lpn).expect("in range");
    }
    let mut step = |ftl: &mut Counting| {
        let lpn = match load {
            Load::HotCold if rng.below(5) < 4 => rng.below(units / 5),
            Load::HotCold => units / 5 + rng.below(units - units / 5),
            Load::Uniform | Load::Trims(_) => rng.below(units),
        };
        match load {
            Load::Trims(one_in) if rng.one_in(one_in) => {
                let mut lpn = lpn as u32;
                while !ftl.read(lpn).expect("in range") {
                    lpn = rng.below(units) as u32;
                }
                ftl.trim(lpn).expect("in range");
            }
            _ => ftl.write(lpn as u32).expect("in range"),
        }
    };
    (0..warm * units).for_each(|_| step(&mut ftl));
    let before = ftl.stats();
    let (mut idle, mut held, mut looks) = (0u64, 0u64, 0u32);
    for i in 0..counted * units {
        step(&mut ftl);
        if i % 16 == 0 {
            idle += ftl.idle_slots();
            held += ftl.mapped_units();
            looks += 1;
        }
    }
    let after = ftl.stats();
    let copies = (after.gc_units - before.gc_units) as f64;
    let slots = u64::from(shape.0) * u64::from(shape.1);
    let idle = idle as f64 / f64::from(looks);
    Outcome {
        amplification: 1.0 + copies / (after.host_units - before.host_units) as f64,
        alpha: theory::alpha(slots, idle, held / u64::from(looks)),
    }
}
