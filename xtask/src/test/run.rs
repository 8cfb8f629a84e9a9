//! Runs the suites, in two rows at once, and measures them.
//!
//! - R1: a suite above its budget fails, even if all its tests pass; at three times the budget it
//!   is stopped.
//! - R2: a suite of cargo tests in which no test ran fails, because a misspelt filter must not look
//!   like success.
//! - R3: a test program with tests that no suite names fails the run, so that a new crate cannot be
//!   forgotten.
//! - R4: if suites run only parts of a program, a test of it that is in none of these parts fails
//!   the run, so that a new module cannot be forgotten.

use super::build::{self, Built, Program};
use super::need::Machine;
use super::plan::{Need, Plan, Suite};
use super::rows::{Row, Rows};
use super::spent::{self, Spent, Watch};
use super::tally::{Counts, Tally};
use crate::uring::Switched;
use crate::{Result, workspace};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tells tests of mounts which transport they are to use.
const TRANSPORT: &str = "VARVE_TEST_TRANSPORT";

/// Runs `suites` in two rows at once: those that run beside the others, and the others (see
/// [`Rows`]).
pub fn all(plan: &Plan, suites: &[&Suite], machine: &Machine, tally: &mut Tally) {
    let runs = |suite: &&&Suite| machine.lacks(plan, suite).is_none();
    let tests = suites.iter().filter(runs).any(|suite| suite.test.is_some());
    let built = match tests {
        true => compile(plan, tally),
        false => Ok(Built::default()),
    };
    let rows = Mutex::new(Rows::new(suites));
    let tally = Mutex::new(tally);
    let next = |row| locked(&rows).next(row);
    let work = |row| {
        while let Some(suite) = next(row) {
            match machine.lacks(plan, suite) {
                Some(reason) => locked(&tally).skip(&suite.name, &reason),
                None => one(suite, &built, &tally),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(Row::Beside));
        work(Row::Others);
    });
}

/// Runs a suite for which the machine has all.
fn one(suite: &Suite, built: &Result<Built>, tally: &Mutex<&mut Tally>) {
    let _switched = match switched(suite) {
        Ok(switched) => switched,
        Err(reason) => return locked(tally).skip(&suite.name, &reason),
    };
    let work: Result<Work> = match (&suite.run, built) {
        (Some(run), _) => Ok(Box::new(|watch| run_command(suite, run, built, watch))),
        (None, Ok(built)) => Ok(Box::new(|watch| {
            run_programs(suite, &built.programs, watch)
        })),
        (None, Err(reason)) => Err(reason.clone()),
    };
    match work {
        Ok(work) => report(suite, tally, work),
        Err(reason) => locked(tally).skip(&suite.name, &reason),
    }
}

/// What a suite does; the watch gets the processor time of its programs.
type Work<'a> = Box<dyn FnOnce(&Watch) -> Result<Counts> + 'a>;

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the suite needs to be on while it runs.
fn switched(suite: &Suite) -> Result<Option<Switched>> {
    let asked = suite.need.contains(&Need::Uring);
    asked.then(Switched::on).transpose()
}

/// Compiles the workspace, as a suite of its own.
fn compile(plan: &Plan, tally: &mut Tally) -> Result<Built> {
    let (watch, before) = (Watch::begin(), spent::of_children());
    println!("run   build");
    let built = build::compile();
    watch.add(spent::of_children().saturating_sub(before));
    let spent = watch.spent();
    let outcome = built
        .as_ref()
        .map(|_| Counts::one_passed())
        .map_err(Clone::clone);
    tally.suite(
        "build",
        outcome,
        spent,
        Duration::from_secs(plan.build_budget_s),
    );
    let built = built.map_err(|_| "the build failed".to_string())?;
    for name in forgotten(plan, &built.programs, has_tests) {
        let reason = format!("R3: no suite in tests.toml runs the tests of {name}");
        tally.suite(&name, Err(reason), Spent::default(), Duration::MAX);
    }
    for name in left_over(plan, &built.programs, list) {
        let reason = format!("R4: the filters of no suite in tests.toml choose {name}");
        tally.suite(&name, Err(reason), Spent::default(), Duration::MAX);
    }
    Ok(built)
}

