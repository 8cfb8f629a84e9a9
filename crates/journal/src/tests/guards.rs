//! Removes steps of the plan and of recovery that have no hazard number, one at a time: the crash
//! test must notice each, otherwise it is blind there. Guards with a hazard number are removed in
//! `tests/mutants.rs`.

use super::crash::explore;
use super::*;
use crate::{Action, plan_of};
use base::Tid;
use base::bytes::put_be32;
use ondisk::jbd2::{BlockKind, Header};

/// Histories until the violation has to have been found.
const HISTORIES: u64 = 400;

const FIRST: u64 = 1_000_000;
const CUTS: u64 = 12;

fn must_be_noticed(name: &str, broken: Broken) {
    let found = explore(FIRST..FIRST + HISTORIES, CUTS, broken, jbd2());
    assert!(found.is_err(), "nobody noticed: {name}");
}

fn jbd2() -> crate::Scheme {
    crate::Preset::Jbd2.scheme().expect("journaled")
}

fn plan_without(action: Action) -> &'static [Step] {
    let plan = plan_of(&jbd2());
    let kept: Vec<Step> = plan
        .iter()
        .copied()
        .filter(|s| s.action != action)
        .collect();
    kept.leak()
}

/// Without it the other tests of this file would prove nothing.
#[test]
fn the_guarded_code_passes_the_same_cuts() {
    explore(FIRST..FIRST + HISTORIES, CUTS, Broken::NOTHING, jbd2()).expect("no violation");
}

#[test]
fn skipped_flush_is_noticed() {
    let plan = Some(plan_without(Action::Flush));
    must_be_noticed(
        "no flush before the commit record",
        Broken {
            plan,
            ..Broken::NOTHING
        },
    );
}

#[test]
fn missing_log_start_is_noticed() {
    let plan = Some(plan_without(Action::LogStart));
    must_be_noticed(
        "the superblock still says empty",
        Broken {
            plan,
            ..Broken::NOTHING
        },
    );
}

#[test]
fn skipped_revoke_pass_is_noticed() {
    must_be_noticed(
        "no revoke pass",
        Broken {
            skip_revoke_pass: true,
            ..Broken::NOTHING
        },
    );
}

/// A log whose next free block holds, from an older round, an image that looks like the next commit
/// block.
fn image_posing_as_commit() -> Rig {
    let rig = Rig::new(60, 16);
    let journal = rig.start(Options {
        checksum_v3: false,
        ..quiet()
    });
    let mut fake = vec![0; BLOCK_BYTES];
    Header {
        kind: BlockKind::Commit,
        tid: Tid(6),
    }
    .encode(&mut fake);
    put_be32(&mut fake, 100, 1);
    let commit = |blocks: &[(u64, Bytes)]| {
        let mut handle = journal.start(2).expect("room");
        for (n, content) in blocks {
            handle
                .create(rig.first().plus(*n), content.clone())
                .expect("credit");
        }
        journal
            .commit(handle.finish().expect("runs"))
            .expect("commits");
    };
    // The ring has 15 blocks; each of these takes 3, the image of the first lies at position 1.
    commit(&[(0, fake.into())]);
    for n in 1..4 {
        commit(&[(n, filled(n as u8))]);
    }
    journal.checkpoint_all().expect("home");
    // Four more: the head is at position 16, which is position 1 again.
    commit(&[(4, filled(4)), (5, filled(5))]);
    crash(&journal);
    rig
}

#[test]
fn image_posing_as_commit_is_escaped() {
    let good = image_posing_as_commit();
    let (_, report) = good.recover().expect("recovers");
    assert_eq!((report.transactions, report.end), (1, Tid(6)));
}

/// Half an operation, dropped by an early return; the outcome of a later commit.
fn drop_in_the_middle() -> Result<(), JournalError> {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    let mut half = journal.start(2).expect("room");
    half.create(rig.first(), filled(1)).expect("credit");
    drop(half);
    let result = journal.start(1).and_then(|mut h| {
        h.create(rig.first().plus(1), filled(2))?;
        journal.commit(h.finish()?)
    });
    if result.is_err() {
        assert!(journal.aborted().expect("latched").contains("dropped"));
        assert_eq!(
            rig.disk.content(1),
            empty_log_with_errno(&rig),
            "only the error is on disk"
        );
    }
    journal.abort("end of test");
    let _ = journal.stop();
    result
}

/// The superblock as found: the abort may have been recorded, nothing else.
fn empty_log_with_errno(rig: &Rig) -> Bytes {
    let found = Superblock::parse(&rig.disk.content(1)).expect("valid");
    assert!(found.is_clean() && found.sequence() == Tid(1));
    rig.disk.content(1)
}

#[test]
fn dropped_handle_aborts() {
    assert!(matches!(
        drop_in_the_middle(),
        Err(JournalError::Aborted { .. })
    ));
}
