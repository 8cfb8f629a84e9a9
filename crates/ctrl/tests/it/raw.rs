//! Raw flash: commands, REMAP and what is left after a cut.

use base::{Bytes, Lba, Rng, Time};
use blockdev::{
    Adversary, Class, Clock, DevErrorKind, Model, Modelled, Remap, RemapMode, RemapPair, Remapped,
    Request, expectation,
};
use varve_ctrl::{AnyModel, Profile};

fn profile(changes: &str) -> Profile {
    Profile::parse(&format!("nandsim-2007{changes}")).unwrap()
}

fn device(changes: &str) -> AnyModel {
    profile(changes).build(Some(4 << 20), None).unwrap()
}

fn block(byte: u8) -> Bytes {
    (0..4096)
        .map(|i| byte ^ (i / 512) as u8)
        .collect::<Vec<u8>>()
        .into()
}

/// Runs requests one after the other.
struct Host {
    device: AnyModel,
    now: Time,
}

impl Host {
    fn new(changes: &str) -> Host {
        Host {
            device: device(changes),
            now: Time(0),
        }
    }
    fn run(&mut self, request: Request) -> blockdev::Reply {
        self.try_run(request).unwrap()
    }
    fn try_run(&mut self, request: Request) -> Result<blockdev::Reply, blockdev::DevError> {
        let done = self.device.execute(self.now, request);
        self.now = done.at;
        done.result
    }
    fn write(&mut self, block_no: u64, bytes: Bytes) {
        self.run(Request::write(Lba(block_no * 8), Class::Data, bytes));
    }
    fn read(&mut self, lba: u64, sectors: u64) -> Bytes {
        self.run(Request::read(Lba(lba), sectors)).into_bytes()
    }
    fn remap(&mut self, pairs: &[(u64, u64, u64)], mode: RemapMode) -> Remapped {
        let remap = batch(pairs, mode);
        self.run(Request::remap(remap)).remapped.unwrap()
    }
    fn cut(self, changes: &str, seed: u64) -> AnyModel {
        let media = self.device.power_off(self.now, seed);
        profile(changes).build(None, Some(media)).unwrap()
    }
}

fn batch(pairs: &[(u64, u64, u64)], mode: RemapMode) -> Remap {
    let pair = |(home, src, sectors): &(u64, u64, u64)| RemapPair {
        home: Lba(*home),
        src: Lba(*src),
        sectors: *sectors,
        expect: None,
    };
    Remap {
        pairs: pairs.iter().map(pair).collect(),
        mode,
        ..Remap::default()
    }
}

#[test]
fn raw_devices_keep_the_contract_of_block_devices() {
    for changes in ["", ",controller.buffer_kib=64", ",controller.remap_pairs=0"] {
        testkit::device::run(&Modelled::new(device(changes), Clock::Unpaced));
    }
    for name in ["raw-slc", "raw-mlc", "raw-tlc"] {
        let device = Profile::builtin(name).unwrap().build(None, None).unwrap();
        testkit::device::run(&Modelled::new(device, Clock::Unpaced));
    }
}

#[test]
fn writes_of_any_sector_are_read_back() {
    for buffer in ["", ",controller.buffer_kib=64"] {
        let mut host = Host::new(buffer);
        host.write(1, block(1));
        host.run(Request::write(Lba(10), Class::Data, vec![9; 1024].into()));
        let got = host.read(8, 8);
        assert_eq!(&got[..1024], &block(1)[..1024]);
        assert_eq!(&got[1024..2048], &[9; 1024]);
        assert_eq!(&got[2048..], &block(1)[2048..]);
        assert_eq!(host.read(9, 2)[512..], [9; 512]);
        host.run(Request::flush());
        host.run(Request::discard(Lba(8), 8));
        assert_eq!(host.read(8, 8), vec![0; 4096]);
    }
}

#[test]
fn without_a_buffer_what_has_completed_is_there() {
    for adversary in [Adversary::Own, Adversary::Spec] {
        let mut host = Host::new("");
        host.device.set_adversary(adversary);
        assert!(!host.device.caps().volatile_cache);
        for b in 0..20 {
            host.write(b, block(b as u8));
        }
        host.remap(&[(400, 0, 16), (161, 24, 3)], RemapMode::Share);
        let after = host.cut("", 7);
        for b in 0..20 {
            assert_eq!(after.visible(b), block(b as u8), "{adversary:?} {b}");
        }
        assert_eq!(after.visible(50), block(0));
        assert_eq!(after.visible(51), block(1));
        assert_eq!(after.visible(20)[512..2048], block(3)[..1536]);
    }
}

