//! Crash tests that the tests in `parts` start.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use varve_crash_test::{ack, crash_test, made};

#[crash_test(setup = begin, check = judge, model = "posix", allow_failure = true)]
#[ignore = "started by a test"]
fn saves(dir: &Path) -> Result<()> {
    assert_eq!(fs::read_to_string(dir.join("begun"))?, "yes");
    assert_eq!(fs::canonicalize(".")?, fs::canonicalize(dir)?);
    fs::write(dir.join("saved"), "x")?;
    ack("one");
    ack("two");
    Ok(())
}

fn begin(dir: &Path) -> Result<()> {
    fs::write(dir.join("begun"), "yes")
}

/// Panics, fails or is content, by what is in the file `verdict`.
fn judge(dir: &Path, acked: &[String]) -> Result<()> {
    let verdict = fs::read_to_string(dir.join("verdict"))?;
    match verdict.as_str() {
        "good" => Ok(()),
        "error" => Err(Error::other(format!("acknowledged: {acked:?}"))),
        other => {
            assert_eq!(other, "good", "the verdict");
            Ok(())
        }
    }
}

#[crash_test(check = |_dir, _acked| (), )]
#[ignore = "started by a test"]
fn fails(_dir: &Path) -> std::result::Result<(), &'static str> {
    Err("no room for the configuration")
}

#[crash_test(check = |_dir, _acked| (), runs = 2, allow_failure = true)]
#[ignore = "started by a test"]
fn runs_twice(dir: &Path) -> Result<()> {
    use std::io::Write;
    let mut runs = fs::File::options()
        .append(true)
        .create(true)
        .open(dir.join("runs"))?;
    runs.write_all(b"run\n")
}

#[crash_test(check = |_dir, _acked| ())]
#[should_panic]
#[ignore = "started by a test"]
fn should_panic_and_fails(_dir: &Path) -> std::result::Result<(), &'static str> {
    Err("no room")
}

#[crash_test(setup = panics, check = |_dir, _acked| ())]
#[should_panic]
#[ignore = "started by a test"]
fn should_panic_in_setup(dir: &Path) -> Result<()> {
    fs::write(dir.join("ran"), "")
}

fn panics(_dir: &Path) {
    panic!("the setup");
}

/// A test whose name is not the one that the harness knows.
#[test]
#[ignore = "started by a test"]
fn of_another_harness() {
    made::run(&made::Case {
        package: None,
        module: module_path!(),
        name: "of_no_harness",
        run: made::step(|_| ()),
        setup: None,
        check: Some(made::check(|_, _| ())),
        options: &[],
    });
}
