//! One crash test, and the part of it that this process plays.

use crate::outcome::Outcome;
use crate::{caller, checker, paths};
use std::env;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::exit;

/// The variable that says which part a process plays.
pub const PART: &str = "VARVE_CRASH_TEST";
/// The variable that names the file which a process removes that plays its part.
pub const BEGUN: &str = "VARVE_CRASH_TEST_BEGUN";

/// How a part ends that fails, as a harness of Rust does with a failed test.
const FAILED: i32 = 101;

/// A function that gets the directory.
pub type Step = Box<dyn Fn(&Path) -> Result<(), String>>;
/// A function that judges a tree, given the acknowledgements.
pub type Check = Box<dyn Fn(&Path, &[String]) -> Result<(), String>>;

/// What the attribute knows of a test.
pub struct Case<'a> {
    /// The package of the function, where Cargo builds it.
    pub package: Option<&'a str>,
    /// The module of the function, with the crate.
    pub module: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What is recorded.
    pub run: Step,
    /// What runs before.
    pub setup: Option<Step>,
    /// What judges.
    pub check: Option<Check>,
    /// Names and values of options of the program; an empty value is none.
    pub options: &'a [(&'a str, &'a str)],
}

/// A step of any function that fits. It says what type the parameter of a closure has.
pub fn step<F, T>(function: F) -> Step
where
    F: Fn(&Path) -> T + 'static,
    T: Outcome,
{
    Box::new(move |dir| function(dir).outcome())
}

/// A check of any function that fits.
pub fn check<F, T>(function: F) -> Check
where
    F: Fn(&Path, &[String]) -> T + 'static,
    T: Outcome,
{
    Box::new(move |dir, acked| function(dir, acked).outcome())
}

/// Plays the part that is asked for; without one this is the test itself.
///
/// # Panics
/// The test fails.
#[track_caller]
pub fn run(case: &Case<'_>) {
    let part = variable(PART);
    let part = part.as_deref().map(|part| part.to_string_lossy());
    match part.as_deref() {
        None => caller::test(case),
        Some("run") => play(|| {
            begun()?;
            step_in_dir(&case.run)
        }),
        Some("setup") => play(|| step_in_dir(asked_for(case.setup.as_ref()))),
        Some("check") => play(|| {
            let served = checker::serve(asked_for(case.check.as_ref()));
            served.map_err(|e| format!("answering the program varve: {e}"))
        }),
        Some(other) => panic!("${PART} is set to {other:?}, which is no part of a crash test"),
    }
}

fn asked_for<T>(part: Option<&T>) -> &T {
    part.expect("it was asked for because it is there")
}

/// Plays a part and ends the process, whatever becomes of it: what the harness prints afterwards is
/// of no use, and one that expects a panic would end with success because the part has failed.
fn play(part: impl FnOnce() -> Result<(), String>) {
    let code = match catch_unwind(AssertUnwindSafe(part)) {
        Ok(Ok(())) => 0,
        Ok(Err(why)) => {
            eprintln!("{why}");
            FAILED
        }
        // Its words were printed when it began.
        Err(_) => FAILED,
    };
    exit(code);
}

/// Runs a step in the directory of the program.
fn step_in_dir(step: &Step) -> Result<(), String> {
    let dir = variable("VARVE_DIR").map(PathBuf::from);
    step(&dir.expect("`varve crash --dir` names the directory in $VARVE_DIR"))
}

/// Removes the file whose presence says that no test was found. The first of several runs has done
/// that.
fn begun() -> Result<(), String> {
    let Some(begun) = variable(BEGUN).map(PathBuf::from) else {
        return Ok(());
    };
    match std::fs::remove_file(&begun) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(format!("{}: {e}", begun.display())),
        _ => Ok(()),
    }
}

/// A variable of the environment, which is how the program and its caller talk to this process.
#[allow(
    clippy::disallowed_methods,
    reason = "whoever starts this process says by variables what it shall do"
)]
pub fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name)
}

impl Case<'_> {
    /// The name by which the harness knows the test.
    pub fn harness_name(&self) -> String {
        paths::harness_name(self.module, self.name)
    }
}
