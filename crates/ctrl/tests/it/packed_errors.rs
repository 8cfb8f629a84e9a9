//! Packed commands that go wrong, at command level and through the driver; modes beside them.

use crate::host::{self, SMALL, emmc_profile, errors, r1, send};
use base::{Bytes, Lba, Rng, Time};
use blockdev::{Class, DevErrorKind, Model, PackedWrite, Piece, Request};
use varve_ctrl::emmc::packed::{self, Entry, FORCED, PACKED, RELIABLE};
use varve_ctrl::emmc::{Card, Data, Emmc, Response, event, field, status};
use varve_ctrl::{AnyModel, Profile};

fn emmc(changes: &str) -> Box<Emmc> {
    host::emmc(&emmc_profile(changes), None)
}

/// One sector each, at these byte addresses, with the entry's number as content.
fn sectors(addresses: &[u32], flags: u32) -> (Vec<Entry>, Bytes) {
    let entry = |address: &u32| Entry {
        sbc: flags | 1,
        address: *address,
    };
    let payload = (1..=addresses.len()).flat_map(|i| vec![i as u8; 512]);
    (addresses.iter().map(entry).collect(), payload.collect())
}

fn send_pack(card: &mut Card, entries: &[Entry], payload: &Bytes) -> u32 {
    let header = packed::encode(entries, 512);
    let count = 1 + payload.len() / 512;
    assert_eq!(
        errors(&send(card, 23, PACKED | count as u32, Data::None)),
        0
    );
    let data = Data::Write(vec![header, payload.clone()]);
    r1(&send(card, 25, entries[0].address, data))
}

/// Reads PACKED_COMMAND_STATUS, PACKED_FAILURE_INDEX, EXCEPTION_EVENTS_STATUS.
fn told(card: &mut Card) -> (u8, u8, u8) {
    let raw = send(card, 8, 0, Data::Read(1)).data.concat();
    (
        raw[field::PACKED_COMMAND_STATUS],
        raw[field::PACKED_FAILURE_INDEX],
        raw[field::EXCEPTION_EVENTS_STATUS],
    )
}

fn first_bytes(card: &mut Card, addresses: &[u32]) -> Vec<u8> {
    let mut read = |a: &u32| send(card, 17, *a, Data::Read(1)).data.concat()[0];
    addresses.iter().map(&mut read).collect()
}

const APART: [u32; 4] = [4096, 65536, 8192, 131_072];

#[test]
fn a_good_pack_reports_nothing() {
    let mut e = emmc("");
    let card = e.card_mut();
    let (entries, payload) = sectors(&APART, RELIABLE);
    let bits = send_pack(card, &entries, &payload);
    assert_eq!(bits & (status::ERRORS | status::EXCEPTION_EVENT), 0);
    assert_eq!(told(card), (0, 0, 0));
    assert_eq!(first_bytes(card, &APART), [1, 2, 3, 4]);
}

#[test]
fn an_entry_that_fails_is_told_by_its_index_and_what_follows_is_not_done() {
    let mut e = emmc("");
    let card = e.card_mut();
    for (bad, sbc) in [(SMALL as u32, RELIABLE | 1), (100, RELIABLE | 1)] {
        let (mut entries, payload) = sectors(&APART, RELIABLE);
        entries[2] = Entry { sbc, address: bad };
        let bits = send_pack(card, &entries, &payload);
        assert_eq!(bits & status::ERRORS, 0, "R1 leaves it to the event");
        assert!(bits & status::EXCEPTION_EVENT != 0);
        assert_eq!(told(card), (3, 3, event::PACKED_FAILURE));
        assert_eq!(first_bytes(card, &APART), [1, 2, 0, 0]);
    }
    // The next packed command clears it.
    let (entries, payload) = sectors(&APART, FORCED);
    assert_eq!(
        send_pack(card, &entries, &payload) & status::EXCEPTION_EVENT,
        0
    );
    assert_eq!(told(card), (0, 0, 0));
}

