//! Filming, naming and nesting; what schemes make of the cuts is in tests/nand.rs.

use super::life::Lives;
use super::*;
use crate::device::Disk;
use crate::{CrashConfig, Script, Target, Volume, small_volume, subject};
use base::{Nanos, Time};
use blockdev::spec::Choice;
use blockdev::trace::What;
use blockdev::{Adversary, BlockDevice, Caps, Class, Clock, DevError, Modelled};
use blockdev::{Remap, RemapMode, RemapPair, Reply, Request, Ticket};
use rig::{AnyModel, Cause};
use rig::{Mounted, Profile};
use rt::{Mutex, Sim};
use std::sync::Arc;

fn setup(adversary: Adversary) -> (CrashConfig, Volume) {
    let mut stack = small_volume("jbd2".parse().unwrap(), small_chips(), 1);
    stack.journal_blocks = Some(1024);
    let target = Target::Profile(adversary);
    let volume = match adversary {
        Adversary::Own => {
            stack.bytes = 32 << 20;
            aged_volume(&stack, adversary, 1).unwrap()
        }
        // The standard lets a cut tear the superblock, so a copy has to exist, in a second group.
        Adversary::Spec => Volume::new(&stack, &target).unwrap(),
    };
    let config = CrashConfig::new(stack, target, 2, Script::Fixed(Vec::new()), 0);
    (config, volume)
}

/// Takes snapshots while the run is on.
struct Witness {
    camera: Arc<Camera>,
    device: Arc<Modelled<AnyModel>>,
    seen: Mutex<Vec<(Time, u64)>>,
}

impl Witness {
    fn look(&self) {
        let media = self.device.snapshot(7).expect("the power is on");
        self.seen.lock().push((rt::now(), media.content_hash()));
    }
}

impl BlockDevice for Witness {
    fn caps(&self) -> Caps {
        self.camera.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        rt::no_yield(|| self.look());
        self.camera.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let reply = self.camera.wait(ticket);
        rt::no_yield(|| self.look());
        reply
    }
}

/// crash-nand-N1: the film cut at a moment is what a snapshot of the running device at that moment
/// was, also between commands.
#[test]
fn a_late_cut_is_the_snapshot_of_its_moment() {
    let (config, volume) = setup(Adversary::Own);
    let Disk::Modelled(device) = volume.fresh(1).unwrap() else {
        panic!("a modelled device");
    };
    let mix = subject::parse("mix").unwrap();
    let outcome = Sim::new(config.sim(5)).run(|| {
        let camera = Arc::new(Camera::new(device.clone()));
        let witness = Arc::new(Witness {
            camera: camera.clone(),
            device: device.clone(),
            seen: Mutex::named("seen", Vec::new()),
        });
        let clock = {
            let witness = witness.clone();
            rt::spawn("clock", move || {
                for _ in 0..200 {
                    rt::sleep(Nanos(97_003));
                    rt::no_yield(|| witness.look());
                }
            })
        };
        let mounted =
            Mounted::on(witness.clone(), config.mount_options(), config.writeback()).unwrap();
        let (_, ended) = mix.run(&config, &mounted);
        ended.unwrap();
        mounted.unmount().unwrap();
        clock.join().unwrap();
        let seen = std::mem::take(&mut *witness.seen.lock());
        (camera.develop(rt::now()), seen)
    });
    let (film, seen) = outcome.unwrap();
    assert!(seen.len() > 300 && film.commands() > 30);
    let distinct: std::collections::BTreeSet<u64> = seen.iter().map(|(_, hash)| *hash).collect();
    assert!(distinct.len() > 50, "{} states", distinct.len());
    for (at, hash) in seen {
        assert_eq!(film.cut(at, 7).content_hash(), hash, "at {at:?}");
    }
}

