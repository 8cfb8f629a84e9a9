//! The parts that the processes of a crash test play.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Does what `varve crash --dir` does with its commands, but for the cuts: it prints its options,
/// and runs the commands of `--setup` and `--run` in a directory.
const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$@" > "$here/options"
while [ $# -gt 0 ]; do
    case $1 in --setup) setup=$2 ;; --run) run=$2 ;; --runs) runs=$2 ;; esac
    shift
done
mkdir -p "$here/dir"
cd "$here/dir"
export VARVE_DIR="$PWD" VARVE_ACKS="$here/acks"
: > "$VARVE_ACKS"
sh -c "$setup" >&2 || exit 1
for n in $(seq ${runs:-1}); do
    sh -c "$run" >&2
    echo $? >> "$here/ended"
done
grep -qvx 0 "$here/ended" && exit 1
exit 0
"#;

fn program() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("varve");
    fs::write(&file, PROGRAM).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn started(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("fixtures::{test}"), "--include-ignored"]);
    command.env_remove("VARVE").env("RUST_BACKTRACE", "0");
    command
}

/// What a test says, and whether it passes.
fn said(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

fn with_program(test: &str) -> (TempDir, bool, String) {
    let folder = program();
    let (good, said) = said(started(test).env("VARVE", folder.path().join("varve")));
    (folder, good, said)
}

#[test]
fn setup_and_run_get_the_directory_and_acknowledge() {
    let (folder, good, said) = with_program("saves");
    assert!(good, "{said}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("dir/saved"), "x");
    assert_eq!(read("acks"), "one\ntwo\n");
    let options = read("options");
    assert!(options.starts_with("crash --dir --out "), "{options}");
    assert!(
        options.ends_with("1>&2 --model posix --allow-failure\n"),
        "{options}"
    );
}

#[test]
fn a_run_that_fails_fails_the_test_with_its_words() {
    let (_folder, good, said) = with_program("fails");
    assert!(!good && said.contains("varve crash: "), "{said}");
    assert!(said.contains("no room for the configuration"), "{said}");
    // At the place of the user's test.
    assert!(said.contains("tests/it/fixtures.rs:"), "{said}");
}

#[test]
fn each_of_several_runs_runs_the_test() {
    let (folder, good, said) = with_program("runs_twice");
    assert!(good, "{said}");
    let runs = fs::read_to_string(folder.path().join("dir/runs")).unwrap();
    assert_eq!(runs, "run\nrun\n");
}

/// A harness that expects a panic ends with success where a part panics.
#[test]
fn a_part_that_fails_does_so_where_a_panic_is_expected() {
    let (folder, ..) = with_program("should_panic_and_fails");
    let ended = fs::read_to_string(folder.path().join("ended")).unwrap();
    assert_eq!(ended, "101\n");
    let (folder, ..) = with_program("should_panic_in_setup");
    assert!(folder.path().join("options").exists(), "it was started");
    assert!(!folder.path().join("dir/ran").exists(), "the setup failed");
}

#[test]
fn a_harness_that_does_not_know_the_test_is_told() {
    let (_folder, good, said) = with_program("of_another_harness");
    assert!(!good, "{said}");
    assert!(
        said.contains("runs no test for `--exact fixtures::of_no_harness`"),
        "{said}"
    );
}

#[test]
fn without_the_program_it_is_said_what_to_do() {
    let (good, words) = said(started("saves").env("PATH", "/nowhere"));
    assert!(
        !good && words.contains("put it on the path, or name it in $VARVE"),
        "{words}"
    );
    let (good, words) = said(started("saves").env("VARVE", "/nowhere/varve"));
    assert!(
        !good && words.contains("$VARVE is /nowhere/varve, which is no program"),
        "{words}"
    );
}

/// The answers of the part that judges, about trees with these verdicts.
fn answers(verdicts: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let acked = folder.path().join("acked");
    fs::write(&acked, "one\ntwo\n").unwrap();
    let tree = |verdict: &str| {
        let tree = folder.path().join(verdict);
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("verdict"), verdict).unwrap();
        tree
    };
    let line = |tree: &Path| format!("{}\t{}\n", tree.display(), acked.display());
    let lines: String = verdicts
        .iter()
        .map(|verdict| line(&tree(verdict)))
        .collect();
    let exe = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "exec \"$0\" --exact fixtures::saves --include-ignored --nocapture 3>&1 1>&2",
    ]);
    shell.arg(exe).env("VARVE_CRASH_TEST", "check");
    shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = shell.spawn().unwrap();
    server
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    answers.lines().map(String::from).collect()
}

#[test]
fn a_check_rejects_by_a_panic_or_an_error_and_goes_on() {
    let answers = answers(&["good", "torn", "error", "good2"]);
    let [good, torn, error, last] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(good, "ok");
    let words =
        "bad assertion `left == right` failed: the verdict; left: \"torn\"; right: \"good\" (";
    assert!(
        torn.starts_with(words) && torn.contains("fixtures.rs:"),
        "{torn}"
    );
    assert!(
        error.starts_with("bad ") && error.contains("[\"one\", \"two\"]"),
        "{error}"
    );
    assert!(last.contains("good2"), "{last}");
}
