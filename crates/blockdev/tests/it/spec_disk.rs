//! The device for crash tests: the contract, its promises at a cut, its failures.

use base::{Bytes, Lba, SECTORS_PER_BLOCK, fill};
use rt::{Sim, SimConfig};
use std::collections::BTreeSet;
use varve_blockdev::{
    BlockDevice, Caps, Class, DevErrorKind, Image, Op, PackOrder, Packed, PackedWrite, Piece,
    Remap, RemapCaps, RemapMode, RemapPair, Request, SpecDisk, expectation,
};

/// A device of 1 MiB that promises as little as it may.
fn weak() -> Caps {
    Caps {
        fua: false,
        reliable_granule: None,
        tear_granule: None,
        no_collateral: false,
        discard: false,
        max_transfer_sectors: 1024,
        ..testkit::device::caps(1 << 20)
    }
}

fn strong() -> Caps {
    Caps {
        fua: true,
        reliable_granule: Some(4096),
        tear_granule: Some(512),
        no_collateral: true,
        packed: Some(Packed {
            order: PackOrder::Prefix,
            writes_max: 8,
        }),
        cache_fifo: true,
        barrier: true,
        discard: true,
        ..weak()
    }
}

fn remapping(granule: u32) -> Caps {
    Caps {
        remap: Some(RemapCaps {
            granule,
            pairs_max: 64,
        }),
        cache_fifo: false,
        ..strong()
    }
}

/// Blocks 0 and 1 take over what blocks 10 and 11 hold.
fn remap(mode: RemapMode, fua: bool) -> Remap {
    let pair = |n| RemapPair::new(lba(n), lba(10 + n), 4096);
    Remap {
        pairs: vec![pair(0), pair(1)],
        mode,
        fua,
        require_all: false,
    }
}

fn in_sim<T: 'static>(work: impl FnOnce() -> T + 'static) -> T {
    Sim::new(SimConfig::seeded(1)).run(work).unwrap()
}

fn block(byte: u8) -> Bytes {
    fill::filled(byte, 4096)
}

fn lba(block: u64) -> Lba {
    Lba(block * SECTORS_PER_BLOCK)
}

fn write(n: u64, byte: u8) -> Request {
    Request::write(lba(n), Class::Data, block(byte))
}

fn entry(n: u64, byte: u8, fua: bool) -> PackedWrite {
    PackedWrite {
        lba: lba(n),
        pieces: vec![Piece {
            class: Class::Data,
            bytes: block(byte),
        }],
        fua,
    }
}

fn wait(disk: &SpecDisk, request: Request) {
    disk.wait(disk.submit(request)).expect("a legal request");
}

#[test]
fn the_contract_holds_for_any_caps() {
    for caps in [
        weak(),
        strong(),
        Caps {
            sector_bytes: 4096,
            ..strong()
        },
        Caps {
            volatile_cache: false,
            ..weak()
        },
        remapping(512),
        remapping(4096),
        Caps {
            sector_bytes: 4096,
            ..remapping(16384)
        },
        Caps {
            remap: remapping(4096).remap,
            ..weak()
        },
    ] {
        in_sim(move || testkit::device::run(&SpecDisk::new(caps, 1)));
    }
}

#[test]
fn what_is_not_promised_is_refused() {
    in_sim(|| {
        let disk = SpecDisk::new(weak(), 1);
        let fua = Request::write_fua(lba(0), Class::Data, block(1));
        let pack = Request::pack(vec![entry(0, 1, false)]);
        for request in [fua, pack, Request::barrier(), Request::discard(lba(0), 8)] {
            let shown = format!("{:?}", request.op);
            let error = disk.wait(disk.submit(request)).expect_err(&shown);
            assert_eq!(error.kind, DevErrorKind::Misuse, "{shown}: {error}");
        }
    });
}

/// Which blocks of `0..n` hold their new content, over 2000 snapshots.
fn seen(disk: &SpecDisk, n: u64) -> BTreeSet<Vec<bool>> {
    let state = |image: Image| (0..n).map(|b| image.block(b) == block(7)).collect();
    (0..2000).map(|seed| state(disk.snapshot(seed))).collect()
}

