//! The eMMC through its request interface and at command level.

use crate::host::{self, SMALL, block, changed, id_of, ok, r1, send, stamp};
use base::{Bytes, Lba, Rng, Time};
use blockdev::{Adversary, Class, DevErrorKind, FlashStats, Model, Request};
use varve_ctrl::emmc::{Command, Data, Emmc, Response, field, status};
use varve_ctrl::{AnyModel, Media, Profile};

fn profile() -> Profile {
    Profile::builtin("emmc-odroid-xu4").unwrap()
}

fn device() -> AnyModel {
    profile().build(Some(SMALL), None).unwrap()
}

fn emmc() -> Box<Emmc> {
    host::emmc(&profile(), None)
}

fn bytes(rng: &mut Rng, sectors: u64) -> Bytes {
    let mut b = vec![0; sectors as usize * 512];
    match rng.below(3) {
        0 => b.fill(rng.below(256) as u8),
        _ => rng.fill(&mut b),
    }
    b.into()
}

#[test]
fn every_builtin_profile_builds_and_keeps_its_promises_in_range() {
    for name in Profile::names() {
        let p = Profile::builtin(name).unwrap();
        assert_eq!(p.name(), name);
        let m = p.build(None, None).unwrap();
        assert_eq!(m.caps().sectors * 512, p.capacity_bytes());
        assert_eq!(m.caps().volatile_cache, name != "nandsim-2007");
    }
    let caps = device().caps().clone();
    assert!(
        caps.fua
            && caps.reliable_granule == Some(512)
            && caps.no_collateral
            && caps.packed.is_some()
    );
}

#[test]
fn reads_see_the_newest_bytes_through_cache_reliable_writes_discards_and_power_cycles() {
    for (seed, changes) in [
        (1, vec![]),
        (2, vec![("cache_fifo = false", "cache_fifo = true")]),
        (3, vec![("cache_on = true", "cache_on = false")]),
        (4, vec![("cache_kib = 512", "cache_kib = 32")]),
    ] {
        let profile = changed(&changes);
        let mut m = profile.build(Some(SMALL), None).unwrap();
        let mut rng = Rng::named(seed, "mirror");
        let span = 2048;
        let mut mirror = vec![0u8; span * 512];
        let mut now = Time(0);
        for round in 0..3 {
            for _ in 0..400 {
                let n = 1 + rng.below(24);
                let lba = rng.below(span as u64 - n);
                let range = lba as usize * 512..(lba + n) as usize * 512;
                match rng.below(12) {
                    0 => drop(ok(&mut m, &mut now, Request::flush())),
                    1 => {
                        // A discard must zero whole blocks here; it leaves the edges alone.
                        ok(&mut m, &mut now, Request::discard(Lba(lba), n));
                        let (a, b) = (lba.div_ceil(8) * 4096, (lba + n) / 8 * 4096);
                        if a < b {
                            mirror[a as usize..b as usize].fill(0);
                        }
                    }
                    2..5 => {
                        let data = bytes(&mut rng, n);
                        mirror[range].copy_from_slice(&data);
                        ok(
                            &mut m,
                            &mut now,
                            Request::write_fua(Lba(lba), Class::Data, data),
                        );
                    }
                    5..9 => {
                        let data = bytes(&mut rng, n);
                        mirror[range].copy_from_slice(&data);
                        ok(
                            &mut m,
                            &mut now,
                            Request::write(Lba(lba), Class::Data, data),
                        );
                    }
                    _ => assert!(
                        ok(&mut m, &mut now, Request::read(Lba(lba), n)) == mirror[range],
                        "seed {seed}"
                    ),
                }
            }
            ok(&mut m, &mut now, Request::flush());
            if round == 1 {
                let mut seen = vec![0u8; span * 512];
                m.dump_logical(|lba, b| seen[lba.0 as usize * 512..][..4096].copy_from_slice(b));
                assert!(seen == mirror, "dump");
            }
            m = profile.build(None, Some(m.power_off(now, seed))).unwrap();
            now = Time(0);
            assert!(
                ok(&mut m, &mut now, Request::read(Lba(0), span as u64)) == mirror,
                "seed {seed}, round {round}"
            );
        }
    }
}

