//! `docs/use/posix-model.md` shows the rules of the model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::Path;
use varve_program::posix::page;

#[test]
fn the_page_shows_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/posix-model.md");
    if std::env::var_os("VARVE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let shown = std::fs::read_to_string(&path).unwrap();
    assert!(
        shown == page(),
        "docs/use/posix-model.md does not show the rules of crates/program/src/posix/rules.rs (VARVE_BLESS=1 writes it anew)"
    );
}
