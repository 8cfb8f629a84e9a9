//! The JSON Schemas of the result files. That they say what is written, and nothing else, is
//! tested by a validator of others, in the tests of the Python package.

use crate::program::{command, text, words};
use std::path::Path;

#[test]
fn the_published_schemas_are_those_that_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for of in [
        "compare",
        "crash",
        "crash-dir",
        "paper",
        "campaign",
        "campaign-status",
    ] {
        let out = command().args(["schema", of]).output().unwrap();
        assert!(out.status.success(), "{}", words(&out));
        let name = format!("docs/format/schemas/{of}.json");
        let published = std::fs::read_to_string(root.join(&name)).unwrap_or_default();
        assert!(
            text(&out.stdout) == published,
            "make it again: varve schema {of} > {name}"
        );
    }
}

#[test]
fn another_word_is_refused_with_those_that_there_are() {
    let out = command().args(["schema", "fsck"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let said = words(&out);
    assert!(
        said.contains("fsck") && said.contains("crash-dir"),
        "{said}"
    );
}
