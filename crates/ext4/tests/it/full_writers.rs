//! Several tasks on a volume without room: the last blocks go to one of them, no task gets another
//! error than ENOSPC, and acknowledged data is there.

use crate::crowd::{MODES, shared, together};
use testkit::full::Modes;
use testkit::volume::simulated;
use varve_ext4::mkfs::Kind;

const ALL: Modes<crate::crowd::Mode, 9> = Modes {
    modes: MODES,
    together,
};

#[test]
fn on_threads() {
    ALL.on_threads(1200);
}

#[test]
fn in_random_order() {
    ALL.in_random_order(500);
}

#[test]
fn who_fits_is_never_refused() {
    for (seed, mode) in (0..).zip(MODES) {
        if mode.0 == Kind::Ext3 {
            continue;
        }
        shared(mode, seed, 40);
        // 17: with `flush-ahead`, another task gives blocks back between a refusal and the look at
        // what is left.
        for seed in [0, 1, 2, 17] {
            simulated(seed, mode.1, || shared(mode, seed, 6));
        }
    }
}

#[test]
#[ignore = "minutes: 40 seeds in each mode, and threads"]
fn for_long() {
    ALL.for_long(100..140);
}
