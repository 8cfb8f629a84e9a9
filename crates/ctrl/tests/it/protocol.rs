//! The command interface of the card with hosts that break the protocol, and what its modes mean at
//! a power cut.

use crate::host::{SMALL, block, changed, emmc, errors, send};
use base::{Bytes, Lba, Rng, Time};
use blockdev::{Model, Request};
use varve_ctrl::emmc::{Command, Data, Emmc, Response, field, status};
use varve_ctrl::{Media, Profile};

fn sectors(e: &mut Emmc, lba: u64, n: u64) -> Vec<u8> {
    let now = e.card_mut().ready();
    let read = e.execute(now, Request::read(Lba(lba), n)).result.unwrap();
    let bytes: Bytes = read.into_bytes();
    bytes.chunks(512).map(|s| s[0]).collect()
}

/// Cuts the power when the card is ready; answers what the recovered card reads.
fn after_cut(profile: &Profile, mut e: Box<Emmc>, lba: u64, n: u64) -> Vec<u8> {
    let at = e.card_mut().ready();
    let media = Media::Emmc(e.power_off(at, 1));
    sectors(&mut emmc(profile, Some(media)), lba, n)
}

const SWITCH: u32 = 3 << 24 | 1;
const CACHE_OFF: u32 = SWITCH | (field::CACHE_CTRL as u32) << 16;
const CACHE_ON: u32 = CACHE_OFF | 1 << 8;
const FLUSH: u32 = SWITCH | (field::FLUSH_CACHE as u32) << 16 | 1 << 8;

#[test]
fn no_command_in_any_state_panics_and_a_reset_helps() {
    let profile = changed(&[]);
    for seed in 0..24 {
        let mut rng = Rng::named(seed, "hostile host");
        let mut e = emmc(&profile, None);
        let card = e.card_mut();
        let mut now = Time(0);
        for _ in 0..600 {
            let index = match rng.below(4) {
                0 => rng.below(64) as u8,
                _ => [6, 7, 8, 12, 13, 16, 17, 18, 23, 24, 25, 35, 36, 38][rng.below(14) as usize],
            };
            let arg = match rng.below(6) {
                0 => rng.next_u64() as u32,
                1 => rng.below(2) as u32 * u32::MAX,
                2 => 1 << 16,
                3 => SWITCH | (rng.below(256) as u32) << 16 | (rng.below(256) as u32) << 8,
                4 => rng.below(8) as u32,
                _ => rng.below(SMALL / 512 + 8) as u32 * 512,
            };
            let data = match rng.below(5) {
                0 => Data::Read(rng.below(9)),
                1 => Data::Read(u64::MAX - rng.below(3)),
                2 => Data::Write(vec![vec![7; rng.below(5000) as usize].into()]),
                3 => block(3, rng.below(9) as usize),
                _ => Data::None,
            };
            let out = card.command(now, Command { index, arg, data });
            assert!(
                out.ready >= now,
                "seed {seed}: CMD{index} ends before it begins"
            );
            // Most hosts wait for the card; some do not.
            now = if rng.one_in(8) {
                now
            } else {
                card.ready().max(now)
            };
        }
        for (index, arg) in [(0, 0), (1, 0x40FF_8080), (2, 0), (3, 9 << 16), (7, 9 << 16)] {
            let out = send(card, index, arg, Data::None);
            assert!(
                index == 0 || out.response != Response::None,
                "seed {seed}: CMD{index}"
            );
        }
        assert_eq!(errors(&send(card, 24, 4096, block(5, 1))), 0, "seed {seed}");
        assert_eq!(send(card, 17, 4096, Data::Read(1)).data.concat(), [5; 512]);
    }
}

#[test]
fn transfers_beyond_the_end_are_out_of_range_whatever_their_length() {
    let mut e = emmc(&changed(&[]), None);
    let card = e.card_mut();
    let last = (SMALL - 512) as u32;
    for (arg, n) in [
        (last, 2),
        (last, u64::MAX),
        (0, u64::MAX),
        (0, SMALL / 512 + 1),
    ] {
        send(card, 23, 0, Data::None);
        let bits = errors(&send(card, 18, arg, Data::Read(n)));
        assert_eq!(bits, status::OUT_OF_RANGE, "{n} blocks at {arg}");
    }
    assert_eq!(
        errors(&send(card, 24, last + 1, block(1, 1))),
        status::ADDRESS_ERROR
    );
    assert_eq!(
        errors(&send(card, 25, last, block(1, 2))),
        status::OUT_OF_RANGE
    );
    send(card, 12, 0, Data::None);
    assert_eq!(
        errors(&send(card, 35, SMALL as u32, Data::None)),
        status::OUT_OF_RANGE
    );
    assert_eq!(errors(&send(card, 17, last, Data::Read(1))), 0);
}

#[test]
fn modes_that_the_card_does_not_have_are_refused() {
    let mut e = emmc(&changed(&[]), None);
    let card = e.card_mut();
    let partition = SWITCH | (field::PARTITION_CONFIG as u32) << 16;
    for access in 1..8 {
        let bits = errors(&send(card, 6, partition | access << 8, Data::None));
        assert_eq!(bits, status::SWITCH_ERROR, "partition {access}");
    }
    assert_eq!(errors(&send(card, 6, partition, Data::None)), 0);
    let properties = (192..256).chain([0, 15, 31, 163, 165, 166, 167]);
    for index in properties {
        let bits = errors(&send(card, 6, SWITCH | index << 16 | 1 << 8, Data::None));
        assert_eq!(bits, status::SWITCH_ERROR, "byte {index}");
    }
    let mut none = emmc(&changed(&[("cache_kib = 512", "cache_kib = 0")]), None);
    assert!(!none.caps().volatile_cache);
    assert_eq!(
        errors(&send(none.card_mut(), 6, CACHE_ON, Data::None)),
        status::SWITCH_ERROR
    );
}