/// crash-nand-N5, and that the seam reaches what it is for: garbage collection, erases, the map; in
/// the run and in recovery.
#[test]
fn ids_name_states_and_recoveries_are_cut() {
    let (config, volume) = setup(Adversary::Own);
    let mix = subject::parse("mix").unwrap();
    let mut named = Vec::new();
    let bound = NandBound {
        nested: 2,
        nested_states: 2,
        nested_cuts_max: 40,
        random: Some(60),
        ..NandBound::default()
    };
    let found = explore(&config, &volume, mix.as_ref(), &bound, &mut |id| {
        named.push(id.to_string())
    });
    let found = found.unwrap();
    assert_eq!(found.explored.failure, None);
    assert!(
        found.explored.findings.is_empty(),
        "{:?}",
        found.explored.findings
    );
    assert!(
        found.explored.nested > 20 && found.explored.beyond > 100,
        "{:?}",
        found.explored
    );
    for (cause, erase) in [(Cause::Map, false), (Cause::Map, true)] {
        assert!(
            found.census.inside(cause, erase) > 0,
            "{:#?}",
            found.census.lines()
        );
    }
    let deep: Vec<NandPath> = named.iter().map(|id| id.parse().unwrap()).collect();
    assert!(deep.iter().any(|path| path.0.len() == 3), "{named:?}");
    assert!(
        deep.iter().flat_map(|path| &path.0).any(|id| id.power_up),
        "{named:?}"
    );
    let again = [(); 2].map(|()| film(&config, &volume, mix.as_ref()).unwrap());
    for path in &deep {
        let [a, b] = again
            .each_ref()
            .map(|filmed| state(&config, filmed, path).unwrap());
        assert_eq!(
            (a.at(), a.media().content_hash()),
            (b.at(), b.media().content_hash()),
            "{path}"
        );
    }
}

#[test]
fn a_list_is_taken_as_it_is_and_must_fit() {
    let (config, volume) = setup(Adversary::Spec);
    let mix = subject::parse("mix").unwrap();
    let go = |ids: &[&str]| {
        let ids = ids.iter().map(|id| id.parse().unwrap()).collect();
        let bound = NandBound {
            cuts: Cuts::List(ids),
            ..NandBound::default()
        };
        explore(&config, &volume, mix.as_ref(), &bound, &mut |_| {})
    };
    let found = go(&["n9i2.s3", "n4b", "n4b", "t9000000.s5"])
        .unwrap()
        .explored;
    assert_eq!((found.enumerated, found.points), (4, 3));
    assert_eq!(found.judged + found.deduplicated, 4);
    let e = go(&["n4b", "n99999a"])
        .expect_err("no such operation")
        .to_string();
    assert!(e.contains("n99999a"), "{e}");
    let e = go(&["m3b"]).expect_err("no recovery").to_string();
    assert!(e.contains("m3b"), "{e}");
}

#[test]
fn moments_of_virtual_time() {
    let (config, volume) = setup(Adversary::Spec);
    let mix = subject::parse("mix").unwrap();
    for (cuts, least) in [(Cuts::Every(Nanos(250_000)), 20), (Cuts::Moments(40), 40)] {
        let bound = NandBound {
            cuts,
            ..NandBound::default()
        };
        let found = explore(&config, &volume, mix.as_ref(), &bound, &mut |_| {}).unwrap();
        assert!(
            found.explored.findings.is_empty(),
            "{:?}",
            found.explored.findings
        );
        assert!(found.explored.points >= least, "{:?}", found.explored);
        assert!(found.census.0.is_empty(), "moments are no operations");
    }
}

/// A state that does not come up, or does not mount, is a finding of that state; those after it are
/// judged (crash-nand-N4).
#[test]
fn a_state_that_fails_does_not_end_the_exploration() {
    let (config, volume) = setup(Adversary::Own);
    struct Picky(std::sync::atomic::AtomicU32);
    impl crate::oracle::Oracle for Picky {
        fn advance(&mut self, _: Time) {}
        fn epoch(&self) -> u64 {
            0
        }
        fn position(&self) -> usize {
            0
        }
        fn moments(&self) -> Vec<Time> {
            Vec::new()
        }
        fn judge(&self, _: &Arc<vfs::Vfs>, _: &mut crate::Judgement) {
            let n = 1 + self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert!(!n.is_multiple_of(5), "the fifth of a simulation");
        }
        fn story(&self) -> Vec<String> {
            Vec::new()
        }
    }
    struct Work;
    impl crate::oracle::Subject for Work {
        fn run(
            &self,
            config: &CrashConfig,
            mounted: &Mounted,
        ) -> (
            Box<dyn crate::oracle::Oracle>,
            Result<(), crate::CrashError>,
        ) {
            let mix = subject::parse("mix").unwrap();
            let outcome = mix.run(config, mounted).1;
            (Box::new(Picky(Default::default())), outcome)
        }
    }
    let bound = NandBound {
        random: Some(30),
        ..NandBound::default()
    };
    let found = explore(&config, &volume, &Work, &bound, &mut |_| {})
        .unwrap()
        .explored;
    assert!(found.judged > 15, "{found:?}");
    assert_eq!(found.violations, found.judged / 5, "{found:?}");
    let words = found.findings[0].violations.join(" ");
    assert!(
        words.contains("R1: recovery") && words.contains("the fifth"),
        "{words}"
    );
}

