//! The contract of REMAP: remap-S1, remap-S2, remap-S5 to remap-S7 of [`blockdev::Remap`],
//! as far as reads can tell.

use super::{filled, is_misuse, read, unit, write};
use base::{Bytes, Lba, bytes::is_zero};
use blockdev::{BlockDevice, Class, Remap, RemapMode, RemapPair, Remapped, Request, expectation};

/// Sectors that no other case touches.
const FIRST: u64 = 1664;
const END: u64 = 2048;

/// The sectors of the cases, counted in units that the device can alias.
struct Field<'a> {
    device: &'a dyn BlockDevice,
    sectors: u64,
}

pub(super) fn run(device: &dyn BlockDevice) {
    let Some(promise) = device.caps().remap else {
        let pair = RemapPair::new(Lba(0), Lba(64), 4096);
        let request = Request::remap(batch(vec![pair]));
        is_misuse(device, request, "a REMAP on a device without");
        return;
    };
    let sectors = (u64::from(promise.granule) / 512).max(unit(device));
    assert!(
        (END - FIRST) / sectors >= 12 && promise.pairs_max >= 2,
        "the contract needs a granule of at most 16 KiB and two pairs"
    );
    let field = Field { device, sectors };
    field.a_home_takes_over_a_source_that_was_never_written();
    field.homes_take_over_what_their_sources_hold();
    field.home_and_source_are_apart_afterwards();
    field.a_move_leaves_zeros();
    field.several_homes_of_one_source();
    field.what_is_not_aligned_is_copied_or_refused();
    field.an_expectation_that_fails_refuses_the_whole_batch();
    field.illegal_batches_are_misuse();
}

fn batch(pairs: Vec<RemapPair>) -> Remap {
    Remap {
        pairs,
        ..Remap::default()
    }
}

