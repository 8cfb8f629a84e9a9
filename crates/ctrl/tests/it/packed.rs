//! Packed writes, from the request down to the header on the wire.

use crate::host::{self, emmc_profile, ok, stamp};
use base::{Lba, Time};
use blockdev::{Adversary, Class, Model, PackedWrite, Piece, Request};
use varve_ctrl::{AnyModel, Profile};

fn device() -> AnyModel {
    host::device(&emmc_profile(""), Adversary::Own, None)
}

fn write(lba: u64, id: u32, sectors: u64, fua: bool) -> PackedWrite {
    let pieces = vec![Piece {
        class: Class::Data,
        bytes: stamp(id, sectors),
    }];
    PackedWrite {
        lba: Lba(lba),
        pieces,
        fua,
    }
}

#[test]
fn a_pack_is_one_command_and_durable_at_its_end() {
    let (mut m, mut now) = (device(), Time(0));
    let writes = (0..9).map(|i| write(i * 64, i as u32 + 1, 8, true));
    ok(&mut m, &mut now, Request::pack(writes.collect()));
    let stats = m.device_stats();
    assert_eq!(
        (stats.writes, stats.packed_commands, stats.reliable_writes),
        (1, 1, 9)
    );
    let media = m.power_off(now, 1);
    let mut next = Profile::builtin("emmc-odroid-xu4")
        .unwrap()
        .build(None, Some(media))
        .unwrap();
    for i in 0..9 {
        let got = ok(&mut next, &mut Time(0), Request::read(Lba(i * 64), 8));
        assert_eq!(got, stamp(i as u32 + 1, 8));
    }
}

#[test]
fn a_pack_costs_what_one_reliable_write_of_its_length_costs_and_a_header() {
    let (mut m, mut now) = (device(), Time(0));
    let mut single = |m: &mut AnyModel| {
        let start = now;
        let request = Request::write_fua(Lba(0), Class::Data, stamp(1, 72));
        ok(m, &mut now, request);
        (now - start).0
    };
    // The first rows open, and so erase, a block on each die.
    let one = (0..3).map(|_| single(&mut m)).min().unwrap();
    let start = now;
    let writes = (0..9).map(|i| write(1024 + i * 64, 1, 8, true));
    ok(&mut m, &mut now, Request::pack(writes.collect()));
    let pack = (now - start).0;
    assert!(pack > one && pack < one + 20_000, "{one} ns, {pack} ns");
}