#[test]
fn a_malformed_header_is_refused_whole() {
    let mut e = emmc(",card.max_packed_writes=5");
    let card = e.card_mut();
    let (entries, payload) = sectors(&APART, RELIABLE);
    let good = packed::encode(&entries, 512).to_vec();
    let event = event::PACKED_FAILURE;
    for (at, byte, want) in [
        (0, 0, (1, 0, event)),
        (1, 1, (1, 0, event)),
        (2, 0, (1, 0, event)),
        (2, 6, (1, 0, event)),
        (2, 3, (1, 0, event)),
        (16, 0, (3, 2, event)),
        (19, 0xC0, (3, 2, event)),
        (24, 2, (1, 0, event)),
    ] {
        let mut header = good.clone();
        header[at] = byte;
        send(card, 23, PACKED | 5, Data::None);
        let data = Data::Write(vec![header.into(), payload.clone()]);
        let bits = r1(&send(card, 25, APART[0], data));
        assert_eq!(bits & status::ERRORS, status::ERROR, "byte {at}");
        assert!(bits & status::EXCEPTION_EVENT != 0);
        assert_eq!(told(card), want, "byte {at}");
    }
    assert_eq!(first_bytes(card, &APART), [0; 4], "nothing was written");
    // CMD25 to another place than entry 1; a transfer of another length.
    send(card, 23, PACKED | 5, Data::None);
    let data = Data::Write(vec![good.clone().into(), payload.clone()]);
    assert_eq!(errors(&send(card, 25, 0, data)), status::ERROR);
    send(card, 23, PACKED | 4, Data::None);
    let data = Data::Write(vec![good.into(), payload]);
    let bits = errors(&send(card, 25, APART[0], data));
    assert_eq!(bits, status::BLOCK_LEN_ERROR);
    assert_eq!(told(card), (1, 0, event));
}

#[test]
fn cmd23_takes_packed_only_with_its_event_and_without_flags() {
    let mut e = emmc("");
    let card = e.card_mut();
    for arg in [
        PACKED,
        PACKED | 1,
        PACKED | RELIABLE | 5,
        PACKED | FORCED | 5,
        PACKED | 1 << 16 | 5,
    ] {
        assert_eq!(
            errors(&send(card, 23, arg, Data::None)),
            status::ERROR,
            "{arg:#x}"
        );
    }
    let clear = 2 << 24 | (field::EXCEPTION_EVENTS_CTRL as u32) << 16 | 8 << 8;
    assert_eq!(errors(&send(card, 6, clear, Data::None)), 0);
    assert_eq!(
        errors(&send(card, 23, PACKED | 5, Data::None)),
        status::ERROR
    );
    let mut none = emmc(",card.max_packed_writes=0");
    let bits = errors(&send(none.card_mut(), 23, PACKED | 5, Data::None));
    assert_eq!(bits, status::ERROR);
}

#[test]
fn the_same_sectors_twice_in_a_pack_hold_the_later_entry_in_either_order() {
    for order in ["prefix", "any-subset"] {
        for flags in [[RELIABLE, RELIABLE], [0, RELIABLE], [RELIABLE, 0], [0, 0]] {
            let mut e = emmc(&format!(",card.pack_order={order}"));
            let card = e.card_mut();
            let (mut entries, payload) = sectors(&[4096, 4096], 0);
            entries.iter_mut().zip(flags).for_each(|(e, f)| e.sbc |= f);
            assert_eq!(send_pack(card, &entries, &payload) & status::ERRORS, 0);
            assert_eq!(first_bytes(card, &[4096]), [2], "{order}, {flags:x?}");
            let flush = 3 << 24 | (field::FLUSH_CACHE as u32) << 16 | 1 << 8;
            send(card, 6, flush, Data::None);
            assert_eq!(
                first_bytes(card, &[4096]),
                [2],
                "{order}, {flags:x?}, flushed"
            );
        }
    }
}

