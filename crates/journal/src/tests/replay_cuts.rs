//! Power cuts and bad sectors inside the recovery of a mixed log, on devices that leave any state
//! their `Caps` allow.

use super::hostile::V3;
use super::mixed::{Author, Do};
use super::*;
use base::{Nanos, Rng, SECTORS_PER_BLOCK};
use block::Caps;
use blockdev::{Image, SpecDisk};
use rt::{Mutex, Sim, SimConfig};

const FS: u64 = super::hostile::FS;

fn emmc() -> Caps {
    Caps {
        sectors: FS * SECTORS_PER_BLOCK,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(512),
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: false,
        remap: None,
        max_transfer_sectors: 2048,
    }
}

/// Its superblock is safe, but of a longer write a cut may leave garbage.
fn tearing() -> Caps {
    Caps {
        reliable_granule: None,
        atomic_write_bytes: 4096,
        ..emmc()
    }
}

/// Blocks with images, with deltas over images, with deltas only; the last transaction is torn.
fn author() -> Author {
    let mut a = Author::new(V3);
    a.stock(1, 10, &[40, 41, 42]);
    let what = vec![
        Do::Delta(41, 8, vec![1; 900]),
        Do::Delta(50, 0, vec![2; 4000]),
        Do::Full(45, vec![3; BLOCK_BYTES]),
        Do::Delta(60, 500, vec![4; 100]),
    ];
    a.transaction(2, 11, what);
    a.committed(
        3,
        11,
        vec![
            Do::Delta(50, 700, vec![5; 50]),
            Do::Delta(51, 0, vec![6; 600]),
        ],
    );
    let now = a.now.clone();
    // Parts 1 and 2 of three arrived, part 0 did not.
    let long = |home| Do::Delta(home, 0, vec![9; 4000]);
    let torn = a.blocks(4, 12, false, vec![long(70), long(71), long(72)]);
    a.forge.put(vec![0; BLOCK_BYTES]);
    a.forge.put(torn[1].clone()).put(torn[2].clone());
    a.now = now;
    a
}

fn image(a: &Author) -> Image {
    let mut image = Image::new();
    for (n, bytes) in a.forge.rig().disk.visible() {
        image.set_block(n, bytes);
    }
    image
}

struct Run {
    result: Result<RecoveryReport, String>,
    after: Image,
    inside: Vec<Image>,
}

/// Recovers, with snapshots every `step`.
fn recover(a: &Author, caps: &Caps, image: Image, seed: u64, step: Nanos) -> Run {
    let disk = SpecDisk::from_image(caps.clone(), image, seed);
    run_on(a, &disk, seed, step)
}

fn run_on(a: &Author, disk: &Arc<SpecDisk>, seed: u64, step: Nanos) -> Run {
    let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
    let taken = Arc::new(Mutex::named("inside", (false, Vec::new())));
    let sampler = {
        let (disk, taken) = (disk.clone(), taken.clone());
        rt::spawn("inside", move || {
            let mut rng = Rng::named(seed, "inside");
            while !taken.lock().0 {
                let image = disk.snapshot(rng.next_u64());
                taken.lock().1.push(image);
                rt::sleep(step);
            }
        })
    };
    let result = match open(queue, a.forge.place.clone()) {
        Ok(Opened::Clean(log)) => Ok(RecoveryReport {
            end: log.next_tid().prev(),
            ..RecoveryReport::default()
        }),
        Ok(Opened::NeedsRecovery(log)) => log.recover().map(|(_, report)| report),
        Err(e) => Err(e),
    };
    taken.lock().0 = true;
    sampler.join().expect("runs");
    let inside = std::mem::take(&mut taken.lock().1);
    Run {
        result: result.map_err(|e| e.to_string()),
        after: disk.visible(),
        inside,
    }
}

fn simulate<T>(seed: u64, body: impl FnOnce() -> T) -> T {
    let outcome = Sim::new(SimConfig::seeded(seed)).run(body);
    assert!(
        outcome.first_failure.is_none(),
        "{:?}",
        outcome.first_failure
    );
    outcome.value.expect("returns")
}

fn assert_recovered(a: &Author, after: &Image, where_: &str) {
    for (home, content) in &a.now {
        assert!(after.block(*home) == content[..], "{where_}: block {home}");
    }
}

/// hazards-H11: recovery may be cut anywhere, and cut again, on a device that tears home writes
/// too. Says how many states were recovered.
fn cut_to_depth_2(caps: &Caps, seed: u64, states: usize) -> (u64, u64) {
    let a = author();
    let mut first = recover(&a, caps, image(&a), seed, Nanos(150_000));
    let report = first.result.expect("recovers");
    assert_eq!((report.transactions, report.coalitions), (3, 2));
    assert_recovered(&a, &first.after, "uncut");
    let mut count = 0;
    let mut rng = Rng::named(seed, "pick");
    for depth in 1..=2 {
        let mut deeper = Vec::new();
        for (n, cut) in first.inside.drain(..).take(states).enumerate() {
            let run = recover(&a, caps, cut, rng.next_u64(), Nanos(300_000));
            let place = format!("seed {seed}, depth {depth}, cut {n}");
            run.result.unwrap_or_else(|e| panic!("{place}: {e}"));
            assert_recovered(&a, &run.after, &place);
            let keep = rng.below(run.inside.len().max(1) as u64) as usize;
            deeper.extend(run.inside.into_iter().skip(keep).take(2));
            count += 1;
        }
        first.inside = deeper;
    }
    (count, report.blocks_insured)
}

