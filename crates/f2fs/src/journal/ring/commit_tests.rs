//! Tests commits that must fail.

use crate::journal::UsageDelta;
use crate::journal::capture::hooks_tests::mounted;
use fscore::{Creds, FileKind, FileSystem};
use rt::{Sim, SimConfig};

/// f2fs-journal-I3, f2fs-commit-K7: counts that a commit block cannot say are an error of the
/// mount, and no panic.
#[test]
fn counts_below_zero_latch_the_mount() {
    let wrong = [
        UsageDelta {
            blocks: -(1 << 40),
            ..UsageDelta::default()
        },
        UsageDelta {
            nodes: -(1 << 33),
            ..UsageDelta::default()
        },
        UsageDelta {
            inodes: 1 << 33,
            ..UsageDelta::default()
        },
    ];
    for delta in wrong {
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let fs = mounted("");
            let create = |name: &[u8]| {
                let creds = Creds::default();
                fs.create(fs.root(), name, FileKind::File, 0o644, 0, creds)
            };
            create(b"before").expect("made");
            fs.sync().expect("synced");
            fs.with_op(|op| op.tx().expect("a journal").count(delta));
            let refused = fs.sync().expect_err("the counts are wrong").to_string();
            assert!(refused.contains("in use"), "{refused}");
            let committed = fs.journal_stats().expect("a journal").committed;
            let latched = create(b"after").and_then(|_| fs.sync());
            assert!(latched.is_err(), "f2fs-commit-K7: {delta:?}");
            let now = fs.journal_stats().expect("a journal").committed;
            assert_eq!(committed, now, "f2fs-commit-K7");
        });
        assert!(
            outcome.first_failure.is_none(),
            "{:?}",
            outcome.first_failure
        );
    }
}