#[test]
fn a_reliable_entry_supersedes_the_cached_copy_of_its_sectors_only() {
    for order in ["prefix", "any-subset"] {
        let mut e = emmc(&format!(",card.pack_order={order}"));
        let card = e.card_mut();
        send(card, 23, 8, Data::None);
        send(card, 25, 0, Data::Write(vec![vec![9; 4096].into()]));
        let (entries, payload) = sectors(&[512, 8192], RELIABLE);
        send_pack(card, &entries, &payload);
        assert_eq!(first_bytes(card, &[0, 512, 1024, 8192]), [9, 1, 9, 2]);
        let at = card.ready();
        let profile = Profile::builtin("emmc-odroid-xu4").unwrap();
        let media = varve_ctrl::Media::Emmc(e.power_off(at, 1));
        let AnyModel::Emmc(mut next) = profile.build(None, Some(media)).unwrap() else {
            panic!("not an eMMC");
        };
        let got = first_bytes(next.card_mut(), &[0, 512, 1024, 8192]);
        assert_eq!(got, [0, 1, 0, 2], "{order}");
    }
}

#[test]
fn random_packed_commands_never_panic() {
    for changes in [
        "",
        ",card.pack_order=any-subset,card.cache_fifo=true",
        ",card.native_sector=4096",
    ] {
        let mut e = emmc(changes);
        let card = e.card_mut();
        let mut rng = Rng::named(7, "hostile packs");
        for _ in 0..400 {
            let blocks = rng.below(20);
            let mut raw = vec![0; (blocks * 512) as usize];
            rng.fill(&mut raw);
            if raw.len() > 64 && !rng.one_in(4) {
                (raw[0], raw[1], raw[2]) = (1, 2, rng.below(6) as u8);
                for i in 0..6 {
                    let sbc = (RELIABLE * rng.below(2) as u32) | rng.below(4) as u32;
                    let address = rng.below(SMALL / 512 + 4) as u32 * 512;
                    raw[8 + 8 * i..12 + 8 * i].copy_from_slice(&sbc.to_le_bytes());
                    raw[12 + 8 * i..16 + 8 * i].copy_from_slice(&address.to_le_bytes());
                }
            }
            let first = if raw.len() > 16 {
                u32::from_le_bytes(raw[12..16].try_into().unwrap())
            } else {
                0
            };
            send(card, 23, PACKED | blocks as u32, Data::None);
            send(card, 25, first, Data::Write(vec![raw.into()]));
            send(card, 12, 0, Data::None);
        }
        assert!(matches!(
            send(card, 13, 1 << 16, Data::None).response,
            Response::R1(_)
        ));
    }
}

// Through the driver.

fn write(lba: u64, id: u8, n: u64) -> PackedWrite {
    let bytes = vec![id; n as usize * 512].into();
    PackedWrite {
        lba: Lba(lba),
        pieces: vec![Piece {
            class: Class::Data,
            bytes,
        }],
        fua: true,
    }
}

fn content(e: &mut Emmc, lba: u64, n: u64) -> Bytes {
    let now = e.card_mut().ready();
    let read = e.execute(now, Request::read(Lba(lba), n));
    read.result.unwrap().into_bytes()
}

#[test]
fn a_long_pack_becomes_several_commands_in_order() {
    let mut e = emmc(",card.max_transfer_kib=16");
    // 32 sectors are one transfer: with the header the last entries go into a second command.
    let writes = vec![write(0, 1, 20), write(100, 2, 10), write(200, 3, 2)];
    let done = e.execute(Time(0), Request::pack(writes));
    done.result.unwrap();
    let stats = e.device_stats();
    assert_eq!(
        (stats.packed_commands, stats.writes),
        (1, 2),
        "one entry is left: unpacked"
    );
    assert_eq!(content(&mut e, 0, 20), vec![1; 20 * 512]);
    assert_eq!(content(&mut e, 100, 10), vec![2; 5120]);
    assert_eq!(content(&mut e, 200, 2), vec![3; 1024]);
}

#[test]
fn the_driver_packs_only_where_linux_did() {
    let caps = |changes: &str| emmc(changes).caps().clone();
    assert!(caps("").packed.is_some());
    assert!(caps(",card.en_rel_wr=false").packed.is_none());
    assert!(caps(",card.max_packed_writes=0").packed.is_none());
    let large = caps(",card.native_sector=4096,card.max_packed_writes=255");
    assert_eq!(large.packed.unwrap().writes_max, 255, "a header of 4 KiB");
    assert_eq!(
        caps(",card.max_packed_writes=255")
            .packed
            .unwrap()
            .writes_max,
        63
    );
    let mut none = emmc(",card.en_rel_wr=false");
    let refused = none.execute(Time(0), Request::pack(vec![write(0, 1, 1)]));
    assert_eq!(refused.result.unwrap_err().kind, DevErrorKind::Misuse);
}