/// What may be in a sector: the versions since the last durable one.
struct Sectors {
    versions: Vec<Vec<u32>>,
}

/// Random writes with flushes waited for, then a cut at a time after the last completion.
fn cut_run(adversary: Adversary, seed: u64) -> (usize, usize) {
    let profile = profile();
    let mut m = profile.build(Some(SMALL), None).unwrap();
    m.set_adversary(adversary);
    let mut rng = Rng::named(seed, "cuts");
    let mut s = Sectors {
        versions: vec![vec![0]; 512],
    };
    let (mut now, mut id) = (Time(0), 0);
    let mut in_flight = None;
    for _ in 0..60 + rng.below(60) {
        id += 1;
        let n = 1 + rng.below(16);
        let lba = rng.below(512 - n);
        let range = lba as usize..(lba + n) as usize;
        match rng.below(8) {
            0 => {
                ok(&mut m, &mut now, Request::flush());
                s.versions
                    .iter_mut()
                    .for_each(|v| drop(v.drain(..v.len() - 1)));
            }
            1 | 2 => {
                ok(
                    &mut m,
                    &mut now,
                    Request::write_fua(Lba(lba), Class::Data, stamp(id, n)),
                );
                s.versions[range].iter_mut().for_each(|v| *v = vec![id]);
            }
            _ => {
                ok(
                    &mut m,
                    &mut now,
                    Request::write(Lba(lba), Class::Data, stamp(id, n)),
                );
                s.versions[range].iter_mut().for_each(|v| v.push(id));
            }
        }
    }
    // The last command is cut while it runs.
    id += 1;
    let fua = rng.one_in(2);
    let lba = rng.below(500);
    let request = match fua {
        true => Request::write_fua(Lba(lba), Class::Data, stamp(id, 12)),
        false => Request::write(Lba(lba), Class::Data, stamp(id, 12)),
    };
    let done = m.execute(now, request);
    let cut = Time(now.0 + rng.below(done.at.0 - now.0));
    in_flight.replace((lba, fua));
    s.versions[lba as usize..lba as usize + 12]
        .iter_mut()
        .for_each(|v| v.push(id));
    let mut next = profile.build(None, Some(m.power_off(cut, seed))).unwrap();
    let mut t = Time(0);
    let (mut older, mut garbage) = (0, 0);
    for (lba, allowed) in s.versions.iter().enumerate() {
        let got = ok(&mut next, &mut t, Request::read(Lba(lba as u64), 1));
        let open = allowed.len() > 1;
        match id_of(&got) {
            Some(id) if allowed.contains(&id) => {
                older += usize::from(id != allowed[allowed.len() - 1])
            }
            _ => {
                garbage += 1;
                let reliable =
                    in_flight.is_some_and(|(at, fua)| fua && (at..at + 12).contains(&(lba as u64)));
                assert!(
                    open && !reliable && adversary == Adversary::Spec,
                    "seed {seed}: sector {lba}, allowed {allowed:?}"
                );
            }
        }
    }
    (older, garbage)
}

#[test]
fn own_cuts_lose_only_what_is_volatile() {
    let lost: usize = (0..40).map(|seed| cut_run(Adversary::Own, seed).0).sum();
    assert!(lost > 0, "the cache must be volatile");
}

#[test]
fn spec_cuts_stay_within_the_caps_and_use_them() {
    let runs: Vec<_> = (0..60).map(|seed| cut_run(Adversary::Spec, seed)).collect();
    assert!(
        runs.iter().map(|r| r.0).sum::<usize>() > 0 && runs.iter().map(|r| r.1).sum::<usize>() > 0
    );
    assert!(runs.contains(&(0, 0)), "sometimes nothing is lost");
}

