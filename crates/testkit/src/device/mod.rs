//! The contract of [`BlockDevice`], as a test that every implementer runs: what requests and reads
//! can tell while the power is on. What a cut leaves is not tested here.

use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};
use blockdev::{BlockDevice, Caps, Class, DevErrorKind, Op, PackedWrite, Piece, Request};

mod remap;
pub mod trap;

/// Runs the contract against a blank device of at least 1 MiB.
///
/// # Panics
/// The device breaks it.
pub fn run(device: &dyn BlockDevice) {
    assert!(device.caps().sectors >= 2048, "the contract needs 1 MiB");
    reads_zeros_where_nothing_was_written(device);
    a_completed_write_is_read_back(device);
    pieces_lie_in_a_row(device);
    part_blocks_keep_their_neighbours(device);
    overwrites_replace(device);
    tickets_complete_in_any_order_and_once(device);
    a_discard_answers(device);
    illegal_requests_are_misuse(device);
    packs_are_executed_or_refused(device);
    illegal_packs_are_misuse(device);
    a_barrier_answers(device);
    remap::run(device);
}

/// What a device of `bytes` bytes promises that has a volatile cache in any order, and whose blocks
/// are old or new after a cut.
pub fn caps(bytes: u64) -> Caps {
    Caps {
        sectors: bytes / SECTOR_BYTES as u64,
        sector_bytes: SECTOR_BYTES as u32,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(4096),
        tear_granule: Some(4096),
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: true,
        remap: None,
        max_transfer_sectors: 256,
    }
}

fn unit(device: &dyn BlockDevice) -> u64 {
    u64::from(device.caps().sector_bytes) / SECTOR_BYTES as u64
}

fn filled(fill: u8, sectors: u64) -> Bytes {
    vec![fill; sectors as usize * SECTOR_BYTES].into()
}

fn write(device: &dyn BlockDevice, lba: u64, bytes: Bytes) {
    let ticket = device.submit(Request::write(Lba(lba), Class::Data, bytes));
    device.wait(ticket).expect("a legal write works");
}

fn read(device: &dyn BlockDevice, lba: u64, sectors: u64) -> Bytes {
    let reply = device.wait(device.submit(Request::read(Lba(lba), sectors)));
    let bytes = reply.expect("a legal read works").into_bytes();
    assert_eq!(
        bytes.len(),
        sectors as usize * SECTOR_BYTES,
        "a read brings what was asked for"
    );
    bytes
}

fn reads_zeros_where_nothing_was_written(device: &dyn BlockDevice) {
    assert!(
        base::bytes::is_zero(&read(device, 512, 16)),
        "a blank device reads as zeros"
    );
}

fn a_completed_write_is_read_back(device: &dyn BlockDevice) {
    write(device, 0, filled(7, SECTORS_PER_BLOCK));
    assert_eq!(
        read(device, 0, SECTORS_PER_BLOCK),
        filled(7, SECTORS_PER_BLOCK)
    );
    device
        .wait(device.submit(Request::flush()))
        .expect("a flush works");
    assert_eq!(
        read(device, 0, SECTORS_PER_BLOCK),
        filled(7, SECTORS_PER_BLOCK)
    );
}

fn pieces_lie_in_a_row(device: &dyn BlockDevice) {
    let piece = |fill| Piece {
        class: Class::JournalMetadata,
        bytes: filled(fill, SECTORS_PER_BLOCK),
    };
    let pieces = vec![piece(1), piece(2), piece(3)];
    let fua = device.caps().fua;
    let request = Request {
        op: Op::Write {
            lba: Lba(64),
            pieces,
            fua,
        },
    };
    device
        .wait(device.submit(request))
        .expect("a write of three pieces works");
    let back = read(device, 64, 3 * SECTORS_PER_BLOCK);
    assert_eq!((back[0], back[4096], back[8192 + 4095]), (1, 2, 3));
}

fn part_blocks_keep_their_neighbours(device: &dyn BlockDevice) {
    let unit = unit(device);
    write(device, 128, filled(1, 16));
    write(device, 128 + unit, filled(9, unit));
    let back = read(device, 128, 16);
    let at = |sector: u64| back[sector as usize * SECTOR_BYTES];
    assert_eq!(
        (at(0), at(unit), at((2 * unit).min(15))),
        (1, 9, if 2 * unit < 16 { 1 } else { 9 })
    );
}

fn overwrites_replace(device: &dyn BlockDevice) {
    for fill in 1..20 {
        write(device, 256, filled(fill, SECTORS_PER_BLOCK));
    }
    assert_eq!(
        read(device, 256, SECTORS_PER_BLOCK),
        filled(19, SECTORS_PER_BLOCK)
    );
}

fn tickets_complete_in_any_order_and_once(device: &dyn BlockDevice) {
    let submit = |n: u64| {
        let bytes = filled(n as u8 + 1, SECTORS_PER_BLOCK);
        device.submit(Request::write(
            Lba(320 + n * SECTORS_PER_BLOCK),
            Class::Data,
            bytes,
        ))
    };
    let tickets: Vec<_> = (0..8).map(submit).collect();
    for &ticket in tickets.iter().rev() {
        device.wait(ticket).expect("a legal write works");
    }
    let again = device
        .wait(tickets[0])
        .expect_err("a ticket is good for one wait");
    assert_eq!(again.kind, DevErrorKind::Misuse);
    assert_eq!(
        read(device, 320 + 7 * SECTORS_PER_BLOCK, unit(device))[0],
        8
    );
}