#[test]
fn a_cut_leaves_what_the_caps_leave_open() {
    let prefixes = |n: usize| (0..=n).map(|k| (0..n).map(|i| i < k).collect()).collect();
    let packed = |order| Caps {
        packed: Some(Packed {
            order,
            writes_max: 8,
        }),
        cache_fifo: false,
        ..strong()
    };
    in_sim(move || {
        let disk = SpecDisk::new(packed(PackOrder::AnySubset), 1);
        (0..3).for_each(|n| wait(&disk, write(n, 7)));
        assert_eq!(seen(&disk, 3).len(), 8, "a cache in any order");
        wait(&disk, Request::flush());
        assert_eq!(seen(&disk, 3), BTreeSet::from([vec![true; 3]]));
        assert_eq!(disk.open_writes(), 0);

        let pack = || Request::pack((0..3).map(|n| entry(n, 7, true)).collect());
        for order in [PackOrder::AnySubset, PackOrder::Prefix] {
            let disk = SpecDisk::new(packed(order), 1);
            let ticket = disk.submit(pack());
            rt::sleep(base::Nanos(1));
            match order {
                PackOrder::AnySubset => assert_eq!(seen(&disk, 3).len(), 8),
                PackOrder::Prefix => assert_eq!(seen(&disk, 3), prefixes(3)),
            }
            disk.wait(ticket).expect("a pack");
            assert_eq!(seen(&disk, 3), BTreeSet::from([vec![true; 3]]));
        }

        let disk = SpecDisk::new(strong(), 1);
        (0..3).for_each(|n| wait(&disk, write(n, 7)));
        assert_eq!(seen(&disk, 3), prefixes(3), "a cache in FIFO order");

        let disk = SpecDisk::new(packed(PackOrder::Prefix), 1);
        (0..2).for_each(|n| wait(&disk, write(n, 7)));
        wait(&disk, Request::barrier());
        wait(&disk, write(2, 7));
        assert_eq!(
            seen(&disk, 3).len(),
            5,
            "any of the first two, or all three"
        );
    });
}

/// What blocks 0, 1, 10 and 11 hold, over 500 snapshots.
fn remains(disk: &SpecDisk) -> BTreeSet<[u8; 4]> {
    let state = |image: Image| [0, 1, 10, 11].map(|n| image.block(n)[0]);
    (0..500).map(|seed| state(disk.snapshot(seed))).collect()
}

#[test]
fn a_cut_leaves_a_remap_in_whole_or_nothing_of_it() {
    for mode in [RemapMode::Share, RemapMode::Move] {
        let (old, new) = match mode {
            RemapMode::Share => ([1, 1, 7, 8], [7, 8, 7, 8]),
            RemapMode::Move => ([1, 1, 7, 8], [7, 8, 0, 0]),
        };
        let both = BTreeSet::from([old, new]);
        in_sim(move || {
            for fua in [false, true] {
                let disk = SpecDisk::new(remapping(4096), 1);
                for (n, fill) in [(0, 1), (1, 1), (10, 7), (11, 8)] {
                    wait(&disk, write(n, fill));
                }
                wait(&disk, Request::flush());
                let ticket = disk.submit(Request::remap(remap(mode, fua)));
                rt::sleep(base::Nanos(1));
                assert_eq!(remains(&disk), both, "remap-S4: in flight");
                disk.wait(ticket).expect("a legal REMAP");
                let after = if fua {
                    BTreeSet::from([new])
                } else {
                    both.clone()
                };
                assert_eq!(remains(&disk), after, "remap-S3: complete, FUA {fua}");
                wait(&disk, Request::flush());
                assert_eq!(remains(&disk), BTreeSet::from([new]), "remap-S3: flushed");
            }
        });
    }
}

#[test]
fn a_remap_through_no_cache_is_durable_at_completion() {
    in_sim(|| {
        let caps = Caps {
            volatile_cache: false,
            ..remapping(4096)
        };
        let disk = SpecDisk::new(caps, 1);
        wait(&disk, write(10, 7));
        wait(&disk, write(11, 8));
        wait(&disk, Request::remap(remap(RemapMode::Move, false)));
        assert_eq!(remains(&disk), BTreeSet::from([[7, 8, 0, 0]]));
        assert_eq!(disk.open_writes(), 0);
    });
}