#[test]
fn a_disk_in_memory_is_refused() {
    let (config, _) = setup(Adversary::Own);
    let target = Target::Spec(crate::cells::Cell::all()[0].caps(32 << 20));
    let volume = Volume::new(&config.stack, &target).unwrap();
    let config = CrashConfig { target, ..config };
    assert!(Lives::new(&config, 1).is_err());
    let mix = subject::parse("mix").unwrap();
    let e = film(&config, &volume, mix.as_ref())
        .err()
        .expect("refused")
        .to_string();
    assert!(e.contains("no chips"), "{e}");
}

/// crash-nand-D1 sees a block that is not what it was, and no other.
#[test]
fn a_device_that_changes_other_blocks_is_found() {
    let (config, volume) = setup(Adversary::Own);
    let mix = subject::parse("mix").unwrap();
    let filmed = film(&config, &volume, mix.as_ref()).unwrap();
    let media = filmed.film.cut(filmed.film.end, 0);
    let mut model = config.stack.attach(media).unwrap();
    let untouched = filmed.film.untouched();
    assert!(untouched.len() > 5000, "{} blocks", untouched.len());
    assert_eq!(super::life::changed(&model, &untouched), None);
    let (victim, _) = untouched[4321];
    let bytes = base::fill::filled(0xA5, base::BLOCK_BYTES);
    model
        .load_logical(base::BlockNo(victim).lba(), bytes)
        .unwrap();
    let words = super::life::changed(&model, &untouched).expect("D1");
    assert!(
        words.contains("D1") && words.contains(&victim.to_string()),
        "{words}"
    );
}

/// The recording of a film has what a REMAP did, and nothing of one that the device refused.
#[test]
fn a_film_keeps_remaps_as_the_block_seam_does() {
    let (config, _) = setup(Adversary::Own);
    let profile = Profile::parse("nandsim-2007").unwrap();
    let model = profile.build(Some(16 << 20), None).unwrap();
    let device = Arc::new(Modelled::new(model, Clock::Runtime));
    let block = |n: u64| base::BlockNo(n).lba();
    let write = |n: u64, fill: u8| {
        let bytes = base::fill::filled(fill, base::BLOCK_BYTES);
        Request::write(block(n), Class::Data, bytes)
    };
    let pair = |home, src| RemapPair::new(block(home), block(src), base::BLOCK_BYTES);
    let outcome = Sim::new(config.sim(5)).run(|| {
        let camera = Camera::new(device.clone());
        let send = |request| camera.wait(camera.submit(request));
        for (n, fill) in [(0, 1), (1, 2), (8, 7), (9, 8)] {
            send(write(n, fill)).expect("a write");
        }
        let share = Remap {
            pairs: vec![pair(0, 8), pair(1, 9), pair(4, 12)],
            ..Remap::default()
        };
        send(Request::remap(share.clone())).expect("a REMAP");
        let expecting = RemapPair {
            expect: Some(1),
            ..pair(2, 8)
        };
        let refused = Remap {
            pairs: vec![expecting],
            ..Remap::default()
        };
        send(Request::remap(refused)).expect_err("remap-S6");
        let moving = Remap {
            pairs: vec![pair(3, 9)],
            mode: RemapMode::Move,
            ..Remap::default()
        };
        send(Request::remap(moving)).expect("a REMAP");
        camera.develop(rt::now())
    });
    let film = outcome.value.expect("it ran to its end");
    let trace = film.trace();
    let remaps: Vec<_> = trace
        .steps
        .iter()
        .filter(|s| matches!(s.what, What::Remap(_)))
        .collect();
    assert_eq!(remaps.len(), 2, "the refused one is not there");
    let mut cursor = trace.cursor();
    cursor.seek(film.end);
    let newest = cursor.image(&Choice::Newest);
    let found = [0, 1, 2, 3, 8, 9].map(|n| newest.block(n)[0]);
    assert_eq!(found, [7, 8, 0, 8, 7, 0]);
    let seen = device.with_model(logical).expect("the power is on");
    assert_eq!(newest, seen);
    // The homes of a share are touched, its sources are not.
    assert!(film.touches(3) && film.touches(9) && film.touches(4) && !film.touches(12));
}