#[test]
fn equal_cuts_are_equal_and_forks_are_apart() {
    let mut m = device();
    let mut now = Time(0);
    for i in 0..50 {
        ok(
            &mut m,
            &mut now,
            Request::write(Lba(i * 8), Class::Data, stamp(i as u32, 8)),
        );
    }
    let hash = |m: &AnyModel, seed| m.clone().power_off(now, seed).content_hash();
    assert_eq!(hash(&m, 3), hash(&m, 3));
    let distinct: std::collections::BTreeSet<u64> = (0..20).map(|s| hash(&m, s)).collect();
    assert!(distinct.len() > 5);
    let before = hash(&m, 3);
    let mut fork = m.clone();
    ok(
        &mut fork,
        &mut now.clone(),
        Request::write(Lba(0), Class::Data, stamp(9, 8)),
    );
    assert_eq!(hash(&m, 3), before);
}

#[test]
fn a_write_waits_for_room_and_the_cache_stays_bounded() {
    let profile = changed(&[("cache_kib = 512", "cache_kib = 64")]);
    let mut m = profile.build(Some(SMALL), None).unwrap();
    let mut now = Time(0);
    let first = m
        .execute(now, Request::write(Lba(0), Class::Data, stamp(1, 96)))
        .at;
    now = m
        .execute(first, Request::write(Lba(96), Class::Data, stamp(1, 96)))
        .at;
    let (fast, slow) = (first.0, (now - first).0);
    assert!(
        slow > fast + 500_000,
        "the second 48 KiB do not fit: {fast} ns, then {slow} ns"
    );
    // Larger than the whole cache.
    ok(
        &mut m,
        &mut now,
        Request::write(Lba(512), Class::Data, stamp(2, 1024)),
    );
    assert!(id_of(&ok(&mut m, &mut now, Request::read(Lba(1535), 1))) == Some(2));
}

#[test]
fn idle_time_lets_the_card_write_back() {
    let fill = |gap: u64| {
        let mut m = device();
        let mut now = Time(0);
        for i in 0..128 {
            ok(
                &mut m,
                &mut now,
                Request::write(Lba(i * 8), Class::Data, stamp(1, 8)),
            );
            now.0 += gap;
        }
        let before = now;
        ok(&mut m, &mut now, Request::flush());
        (now - before).0
    };
    assert!(
        fill(1_000_000) < fill(0),
        "background work between writes makes the flush shorter"
    );
}

#[test]
fn images_are_loaded_for_free_and_survive() {
    let mut m = device();
    let stats = m.flash_stats();
    for block in 0..3000u64 {
        let fillers = if block % 3 == 0 { 0 } else { block as u32 + 1 };
        m.load_logical(Lba(block * 8), stamp(fillers, 8)).unwrap();
    }
    let mut now = Time(0);
    let one = m.execute(now, Request::read(Lba(8), 8));
    assert!(one.at.0 < 200_000, "the chips are idle after loading");
    let with_the_read = stats.map(|s| FlashStats { reads: 1, ..s });
    assert_eq!(m.flash_stats(), with_the_read, "loading counts as nothing");
    let mut m = profile().build(None, Some(m.power_off(one.at, 1))).unwrap();
    for block in [1u64, 2, 3, 2999] {
        let want = if block % 3 == 0 { 0 } else { block as u32 + 1 };
        assert_eq!(
            id_of(&ok(&mut m, &mut now, Request::read(Lba(block * 8), 1))),
            Some(want)
        );
    }
    assert_eq!(
        m.load_logical(Lba(SMALL / 512), stamp(1, 1))
            .unwrap_err()
            .kind,
        DevErrorKind::Misuse
    );
}

#[test]
fn a_flush_makes_discards_durable_and_nothing_else_needs_to_be_dirty() {
    let mut m = device();
    m.set_adversary(Adversary::Own);
    let mut now = Time(0);
    ok(
        &mut m,
        &mut now,
        Request::write_fua(Lba(8), Class::Data, stamp(5, 8)),
    );
    ok(&mut m, &mut now, Request::discard(Lba(8), 8));
    let read_after_cut = |m: &AnyModel, now: Time| {
        let mut next = profile()
            .build(None, Some(m.clone().power_off(now, 1)))
            .unwrap();
        id_of(&ok(&mut next, &mut Time(0), Request::read(Lba(8), 1)))
    };
    assert_eq!(read_after_cut(&m, now), Some(5), "volatile until a flush");
    ok(&mut m, &mut now, Request::flush());
    assert_eq!(read_after_cut(&m, now), Some(0));
}

