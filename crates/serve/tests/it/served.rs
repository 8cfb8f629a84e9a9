//! The invariants of the served device (served-S1 to served-S5).

use crate::device::{Seen, Spy};
use base::{Bytes, Lba};
use blockdev::DevErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use varve_serve::file::Content;
use varve_serve::{Command, Served};

fn write(sector: u64, sectors: usize, fua: bool) -> Command {
    Command::Write {
        lba: Lba(sector),
        bytes: Bytes::from(vec![7; sectors * 512]),
        fua,
    }
}

#[test]
fn s1_an_answered_write_was_complete_before_a_later_flush_started() {
    let spy = Spy::new(true);
    let served = Served::new(spy.clone()).unwrap();
    let pending = served.submit(write(0, 1, false));
    served.finish(pending).unwrap();
    served.run(Command::Flush).unwrap();
    let expected = [
        Seen::Write(0, 1, false),
        Seen::Done(0),
        Seen::Flush,
        Seen::Done(1),
    ];
    assert_eq!(spy.seen(), expected);
}

#[test]
fn s2_without_fua_of_the_device_a_flush_stands_behind_the_completion() {
    let spy = Spy::new(false);
    let served = Served::new(spy.clone()).unwrap();
    served.run(write(0, 1, true)).unwrap();
    let expected = [
        Seen::Write(0, 1, false),
        Seen::Done(0),
        Seen::Flush,
        Seen::Done(1),
    ];
    assert_eq!(spy.seen(), expected);
    let zeros = Command::WriteZeroes {
        lba: Lba(0),
        sectors: 1,
        fua: true,
    };
    served.run(zeros).unwrap();
    assert_eq!(spy.seen()[2], Seen::Flush);
    let spy = Spy::new(true);
    let served = Served::new(spy.clone()).unwrap();
    served.run(write(0, 1, true)).unwrap();
    assert_eq!(spy.seen(), [Seen::Write(0, 1, true), Seen::Done(0)]);
}

#[test]
fn s3_a_write_without_fua_is_not_made_durable() {
    let spy = Spy::new(false);
    let served = Served::new(spy.clone()).unwrap();
    served.run(write(0, 100, false)).unwrap();
    // Two commands, because the device takes 64 sectors at once.
    let expected = [
        Seen::Write(0, 64, false),
        Seen::Write(64, 36, false),
        Seen::Done(0),
        Seen::Done(1),
    ];
    assert_eq!(spy.seen(), expected);
    assert!(spy.at(0, 100).iter().all(|byte| *byte == 7));
}

#[test]
fn s4_what_ends_outside_is_refused_as_a_whole() {
    let spy = Spy::new(true);
    let served = Served::new(spy.clone()).unwrap();
    let last = spy.caps.sectors;
    for command in [
        write(last - 70, 71, false),
        write(0, 0, false),
        Command::Write {
            lba: Lba(0),
            bytes: Bytes::from_static(&[1; 513]),
            fua: false,
        },
        Command::Read {
            lba: Lba(u64::MAX),
            sectors: 2,
        },
        Command::WriteZeroes {
            lba: Lba(1),
            sectors: last,
            fua: false,
        },
        Command::Discard {
            lba: Lba(last),
            sectors: 1,
        },
    ] {
        let e = served.run(command.clone()).unwrap_err();
        assert_eq!(e.kind, DevErrorKind::Misuse, "{command:?}");
        assert_eq!(spy.seen(), [], "{command:?}");
    }
    assert_eq!(served.traffic().failed, 6);
}

#[test]
fn s5_no_command_comes_behind_the_last_one() {
    let spy = Spy::new(true);
    let cuts = Arc::new(AtomicU64::new(0));
    let counted = cuts.clone();
    let cut = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let served = Served::new(spy.clone()).unwrap().cut_after(2, cut);
    served.run(write(0, 1, false)).unwrap();
    let second = served.submit(write(1, 1, false));
    let third = served.submit(write(2, 1, false));
    assert!(!served.is_ended());
    served.finish(second).unwrap();
    assert!(served.is_ended());
    assert_eq!(
        served.finish(third).unwrap_err().kind,
        DevErrorKind::PowerLost
    );
    assert_eq!(
        served.run(Command::Flush).unwrap_err().kind,
        DevErrorKind::PowerLost
    );
    assert_eq!(cuts.load(Ordering::SeqCst), 1);
    assert_eq!(spy.at(2, 1)[0], 0, "the third never came");
    assert!(!spy.seen().contains(&Seen::Flush));
}

/// Zeros are written in runs: a device of gigabytes has a million blocks.
#[test]
fn a_hole_is_written_as_runs_of_zeros_between_what_is_zero_already() {
    let spy = Spy::new(true);
    let served = Served::new(spy.clone()).unwrap();
    let served = served.zeroes_by(|block| block == 4 || block == 7);
    // From the middle of block 1 to the middle of block 9.
    served.clear(Lba(12), 64).unwrap();
    let seen = spy.seen();
    let writes: Vec<Seen> = (seen.into_iter())
        .filter(|seen| matches!(seen, Seen::Write(..)))
        .collect();
    let expected = [
        Seen::Write(12, 20, false),
        Seen::Write(40, 16, false),
        Seen::Write(64, 12, false),
    ];
    assert_eq!(writes, expected);
    served.clear(Lba(33), 6).unwrap();
    let quiet = |seen: &Seen| !matches!(seen, Seen::Write(..));
    assert!(spy.seen().iter().all(quiet), "block 4 holds zeros");
}