/// Test programs that no suite names (R3).
fn forgotten(
    plan: &Plan,
    programs: &[Program],
    has_tests: impl Fn(&Program) -> bool,
) -> Vec<String> {
    let mut names: Vec<String> = programs
        .iter()
        .filter(|program| !plan.suite.iter().any(|suite| matches(suite, program)))
        .filter(|program| has_tests(program))
        .map(|program| format!("{} ({})", program.package, program.target))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Tests of divided programs that no suite runs (R4).
fn left_over(
    plan: &Plan,
    programs: &[Program],
    list: impl Fn(&Program) -> Option<Vec<String>>,
) -> Vec<String> {
    let mut names = Vec::new();
    for program in programs {
        let suites = plan.suite.iter().filter(|suite| matches(suite, program));
        let suites: Vec<&Suite> = suites.collect();
        let whole = |suite: &&Suite| !in_part(suite, program) && filters(suite).is_empty();
        // A program without a suite is found by R3.
        if suites.is_empty() || suites.iter().any(whole) {
            continue;
        }
        let chosen = |suite: &&Suite, test: &str| {
            let words = filters(suite);
            has_module(suite, program, test)
                && (words.is_empty() || words.iter().any(|word| test.contains(word)))
        };
        let left = list(program).unwrap_or_default().into_iter();
        let left = left.filter(|test| !suites.iter().any(|suite| chosen(suite, test)));
        names.extend(left.map(|test| format!("{} ({}) {test}", program.package, program.target)));
    }
    names
}

/// The words by which a suite chooses tests of its programs; empty if it runs all of them.
fn filters(suite: &Suite) -> Vec<&str> {
    let words = suite.args.iter().map(String::as_str);
    let before = [""].into_iter().chain(words.clone());
    let chosen = words.zip(before);
    let chosen = chosen.filter(|(word, before)| !word.starts_with('-') && *before != "--skip");
    chosen.map(|(word, _)| word).collect()
}

/// Asks the program for the names of its tests.
fn list(program: &Program) -> Option<Vec<String>> {
    let list = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .output();
    let text = String::from_utf8_lossy(&list.ok()?.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Some(names.map(String::from).collect())
}

/// True also for a program that does not answer.
fn has_tests(program: &Program) -> bool {
    list(program).is_none_or(|tests| !tests.is_empty())
}

fn matches(suite: &Suite, program: &Program) -> bool {
    suite.test.as_ref() == Some(&program.package)
        && suite
            .target
            .as_ref()
            .is_none_or(|target| target.split("::").next() == Some(&program.target))
        && !suite.but.contains(&program.target)
}

/// True if the suite chooses or leaves out modules of the program.
fn in_part(suite: &Suite, program: &Program) -> bool {
    let module = format!("{}::", program.target);
    let mut choices = suite.target.iter().chain(&suite.but);
    choices.any(|choice| choice.starts_with(&module))
}

/// True if the suite runs the module of this test, which is of a program that it runs.
fn has_module(suite: &Suite, program: &Program, test: &str) -> bool {
    let path = format!("{}::{test}", program.target);
    let below = |choice: &String| {
        let rest = path.strip_prefix(choice.as_str());
        rest.is_some_and(|rest| rest.starts_with("::"))
    };
    suite.target.as_ref().is_none_or(below) && !suite.but.iter().any(below)
}

/// The arguments with which the program runs the suite's tests; `None` if it has none of them.
fn arguments(suite: &Suite, program: &Program) -> Option<Vec<String>> {
    let mut arguments = suite.args.clone();
    if in_part(suite, program) {
        // Words choose by any part of a name: `crash::` would also be found in `names::crash::`.
        let tests = list(program).unwrap_or_default().into_iter();
        let tests = tests.filter(|test| has_module(suite, program, test));
        let before = arguments.len();
        arguments.extend(tests);
        if arguments.len() == before {
            return None;
        }
        arguments.push("--exact".into());
    }
    Some(arguments)
}

fn report(suite: &Suite, tally: &Mutex<&mut Tally>, work: Work) {
    println!("run   {}", suite.name);
    let _ = std::io::stdout().flush();
    let watch = Watch::begin();
    let outcome = work(&watch);
    let (spent, budget) = (watch.spent(), Duration::from_secs(suite.budget_s));
    locked(tally).suite(&suite.name, outcome, spent, budget);
}

fn run_command(
    suite: &Suite,
    run: &[String],
    built: &Result<Built>,
    watch: &Watch,
) -> Result<Counts> {
    let words: Vec<&str> = run.iter().map(String::as_str).collect();
    let mut command = match words[..] {
        ["cargo", "xtask", ref rest @ ..] => {
            let mut own = Command::new(own_program()?);
            for (word, before) in rest.iter().zip([""].iter().chain(rest)) {
                match (*before, *word) {
                    ("--program", "varve") => own.arg(varve(built)?),
                    (_, word) => own.arg(word),
                };
            }
            // Without `--varve` the program would be compiled again, with its own features alone.
            if matches!(rest.first(), Some(&("conformance" | "python"))) {
                own.arg("--varve").arg(varve(built)?);
            }
            own
        }
        ["varve", ref rest @ ..] => {
            let mut varve = Command::new(varve(built)?);
            varve.args(rest);
            varve
        }
        ["cargo", ref rest @ ..] => {
            let mut cargo = workspace::cargo();
            cargo.args(rest);
            cargo
        }
        [program, ref rest @ ..] => {
            let mut other = Command::new(program);
            other.args(rest);
            other
        }
        [] => return Err("nothing to run".into()),
    };
    command.current_dir(workspace::root());
    let (status, output) = run_logged(&mut command, suite, &suite.name, watch)?;
    let counts = Counts::parse(&output);
    match (status.success(), counts.total()) {
        (true, 0) => Ok(Counts::one_passed()),
        (true, _) => Ok(counts),
        (false, _) if counts.failed > 0 => Ok(shown(counts, &output)),
        (false, _) => Err(format!("{status}\n{output}")),
    }
}

/// The program `varve` as the tests start it.
fn varve(built: &Result<Built>) -> Result<PathBuf> {
    let built = built.as_ref().ok();
    let there = built.and_then(|built| built.binary("varve"));
    there.map_or_else(|| build::binary("varve"), Ok)
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| format!("cannot find our own program: {e}"))
}

fn run_programs(suite: &Suite, programs: &[Program], watch: &Watch) -> Result<Counts> {
    let mut sum = Counts::default();
    for program in programs.iter().filter(|program| matches(suite, program)) {
        let Some(arguments) = arguments(suite, program) else {
            continue;
        };
        let mut command = Command::new(&program.path);
        command.args(arguments).current_dir(&program.directory);
        command.env(build::BUILT, "1");
        let log = format!("{}-{}", suite.name, program.target);
        let (status, output) = run_logged(&mut command, suite, &log, watch)?;
        let counts = Counts::parse(&output);
        if !status.success() && counts.failed == 0 {
            return Err(format!("{}: {status}\n{output}", program.target));
        }
        sum += if counts.failed > 0 {
            shown(counts, &output)
        } else {
            counts
        };
    }
    if sum.passed + sum.failed == 0 {
        return Err("R2: no test ran".into());
    }
    Ok(sum)
}

/// Prints the output of a test program that counted failures.
fn shown(counts: Counts, output: &str) -> Counts {
    print!("{output}");
    counts
}

/// Runs a command to its end, or stops it at three times the budget. The output goes to a file, so
/// that a grandchild that keeps a pipe open cannot delay us.
fn run_logged(
    command: &mut Command,
    suite: &Suite,
    log: &str,
    watch: &Watch,
) -> Result<(ExitStatus, String)> {
    let path = log_path(log)?;
    let cannot = |e: std::io::Error| format!("{}: {e}", path.display());
    let file = File::create(&path).map_err(cannot)?;
    if suite.need.contains(&Need::Uring) {
        command.env(TRANSPORT, "uring");
    }
    if suite.need.contains(&Need::Guest) {
        command.envs(guest::told());
    }
    command
        .stdout(file.try_clone().map_err(cannot)?)
        .stderr(file);
    let limit = Duration::from_secs(suite.budget_s.saturating_mul(3));
    let status = wait(command, limit, watch);
    let output = String::from_utf8_lossy(&std::fs::read(&path).map_err(cannot)?).into_owned();
    match status {
        Ok(status) => Ok((status, output)),
        Err(reason) => Err(format!("{reason}; its output:\n{output}")),
    }
}

fn log_path(name: &str) -> Result<PathBuf> {
    let program = own_program()?;
    let directory = program
        .parent()
        .unwrap_or(Path::new("."))
        .join("xtask-logs");
    std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    Ok(directory.join(format!("{name}.log")))
}

fn wait(command: &mut Command, limit: Duration, watch: &Watch) -> Result<ExitStatus> {
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot start {command:?}: {e}"))?;
    let started = Instant::now();
    let mut stopped = false;
    while !has_ended(&child).map_err(|e| format!("cannot wait for {command:?}: {e}"))? {
        if !stopped && started.elapsed() > limit {
            stopped = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    watch.add(spent::of_ended(child.id()));
    let status = child.wait();
    match stopped {
        true => Err(format!("R1: stopped after {} s", limit.as_secs())),
        false => status.map_err(|e| format!("cannot wait for {command:?}: {e}")),
    }
}

/// True once the child has ended; it still waits to be asked how, so its times are still known.
fn has_ended(child: &Child) -> rustix::io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = waitid(WaitId::Pid(Pid::from_child(child)), options)?;
    Ok(ended.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(suites: &str) -> Plan {
        Plan::parse(&format!("build_budget_s = 1\n{suites}")).unwrap()
    }

    fn program(target: &str, script: &str) -> Program {
        let path = log_path(&format!("fake-{target}-{}", std::process::id())).unwrap();
        std::fs::write(&path, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let directory = workspace::root();
        Program {
            package: "p".into(),
            target: target.into(),
            path,
            directory,
        }
    }

    const SUITE: &str = "[[suite]]\nname = \"s\"\ntest = \"p\"\nbudget_s = 10\ntier = 1\n";

    #[test]
    fn counts_of_all_programs_are_added() {
        let line = "#!/bin/sh\necho 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'\n";
        let programs = [program("add-one", line), program("add-two", line)];
        let counts = run_programs(&plan(SUITE).suite[0], &programs, &Watch::begin()).unwrap();
        assert_eq!(
            counts,
            Counts {
                passed: 4,
                failed: 0,
                skipped: 2
            }
        );
    }

    #[test]
    fn a_program_that_dies_without_a_count_fails() {
        let programs = [program("dies", "#!/bin/sh\necho last words\nexit 3\n")];
        let error = run_programs(&plan(SUITE).suite[0], &programs, &Watch::begin()).unwrap_err();
        assert!(
            error.contains("last words") && error.contains("dies"),
            "{error}"
        );
    }

    #[test]
    fn a_suite_without_a_test_fails() {
        let line = "#!/bin/sh\necho 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured'\n";
        let error = run_programs(
            &plan(SUITE).suite[0],
            &[program("empty", line)],
            &Watch::begin(),
        )
        .unwrap_err();
        assert!(error.starts_with("R2"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_stopped() {
        let watch = Watch::begin();
        let limit = Duration::from_millis(50);
        let error = wait(Command::new("sleep").arg("600"), limit, &watch).unwrap_err();
        assert!(error.starts_with("R1"), "{error}");
    }

    #[test]
    fn the_time_of_a_program_and_of_what_it_starts_is_told() {
        let busy = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 3";
        let watch = Watch::begin();
        let limit = Duration::from_secs(60);
        let status = wait(Command::new("sh").args(["-c", busy]), limit, &watch).unwrap();
        assert_eq!(status.code(), Some(3));
        let spent = watch.spent();
        assert!(
            spent.cpu > Duration::ZERO && spent.cpu <= spent.wall * 2,
            "{spent:?}"
        );
    }

    #[test]
    fn suites_of_both_rows_are_run() {
        let suite = |name: &str, need: &str| {
            format!(
                "[[suite]]\nname = \"{name}\"\nrun = [\"true\"]\nbudget_s = 10\ntier = 1\n{need}"
            )
        };
        let guest = "need = [\"guest\"]\n";
        let names = [("a", ""), ("b", guest), ("c", ""), ("d", "beside = true\n")];
        let plan = plan(&names.map(|(name, need)| suite(name, need)).concat());
        let suites = plan.suite.iter().collect::<Vec<_>>();
        assert_eq!(
            plan.suite.iter().map(Suite::is_beside).collect::<Vec<_>>(),
            [false, true, false, true]
        );
        let mut tally = Tally::default();
        all(&plan, &suites, &Machine::default(), &mut tally);
        assert_eq!(tally.closing_lines(), "4 passed, 0 failed, 0 skipped\n");
    }

    #[test]
    fn a_crate_without_a_suite_is_found() {
        let fake = |target: &str| Program {
            package: "p".into(),
            target: target.into(),
            path: PathBuf::new(),
            directory: PathBuf::new(),
        };
        let programs = [fake("lib"), fake("cuts")];
        assert!(forgotten(&plan(SUITE), &programs, |_| true).is_empty());
        let only_lib = plan(&format!("{SUITE}target = \"lib\"\n"));
        assert_eq!(forgotten(&only_lib, &programs, |_| true), ["p (cuts)"]);
        assert!(forgotten(&only_lib, &programs, |_| false).is_empty());
        let all_but = plan(&format!("{SUITE}but = [\"cuts\"]\n"));
        assert_eq!(forgotten(&all_but, &programs, |_| true), ["p (cuts)"]);
        assert!(has_tests(&program(
            "list-some",
            "#!/bin/sh\necho a: test\n"
        )));
        assert!(!has_tests(&program("list-none", "#!/bin/sh\n")));
    }

    #[test]
    fn a_module_without_a_suite_is_found() {
        let programs = [program(
            "list-three",
            "#!/bin/sh\necho a::x: test\necho b::y: test\necho c::z: test\n",
        )];
        let with = |name: &str, args: &str| {
            SUITE.replace("\"s\"", &format!("\"{name}\"")) + &format!("args = [{args}]\n")
        };
        let two = with("one", "\"a::\"") + &with("two", "\"--ignored\", \"b::\"");
        let left = left_over(&plan(&two), &programs, list);
        assert_eq!(left, ["p (list-three) c::z"]);
        let all = two + &with("three", "\"--skip\", \"a::\"");
        assert!(left_over(&plan(&all), &programs, list).is_empty());
    }

    #[test]
    fn modules_choose_whole_names() {
        let lists = "#!/bin/sh\n\
             for test in a::x b::x b::a::x ab::x; do echo $test: test; done\n";
        let program = program("it", lists);
        let with = |rest: &str| plan(&format!("{SUITE}{rest}"));
        let named = |rest: &str| arguments(&with(rest).suite[0], &program);
        let words = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect());
        assert_eq!(named(""), words(&[]));
        let only = "target = \"it::a\"\nargs = [\"--ignored\"]\n";
        assert_eq!(named(only), words(&["--ignored", "a::x", "--exact"]));
        let but = "but = [\"it::a\", \"it::b::a\"]\n";
        assert_eq!(named(but), words(&["b::x", "ab::x", "--exact"]));
        assert_eq!(named("target = \"it::none\"\n"), None);
        let programs = [program];
        let left = |rest: &str| left_over(&with(rest), &programs, list);
        assert_eq!(left(but), ["p (it) a::x", "p (it) b::a::x"]);
        let two = SUITE.replace("\"s\"", "\"t\"") + "target = \"it::b\"\n";
        assert_eq!(left(&format!("{but}{two}")), ["p (it) a::x"]);
    }
}