#[test]
fn media_go_back_only_into_their_own_kind_and_size() {
    let media = device().power_off(Time(0), 0);
    let error = Profile::builtin("loop-like")
        .unwrap()
        .build(None, Some(media.clone()))
        .err()
        .unwrap();
    assert!(error.to_string().contains("emmc"), "{error}");
    let error = profile().build(Some(32 << 20), Some(media)).err().unwrap();
    assert!(
        error.to_string().contains("holds 16777216 bytes"),
        "{error}"
    );
    let plain = Profile::builtin("loop-like")
        .unwrap()
        .build(Some(SMALL), None)
        .unwrap()
        .power_off(Time(0), 0);
    assert!(matches!(plain, Media::Plain(_)) && profile().build(None, Some(plain)).is_err());
}

#[test]
fn legacy_reliable_writes_are_split_into_sectors() {
    let mut m = changed(&[("en_rel_wr = true", "en_rel_wr = false")])
        .build(Some(SMALL), None)
        .unwrap();
    let mut now = Time(0);
    ok(
        &mut m,
        &mut now,
        Request::write_fua(Lba(8), Class::Data, stamp(5, 8)),
    );
    assert_eq!(m.device_stats().reliable_writes, 8);
    assert!(ok(&mut m, &mut now, Request::read(Lba(8), 8)) == stamp(5, 8));
}

// Command level.

#[test]
fn illegal_commands_show_in_the_next_response() {
    let mut e = emmc();
    let card = e.card_mut();
    assert_eq!(send(card, 2, 0, Data::None).response, Response::None);
    let bits = r1(&send(card, 13, 1 << 16, Data::None));
    assert!(bits & status::ILLEGAL_COMMAND != 0 && status::state(bits) == 4);
    assert_eq!(
        r1(&send(card, 13, 1 << 16, Data::None)) & status::ERRORS,
        0,
        "shown once"
    );
    assert_eq!(
        send(card, 13, 2 << 16, Data::None).response,
        Response::None,
        "another card's address"
    );
}

#[test]
fn states_follow_the_table() {
    let mut e = emmc();
    let card = e.card_mut();
    send(card, 0, 0, Data::None);
    assert_eq!(
        send(card, 17, 0, Data::Read(1)).response,
        Response::None,
        "idle"
    );
    assert!(
        matches!(send(card, 1, 0x40FF_8080, Data::None).response, Response::R3(ocr) if ocr >> 31 == 1)
    );
    assert!(matches!(
        send(card, 2, 0, Data::None).response,
        Response::R2(_)
    ));
    send(card, 3, 7 << 16, Data::None);
    assert_eq!(status::state(r1(&send(card, 13, 7 << 16, Data::None))), 3);
    assert!(matches!(
        send(card, 10, 7 << 16, Data::None).response,
        Response::R2(_)
    ));
    send(card, 7, 7 << 16, Data::None);
    let out = send(card, 24, 0, block(1, 1));
    let busy = card.command(Time(out.ready.0 - 1), Command::new(13, 7 << 16));
    assert_eq!(
        (status::state(r1(&busy)), r1(&busy) & status::READY_FOR_DATA),
        (7, 0),
        "programming"
    );
    assert_eq!(status::state(r1(&send(card, 13, 7 << 16, Data::None))), 4);
    assert!(!card.ext_csd().cache_on(), "a reset switches the cache off");
    send(card, 7, 0, Data::None);
    assert_eq!(
        status::state(r1(&send(card, 13, 7 << 16, Data::None))),
        3,
        "deselected"
    );
}

