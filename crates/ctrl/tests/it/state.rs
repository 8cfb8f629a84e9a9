//! Saved devices: loading gives back what was saved, and bytes that are no saved device are refused
//! with the reason.

use base::checksum::crc32c;
use base::{Bytes, Lba, Rng, Time};
use blockdev::{Adversary, Class, Model, Request};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use varve_ctrl::{AnyModel, Media, Profile, SavedDevice, StateError};

const HEAD: usize = 32;
const PROFILES: [&str; 7] = [
    "loop-like",
    "emmc-odroid-xu4",
    "emmc-odroid-xu4,slc.on=true,slc.mib=8",
    "nandsim-2007,controller.buffer_kib=64",
    "raw-slc",
    "nvme-980pro,ftl.lanes=4,nand.dies_per_channel=1,nand.pages_per_block=24",
    "ufs-generic,ftl.lanes=2,nand.dies_per_channel=1,nand.pages_per_block=24",
];

/// A device in the middle of its work, cut off at a time when something is in flight.
fn cut(profile: &str, adversary: Adversary) -> Media {
    let mut model = Profile::parse(profile)
        .and_then(|p| p.build(Some(24 << 20), None))
        .unwrap();
    model.set_adversary(adversary);
    let mut rng = Rng::named(7, "state");
    let mut now = Time(0);
    for i in 0..300u64 {
        let mut bytes = vec![i as u8; 4096 << rng.below(3)];
        if i % 3 != 0 {
            bytes.iter_mut().for_each(|b| *b = rng.below(256) as u8);
        }
        let lba = Lba(rng.below(600) * 8);
        let write = model.execute(now, Request::write(lba, Class::Data, bytes.into()));
        write.result.unwrap();
        now = write.at;
        if i % 40 == 39 {
            let flush = model.execute(now, Request::flush());
            flush.result.unwrap();
            now = flush.at;
        }
    }
    model.power_off(Time(now.0 - 100_000), 5)
}

fn content(model: &AnyModel) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    model.dump_logical(|lba, bytes| all.push((lba.0, bytes.to_vec())));
    all
}

fn saved() -> Vec<(&'static str, Media, Vec<u8>)> {
    let mut all = Vec::new();
    for adversary in [Adversary::Own, Adversary::Spec] {
        for profile in PROFILES {
            let media = cut(profile, adversary);
            let device = SavedDevice::new(profile, media.clone()).unwrap();
            all.push((profile, media, device.to_bytes().unwrap()));
        }
    }
    all
}

/// The bytes with a header and checksums that match them.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let payload = (file.len() - HEAD) as u64;
    file[16..24].copy_from_slice(&payload.to_le_bytes());
    let crc = crc32c(!0, &file[HEAD..]);
    file[24..28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(crc32c(!0, &file[..12]), &file[16..HEAD]);
    file[12..16].copy_from_slice(&crc.to_le_bytes());
    file
}

fn refused(bytes: &[u8]) -> StateError {
    match SavedDevice::from_bytes(bytes) {
        Ok(_) => panic!("taken for a device"),
        Err(e) => e,
    }
}

#[test]
fn what_comes_back_is_what_was_saved() {
    for (profile, media, bytes) in saved() {
        let back = SavedDevice::from_bytes(&bytes).unwrap();
        assert_eq!(back.profile(), profile);
        assert_eq!(back.media().content_hash(), media.content_hash());
        assert_eq!(back.media().kind(), media.kind());
        // The hash leaves out what only shows later (the clock, factory marks); the bytes include
        // it.
        assert!(back.to_bytes().unwrap() == bytes, "{profile}");
        let before = Profile::parse(profile).unwrap().build(None, Some(media));
        let (before, after) = (content(&before.unwrap()), content(&back.build().unwrap()));
        assert!(before == after && before.len() > 100, "{profile}");
        // Written: at most 300 * 16 KiB of which a third is uniform.
        assert!(bytes.len() < 5 << 20, "{profile}: {}", bytes.len());
    }
}

#[test]
fn wear_comes_back() {
    let media = cut(PROFILES[3], Adversary::Own);
    let bytes = SavedDevice::new(PROFILES[3], media.clone()).unwrap();
    let back = SavedDevice::from_bytes(&bytes.to_bytes().unwrap()).unwrap();
    let (old, new) = (media.chips().unwrap(), back.media().chips().unwrap());
    let (least, mean, most) = old.wear_range();
    assert!(least as f64 <= mean && mean <= most as f64 && most > 0);
    assert_eq!((least, mean, most), new.wear_range());
}