fn a_discard_answers(device: &dyn BlockDevice) {
    write(device, 1024, filled(5, SECTORS_PER_BLOCK));
    let result = device.wait(device.submit(Request::discard(Lba(1024), SECTORS_PER_BLOCK)));
    if device.caps().discard {
        result.expect("a device that can discard does");
    } else {
        assert_eq!(
            result.expect_err("it cannot discard").kind,
            DevErrorKind::Misuse
        );
    }
}

fn illegal_requests_are_misuse(device: &dyn BlockDevice) {
    let end = device.caps().sectors;
    let illegal = [
        Request::read(Lba(end), SECTORS_PER_BLOCK),
        Request::read(Lba(u64::MAX), SECTORS_PER_BLOCK),
        Request::read(Lba(0), 0),
        Request::write(Lba(end - 1), Class::Data, filled(1, SECTORS_PER_BLOCK)),
        Request::write(Lba(0), Class::Data, Bytes::from_static(b"half a sector")),
        Request::write(Lba(0), Class::Data, Bytes::new()),
    ];
    for request in illegal {
        let shown = format!("{:?}", request.span());
        let error = device.wait(device.submit(request)).expect_err(&shown);
        assert_eq!(error.kind, DevErrorKind::Misuse, "{shown}: {error}");
    }
}

fn entry(device: &dyn BlockDevice, lba: u64, fill: u8, units: u64) -> PackedWrite {
    let piece = |n| Piece {
        class: Class::JournalMetadata,
        bytes: filled(fill + n, units * unit(device)),
    };
    PackedWrite {
        lba: Lba(lba),
        pieces: vec![piece(0), piece(1)],
        fua: device.caps().fua,
    }
}

fn is_misuse(device: &dyn BlockDevice, request: Request, what: &str) {
    let error = device.wait(device.submit(request)).expect_err(what);
    assert_eq!(error.kind, DevErrorKind::Misuse, "{what}: {error}");
}

fn packs_are_executed_or_refused(device: &dyn BlockDevice) {
    let unit = unit(device);
    let writes = vec![
        entry(device, 1536, 10, 1),
        entry(device, 1152, 20, 2),
        // This entry touches the first one, but entries are not in order of address.
        entry(device, 1536 + 2 * unit, 30, 1),
    ];
    write(device, 1152, filled(9, 8 * unit));
    let request = Request::pack(writes);
    if device.caps().packed.is_none() {
        is_misuse(device, request, "a pack on a device that has none");
        return;
    }
    device
        .wait(device.submit(request))
        .expect("a legal pack works");
    let fills = |lba, units: u64| -> Vec<u8> {
        let back = read(device, lba, units * unit);
        let firsts = back.chunks(unit as usize * SECTOR_BYTES).map(|c| c[0]);
        firsts.collect()
    };
    assert_eq!(fills(1536, 4), [10, 11, 30, 31]);
    assert_eq!(fills(1152, 6), [20, 20, 21, 21, 9, 9]);
    let single = Request::pack(vec![entry(device, 1536, 40, 1)]);
    device
        .wait(device.submit(single))
        .expect("a pack of one write works");
    assert_eq!(fills(1536, 2), [40, 41]);
}

fn illegal_packs_are_misuse(device: &dyn BlockDevice) {
    let caps = device.caps();
    let Some(packed) = caps.packed else { return };
    let unit = unit(device);
    let untouched = read(device, 0, 16);
    is_misuse(device, Request::pack(Vec::new()), "an empty pack");
    let beyond = vec![entry(device, 0, 50, 1), entry(device, caps.sectors, 50, 1)];
    is_misuse(device, Request::pack(beyond), "an entry beyond the end");
    let twice = vec![entry(device, 0, 50, 1), entry(device, unit, 50, 1)];
    is_misuse(device, Request::pack(twice), "a sector twice (hazards-H8)");
    let most = u64::from(packed.writes_max);
    if most < caps.sectors / (2 * unit) {
        let many = (0..=most).map(|n| entry(device, n * 2 * unit, 50, 1));
        is_misuse(device, Request::pack(many.collect()), "an entry too many");
    }
    let units = caps.max_transfer_sectors / unit / 2;
    if caps.max_transfer_sectors + 4 * unit < caps.sectors {
        let long = vec![
            entry(device, 0, 50, units),
            entry(device, caps.max_transfer_sectors + 2 * unit, 50, 1),
        ];
        is_misuse(device, Request::pack(long), "longer than one transfer");
    }
    assert_eq!(
        read(device, 0, 16),
        untouched,
        "a refused pack leaves nothing"
    );
}

fn a_barrier_answers(device: &dyn BlockDevice) {
    if !device.caps().barrier {
        is_misuse(device, Request::barrier(), "a barrier on a device without");
        return;
    }
    write(device, 0, filled(60, SECTORS_PER_BLOCK));
    device
        .wait(device.submit(Request::barrier()))
        .expect("a barrier works");
    write(device, 0, filled(61, SECTORS_PER_BLOCK));
    assert_eq!(read(device, 0, 8), filled(61, SECTORS_PER_BLOCK));
}