#[test]
fn cmd23_arms_only_the_next_command_and_its_count_binds() {
    let mut e = emmc();
    let card = e.card_mut();
    send(card, 23, 2, Data::None);
    let out = send(card, 25, 0, block(1, 3));
    assert!(r1(&out) & status::BLOCK_LEN_ERROR != 0);
    send(card, 23, 2, Data::None);
    send(card, 13, 1 << 16, Data::None);
    let out = send(card, 25, 0, block(2, 2));
    assert_eq!(r1(&out) & status::ERRORS, 0);
    assert_eq!(
        status::state(r1(&send(card, 13, 1 << 16, Data::None))),
        6,
        "open-ended: receives until CMD12"
    );
    send(card, 12, 0, Data::None);
    assert_eq!(status::state(r1(&send(card, 13, 1 << 16, Data::None))), 4);
    send(card, 23, 2, Data::None);
    assert_eq!(
        send(card, 18, 0, Data::Read(2)).data.concat(),
        vec![2; 1024]
    );
    send(card, 18, 512, Data::Read(1));
    assert_eq!(
        status::state(r1(&send(card, 13, 1 << 16, Data::None))),
        5,
        "sends until CMD12"
    );
    send(card, 12, 0, Data::None);
    assert!(
        r1(&send(card, 23, 1 << 30 | 1, Data::None)) & status::ERROR != 0,
        "a packed command has more than its header"
    );
}

#[test]
fn addresses_are_checked() {
    let mut e = emmc();
    let card = e.card_mut();
    assert!(r1(&send(card, 17, SMALL as u32, Data::Read(1))) & status::OUT_OF_RANGE != 0);
    assert!(r1(&send(card, 17, 100, Data::Read(1))) & status::ADDRESS_ERROR != 0);
    assert!(r1(&send(card, 24, (SMALL - 512) as u32, block(1, 1))) & status::ERRORS == 0);
}

#[test]
fn large_cards_count_sectors() {
    let mut m = profile().build(Some(4 << 30), None).unwrap();
    let mut now = Time(0);
    let last = (4u64 << 30) / 512 - 8;
    ok(
        &mut m,
        &mut now,
        Request::write(Lba(last), Class::Data, stamp(3, 8)),
    );
    assert!(ok(&mut m, &mut now, Request::read(Lba(last), 8)) == stamp(3, 8));
    assert!(
        ok(
            &mut m,
            &mut now,
            Request::read(Lba(last - (2 << 30) / 512), 8)
        ) == vec![0; 4096]
    );
}

#[test]
fn switch_writes_modes_and_refuses_properties() {
    let mut e = emmc();
    let card = e.card_mut();
    let ext = send(card, 8, 0, Data::Read(1)).data.concat();
    assert_eq!(ext.len(), 512);
    assert_eq!(
        (
            ext[field::EXT_CSD_REV],
            ext[field::MAX_PACKED_WRITES],
            ext[field::CACHE_CTRL]
        ),
        (8, 63, 1)
    );
    assert_eq!(
        u32::from_le_bytes(ext[212..216].try_into().unwrap()) as u64 * 512,
        SMALL
    );
    let write = |index: u32, value: u32| 3 << 24 | index << 16 | value << 8 | 1;
    for (index, value) in [(192, 1), (250, 1), (166, 4), (32, 2)] {
        assert!(
            r1(&send(card, 6, write(index, value), Data::None)) & status::SWITCH_ERROR != 0,
            "byte {index}"
        );
    }
    assert_eq!(
        r1(&send(card, 6, 2 << 24 | 33 << 16 | 1 << 8, Data::None)) & status::ERRORS,
        0,
        "clear bits"
    );
    assert!(!card.ext_csd().cache_on());
}

#[test]
fn the_erase_sequence_is_kept() {
    let mut e = emmc();
    let card = e.card_mut();
    send(card, 24, 4096, block(9, 1));
    assert!(r1(&send(card, 38, 1, Data::None)) & status::ERASE_SEQ_ERROR != 0);
    assert!(r1(&send(card, 36, 0, Data::None)) & status::ERASE_SEQ_ERROR != 0);
    send(card, 35, 8192, Data::None);
    send(card, 36, 4096, Data::None);
    assert!(r1(&send(card, 38, 1, Data::None)) & status::ERASE_PARAM != 0);
    send(card, 35, 4096, Data::None);
    assert!(r1(&send(card, 17, 0, Data::Read(1))) & status::ERASE_RESET != 0);
    send(card, 35, 4096, Data::None);
    send(card, 36, 4096, Data::None);
    assert_eq!(r1(&send(card, 38, 1, Data::None)) & status::ERRORS, 0);
    assert_eq!(
        send(card, 17, 4096, Data::Read(1)).data.concat(),
        vec![0; 512],
        "TRIM clears single sectors"
    );
}