#[test]
fn a_device_that_was_shut_down_holds_what_was_written() {
    for profile in PROFILES {
        let blank = SavedDevice::blank(profile, Some(24 << 20)).unwrap();
        assert_eq!(blank.media().capacity_bytes(), 24 << 20);
        assert_eq!(content(&blank.build().unwrap()).len(), 0);
        assert!(blank.to_bytes().unwrap().len() < 64 << 10);
        let mut model = blank.build().unwrap();
        let block = Bytes::from(vec![0xA7; 4096]);
        model.load_logical(Lba(80), block.clone()).unwrap();
        let write = Request::write(Lba(8), Class::Data, block);
        model.execute(Time(0), write).result.unwrap();
        let kept = content(&model);
        let device = blank.shut_down(model).unwrap().to_bytes().unwrap();
        let back = SavedDevice::from_bytes(&device).unwrap();
        assert!(content(&back.build().unwrap()) == kept && kept.len() == 2);
    }
}

#[test]
fn every_shorter_file_is_refused_as_cut_short() {
    let device = SavedDevice::blank("loop-like", Some(1 << 20)).unwrap();
    let bytes = device.to_bytes().unwrap();
    assert_eq!(refused(&[]), StateError::Foreign);
    for len in 1..bytes.len() {
        let e = refused(&bytes[..len]);
        assert!(matches!(e, StateError::Truncated { .. }), "{len}: {e}");
    }
    let text = refused(&bytes[..40]).to_string();
    assert!(text.contains("cut short: 40 bytes of"), "{text}");
}

#[test]
fn foreign_later_and_damaged_files_are_refused_by_name() {
    let (_, _, bytes) = saved().swap_remove(3);
    for foreign in [
        &b"VARVEDUV...................................."[..],
        &[0; 99],
    ] {
        assert_eq!(refused(foreign), StateError::Foreign);
    }
    for found in [0, 2, u32::MAX] {
        let mut later = bytes.clone();
        later[8..12].copy_from_slice(&found.to_le_bytes());
        assert_eq!(refused(&sealed(later)), StateError::Version { found });
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let text = refused(&longer).to_string();
    assert!(text.contains("1 bytes behind its end"), "{text}");
    // Any flipped bit, of header or content.
    for at in (0..HEAD).chain((HEAD..bytes.len()).step_by(bytes.len() / 50)) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped);
    }
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let text = refused(&flipped).to_string();
    assert!(text.contains("checksum of its content"), "{text}");
    flipped = bytes.clone();
    flipped[29] ^= 1;
    let text = refused(&flipped).to_string();
    assert!(text.contains("checksum of its header"), "{text}");
}

#[test]
fn lengths_that_the_bytes_do_not_pay_for_are_refused() {
    let device = SavedDevice::blank("loop-like", Some(1 << 20)).unwrap();
    let bytes = device.to_bytes().unwrap();
    let text = HEAD + "loop-like".len();
    let with = |at: usize, new: &[u8]| {
        let mut file = bytes.clone();
        file[at..at + new.len()].copy_from_slice(new);
        refused(&sealed(file)).to_string()
    };
    let said = with(text + 1, &(1u64 << 60).to_le_bytes());
    assert!(said.contains("1152921504606846976 bytes out of"), "{said}");
    let said = with(text + 1, &1u64.to_le_bytes());
    assert!(said.contains("does not unpack"), "{said}");
    let said = with(28, &u32::MAX.to_le_bytes());
    assert!(said.contains("a profile's text of 4294967295"), "{said}");
    let said = with(28, &60_000u32.to_le_bytes());
    assert!(said.contains("too short"), "{said}");
    let said = with(text, &[9]);
    assert!(said.contains("kind of medium 9"), "{said}");
    let said = with(HEAD, b"soup");
    assert!(
        said.contains("unknown device profile `soup-like`"),
        "{said}"
    );
}

#[test]
fn a_medium_of_another_profile_is_refused() {
    let media = |profile: &str| cut(profile, Adversary::Own);
    for (profile, other, why) in [
        ("loop-like", "nandsim-2007", "a device of kind raw"),
        ("nandsim-2007", "emmc-odroid-xu4", "a device of kind emmc"),
        ("nandsim-2007", "raw-slc", "its chips are"),
        (
            "emmc-odroid-xu4,nand.page_bytes=8192",
            "emmc-odroid-xu4",
            "its chips are",
        ),
        ("soup", "loop-like", "unknown device profile"),
    ] {
        let Err(StateError::Profile(e)) = SavedDevice::new(profile, media(other)) else {
            panic!("{other} passes for {profile}");
        };
        assert!(e.to_string().contains(why), "{e}");
    }
}

/// A file whose body is `body`, sealed.
fn file(profile: &str, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut file = vec![0; HEAD];
    file[..8].copy_from_slice(b"VARVEDEV");
    file[8] = 1;
    file[28..32].copy_from_slice(&(profile.len() as u32).to_le_bytes());
    file.extend_from_slice(profile.as_bytes());
    file.push(kind);
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    // Deflate without compression (RFC 1951, 3.2.4).
    let pieces = body.chunks(0xFFFF).count().max(1);
    for n in 0..pieces {
        let piece = body.chunks(0xFFFF).nth(n).unwrap_or_default();
        file.push(u8::from(n + 1 == pieces));
        file.extend_from_slice(&(piece.len() as u16).to_le_bytes());
        file.extend_from_slice(&(!(piece.len() as u16)).to_le_bytes());
        file.extend_from_slice(piece);
    }
    sealed(file)
}