#[test]
fn the_cache_holds_data_until_a_flush_a_switch_or_a_reset() {
    let profile = changed(&[]);
    let written = || {
        let mut e = emmc(&profile, None);
        assert_eq!(errors(&send(e.card_mut(), 24, 4096, block(9, 1))), 0);
        e
    };
    assert_eq!(after_cut(&profile, written(), 8, 1), [0], "cached");
    for (what, index, arg) in [("flush", 6, FLUSH), ("off", 6, CACHE_OFF), ("reset", 0, 0)] {
        let mut e = written();
        send(e.card_mut(), index, arg, Data::None);
        assert_eq!(after_cut(&profile, e, 8, 1), [9], "{what}");
    }
    let mut e = written();
    send(e.card_mut(), 6, CACHE_OFF, Data::None);
    assert_eq!(errors(&send(e.card_mut(), 24, 8192, block(8, 1))), 0);
    assert_eq!(after_cut(&profile, e, 16, 1), [8], "without a cache");
    let mut e = written();
    send(e.card_mut(), 6, CACHE_OFF, Data::None);
    send(e.card_mut(), 6, CACHE_ON, Data::None);
    send(e.card_mut(), 24, 8192, block(8, 1));
    assert_eq!(after_cut(&profile, e, 16, 1), [0], "on again");
    let mut e = emmc(&profile, None);
    send(e.card_mut(), 23, 1 << 24 | 1, Data::None);
    send(e.card_mut(), 25, 4096, block(9, 1));
    assert_eq!(after_cut(&profile, e, 8, 1), [9], "forced programming");
}

#[test]
fn a_reliable_write_supersedes_the_cached_copy_of_its_sectors_only() {
    let profile = changed(&[]);
    let both = || {
        let mut e = emmc(&profile, None);
        let card = e.card_mut();
        send(card, 25, 0, block(1, 8));
        send(card, 12, 0, Data::None);
        send(card, 23, 1 << 31 | 2, Data::None);
        assert_eq!(errors(&send(card, 25, 1024, block(2, 2))), 0);
        e
    };
    let want = [1, 1, 2, 2, 1, 1, 1, 1];
    assert_eq!(sectors(&mut both(), 0, 8), want);
    assert_eq!(after_cut(&profile, both(), 0, 8), [0, 0, 2, 2, 0, 0, 0, 0]);
    let mut e = both();
    send(e.card_mut(), 6, FLUSH, Data::None);
    assert_eq!(
        after_cut(&profile, e, 0, 8),
        want,
        "the flush brings nothing old over it"
    );
}

#[test]
fn an_open_ended_write_is_durable_after_cmd12_and_flush() {
    let profile = changed(&[]);
    let mut e = emmc(&profile, None);
    let card = e.card_mut();
    assert_eq!(errors(&send(card, 25, 0, block(4, 24))), 0);
    assert_eq!(
        send(card, 17, 0, Data::Read(1)).response,
        Response::None,
        "only CMD12 may come"
    );
    // The illegal command shows in the next response.
    assert_eq!(
        errors(&send(card, 12, 0, Data::None)),
        status::ILLEGAL_COMMAND
    );
    assert_eq!(errors(&send(card, 6, FLUSH, Data::None)), 0);
    assert_eq!(after_cut(&profile, e, 0, 24), [4; 24]);
}

#[test]
fn ext_csd_and_caps_say_the_same() {
    for changes in [
        vec![],
        vec![("en_rel_wr = true", "en_rel_wr = false")],
        vec![("wr_rel_set = true", "wr_rel_set = false")],
        vec![("cache_kib = 512", "cache_kib = 0")],
        vec![("cache_on = true", "cache_on = false")],
    ] {
        let mut e = emmc(&changed(&changes), None);
        let caps = e.caps().clone();
        let ext = e.card_mut().ext_csd().clone();
        let at = |field: usize| ext.get(field);
        let word = |field| u32::from_le_bytes(ext.bytes()[field..field + 4].try_into().unwrap());
        assert_eq!(
            u64::from(word(field::SEC_COUNT)),
            caps.sectors,
            "{changes:?}"
        );
        assert_eq!(
            at(field::CACHE_CTRL) & 1 == 1,
            caps.volatile_cache,
            "{changes:?}"
        );
        assert!(!caps.volatile_cache || word(field::CACHE_SIZE) > 0);
        assert_eq!(
            at(field::WR_REL_SET) & 1 == 1,
            caps.no_collateral,
            "{changes:?}"
        );
        assert_eq!((at(field::DATA_SECTOR_SIZE), caps.sector_bytes), (0, 512));
        // Sector by sector, reliable writes are old or new with and without EN_REL_WR.
        assert_eq!(
            (at(field::REL_WR_SEC_C), caps.reliable_granule),
            (1, Some(512))
        );
        // Linux packs FUA writes only where their length is free.
        let packs = at(field::MAX_PACKED_WRITES) >= 3 && at(field::WR_REL_PARAM) & 4 != 0;
        assert_eq!(packs, caps.packed.is_some(), "{changes:?}");
        assert_eq!(at(field::SEC_FEATURE_SUPPORT) >> 4 & 1 == 1, caps.discard);
    }
}
