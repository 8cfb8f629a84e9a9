//! Several tasks write to a volume without room: they get no error but ENOSPC, and what was
//! acknowledged is there, with checkpoints and with a journal.

use crate::common::mount;
use crate::crowd::{MODES, Mode, shared, together, volume};
use fscore::{Errno, FallocateMode, FileSystem};
use testkit::Brief;
use testkit::full::Modes;
use testkit::volume::simulated;

const ALL: Modes<Mode, 7> = Modes {
    modes: MODES,
    together,
};

#[test]
fn on_threads() {
    ALL.on_threads(1000);
}

#[test]
fn in_random_order() {
    ALL.in_random_order(400);
}

#[test]
fn who_fits_is_never_refused() {
    for (seed, mode) in (0..).zip(MODES) {
        shared(mode, seed, 10);
        simulated(seed, mode.1, || shared(mode, 0, 4));
    }
}

/// What `statfs` calls available, one file can have: allocated, and written over (f2fs-space-S7).
#[test]
fn what_is_available_can_be_had() {
    for (ring, options) in [(0, ""), (0, "reserve_root=500"), (64, "scheme=f2fsj")] {
        let fs = mount(&volume(ring), options);
        for round in 0..3 {
            let user = fscore::Caller::new(1000, 1000, Vec::new());
            let ino = fs.file(b"f");
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
    ALL.for_long(100..120);
}