/// The body of a saved device, unpacked.
fn body(bytes: &[u8]) -> (String, u8, Vec<u8>) {
    let len = u32::from_le_bytes(bytes[28..32].try_into().unwrap()) as usize;
    let profile = String::from_utf8(bytes[HEAD..HEAD + len].to_vec()).unwrap();
    let at = HEAD + len;
    let mut body = Vec::new();
    let mut decoder = flate2::read::DeflateDecoder::new(&bytes[at + 9..]);
    std::io::Read::read_to_end(&mut decoder, &mut body).unwrap();
    (profile, bytes[at], body)
}

/// A file, and what [`body`] says of it.
type Small = (Vec<u8>, (String, u8, Vec<u8>));

/// Small devices with something on them.
fn small() -> Vec<Small> {
    let one = |profile: &str| {
        let blank = SavedDevice::blank(profile, Some(1 << 20)).unwrap();
        let mut model = blank.build().unwrap();
        let block = Bytes::from_iter((0..8192u32).map(|i| ((i * i) >> 3) as u8));
        model.load_logical(Lba(48), block).unwrap();
        let bytes = blank.shut_down(model).unwrap().to_bytes().unwrap();
        let unpacked = body(&bytes);
        (bytes, unpacked)
    };
    ["loop-like", "nandsim-2007", "emmc-odroid-xu4"]
        .map(one)
        .to_vec()
}

/// Checks that the bytes give an error, or a device that is the same when it is saved again.
fn stands(bytes: &[u8]) {
    if let Ok(device) = SavedDevice::from_bytes(bytes) {
        let again = device.to_bytes().unwrap();
        let back = SavedDevice::from_bytes(&again).unwrap();
        assert_eq!(back.media().content_hash(), device.media().content_hash());
        // Whatever is on the chips, the device reports an error or works.
        let _ = device.build().map(|model| content(&model));
    }
}

/// Runs `test` on 96 values.
fn fuzz<S: Strategy>(values: &S, test: impl Fn(S::Value)) {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    };
    let run = |value| {
        test(value);
        Ok(())
    };
    TestRunner::new(config).run(values, run).unwrap();
}

#[test]
fn random_bytes_are_refused() {
    let tail = prop::collection::vec(any::<u8>(), 0..300);
    fuzz(&(tail, any::<bool>()), |(tail, ours)| {
        let mut bytes = match ours {
            true => b"VARVEDEV\x01\0\0\0".to_vec(),
            false => Vec::new(),
        };
        bytes.extend(tail);
        refused(&bytes);
        if bytes.len() > HEAD {
            refused(&sealed(bytes));
        }
    });
}

#[test]
fn damaged_files_are_refused() {
    let all = small();
    let values = (0..all.len(), damages(), any::<bool>());
    fuzz(&values, |(which, damage, reseal)| {
        let whole = &all[which].0;
        let mut bytes = whole.clone();
        apply(&mut bytes, &damage);
        if reseal && bytes.len() > HEAD {
            stands(&sealed(bytes));
        } else if bytes != *whole {
            refused(&bytes);
        }
    });
}

#[test]
fn damaged_content_under_good_checksums_is_refused_or_stands() {
    let all = small();
    fuzz(&(0..all.len(), damages()), |(which, damage)| {
        let (profile, kind, mut body) = all[which].1.clone();
        apply(&mut body, &damage);
        stands(&file(&profile, kind, &body));
    });
}

/// Places (as a share of the file, and counted from its start), bytes to put there; a length to cut
/// it to.
type Damage = (Vec<(bool, u16, Vec<u8>)>, Option<u16>);

fn damages() -> impl Strategy<Value = Damage> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..9),
        Just(vec![0xFF; 4]),
        Just(vec![0; 4]),
        Just(vec![0xFF; 8]),
    ];
    let place = (any::<bool>(), any::<u16>(), bytes);
    let cut = prop::option::weighted(0.2, any::<u16>());
    (prop::collection::vec(place, 1..4), cut)
}

fn apply(bytes: &mut Vec<u8>, (places, cut): &Damage) {
    for (near, at, new) in places {
        let len = bytes.len();
        let at = match near {
            true => usize::from(at % 160) % len,
            false => len * usize::from(*at) / 65536,
        };
        let end = (at + new.len()).min(len);
        bytes[at..end].copy_from_slice(&new[..end - at]);
    }
    if let Some(cut) = cut {
        bytes.truncate(bytes.len() * usize::from(*cut) / 65536);
    }
}