#[test]
fn a_remap_of_any_alignment_takes_over_content() {
    for (mode, buffer) in [
        (RemapMode::Share, ""),
        (RemapMode::Move, ""),
        (RemapMode::Share, ",controller.buffer_kib=256"),
        (RemapMode::Move, ",controller.buffer_kib=256"),
    ] {
        let mut host = Host::new(buffer);
        for b in 0..8 {
            host.write(b, block(b as u8));
        }
        host.write(40, block(40));
        // Whole units; 1 KiB inside a unit; two units shifted by a sector.
        let r = host.remap(&[(256, 0, 16), (322, 18, 2), (401, 24, 16)], mode);
        assert_eq!(r.aliased + r.copied, 34);
        assert!(r.copied >= 18, "remap-S7");
        assert_eq!(host.read(256, 8), block(0));
        assert_eq!(host.read(264, 8), block(1));
        let mixed = host.read(320, 8);
        assert_eq!(mixed[..1024], block(40)[..1024]);
        assert_eq!(mixed[1024..2048], block(2)[1024..2048]);
        assert_eq!(mixed[2048..], block(40)[2048..]);
        assert_eq!(host.read(401, 8), block(3));
        assert_eq!(host.read(409, 8), block(4));
        assert_eq!(host.read(400, 1), vec![0; 512]);
        let moved = mode == RemapMode::Move;
        let source = |b: u8| {
            if moved {
                vec![0; 4096].into()
            } else {
                block(b)
            }
        };
        assert_eq!(host.read(0, 8), source(0));
        assert_eq!(host.read(24, 8), source(3));
        let rest = host.read(16, 8);
        assert_eq!(rest[..1024], block(2)[..1024]);
        assert_eq!(rest[1024..2048], source(2)[1024..2048]);
        assert_eq!(host.device.device_stats().remaps, 1);
    }
}

#[test]
fn what_a_unit_is_aliased_for_and_copied_for_is_copied() {
    let mut host = Host::new("");
    (0..4).for_each(|b| host.write(b, block(b as u8)));
    // Unit 20 is the source of an alias, and of its neighbour sectors a home: sector 160..164 home,
    // 164..168 source.
    host.write(20, block(20));
    host.remap(&[(160, 0, 4), (200, 164, 4), (240, 8, 8)], RemapMode::Share);
    assert_eq!(host.read(160, 4), block(0)[..2048]);
    assert_eq!(host.read(164, 4), block(20)[2048..]);
    assert_eq!(host.read(200, 4), block(20)[2048..]);
    assert_eq!(host.read(240, 8), block(1));
}

#[test]
fn a_refused_remap_changes_nothing() {
    let mut host = Host::new("");
    host.write(0, block(1));
    host.write(5, block(5));
    let mut wrong = batch(&[(40, 0, 8)], RemapMode::Move);
    wrong.pairs[0].expect = Some(expectation(&[block(9)]));
    let e = host.try_run(Request::remap(wrong)).unwrap_err();
    assert!(
        e.kind == DevErrorKind::Misuse && e.why.contains("remap-S6"),
        "{e}"
    );
    let mut copies = batch(&[(41, 0, 8)], RemapMode::Move);
    copies.require_all = true;
    let e = host.try_run(Request::remap(copies)).unwrap_err();
    assert!(
        e.kind == DevErrorKind::Misuse && e.why.contains("remap-S7"),
        "{e}"
    );
    let huge = batch(&[(1001, 4000, 900)], RemapMode::Share);
    let e = host.try_run(Request::remap(huge)).unwrap_err();
    assert!(e.why.contains("one batch copies 16 at most"), "{e}");
    assert_eq!(host.read(0, 8), block(1));
    assert_eq!(host.read(40, 8), block(5));
    let mut right = batch(&[(40, 0, 8)], RemapMode::Share);
    right.pairs[0].expect = Some(expectation(&[block(1)]));
    host.run(Request::remap(right));
    assert_eq!(host.read(40, 8), block(1));
}

#[test]
fn with_a_buffer_only_a_flush_makes_durable() {
    let buffer = ",controller.buffer_kib=256";
    let mut host = Host::new(buffer);
    host.device.set_adversary(Adversary::Own);
    host.write(0, block(1));
    host.run(Request::flush());
    host.write(1, block(2));
    let after = host.cut(buffer, 3);
    assert_eq!(after.visible(0), block(1));
    assert_eq!(after.visible(1), vec![0; 4096]);
}

