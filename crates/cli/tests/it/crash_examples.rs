//! The programs of `examples/crash`, each through `varve crash --dir`: the verdict of each model is
//! that of the table, and the explanation names the sync that lacks. The plugin for pytest and the
//! attribute for Rust, too. Needs FUSE and python3.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, folder, text, words};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

#[derive(Deserialize)]
struct Table {
    program: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    name: String,
    run: String,
    setup: Option<String>,
    judge: String,
    bad: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
    needs: Option<String>,
    mend: Option<Mend>,
}

/// What `--suggest` has to say: `SYNC before CALL, N times` for each site, or `none`, as nothing
/// mends it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Mend {
    Sites(Vec<String>),
    Word(String),
}

fn below_root(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    fs::canonicalize(root).expect(path)
}

/// Interpreters that may have a module: that of the path, and Debian's, which has its packages.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

fn has_module(python: &str, name: &str) -> bool {
    let import = Command::new(python)
        .args(["-c", &format!("import {name}")])
        .output();
    import.is_ok_and(|output| output.status.success())
}

/// The Python that can run a program.
fn python(program: &Program) -> Option<&'static str> {
    let needs = program.needs.as_deref().unwrap_or("sys");
    let found = PYTHONS.into_iter().find(|python| has_module(python, needs));
    if found.is_none() {
        eprintln!("{}: left out, python3 has no {needs}", program.name);
    }
    found
}

fn table() -> Vec<Program> {
    let path = below_root("examples/crash").join("programs.toml");
    let table = fs::read_to_string(path).expect("the table");
    let table: Table = toml::from_str(&table).expect("a table");
    table.program
}

fn run(program: &Program, python: &str, more: &[&str], out: &Path) -> Output {
    let here = below_root("examples/crash");
    let here = here.to_str().expect("a plain name");
    let at = |text: &str| text.replace("{here}", here).replace("python3", python);
    let mut varve = command();
    varve
        .args(["crash", "--dir", "--acks", "stdout", "--out"])
        .arg(out);
    varve.args(["--run", &at(&program.run), "--judge", &at(&program.judge)]);
    if let Some(setup) = &program.setup {
        varve.args(["--setup", &at(setup)]);
    }
    varve.args(more).output().expect("the program starts")
}

/// What is wrong with the result of a program.
fn wrong(program: &Program, output: &Output, out: &Path) -> Vec<String> {
    let Ok(json) = fs::read_to_string(out.join("results.json")) else {
        return vec![words(output)];
    };
    let results: Value = serde_json::from_str(&json).expect("JSON");
    let mut wrong = Vec::new();
    let code = i32::from(!program.bad.is_empty());
    if output.status.code() != Some(code) {
        wrong.push(format!("exit code {:?}", output.status.code()));
    }
    for model in results["models"].as_array().expect("models") {
        let name = model["name"].as_str().expect("a name");
        let is_bad = model["bad"].as_u64() > Some(0);
        if program.bad.iter().any(|bad| bad == name) != is_bad {
            wrong.push(format!("{name}: {} bad trees", model["bad"]));
        }
        if model["states"].as_u64() < Some(2) || !model["gave_up"].is_null() {
            wrong.push(format!("{name} has left nothing: {}", model["gave_up"]));
        }
    }
    let findings = results["findings"].to_string();
    let lacking = program
        .names
        .iter()
        .filter(|name| !findings.contains(*name));
    wrong.extend(lacking.map(|name| format!("no finding names {name}")));
    if !wrong.is_empty() {
        wrong.push(text(&output.stdout).to_string());
    }
    wrong
}