impl Field<'_> {
    fn lba(&self, n: u64) -> u64 {
        FIRST + n * self.sectors
    }

    fn pair(&self, home: u64, src: u64) -> RemapPair {
        RemapPair {
            home: Lba(self.lba(home)),
            src: Lba(self.lba(src)),
            sectors: self.sectors,
            expect: None,
        }
    }

    fn put(&self, n: u64, fill: u8) {
        write(self.device, self.lba(n), filled(fill, self.sectors));
    }

    fn get(&self, n: u64) -> Bytes {
        read(self.device, self.lba(n), self.sectors)
    }

    fn is(&self, n: u64, fill: u8, why: &str) {
        assert!(self.get(n) == filled(fill, self.sectors), "{why}");
    }

    /// The content of twelve units, to see that nothing has changed.
    fn all(&self) -> Bytes {
        read(self.device, FIRST, 12 * self.sectors)
    }

    fn send(&self, remap: Remap) -> Remapped {
        let asked: u64 = remap.pairs.iter().map(|p| p.sectors).sum();
        let ticket = self.device.submit(Request::remap(remap));
        let reply = self.device.wait(ticket).expect("a legal REMAP works");
        let done = reply.remapped.expect("a REMAP says what it came to");
        assert_eq!(done.aliased + done.copied, asked, "sectors of a REMAP");
        done
    }

    fn flush(&self) {
        let ticket = self.device.submit(Request::flush());
        self.device.wait(ticket).expect("a flush works");
    }

    fn a_home_takes_over_a_source_that_was_never_written(&self) {
        self.put(1, 1);
        self.send(batch(vec![self.pair(1, 11)]));
        assert!(is_zero(&self.get(1)), "it reads as its source: zeros");
        assert!(is_zero(&self.get(11)), "the source is as it was");
    }

    fn homes_take_over_what_their_sources_hold(&self) {
        self.put(0, 1);
        self.put(4, 2);
        self.put(5, 3);
        let remap = Remap {
            fua: self.device.caps().fua,
            ..batch(vec![self.pair(0, 4), self.pair(1, 5)])
        };
        self.send(remap);
        let shown = |when: &str| {
            self.is(0, 2, when);
            self.is(1, 3, when);
            self.is(4, 2, when);
            self.is(5, 3, when);
        };
        shown("remap-S1, remap-S2: after the REMAP");
        self.flush();
        shown("remap-S1, remap-S2: after a flush");
        // To send the same batch again changes nothing, which recovery relies on.
        self.send(batch(vec![self.pair(0, 4), self.pair(1, 5)]));
        shown("remap-S1, remap-S2: sent twice");
    }

    fn home_and_source_are_apart_afterwards(&self) {
        self.put(4, 12);
        self.is(
            0,
            2,
            "remap-S2: a home keeps its content when its source is written",
        );
        self.put(1, 13);
        self.is(
            5,
            3,
            "remap-S2: a source keeps its content when its home is written",
        );
        if self.device.caps().discard {
            self.send(batch(vec![self.pair(2, 5)]));
            let gone = Request::discard(Lba(self.lba(5)), self.sectors);
            self.device
                .wait(self.device.submit(gone))
                .expect("a device that can discard does");
            self.is(
                2,
                3,
                "remap-S2: a home keeps its content when its source is gone",
            );
        }
        self.flush();
        self.is(0, 2, "remap-S2: after a flush");
    }

    fn a_move_leaves_zeros(&self) {
        self.put(6, 21);
        self.put(7, 22);
        let remap = Remap {
            mode: RemapMode::Move,
            ..batch(vec![self.pair(0, 6), self.pair(1, 7)])
        };
        self.send(remap);
        for when in [
            "remap-S2: after a move",
            "remap-S2: after a move and a flush",
        ] {
            self.is(0, 21, when);
            self.is(1, 22, when);
            assert!(is_zero(&self.get(6)) && is_zero(&self.get(7)), "{when}");
            self.flush();
        }
        self.put(6, 23);
        self.is(0, 21, "remap-S2: the source of a move is written again");
    }

    fn several_homes_of_one_source(&self) {
        self.put(4, 31);
        self.send(batch(vec![self.pair(0, 4), self.pair(1, 4)]));
        self.put(4, 32);
        self.put(0, 33);
        self.is(1, 31, "remap-S1: the other home");
        self.is(0, 33, "remap-S1: the home that was written");
    }

    fn what_is_not_aligned_is_copied_or_refused(&self) {
        let unit = unit(self.device);
        if unit == self.sectors {
            return;
        }
        let part = |fill| filled(fill, unit);
        self.put(0, 41);
        self.put(4, 42);
        write(self.device, self.lba(4) + unit, part(43));
        let pair = RemapPair {
            home: Lba(self.lba(0)),
            src: Lba(self.lba(4) + unit),
            sectors: unit,
            expect: None,
        };
        let before = self.all();
        let all = Remap {
            require_all: true,
            ..batch(vec![self.pair(1, 4), pair])
        };
        is_misuse(
            self.device,
            Request::remap(all),
            "remap-S7: it would be copied",
        );
        assert!(
            self.all() == before,
            "remap-S7: a refused batch leaves nothing"
        );
        let done = self.send(batch(vec![pair]));
        assert_eq!(done.aliased, 0, "remap-S7: no alias is possible");
        let got = self.get(0);
        let (head, rest) = got.split_at(unit as usize * 512);
        assert!(
            *head == part(43)[..] && rest.iter().all(|b| *b == 41),
            "remap-S7"
        );
    }

    fn an_expectation_that_fails_refuses_the_whole_batch(&self) {
        self.put(0, 51);
        self.put(1, 52);
        self.put(4, 53);
        self.put(5, 54);
        let expecting = |home, src, fill| RemapPair {
            expect: Some(expectation(&[filled(fill, self.sectors)])),
            ..self.pair(home, src)
        };
        let before = self.all();
        for pairs in [
            vec![expecting(0, 4, 53), expecting(1, 5, 53)],
            vec![expecting(0, 4, 54), expecting(1, 5, 54)],
        ] {
            is_misuse(self.device, Request::remap(batch(pairs)), "remap-S6");
            assert!(
                self.all() == before,
                "remap-S6: a refused batch leaves nothing"
            );
        }
        self.send(batch(vec![expecting(0, 4, 53), expecting(1, 5, 54)]));
        self.is(0, 53, "remap-S6: as expected");
        self.is(1, 54, "remap-S6: as expected");
    }

    fn illegal_batches_are_misuse(&self) {
        self.put(4, 61);
        let before = self.all();
        let end = self.device.caps().sectors;
        let beyond = |home, src| RemapPair {
            home: Lba(home),
            src: Lba(src),
            ..self.pair(0, 4)
        };
        let most = self
            .device
            .caps()
            .remap
            .map_or(0, |promise| promise.pairs_max);
        for (pairs, what) in [
            (vec![], "no pair"),
            (
                vec![self.pair(0, 4), self.pair(0, 5)],
                "remap-S5: a home twice",
            ),
            (
                vec![self.pair(0, 4), self.pair(1, 0)],
                "remap-S5: home and source",
            ),
            (vec![self.pair(0, 0)], "remap-S5: itself"),
            (
                vec![self.pair(0, 4), beyond(end, self.lba(4))],
                "home beyond",
            ),
            (
                vec![self.pair(0, 4), beyond(self.lba(1), end)],
                "source beyond",
            ),
            (
                vec![beyond(u64::MAX - 1, self.lba(4))],
                "home at the end of numbers",
            ),
            (
                vec![RemapPair {
                    sectors: 0,
                    ..self.pair(0, 4)
                }],
                "empty",
            ),
            (
                vec![self.pair(0, 4); (most as usize).min(1 << 20) + 1],
                "too many",
            ),
        ] {
            is_misuse(self.device, Request::remap(batch(pairs)), what);
            assert!(
                self.all() == before,
                "{what}: a refused batch leaves nothing"
            );
        }
        // After the refusal the device works as before.
        let class = Class::Data;
        let request = Request::write(Lba(self.lba(0)), class, filled(62, self.sectors));
        self.device
            .wait(self.device.submit(request))
            .expect("a legal write works");
    }
}
