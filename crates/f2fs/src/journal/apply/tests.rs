//! Tests applies that take some of the committed epochs, one at a time.

use crate::F2fs;
use crate::journal::capture::hooks_tests::mounted;
use crate::journal::{CommitReason, Epoch};
use crate::ops::Cause;
use base::Ino;
use fscore::{Creds, FileKind, FileSystem};
use ondisk::f2fs::{BlockAddr, Nid};
use rt::{Sim, SimConfig};

fn create(fs: &F2fs) -> Ino {
    let creds = Creds::default();
    let made = fs.create(fs.root(), b"file", FileKind::File, 0o644, 0, creds);
    made.expect("made").ino
}

fn commit(fs: &F2fs) -> Epoch {
    fs.commit_all(CommitReason::Settle).expect("committed");
    fs.journal.as_ref().expect("a journal").last_committed()
}

fn apply(fs: &F2fs, target: Epoch) {
    let journal = fs.journal.as_ref().expect("a journal");
    fs.apply_target(journal, Cause::Sync, || target)
        .expect("applied");
}

/// home-T5: a number is freed, given out, and freed again, each in an epoch of its own, before the
/// first of these is applied. Between the second and the third home has a node of which live has
/// nothing, and live says what home said before.
fn a_number_that_turned_twice(more: &str) {
    let fs = mounted(more);
    let ino = create(&fs);
    let born = commit(&fs);
    apply(&fs, born);
    let mut epochs = Vec::new();
    for _ in 0..2 {
        fs.unlink(fs.root(), b"file").expect("removed");
        epochs.push(commit(&fs));
        if epochs.len() == 1 {
            assert_eq!(create(&fs), ino, "the number is given out again");
            epochs.push(commit(&fs));
        }
    }
    let &[freed, reborn, freed_again] = &epochs[..] else {
        panic!("three epochs: {epochs:?}");
    };
    apply(&fs, freed);
    let before = fs.segs.valid_blocks();
    apply(&fs, reborn);
    let live = fs.nat.get(Nid(ino.0)).expect("an entry");
    assert_eq!(live.addr, BlockAddr::NULL, "home-T5: live has a node again");
    let after = fs.segs.valid_blocks();
    assert_eq!(before, after, "home-T5: the block of a node that is gone");
    apply(&fs, freed_again);
    fs.check();
    fs.check_home();
    fs.unmount().expect("unmounted");
}

#[test]
fn a_number_that_was_freed_given_out_and_freed_again_leaves_nothing() {
    let none = "records=pages,lists=global,switch=wait,fast-forward=off";
    for more in ["", "fast-forward=off", none] {
        let outcome = Sim::new(SimConfig::seeded(3)).run(|| a_number_that_turned_twice(more));
        if let Some(failure) = outcome.first_failure {
            panic!("{more}: {failure} {}", outcome.replay);
        }
    }
}