#[test]
fn each_small_program_holds_or_loses_as_the_table_says() {
    let table = table();
    assert!(table.len() >= 9);
    let mut all = Vec::new();
    for program in &table {
        let Some(python) = python(program) else {
            continue;
        };
        let out = folder();
        let since = Instant::now();
        let output = run(program, python, &[], out.path());
        let wrong = wrong(program, &output, out.path());
        eprintln!("{}: {:.1} s", program.name, since.elapsed().as_secs_f64());
        if !wrong.is_empty() {
            all.push(format!("{}: {}", program.name, wrong.join("\n")));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n\n"));
}

/// What `--suggest` says: each site as [`Mend`] has it.
fn suggested(said: &str) -> Vec<String> {
    let sites = said.lines().filter_map(|line| {
        let line = line.strip_prefix("note: mend: add before ")?;
        let (place, rest) = line.split_once(" (call ")?;
        let (_, sync) = rest.split_once("): ")?;
        let (sync, times) = match sync.split_once(" (") {
            None => (sync, "once".to_string()),
            Some((sync, times)) => (sync, times.replace(" in this recording)", "")),
        };
        let place = place.replace('`', "");
        Some(format!("{sync} before {place}, {times}"))
    });
    sites.collect()
}

#[test]
fn each_wrong_program_is_mended_as_a_person_would() {
    let mut all = Vec::new();
    for program in &table() {
        let is_wrong = !program.bad.is_empty();
        assert_eq!(program.mend.is_some(), is_wrong, "{}", program.name);
        let (Some(mend), Some(python)) = (&program.mend, python(program)) else {
            continue;
        };
        let out = folder();
        let output = run(program, python, &["--suggest"], out.path());
        let said = text(&output.stdout);
        let (mut wanted, is_mended) = match mend {
            Mend::Sites(sites) => (sites.clone(), true),
            Mend::Word(word) => {
                assert_eq!(word, "none", "{}", program.name);
                (Vec::new(), false)
            }
        };
        let mut found = suggested(&said);
        found.sort();
        wanted.sort();
        let told = said.contains("note: no added sync mends this recording: ");
        if found != wanted || told == is_mended {
            all.push(format!("{}: {found:#?}\n{}", program.name, words(&output)));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n\n"));
}

const TESTS: &str = r#"
SAVE = "echo new > f.tmp; mv f.tmp f; echo saved"

def test_found(varve_crash):
    varve_crash(SAVE, setup="echo old > f", acks="stdout", judge="same-or-old=f", model="posix")

def test_looked_at(varve_crash):
    result = varve_crash(SAVE, check=False, setup="echo old > f", judge="same-or-old=f", model="posix")
    assert result.bad("posix") > 0 and "f.tmp" in result.findings[0]["sentence"]

def test_holds(varve_crash):
    synced = "echo new > f.tmp; sync f.tmp; mv f.tmp f"
    varve_crash(synced, setup="echo old > f", judge="same-or-old=f", model="posix")

def test_no_such_judge(varve_crash):
    varve_crash("true", judge="nonsense")
"#;

#[test]
fn the_plugin_for_pytest_fails_with_the_sentence() {
    let Some(python) = PYTHONS
        .into_iter()
        .find(|python| has_module(python, "pytest"))
    else {
        eprintln!("left out: python3 has no pytest");
        return;
    };
    let room = folder();
    fs::write(room.path().join("test_it.py"), TESTS).expect("a file");
    let mut pytest = Command::new(python);
    pytest.args([
        "-m",
        "pytest",
        "-p",
        "pytest_varve",
        "-p",
        "no:cacheprovider",
        "-q",
    ]);
    pytest.current_dir(room.path());
    pytest.env("PYTHONPATH", below_root("python/pytest-varve"));
    pytest.env("TMPDIR", room.path());
    pytest.env("VARVE", command().get_program());
    let output = pytest.output().expect("python3");
    let said = words(&output);
    assert!(said.contains("2 failed, 2 passed"), "{said}");
    assert!(said.contains("FAILED test_it.py::test_found"), "{said}");
    assert!(
        said.contains("fdatasync(f.tmp)") && said.contains("nonsense"),
        "{said}"
    );
}

/// The example of the attribute of `varve-crash-test`, a crate of its own.
fn example_of_the_attribute(tests: &[&str], varve: &Path) -> String {
    let own = std::env::current_exe().expect("a path");
    let target = own.ancestors().nth(3).expect("target/debug/deps");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["test", "--quiet", "--locked", "--test", "replace", "--"])
        .args(tests);
    cargo.current_dir(below_root("examples/crash-test"));
    cargo.env("CARGO_TARGET_DIR", target.join("crash-test-example"));
    cargo.env("VARVE", varve).env("RUST_BACKTRACE", "0");
    words(&cargo.output().expect("cargo"))
}

#[test]
fn the_attribute_finds_what_a_power_cut_leaves() {
    let varve = Path::new(env!("CARGO_BIN_EXE_varve"));
    let said = example_of_the_attribute(&[], varve);
    assert!(said.contains("3 passed; 0 failed"), "{said}");
    // Without what it is to panic with, the test shows what it was told.
    let lost = "a_file_replaced_without_syncs_is_lost";
    let said = example_of_the_attribute(&["--nocapture", "--exact", lost], varve);
    for words in [
        "a power cut may leave what is bad, see ",
        "judged by the check of the test\n",
        "judge    the configuration is whole (tests/replace.rs:",
        "were saved, 0 is there",
        "missing  fsync(.)",
    ] {
        assert!(said.contains(words), "no `{words}` in: {said}");
    }
}

/// Longest line of the example of the page, characters.
const LINE_MAX: usize = 130;

/// What `replace.py unsafe` is answered, up to the second finding, with cut lines and one number
/// for each process: the example of the page.
fn example_of_the_page() -> String {
    let (room, here) = (folder(), below_root("examples/crash"));
    let here = here.to_str().expect("a plain name");
    let mut varve = command();
    varve.args(["crash", "--dir", "--acks", "stdout"]);
    varve.args(["--setup", "printf '{}' > config.json"]);
    varve.args(["--run", &format!("python3 {here}/replace.py unsafe")]);
    varve.args(["--judge", "same-or-old=config.json"]);
    let output = varve.current_dir(room.path()).output();
    let said = text(&output.expect("the program starts").stdout).replace(&format!("{here}/"), "");
    let (_, behind) = said.split_once("python3[").expect("a call of python3");
    let (process, _) = behind.split_once(']').expect("its number");
    let said = said.replace(process, "4711");
    let (first, _) = said.split_once("\n\n2. ").expect("two findings");
    let cut = |line: &str| match line.chars().count() > LINE_MAX {
        true => line.chars().take(LINE_MAX - 4).collect::<String>() + " ...",
        false => line.to_string(),
    };
    first.lines().map(|line| cut(line) + "\n").collect()
}

#[test]
fn the_page_shows_what_is_answered() {
    let path = below_root("docs/use/crash-programs.md");
    let page = fs::read_to_string(&path).expect("the page");
    let begin = "```\npython3 replace.py unsafe: ";
    let at = page.find(begin).expect("the example") + 4;
    let end = at + page[at..].find("```").expect("its end");
    let example = example_of_the_page();
    if std::env::var_os("VARVE_BLESS").is_some() {
        let new = [&page[..at], &example, &page[end..]].concat();
        fs::write(&path, new).expect("room");
        return;
    }
    // Columns move with the number of the process.
    let words = |text: &str| -> Vec<String> {
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(line).collect()
    };
    let told = "VARVE_BLESS=1 writes it anew";
    assert_eq!(words(&page[at..end]), words(&example), "{told}");
}
