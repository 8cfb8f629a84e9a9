//! The plain model and the profiles.

use base::{Bytes, Lba, Time};
use blockdev::{Adversary, Class, DevErrorKind, Model, Request};
use varve_ctrl::{AnyModel, Profile, ProfileError};

fn device() -> AnyModel {
    Profile::builtin("loop-like")
        .unwrap()
        .build(Some(16 << 20), None)
        .unwrap()
}

fn write(m: &mut AnyModel, now: Time, lba: u64, byte: u8, len: usize) -> Time {
    let done = m.execute(
        now,
        Request::write(Lba(lba), Class::Data, vec![byte; len].into()),
    );
    done.result.unwrap();
    done.at
}

fn read(m: &mut AnyModel, lba: u64, sectors: u64) -> Bytes {
    m.execute(Time(1 << 60), Request::read(Lba(lba), sectors))
        .result
        .unwrap()
        .into_bytes()
}

#[test]
fn unknown_names_list_the_valid_ones() {
    let error = Profile::builtin("floppy").unwrap_err().to_string();
    assert!(
        error.contains("floppy") && error.contains("loop-like"),
        "{error}"
    );
    let error = Profile::builtin("loop-like")
        .unwrap()
        .with_timing("fast")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("fast") && error.contains("buffered-file"),
        "{error}"
    );
}

#[test]
fn bad_profiles_are_refused_with_the_reason() {
    let good = include_str!("../../profiles/loop-like.toml");
    let text = good.replace("discard = true", "discard = true\ncolour = 3");
    assert!(
        Profile::from_toml(&text)
            .unwrap_err()
            .to_string()
            .contains("colour")
    );
    let text = good.replace("capacity_mib = 1024", "capacity_mib = 0");
    assert!(matches!(
        Profile::from_toml(&text),
        Err(ProfileError::Invalid { .. })
    ));
    let text = good.replace("capacity_mib = 1024", "capacity_mib = 18446744073709551615");
    assert!(Profile::from_toml(&text).is_err());
    assert!(
        Profile::builtin("loop-like")
            .unwrap()
            .build(Some(0), None)
            .is_err()
    );
}

#[test]
fn sectors_merge_and_read_back() {
    let mut m = device();
    let t = write(&mut m, Time(0), 8, 1, 4096);
    let t = write(&mut m, t, 15, 2, 1024);
    let discard = m.execute(t, Request::discard(Lba(8), 1));
    discard.result.unwrap();
    let got = read(&mut m, 8, 9);
    let want = [vec![0; 512], vec![1; 3072], vec![2; 1024]].concat();
    assert!(got == want);
    let mut dump = Vec::new();
    m.dump_logical(|lba, bytes| dump.push((lba.0, bytes.len())));
    assert_eq!(dump, [(8, 4096), (16, 4096)]);
}

#[test]
fn illegal_requests_are_refused() {
    let mut m = device();
    let sectors = m.caps().sectors;
    for request in [
        Request::read(Lba(sectors), 1),
        Request::read(Lba(u64::MAX), 2),
        Request::write(Lba(0), Class::Data, vec![0; 100].into()),
        Request::write_fua(Lba(0), Class::Data, vec![0; 512].into()),
    ] {
        assert_eq!(
            m.execute(Time(0), request).result.unwrap_err().kind,
            DevErrorKind::Misuse
        );
    }
}

#[test]
fn own_cut_loses_exactly_what_was_not_flushed() {
    let mut m = device();
    m.set_adversary(Adversary::Own);
    let t = write(&mut m, Time(0), 0, 1, 4096);
    let flush = m.execute(t, Request::flush());
    let early = m.clone();
    let t = write(&mut m, flush.at, 0, 2, 4096);
    let profile = Profile::builtin("loop-like").unwrap();
    for (m, at, want) in [
        (early, Time(flush.at.0 - 1), 0),
        (m.clone(), flush.at, 1),
        (m, t, 1),
    ] {
        let mut next = profile.build(None, Some(m.power_off(at, 1))).unwrap();
        assert!(read(&mut next, 0, 8) == vec![want; 4096], "cut at {at}");
    }
}

#[test]
fn spec_cut_may_keep_unflushed_writes() {
    let mut m = device();
    let t = write(&mut m, Time(0), 0, 2, 4096);
    let profile = Profile::builtin("loop-like").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let mut next = profile
            .build(None, Some(m.clone().power_off(t, seed)))
            .unwrap();
        seen.insert(read(&mut next, 0, 1)[0]);
    }
    assert!(seen.contains(&0) && seen.contains(&2), "{seen:?}");
}

#[test]
fn forks_are_apart_and_media_are_checked() {
    let profile = Profile::builtin("loop-like").unwrap();
    let mut a = device();
    a.load_logical(Lba(80), vec![7; 4096].into()).unwrap();
    let mut b = a.clone();
    write(&mut b, Time(0), 80, 8, 4096);
    assert_eq!(read(&mut a, 80, 1)[0], 7);
    assert_eq!(b.device_stats().writes, 1);
    assert_eq!(a.device_stats().writes, 0);
    let (x, y) = (
        a.clone().power_off(Time(1 << 60), 1),
        a.power_off(Time(1 << 60), 2),
    );
    assert_eq!(x.content_hash(), y.content_hash());
    assert!(matches!(
        profile.build(Some(32 << 20), Some(x)),
        Err(ProfileError::Media { .. })
    ));
}
