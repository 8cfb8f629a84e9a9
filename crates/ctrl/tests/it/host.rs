//! What hosts in these tests have in common: devices, requests one after the other, commands of an
//! eMMC, and content with a number in it.

use base::{Bytes, Rng, Time};
use blockdev::{Adversary, Model, Request};
use varve_ctrl::emmc::{Card, Command, Data, Emmc, Outcome, Response, status};
use varve_ctrl::{AnyModel, Media, Profile};

/// Bytes of a small device.
pub const SMALL: u64 = 16 << 20;

/// The eMMC's profile with some of its lines replaced.
pub fn changed(changes: &[(&str, &str)]) -> Profile {
    let mut text = include_str!("../../profiles/emmc-odroid-xu4.toml").to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Profile::from_toml(&text).unwrap()
}

/// The eMMC's profile with changes behind its name.
pub fn emmc_profile(changes: &str) -> Profile {
    Profile::parse(&format!("emmc-odroid-xu4{changes}")).unwrap()
}

/// A small blank device, or one of this medium.
pub fn device(profile: &Profile, adversary: Adversary, media: Option<Media>) -> AnyModel {
    let bytes = media.is_none().then_some(SMALL);
    let mut m = profile.build(bytes, media).unwrap();
    m.set_adversary(adversary);
    m
}

/// A small eMMC whose cuts leave what its own firmware would leave.
pub fn emmc(profile: &Profile, media: Option<Media>) -> Box<Emmc> {
    match device(profile, Adversary::Own, media) {
        AnyModel::Emmc(e) => e,
        _ => panic!("not an eMMC"),
    }
}

/// Waits for a request that must work.
pub fn ok(m: &mut AnyModel, now: &mut Time, request: Request) -> Bytes {
    let done = m.execute(*now, request);
    assert!(done.at >= *now);
    *now = done.at;
    done.result.unwrap().into_bytes()
}

/// Milliseconds that a request takes, which must work.
pub fn took_ms(m: &mut AnyModel, now: &mut Time, request: Request) -> f64 {
    let start = *now;
    ok(m, now, request);
    (*now - start).0 as f64 / 1e6
}

/// Sectors that hold a number.
pub fn stamp(id: u32, sectors: u64) -> Bytes {
    id.to_le_bytes().repeat(sectors as usize * 128).into()
}

/// The number of a sector; `None`: garbage.
pub fn id_of(sector: &[u8]) -> Option<u32> {
    let same = sector.chunks(4).all(|c| c == &sector[..4]);
    same.then(|| u32::from_le_bytes(sector[..4].try_into().unwrap()))
}

/// Random bytes.
pub fn random(rng: &mut Rng, bytes: usize) -> Bytes {
    let mut out = vec![0; bytes];
    rng.fill(&mut out);
    out.into()
}

/// Sends a command to a card when that is ready.
pub fn send(card: &mut Card, index: u8, arg: u32, data: Data) -> Outcome {
    card.command(card.ready(), Command { index, arg, data })
}

/// The bits of a response R1.
pub fn r1(out: &Outcome) -> u32 {
    match out.response {
        Response::R1(bits) => bits,
        other => panic!("{other:?}"),
    }
}

/// The errors in a response R1.
pub fn errors(out: &Outcome) -> u32 {
    r1(out) & status::ERRORS
}

/// Sectors of one byte for a write.
pub fn block(byte: u8, n: usize) -> Data {
    Data::Write(vec![vec![byte; 512 * n].into()])
}
