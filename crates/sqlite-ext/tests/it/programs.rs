//! A program in C that loads the extension: plain, with AddressSanitizer, under valgrind. And what
//! the extension is made of.

use crate::common::{Place, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compiled(place: &Place, flags: &[&str]) -> PathBuf {
    let program = place.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"]);
    cc.args(flags);
    cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/loads.c"));
    cc.arg("-o").arg(&program).args(["-lsqlite3", "-lpthread"]);
    succeeds(&mut cc);
    program
}

fn passes(place: &Place, mut command: Command) -> String {
    let text = succeeds(command.current_dir(place.path()));
    assert!(text.contains("all checks passed"), "{text}");
    place.e2fsck();
    text
}

#[test]
fn a_program_in_c_loads_it() {
    let place = Place::new();
    passes(&place, Command::new(compiled(&place, &[])));
}

#[test]
fn address_sanitizer_finds_nothing() {
    let place = Place::new();
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover"];
    passes(&place, Command::new(compiled(&place, &flags)));
}

#[test]
fn valgrind_finds_nothing() {
    let place = Place::new();
    let program = compiled(&place, &[]);
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ]);
    valgrind.arg(program);
    let text = passes(&place, valgrind);
    assert!(text.contains("ERROR SUMMARY: 0 errors"), "{text}");
}

#[test]
fn it_holds_no_sqlite_of_its_own() {
    let place = Place::new();
    let library = place.path().join("varve.so");
    let text = succeeds(Command::new("nm").arg(&library));
    let mut ours: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    ours.retain(|name| name.starts_with("sqlite3_") || name.starts_with("sqlite3V"));
    ours.sort_unstable();
    let entries = [
        "sqlite3_extension_init",
        "sqlite3_varve_init",
        "sqlite3_varvesqlite_init",
    ];
    assert_eq!(ours, entries);
}
