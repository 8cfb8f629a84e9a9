//! The contract of [`BlockDevice`] as a test that every implementer runs.

use crate::{BlockDevice, Class, DevErrorKind, Op, Piece, Request};
use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};

/// Runs the contract against a blank device of at least 1 MiB. What it does not survive, it panics with.
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