/// With insurance (insure-Q1, insure-Q2) and without it every cut leads to the same content.
#[test]
fn recovery_may_be_cut_and_cut_again() {
    let no_fua = Caps {
        fua: false,
        ..tearing()
    };
    let collateral = Caps {
        no_collateral: false,
        ..emmc()
    };
    for (name, caps, insured) in [
        ("emmc", emmc(), 0),
        ("tearing", tearing(), 3),
        ("no-fua", no_fua, 3),
        ("collateral", collateral, 3),
    ] {
        let mut total = 0;
        for seed in 0..12 {
            let (count, blocks) = simulate(seed, || cut_to_depth_2(&caps, seed, 20));
            assert_eq!(blocks, insured, "{name}");
            total += count;
        }
        assert!(total > 300, "{name}: {total} states");
    }
}

/// The insurance proves itself: without it the same cuts on the same device end in a refusal.
#[test]
fn torn_homes_without_insurance_are_found() {
    let a = author();
    let refused = simulate(1, || {
        let mut refused = 0;
        for seed in 0..40 {
            // As a device with reliable writes would do it, on one that has none.
            let disk = SpecDisk::from_image(tearing(), image(&a), seed);
            let homes = [&a.now[&50][..], &a.now[&51]].concat();
            let (lba, class) = (BlockNo(50).lba(), block::Class::Home);
            let ticket = disk.submit(blockdev::Request::write(lba, class, homes.into()));
            rt::sleep(Nanos(10_000));
            let cut = disk.snapshot(seed);
            disk.wait(ticket).expect("written");
            let run = recover(&a, &tearing(), cut, seed, Nanos(1_000_000_000));
            refused += u64::from(run.result.is_err_and(|e| e.contains("foretell")));
        }
        refused
    });
    assert!(refused > 0);
}

#[test]
fn insurance_needs_room() {
    let mut a = Author::new(V3);
    for tid in 1..=20 {
        a.transaction(tid, 10, vec![Do::Delta(40 + u64::from(tid), 0, vec![1])]);
    }
    simulate(1, || {
        let before = image(&a);
        let run = recover(&a, &tearing(), before.clone(), 1, Nanos(1_000_000_000));
        let e = run.result.expect_err("refused");
        assert!(
            e.contains("20 blocks") && e.contains("11 blocks of log left"),
            "{e}"
        );
        assert_eq!(run.after.content_hash(), before.content_hash());
        let run = recover(&a, &emmc(), before, 1, Nanos(1_000_000_000));
        assert_eq!(run.result.expect("recovers").home_read_commands, 1);
        assert_recovered(&a, &run.after, "emmc");
    });
}

/// hazards-H12: bad sectors under homes that the log has no image of: their blocks are named,
/// nothing is written. Others do not matter.
#[test]
fn unreadable_homes_are_named() {
    let a = author();
    simulate(1, || {
        let sectors = |block: u64| block * 8 + 3..block * 8 + 4;
        let before = image(&a);
        let disk = SpecDisk::from_image(emmc(), before.clone(), 1);
        for block in [51, 60, 41, 45, 40] {
            disk.fail_reads(sectors(block));
        }
        let run = run_on(&a, &disk, 1, Nanos(1_000_000_000));
        let e = run.result.expect_err("refused");
        assert!(
            e.contains("of blocks 51, 60, and there home cannot be read"),
            "{e}"
        );
        assert_eq!(run.after.content_hash(), before.content_hash());
        disk.heal();
        for block in [41, 45, 40] {
            disk.fail_reads(sectors(block));
        }
        let run = run_on(&a, &disk, 1, Nanos(1_000_000_000));
        let report = run.result.expect("images suffice");
        assert_eq!((report.home_reads, report.blocks_replayed), (3, 7));
        assert_recovered(&a, &run.after, "healed");
    });
}

/// journal-replay-P4: full-first lets the tail leave a full image behind once home is complete,
/// while younger deltas stay in the log because another block holds the tail. There is nothing to
/// write, so nothing to insure, however full the log is.
#[test]
fn deltas_that_home_already_holds_need_no_insurance() {
    let mut a = Author::new(V3);
    for tid in 1..=20 {
        a.transaction(tid, 10, vec![Do::Delta(40 + u64::from(tid), 0, vec![1])]);
    }
    simulate(1, || {
        let mut disk = image(&a);
        for tid in 1..20 {
            let home = 40 + tid;
            disk.set_block(home, a.now[&home].clone().into());
        }
        let run = recover(&a, &tearing(), disk, 1, Nanos(1_000_000_000));
        let report = run.result.expect("recovers");
        assert_eq!((report.blocks_insured, report.blocks_replayed), (1, 1));
        assert_recovered(&a, &run.after, "tearing");
    });
}
