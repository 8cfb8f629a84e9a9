//! What fast commits risk: each mistake of others (`fast-commit+bug=NAME`) is found where writer
//! and recovery make it, or the one of them that alone can, and nothing where one of them works as
//! Varve does. docs/results/fast-commit.md has the table.

use super::{REACH, case};
use varve_crash::campaign::{BATCH, explore};
use varve_crash::case::Volumes;

const DISK: &str = "spec:emmc";
/// The area holds fast commits of an earlier life.
const USED: &str = "spec:emmc,area=used";
/// With a multiple of 3 no timer commits.
const SEED: u64 = 3;

/// Blocks of the area in the volumes of crash tests: an fsync takes one.
const AREA: usize = 256;

/// Violations of a scheme.
fn violations(scheme: &str, device: &str, workload: &str) -> u64 {
    let setup = case(scheme, device, workload, SEED).setup(&mut Volumes::default());
    let explored = explore(&setup.expect("a case"), &REACH, BATCH, &mut |_| {}).expect("a run");
    assert_eq!(explored.failure, None, "{scheme}");
    assert!(explored.judged > 5, "{scheme}: {} states", explored.judged);
    explored.violations
}

/// `safe`: who has to be as Varve so that nothing is lost.
fn is_found(bug: &str, (device, workload): (&str, &str), safe: &[&str]) {
    for order in ["fast-commit", "fast-commit+adaptive"] {
        let scheme = format!("{order}+bug={bug}");
        let found = violations(&scheme, device, workload);
        assert!(found > 0, "{scheme} is not found");
        assert_eq!(violations(order, device, workload), 0, "{order}");
        for side in safe {
            let scheme = format!("{scheme}+bug-in={side}");
            assert_eq!(violations(&scheme, device, workload), 0, "{scheme}");
        }
    }
}

/// What one of them does right is enough.
const EITHER: &[&str] = &["writer", "recovery"];

#[test]
fn an_area_that_is_full() {
    let syncs = "; write f 0+1k; fsync f".repeat(AREA + 2);
    is_found(
        "full-area",
        (DISK, &format!("create f; sync{syncs}")),
        EITHER,
    );
}

#[test]
fn attributes_of_an_older_inode() {
    let workload =
        "create old; setxattr old user.secret old; sync; unlink old; create new; fsync new";
    is_found("xattr", (DISK, workload), EITHER);
}

/// Recovery by Varve counts the block of attributes; a writer like Varve tells of no such file.
#[test]
fn a_file_with_a_block_of_attributes() {
    let value = "v".repeat(300);
    let workload = format!("create f; setxattr f user.long {value}; sync; write f 0+8k; fsync f");
    is_found("xattr-block", (DISK, &workload), EITHER);
}

/// So many new files, each synced, that the one block of the root has no room for the last ones.
fn a_directory_that_grows() -> String {
    let name = |n: usize| format!("{n:a>250}");
    let syncs = |n| format!("; create {0}; fsync {0}", name(n));
    let all: String = (0..18).map(syncs).collect();
    format!("create begin; sync{all}")
}

/// Whatever writes the log: recovery ends at the first name without room.
#[test]
fn a_directory_without_room() {
    is_found("full-directory", (DISK, &a_directory_that_grows()), &[]);
}

/// Whatever writes the log: recovery does not count the new block.
#[test]
fn a_directory_that_gets_a_block() {
    is_found("directory-blocks", (DISK, &a_directory_that_grows()), &[]);
}

/// Recovery by Varve counts the links; a writer like Varve tells of no directory.
#[test]
fn a_file_in_a_new_directory() {
    let workload = "create a; sync; mkdir d; create d/f; write d/f 0+4k; fsync d/f";
    is_found("new-directory", (DISK, workload), EITHER);
}

#[test]
fn an_area_that_is_not_cleared() {
    let workload = "create a; sync; create b; fsync b; sync; chmod b 600; fsync b";
    is_found("no-clear", (USED, workload), &[]);
    assert_eq!(
        violations("fast-commit+bug=no-clear", DISK, workload),
        0,
        "zeros"
    );
}

/// Whatever writes the log.
#[test]
fn a_full_commit_that_recovery_does_not_see() {
    // `sync` brings home what it commits, the fsync of a directory in the order of Linux does not;
    // a change that no fast commit can tell leads to a full one in both orders.
    let workload = "create a; setxattr a user.n 1; fsync a; create b; fsync b";
    is_found("unseen-commit", (DISK, workload), &[]);
}

/// One task has its transactions committed in full, because no fast commit can tell of attributes;
/// what the other one does meanwhile is forgotten.
#[test]
fn what_happens_during_a_full_commit() {
    let full: String = (0..12)
        .map(|n| format!("; setxattr a user.n{n} 1; fsync a"))
        .collect();
    let small: Vec<String> = (0..12)
        .map(|n| format!("create b{n}; write b{n} 0+4k; pause 200us; fsync b{n}"))
        .collect();
    let workload = format!("create a{full} | {}", small.join("; "));
    is_found("missed-actions", (DISK, &workload), &[]);
}