#[test]
fn remaps_fail_and_are_copied_as_told() {
    in_sim(|| {
        let disk = SpecDisk::new(remapping(4096), 1);
        wait(&disk, write(10, 7));
        wait(&disk, write(11, 8));
        let before = disk.visible();
        let send = |remap: Remap| disk.wait(disk.submit(Request::remap(remap)));
        disk.fail_remaps();
        let begun = rt::now();
        let error = send(remap(RemapMode::Move, false)).expect_err("it fails");
        assert_eq!((error.kind, error.at), (DevErrorKind::Io, Some(lba(0))));
        assert!(rt::now() > begun, "at its completion");
        assert_eq!(disk.visible(), before);
        disk.heal();
        disk.copy_remaps();
        let all = Remap {
            require_all: true,
            ..remap(RemapMode::Share, false)
        };
        let error = send(all.clone()).expect_err("remap-S7");
        assert_eq!(error.kind, DevErrorKind::Misuse);
        let mut expecting = remap(RemapMode::Share, false);
        expecting.pairs[1].expect = Some(expectation(&[block(7)]));
        let error = send(expecting).expect_err("remap-S6");
        assert_eq!(
            (error.kind, error.at),
            (DevErrorKind::Misuse, Some(lba(11)))
        );
        assert_eq!(disk.visible(), before);
        let done = send(remap(RemapMode::Share, false)).expect("copied");
        let done = done.remapped.expect("of a REMAP");
        assert_eq!((done.aliased, done.copied), (0, 16));
        disk.heal();
        let done = send(all).expect("aliased").remapped.expect("of a REMAP");
        assert_eq!((done.aliased, done.copied), (16, 0));
        disk.fail_reads(lba(10).0..lba(10).0 + 1);
        let error = send(remap(RemapMode::Share, false)).expect_err("a bad source");
        assert_eq!(error.kind, DevErrorKind::Io);
    });
}

#[test]
fn snapshots_are_repeatable_and_a_cut_ends_the_life() {
    in_sim(|| {
        let disk = SpecDisk::new(weak(), 1);
        wait(&disk, write(0, 7));
        let later = disk.submit(write(1, 7));
        rt::sleep(base::Nanos(1));
        assert_eq!(disk.snapshot(5), disk.snapshot(5));
        let hash = |seed| disk.snapshot(seed).content_hash();
        assert!((0..50).map(hash).collect::<BTreeSet<_>>().len() > 10);
        assert_eq!(disk.snapshot_lost(), Image::new());
        assert_eq!(disk.visible().blocks().count(), 2);
        let image = disk.power_off(5);
        for ticket in [
            later,
            disk.submit(write(2, 7)),
            disk.submit(Request::flush()),
        ] {
            let error = disk.wait(ticket).expect_err("no power");
            assert_eq!(error.kind, DevErrorKind::PowerLost);
        }
        let next = SpecDisk::from_image(weak(), image.clone(), 1);
        assert_eq!((next.snapshot(9), next.open_writes()), (image, 0));
    });
}

#[test]
fn failures_name_their_place() {
    in_sim(|| {
        let disk = SpecDisk::new(strong(), 1);
        wait(&disk, write(1, 7));
        disk.fail_reads(12..13);
        let read = |n| disk.wait(disk.submit(Request::read(lba(n), 8)));
        assert_eq!(read(1).expect_err("broken").at, Some(Lba(12)));
        assert!(read(2).is_ok());
        disk.fail_writes(Some(Class::JournalCommit));
        let mut bad = entry(3, 7, true);
        bad.pieces[0].class = Class::JournalCommit;
        let pack = vec![entry(2, 7, true), bad, entry(4, 7, true)];
        let error = disk
            .wait(disk.submit(Request {
                op: Op::Pack { writes: pack },
            }))
            .expect_err("broken");
        assert_eq!((error.kind, error.at), (DevErrorKind::Io, Some(lba(3))));
        assert!(error.why.contains("entry 2 of 3"), "{error}");
        let image = disk.visible();
        assert!(!image.is_zero(2) && image.is_zero(3) && image.is_zero(4));
        disk.heal();
        assert!(read(1).is_ok());
    });
}
