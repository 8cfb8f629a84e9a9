//! `docs/use/guarantees.md` shows the rules by which the oracle of the crash explorer decides.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::Path;
use varve_crash::guarantees::page;

#[test]
fn the_page_shows_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/guarantees.md");
    if std::env::var_os("VARVE_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let shown = std::fs::read_to_string(&path).unwrap();
    assert!(
        shown == page(),
        "docs/use/guarantees.md does not show the rules of crates/crash/src/rules.rs (VARVE_BLESS=1 writes it anew)"
    );
}
