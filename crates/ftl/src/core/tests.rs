//! Tests of single guards that random runs rarely reach.

use super::Ftl;
use super::streams::{Entry, GC, HOST, Row};
use crate::Config;
use crate::blocks::ORDINARY;
use crate::config::NONE;
use crate::types::State;
use base::{Bytes, Time, fill};
use nand::{BlockId, Geometry, Media, Nand, Pairing, Timing};

const TIMING: Timing = Timing {
    read_us: 25.0,
    program_us: 100.0,
    erase_us: 500.0,
    bus_ns_per_byte: 1.0,
    program_bus_ns_per_byte: None,
    spare_on_bus: true,
    cache_program: true,
    bus_gaps: false,
};
const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 4,
    planes: 1,
    blocks_per_plane: 12,
    pages_per_block: 8,
    page_bytes: 2048,
    spare_bytes: 120,
    nop: 1,
    endurance: 1000,
    pairing: Pairing::None,
};
const CONFIG: Config = Config {
    unit_bytes: 512,
    units: 600,
    lanes: 1,
    gc_slack: 1,
    checkpoint_blocks: 100,
    slc: None,
    housekeeping: crate::Housekeeping::PLAIN,
};

fn fresh() -> Ftl {
    let mut ftl = Ftl::format(Nand::new(Media::blank(GEOMETRY), TIMING), CONFIG).unwrap();
    ftl.settle();
    ftl
}

fn unit(byte: u8) -> Bytes {
    fill::filled(byte, 512)
}

/// A device whose block `f` is full, closed and flushed, and holds the units 0..32 with content 1.
fn with_a_full_block() -> (Ftl, u32) {
    let mut ftl = fresh();
    for lpn in 0..32 {
        ftl.write(Time(0), lpn, unit(1)).unwrap();
    }
    ftl.flush(Time(0)).unwrap();
    ftl.settle();
    let f = ftl.layout.place(ftl.map.at(0)).0;
    assert_eq!(
        (ftl.blocks.get(f).state, ftl.blocks.get(f).valid),
        (State::Closed, 32)
    );
    (ftl, f)
}

/// Moves every unit of `f`; those from 28 on, of the last row, stay in the cold row buffer.
fn collected(ftl: &mut Ftl, f: u32) {
    for lpn in 0..3 {
        ftl.write(Time(0), lpn, unit(2)).unwrap();
    }
    ftl.flush(Time(0)).unwrap();
    ftl.blocks.set_victim(f);
    assert!(ftl.collect_victim(Time(0), ORDINARY).unwrap());
    assert_eq!(ftl.blocks.get(f).state, State::Free);
    assert!(
        ftl.streams
            .row(GC)
            .is_some_and(|r| r.entries.iter().any(|e| e.lpn == 31))
    );
}

fn may_be_erased(ftl: &Ftl, block: u32) -> bool {
    ftl.blocks.get(block).freed_at < ftl.durable_before()
}

#[test]
fn a_collected_block_waits_for_the_copies_in_the_buffer() {
    let (mut ftl, f) = with_a_full_block();
    collected(&mut ftl, f);
    assert!(!may_be_erased(&ftl, f));
    ftl.issue(Time(0), GC).unwrap();
    assert!(may_be_erased(&ftl, f));
}

#[test]
fn it_waits_for_the_write_that_replaced_a_buffered_copy() {
    let (mut ftl, f) = with_a_full_block();
    collected(&mut ftl, f);
    ftl.write(Time(0), 31, unit(3)).unwrap();
    ftl.issue(Time(0), GC).unwrap();
    assert!(
        !may_be_erased(&ftl, f),
        "ftl-I2: the only durable copy of unit 31 is in it"
    );
    ftl.flush(Time(0)).unwrap();
    assert!(may_be_erased(&ftl, f));
}

#[test]
fn it_waits_for_the_trim_that_dropped_a_buffered_copy() {
    let (mut ftl, f) = with_a_full_block();
    collected(&mut ftl, f);
    ftl.trim(Time(0), 31..32).unwrap();
    ftl.issue(Time(0), GC).unwrap();
    assert!(
        !may_be_erased(&ftl, f),
        "ftl-I2: the record of the TRIM is not logged"
    );
    ftl.flush(Time(0)).unwrap();
    assert!(may_be_erased(&ftl, f));
}