#[test]
fn four_kib_sectors_bind_addresses_lengths_and_the_header() {
    let mut e = emmc(",card.native_sector=4096");
    let done = e.execute(
        Time(0),
        Request::pack(vec![write(8, 1, 8), write(64, 2, 16), write(24, 3, 8)]),
    );
    done.result.unwrap();
    assert_eq!(e.device_stats().packed_commands, 1);
    assert_eq!(content(&mut e, 64, 16), vec![2; 8192]);
    let odd = e.execute(
        done.at,
        Request::write(Lba(4), Class::Data, vec![0; 4096].into()),
    );
    assert_eq!(odd.result.unwrap_err().kind, DevErrorKind::Misuse);
    let card = e.card_mut();
    let eight = || Data::Write(vec![vec![1; 4096].into()]);
    send(card, 23, 8, Data::None);
    assert_eq!(errors(&send(card, 25, 512, eight())), status::ADDRESS_ERROR);
    send(card, 23, 1, Data::None);
    let one = Data::Write(vec![vec![1; 512].into()]);
    assert_eq!(errors(&send(card, 25, 4096, one)), status::BLOCK_LEN_ERROR);
    assert_eq!(
        errors(&send(card, 17, 4096, Data::Read(1))),
        status::BLOCK_LEN_ERROR
    );
    let gone = e.execute(Time(1 << 40), Request::discard(Lba(64), 16));
    gone.result.unwrap();
    assert_eq!(content(&mut e, 64, 16), vec![0; 8192]);
}

#[test]
fn legacy_reliable_writes_go_in_aligned_groups() {
    let mut e = emmc(",card.en_rel_wr=false,card.rel_wr_sec_c=8");
    let bytes: Bytes = vec![5; 20 * 512].into();
    let done = e.execute(
        Time(0),
        Request::write_fua(Lba(6), Class::Data, bytes.clone()),
    );
    done.result.unwrap();
    // Sectors 6 and 7, two groups of eight, 24 and 25.
    assert_eq!(e.device_stats().reliable_writes, 2 + 2 + 2);
    assert_eq!(content(&mut e, 6, 20), bytes);
    let card = e.card_mut();
    send(card, 23, RELIABLE | 8, Data::None);
    let eight = Data::Write(vec![vec![1; 4096].into()]);
    assert_eq!(
        errors(&send(card, 25, 512, eight)),
        status::ERROR,
        "not aligned"
    );
}

#[test]
fn legacy_reliable_writes_of_a_card_with_4_kib_sectors_go_one_by_one() {
    let mut e = emmc(",card.en_rel_wr=false,card.native_sector=4096");
    let bytes: Bytes = vec![5; 24 * 512].into();
    let request = Request::write_fua(Lba(8), Class::Data, bytes.clone());
    e.execute(Time(0), request).result.unwrap();
    assert_eq!(e.device_stats().reliable_writes, 3);
    assert_eq!(content(&mut e, 8, 24), bytes);
}

#[test]
fn a_sleeping_card_hears_only_cmd5() {
    let mut e = emmc("");
    let card = e.card_mut();
    assert_eq!(
        send(card, 5, 1 << 16 | 1 << 15, Data::None).response,
        Response::None
    );
    send(card, 13, 1 << 16, Data::None);
    send(card, 7, 0, Data::None);
    r1(&send(card, 5, 1 << 16 | 1 << 15, Data::None));
    assert_eq!(send(card, 7, 1 << 16, Data::None).response, Response::None);
    r1(&send(card, 5, 1 << 16, Data::None));
    assert!(matches!(
        send(card, 7, 1 << 16, Data::None).response,
        Response::R1(_)
    ));
    assert_eq!(status::state(r1(&send(card, 13, 1 << 16, Data::None))), 4);
}

