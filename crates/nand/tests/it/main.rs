//! All tests of the crate, in one program that is linked once.

mod cut;
mod levels;
mod rules;
mod state;

use varve_nand::{BlockId, Geometry, PageAddr, Pairing, Timing};

/// Small chips whose pages are paired.
const MLC: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 1,
    planes: 2,
    blocks_per_plane: 4,
    pages_per_block: 24,
    page_bytes: 512,
    spare_bytes: 16,
    nop: 1,
    endurance: 1000,
    pairing: Pairing::Dist3,
};
const TIMING: Timing = Timing {
    read_us: 5.0,
    program_us: 100.0,
    erase_us: 300.0,
    bus_ns_per_byte: 1.0,
    program_bus_ns_per_byte: None,
    spare_on_bus: true,
    cache_program: false,
    bus_gaps: false,
};

fn at(block: u32, page: u32) -> PageAddr {
    PageAddr {
        block: BlockId(block),
        page,
    }
}
