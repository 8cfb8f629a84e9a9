//! Programs in C: plain, with AddressSanitizer, under valgrind; e2fsck judges their images.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a link of `libvarve.a` needs of the host.
const LIBRARIES: [&str; 5] = ["-lpthread", "-ldl", "-lm", "-lrt", "-lgcc_s"];

const SANITIZED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover"];

/// A program that fails where valgrind finds a mistake.
fn under_valgrind(program: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ]);
    valgrind.arg(program);
    valgrind
}

/// The library, in the folder in which the tests are built. `cargo test` does not build it for
/// them, because no Rust program can use it; `cargo xtask test` does.
// Tests have no front end that could pass it down.
#[allow(clippy::disallowed_methods)]
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let built = program.ancestors().nth(2).unwrap();
    if std::env::var_os("VARVE_TEST_BUILT").is_some() {
        return built.join("libvarve.a");
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "varve-capi",
        "--lib",
        "--target-dir",
    ]);
    succeeds(cargo.arg(built.parent().unwrap()));
    built.join("libvarve.a")
}

pub fn text_of(out: &Output) -> String {
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Compiles a program of this crate into `folder`.
pub fn compiled(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let out = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg(library())
        .args(LIBRARIES)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a C compiler");
    assert!(out.status.success(), "{}", text_of(&out));
    program
}

fn succeeds(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let text = text_of(&out);
    assert!(out.status.success(), "{command:?}: {}\n{text}", out.status);
    text
}

fn judged_by_e2fsck(image: &Path) {
    succeeds(Command::new("e2fsck").arg("-fn").arg(image));
}

#[test]
fn all_calls_work_and_all_mistakes_are_codes() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.img");
    let program = compiled(folder.path(), "tests/c/all.c", &[]);
    let text = succeeds(Command::new(&program).arg(&image));
    assert!(text.contains("all checks passed"), "{text}");
    judged_by_e2fsck(&image);
}

#[test]
fn address_sanitizer_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.img");
    let program = compiled(folder.path(), "tests/c/all.c", &SANITIZED);
    let text = succeeds(Command::new(&program).arg(&image));
    assert!(text.contains("all checks passed"), "{text}");
    judged_by_e2fsck(&image);
}

#[test]
fn valgrind_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.img");
    let program = compiled(folder.path(), "tests/c/all.c", &[]);
    let text = succeeds(under_valgrind(&program).arg(&image));
    assert!(text.contains("all checks passed"), "{text}");
    assert!(text.contains("ERROR SUMMARY: 0 errors"), "{text}");
    judged_by_e2fsck(&image);
}

/// As a packager links: the program asks for the library by the version of the interface.
#[test]
fn the_shared_library_has_the_version_of_the_interface_in_its_name() {
    let shared = library().with_extension("so");
    let text = succeeds(Command::new("readelf").arg("-d").arg(&shared));
    let header =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/varve.h"));
    let header = header.unwrap();
    let version = header
        .lines()
        .find_map(|line| line.strip_prefix("#define VARVE_ABI_VERSION "))
        .expect("the header has the version");
    assert!(text.contains(&format!("[libvarve.so.{version}]")), "{text}");
}

/// Most memory that the example may take, KiB: 4 MiB, of the 16 that its device has.
const EXAMPLE_KIB_MAX: u64 = 4 << 10;

/// What the example said of its own memory when all was written, KiB: without the pages of program
/// files, which the host shares and drops as it likes.
fn memory_of_example(said: &str) -> u64 {
    let line = said
        .lines()
        .find_map(|l| l.strip_prefix("mounted RssAnon:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB"));
    let kib = kib.and_then(|kib| kib.trim().parse().ok());
    kib.unwrap_or_else(|| panic!("no line of memory: {said}"))
}

#[test]
fn the_example_runs_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("stick.img");
    let program = compiled(folder.path(), "examples/callbacks.c", &["-O2"]);
    for boot in 1..=2 {
        let text = succeeds(Command::new(&program).arg(&image));
        assert!(text.contains(&format!("booted {boot} times")), "{text}");
        let kib = memory_of_example(&text);
        assert!(kib <= EXAMPLE_KIB_MAX, "{kib} KiB: {text}");
    }
    judged_by_e2fsck(&image);
}

#[test]
fn no_tool_finds_a_mistake_in_the_example() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("stick.img");
    let program = compiled(folder.path(), "examples/callbacks.c", &SANITIZED);
    let text = succeeds(Command::new(&program).arg(&image));
    assert!(text.contains("booted 1 times"), "{text}");
    let program = compiled(folder.path(), "examples/callbacks.c", &[]);
    let text = succeeds(under_valgrind(&program).arg(&image));
    assert!(text.contains("booted 2 times"), "{text}");
    assert!(text.contains("ERROR SUMMARY: 0 errors"), "{text}");
    judged_by_e2fsck(&image);
}
