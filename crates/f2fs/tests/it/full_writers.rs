//! Several tasks write to a volume without room: they get no error but ENOSPC, and what was
//! acknowledged is there, with checkpoints and with a journal.

use crate::common::mount;
use crate::crowd::{MODES, shared, together, volume};
use fscore::{Creds, Errno, FallocateMode, FileKind, FileSystem};
use rt::{Sim, SimConfig};

#[test]
fn on_threads() {
    for (seed, mode) in MODES.into_iter().enumerate() {
        let refused = together(mode, seed as u64, 1000);
        assert!(refused > 20, "{mode:?}: refused {refused} times only");
    }
}

fn simulated(mode: (u32, &str), seed: u64, steps: usize) {
    let outcome = Sim::new(SimConfig::random(seed)).run(|| together(mode, seed, steps));
    let failure = &outcome.first_failure;
    assert!(
        failure.is_none(),
        "{mode:?}: {failure:?}; replay: {}",
        outcome.replay
    );
}

#[test]
fn in_random_order() {
    for (seed, mode) in MODES.into_iter().enumerate() {
        simulated(mode, seed as u64, 400);
    }
}

#[test]
fn who_fits_is_never_refused() {
    for (seed, mode) in MODES.into_iter().enumerate() {
        shared(mode, seed as u64, 10);
        let outcome = Sim::new(SimConfig::random(seed as u64)).run(|| shared(mode, 0, 4));
        let failure = &outcome.first_failure;
        assert!(failure.is_none(), "{mode:?}: {failure:?}");
    }
}

/// What `statfs` calls available, one file can have: allocated, and written over (f2fs-space-S7).
#[test]
fn what_is_available_can_be_had() {
    for (ring, options) in [(0, ""), (0, "reserve_root=500"), (64, "scheme=f2fsj")] {
        let fs = mount(&volume(ring), options);
        let creds = Creds::default();
        for round in 0..3 {
            let user = fscore::Caller::new(1000, 1000, Vec::new());
            let made = fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, creds);
            let ino = made.expect("room for an inode").ino;
            let available = fs.statfs().expect("statfs").blocks_available;
            assert!(available > 3000, "{options}: {available}");
            let bytes = available * 4096;
            user.scope(|| {
                let all = fs.fallocate(ino, FallocateMode::Allocate, 0, bytes);
                all.unwrap_or_else(|e| panic!("{options}, round {round}: {e}"));
                let wrote = fs.write(ino, 0, &vec![1; bytes as usize]);
                assert_eq!(wrote.expect("allocated"), bytes as usize);
                fs.fsync(ino, false).expect("written back");
                let more = fs.write(ino, bytes, &[1; 5 * 4096]).map_err(|e| e.errno());
                assert_ne!(more, Ok(5 * 4096), "{options}: more than a few");
                assert!(matches!(more, Ok(_) | Err(Errno::NoSpc)), "{more:?}");
            });
            fs.unlink(fs.root(), b"f").expect("it gives back");
            fs.sync().expect("synced");
        }
        fs.check();
        fs.unmount().expect("clean");
    }
}

/// f2fs-space-S5: what is dirty in the cache is as much as the volume has, and little is to spare.
#[test]
fn a_full_volume_is_written_over_in_the_cache() {
    crate::crowd::overwritten();
}

#[test]
#[ignore = "minutes: 20 seeds in each mode, and threads"]
fn for_long() {
    for seed in 100..120 {
        for mode in MODES {
            simulated(mode, seed, 1000);
            together(mode, seed, 2500);
        }
    }
}