#[test]
fn barriers_need_their_mode() {
    let barrier = 3 << 24 | (field::FLUSH_CACHE as u32) << 16 | 2 << 8;
    let mode = 3 << 24 | (field::BARRIER_CTRL as u32) << 16;
    let mut none = emmc("");
    let card = none.card_mut();
    assert_eq!(
        errors(&send(card, 6, mode | 1 << 8, Data::None)),
        status::SWITCH_ERROR
    );
    assert_eq!(
        errors(&send(card, 6, barrier, Data::None)),
        status::SWITCH_ERROR
    );
    let mut e = emmc(",card.barrier=true");
    let card = e.card_mut();
    assert_eq!(
        errors(&send(card, 6, barrier, Data::None)),
        0,
        "the driver switched it on"
    );
    send(card, 6, mode, Data::None);
    assert_eq!(
        errors(&send(card, 6, barrier, Data::None)),
        status::SWITCH_ERROR
    );
}

/// Overwrites until collection is needed, with pauses; answers the longest write and the number of
/// copies.
fn churn(changes: &str) -> (u64, u64, Box<Emmc>) {
    let mut e = emmc(changes);
    let mut rng = Rng::named(3, "churn");
    let (mut now, mut longest) = (Time(0), 0);
    for _ in 0..6000 {
        let lba = Lba(rng.below(SMALL / 4096) * 8);
        let data = base::fill::filled(rng.below(256) as u8, 4096);
        let done = e.execute(now, Request::write(lba, Class::Data, data));
        done.result.unwrap();
        longest = longest.max((done.at - now).0);
        now = done.at;
        if rng.one_in(16) {
            now.0 += 20_000_000;
        }
    }
    let copies = e.flash_stats().unwrap().gc_copies;
    (longest, copies, e)
}

#[test]
fn background_operations_are_done_by_whom_the_profile_says() {
    let (_, off, mut e) = churn("");
    assert!(off > 0, "the workload needs collection");
    let card = e.card_mut();
    let start = 3 << 24 | (field::BKOPS_START as u32) << 16 | 1 << 8;
    assert_eq!(
        errors(&send(card, 6, start, Data::None)),
        status::SWITCH_ERROR
    );
    let (_, auto, e) = churn(",card.bkops=auto");
    assert!(auto > 0);
    assert_eq!(e.card().ext_csd().get(field::BKOPS_EN), 2);
    let (longest, _, mut e) = churn(",card.bkops=manual");
    assert!(longest > 3_000_000, "a pause shows: {longest} ns");
    let card = e.card_mut();
    assert_eq!(card.ext_csd().get(field::BKOPS_EN), 1);
    let before = card.ready();
    let out = send(card, 6, start, Data::None);
    assert_eq!(errors(&out), 0);
    assert!(out.ready >= before);
    let status = send(card, 8, 0, Data::Read(1)).data.concat()[field::BKOPS_STATUS];
    assert!(status < 3, "{status}");
}

#[test]
fn a_worn_out_card_fails_packs_with_its_reason_after_bounded_retries() {
    let mut e = emmc(",nand.endurance=2");
    let (mut now, mut failure) = (Time(0), None);
    for round in 0..40_000u64 {
        let at = |i: u64| (round * 7 + i * 1024) % (SMALL / 512 - 8) / 8 * 8;
        let writes = vec![write(at(0), 1, 8), write(at(1), 2, 8), write(at(2), 3, 8)];
        let done = e.execute(now, Request::pack(writes));
        now = done.at;
        if let Err(error) = done.result {
            failure = Some(error.to_string());
            break;
        }
    }
    let failure = failure.expect("the card wears out");
    assert!(
        failure.contains("packed entry") || failure.contains("read-only"),
        "{failure}"
    );
    let before = e.device_stats().packed_commands;
    let again = e.execute(now, Request::pack(vec![write(0, 1, 8), write(64, 2, 8)]));
    assert!(again.result.is_err());
    assert!(
        e.device_stats().packed_commands - before <= 2,
        "as often as it has entries"
    );
    assert!(
        e.execute(again.at, Request::read(Lba(0), 8)).result.is_ok(),
        "it can be read"
    );
}