#[test]
fn wrong_numbers_of_a_profile_name_field_and_rule() {
    for (change, says) in [
        (
            "controller.max_transfer_kib=2",
            "controller.max_transfer_kib = 2; it may be 4 to",
        ),
        (
            "controller.remap_pairs=99999",
            "controller.remap_pairs = 99999; it may be 0 to 16384",
        ),
        (
            "timing.nandsim.request_us=20000000",
            "timing.nandsim.request_us = 20000000; it may be 0 to",
        ),
        (
            "timing.no-transfer.nand.read_us=2000000",
            "timing.no-transfer.nand.read_us = 2000000; it may be 0 to",
        ),
        (
            "nand.page_bytes=500",
            "nand.page_bytes = 500; it may be 512 to",
        ),
        (
            "ftl.over_provisioning=0.001",
            "ftl.over_provisioning = 0.001; it may be 0.01 to 1",
        ),
        ("controller.cache=1", "unknown field `controller.cache`"),
    ] {
        let e = Profile::parse(&format!("nandsim-2007,{change}")).unwrap_err();
        assert!(e.to_string().contains(says), "{change}: {e}");
    }
}

/// Batches of four pairs, the last of them not aligned, each to homes of its own.
fn batches(mode: RemapMode) -> Vec<Remap> {
    let one = |n: u64| {
        let home = |i: u64| 2048 + (n * 4 + i) * 16;
        let src = |i: u64| (n * 4 + i) * 8;
        let shift = n % 2 * 2;
        let mut pairs: Vec<_> = (0..3).map(|i| (home(i), src(i), 8)).collect();
        pairs.push((home(3) + shift, src(3) + shift / 2, 4));
        batch(&pairs, mode)
    };
    (0..12).map(one).collect()
}

/// The number of pairs of a batch that have happened in what a cut left; fails if a home holds
/// anything else.
fn happened(device: &AnyModel, batch: &Remap) -> usize {
    let sector = |lba: u64| {
        device
            .visible(lba / 8)
            .slice((lba % 8) as usize * 512..(lba % 8 + 1) as usize * 512)
    };
    let wrote = |lba: u64| {
        block((lba / 8) as u8 | 0x80).slice((lba % 8) as usize * 512..(lba % 8 + 1) as usize * 512)
    };
    let done = |pair: &&RemapPair| {
        let new = (0..pair.sectors).filter(|i| sector(pair.home.0 + i) == wrote(pair.src.0 + i));
        let new = new.count() as u64;
        assert!(new == 0 || new == pair.sectors, "half a pair: {pair:?}");
        new > 0
    };
    batch.pairs.iter().filter(done).count()
}

#[test]
fn at_every_cut_a_batch_is_there_or_not_and_what_was_promised_is_there() {
    let mut cuts = 0;
    for (changes, mode) in [
        ("", RemapMode::Share),
        ("", RemapMode::Move),
        (",controller.buffer_kib=64", RemapMode::Share),
        (",controller.buffer_kib=64", RemapMode::Move),
    ] {
        for adversary in [Adversary::Own, Adversary::Spec] {
            let mut host = Host::new(changes);
            host.device.set_adversary(adversary);
            (0..48).for_each(|b| host.write(b, block(b as u8 | 0x80)));
            host.run(Request::flush());
            let mut rng = Rng::named(1, "batches");
            // For each batch: when it ended, and when a flush after it ended.
            let mut ends: Vec<(Remap, Time, Option<Time>)> = Vec::new();
            for (n, mut batch) in batches(mode).into_iter().enumerate() {
                batch.fua = n % 5 == 4;
                let (start, fua) = (host.now, batch.fua || changes.is_empty());
                host.run(Request::remap(batch.clone()));
                ends.push((batch, host.now, fua.then_some(host.now)));
                if n % 3 == 2 {
                    host.run(Request::flush());
                    let flushed = host.now;
                    ends.iter_mut().for_each(|e| e.2 = e.2.or(Some(flushed)));
                }
                let span = (host.now - start).0;
                let mut at: Vec<Time> = vec![start, host.now];
                at.extend((0..6).map(|_| Time(start.0 + rng.below(span + 1))));
                for at in at {
                    let media = host.device.clone().power_off(at, rng.next_u64());
                    let after = profile(changes).build(None, Some(media)).unwrap();
                    for (batch, end, durable) in &ends {
                        let pairs = happened(&after, batch);
                        assert!(pairs == 0 || pairs == 4, "remap-S4: {pairs} of 4 pairs");
                        if durable.is_some_and(|durable| durable <= at) {
                            assert_eq!(
                                pairs, 4,
                                "remap-S3: a batch that ended at {end} is gone at {at}"
                            );
                        }
                    }
                    cuts += 1;
                }
            }
        }
    }
    assert!(cuts > 500);
}
