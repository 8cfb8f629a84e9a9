//! The clients that send anything, 130,000 of them: what 32 or 64 of each do in the short suite.

use crate::{nbd, vhost};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

fn many<S: Strategy>(
    cases: u32,
    strategy: &S,
    bears: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = ProptestConfig {
        cases,
        ..ProptestConfig::default()
    };
    let done = TestRunner::new(config).run(strategy, bears);
    done.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
#[ignore = "minutes"]
fn many_options_of_nbd() {
    many(40_000, &nbd::any_options(), nbd::bears_options);
}

#[test]
#[ignore = "minutes"]
fn many_requests_of_nbd() {
    many(20_000, &nbd::any_requests(), nbd::bears_requests);
}

#[test]
#[ignore = "minutes"]
fn many_messages_of_vhost_user() {
    many(40_000, &vhost::any_messages(), vhost::bears_messages);
}

#[test]
#[ignore = "minutes"]
fn many_rings() {
    many(20_000, &vhost::any_tables(), vhost::bears_rings);
}

#[test]
#[ignore = "minutes"]
fn much_memory_that_changes_meanwhile() {
    many(10_000, &vhost::any_pokes(), vhost::bears_pokes);
}