#[test]
fn units_whose_program_failed_still_count_as_not_durable() {
    for failures in 1..=2 {
        let (mut ftl, f) = with_a_full_block();
        // The whole block but its last row is rewritten; then only the rewrite of that row stands
        // between the block and its erase.
        ftl.trim(Time(0), 31..32).unwrap();
        for lpn in 0..28 {
            ftl.write(Time(0), lpn, unit(2)).unwrap();
        }
        ftl.flush(Time(0)).unwrap();
        // The block is the first choice of the cold stream, if its gate is open; other blocks fail.
        ftl.blocks.wear_out(f, 100);
        let lane = ftl.streams.blocks().find(|(stream, _)| *stream == HOST);
        let (_, lane) = lane.expect("seven of eight rows are filled");
        ftl.nand.fail_next_program(BlockId(lane));
        if failures == 2 {
            let free = (0u32..).zip(ftl.blocks.all());
            let free = free.filter(|(i, b)| b.state == State::Free && *i != f);
            let second = free.min_by_key(|(i, b)| (u32::MAX - b.erases, *i));
            let second = second.map(|(i, _)| i);
            ftl.nand
                .fail_next_program(BlockId(second.expect("free blocks")));
        }
        // A row that is not full is programmed by the flush, again after each failure.
        for lpn in 28..31 {
            ftl.write(Time(0), lpn, unit(2)).unwrap();
        }
        ftl.flush(Time(0)).unwrap();
        let bad = ftl
            .blocks
            .all()
            .iter()
            .filter(|b| b.failing || b.state == State::Bad)
            .count();
        assert_eq!(bad, failures, "the failures must happen");
        assert_eq!(
            ftl.blocks.get(f).state,
            State::Free,
            "ftl-I2: erased before its units were on flash again"
        );
        ftl.check();
    }
}

#[test]
fn a_root_waits_for_the_programs_it_describes() {
    let mut ftl = fresh();
    // All of it goes to one die, which is far behind the dies that take the checkpoint.
    for lpn in 0..30 {
        ftl.write(Time(0), lpn, unit(1)).unwrap();
    }
    ftl.issue(Time(0), HOST).unwrap();
    let data = ftl.evidence.after_programs(Time(0));
    ftl.checkpoint(Time(0)).unwrap();
    assert!(
        ftl.area.after_root(Time(0)).0 >= data.0 + 100_000,
        "ftl-I3: root at {}, data until {data}",
        ftl.area.after_root(Time(0))
    );
}

#[test]
fn two_checkpoints_in_a_row_leave_a_root_at_every_moment() {
    let mut ftl = fresh();
    for lpn in 0..30 {
        ftl.write(Time(0), lpn, unit(1)).unwrap();
    }
    ftl.checkpoint(Time(0)).unwrap();
    ftl.checkpoint(Time(0)).unwrap();
    for at in (0..ftl.area.after_root(Time(0)).0 + 50_000).step_by(25_000) {
        let media = ftl.clone().power_off(Time(at), at);
        let mounted = Ftl::mount(Nand::new(media, TIMING), CONFIG, Time(0));
        assert!(
            mounted.is_ok(),
            "ftl-I5: no root after a cut at {at}: {:?}",
            mounted.err()
        );
    }
}

#[test]
fn full_blocks_are_no_victims() {
    let (mut ftl, f) = with_a_full_block();
    assert!(
        !ftl.collect_victim(Time(0), ORDINARY).unwrap(),
        "ftl-I7: block {f} has nothing to gain"
    );
    assert_eq!(ftl.stats().gc_units, 0);
    assert_ne!(ftl.map.at(0), NONE);
}

#[test]
fn a_map_of_another_format_is_refused_by_name() {
    let mut ftl = fresh();
    ftl.area.set_format(7);
    ftl.checkpoint(Time(0)).unwrap();
    let end = ftl.area.after_root(Time(0));
    let e = Ftl::mount(Nand::new(ftl.power_off(end, 1), TIMING), CONFIG, Time(0)).err();
    let e = e.expect("refused").to_string();
    assert!(e.contains("format 7") && e.contains("format 2"), "{e}");
}

#[test]
fn a_mapping_into_a_block_that_was_reused_is_lost_and_never_another_units_content() {
    let (mut ftl, f) = with_a_full_block();
    ftl.checkpoint(Time(0)).unwrap();
    ftl.settle();
    // The block is erased and filled with other content, and no record says where its units went:
    // their copies have decayed.
    let block = BlockId(f);
    ftl.nand.erase(Time(0), block).unwrap();
    ftl.numbers.restart(ftl.numbers.version() + 100);
    let mut row = Row::new(f, 0, 4);
    row.entries
        .extend((40..44).map(|lpn| Entry::host(lpn, unit(9))));
    let (tags, data) = ftl.tagged(&row);
    ftl.program_row(Time(0), &row, &tags, data, nand::Cause::Host)
        .unwrap();
    let media = ftl.power_off(Time(1 << 40), 1);
    let (next, _) = Ftl::mount(Nand::new(media, TIMING), CONFIG, Time(0)).unwrap();
    next.check();
    for lpn in 0..32 {
        assert!(next.content(lpn).is_err(), "remap-I15: unit {lpn}");
    }
    assert_eq!(next.content(40).unwrap()[0], 9);
}
