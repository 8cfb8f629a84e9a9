//! `varve.h` is what the sources say.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    // What `lib.rs` names as modules is read with it; named here as well it would stand twice.
    let made = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/lib.rs"));
    let mut text = Vec::new();
    made.generate().unwrap().write(&mut text);
    let path = root.join("include/varve.h");
    // The front end of a test, read here only to write a file.
    #[allow(clippy::disallowed_methods)]
    if std::env::var_os("VARVE_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let there = std::fs::read(&path).unwrap_or_default();
    assert!(
        there == text,
        "include/varve.h differs from the sources; VARVE_BLESS=1 cargo test -p varve-capi header"
    );
}
