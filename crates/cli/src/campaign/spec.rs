//! What a campaign is made of: a command line, or a file of TOML that stands for many, as command
//! lines of `compare`, `crash` or `paper`, which are read by what reads them everywhere.

use super::task::Task;
use crate::args::{Args, Command, CompareArgs, CrashArgs, PaperArgs};
use crate::compare::Comparison;
use crate::failure::{Failure, failed, usage};
use crate::{crash, paper};
use clap::Parser;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use toml::{Table, Value};

/// Options that say how a command runs and where its results go, and what is no list of jobs.
const REFUSED: [&str; 15] = [
    "--out",
    "--json",
    "--jobs",
    "--store",
    "--trace-out",
    "--fio-json",
    "--hdr-log",
    "--shard",
    "--timeout",
    "--image",
    "--kernel",
    "--repro",
    "--mutants",
    "--help",
    "-h",
];

/// The commands that a campaign is of.
const COMMANDS: [&str; 3] = ["compare", "crash", "paper"];

/// A command line, read.
pub enum Cell {
    /// Of `compare`.
    Compare(Box<CompareArgs>),
    /// Of `crash`.
    Crash(Box<CrashArgs>),
    /// Of `crash --dir`.
    Program(Box<CrashArgs>),
    /// Of `paper`.
    Paper(PaperArgs),
}

impl Cell {
    /// Reads the options of a command.
    ///
    /// # Errors
    /// They are not those of the command, or not for a campaign.
    pub fn of(command: &str, words: &[String]) -> Result<Cell, Failure> {
        for word in words {
            let option = word.split('=').next().unwrap_or_default();
            if REFUSED.contains(&option) {
                return Err(usage(format!(
                    "{option} is not for a plan, which is a list of jobs: how many run at once is said to `work`, where results go to `merge`, and what is no list of jobs runs without a campaign"
                )));
            }
        }
        let line = ["varve", command].into_iter().map(String::from);
        let args = Args::try_parse_from(line.chain(words.iter().cloned()));
        let args = args.map_err(|e| usage(e.to_string().trim_start_matches("error: ").trim()))?;
        match args.command {
            Command::Compare(args) => Ok(Cell::Compare(Box::new(args))),
            Command::Crash(args) if args.program.dir.is_some() => Ok(Cell::Program(args)),
            Command::Crash(args) => Ok(Cell::Crash(args)),
            Command::Paper(args) => Ok(Cell::Paper(args)),
            _ => Err(unknown(command)),
        }
    }

    /// Checks what it asks for, as the command does before it runs anything.
    ///
    /// # Errors
    /// As of the command.
    pub fn check(&self) -> Result<(), Failure> {
        match self {
            Cell::Compare(args) => Comparison::of(args).map(drop),
            Cell::Crash(args) => crash::planned(args).map(drop),
            Cell::Program(_) => Ok(()),
            Cell::Paper(args) => paper::with(args, paper::Source::Plan(&mut Vec::new())),
        }
    }

    /// Calls `each` with its jobs, in the order in which the command runs them. A campaign may have
    /// millions, so they are never all in memory.
    ///
    /// # Errors
    /// As of the command, before it runs anything; those of `each`.
    pub fn each(&self, each: &mut dyn FnMut(Task) -> Result<(), Failure>) -> Result<(), Failure> {
        match self {
            Cell::Compare(args) => {
                let comparison = Comparison::of(args)?;
                let mut jobs = comparison.jobs();
                jobs.try_for_each(|job| each(Task::compare(&job)))
            }
            Cell::Crash(args) => {
                let jobs = crash::planned(args)?;
                let mut jobs = jobs.iter();
                jobs.try_for_each(|job| each(Task::crash(&job)))
            }
            // How many there are is known when the program has run.
            Cell::Program(_) => Ok(()),
            Cell::Paper(args) => {
                let mut tasks = Vec::new();
                paper::with(args, paper::Source::Plan(&mut tasks))?;
                tasks.into_iter().try_for_each(each)
            }
        }
    }
}

fn unknown(command: &str) -> Failure {
    usage(format!(
        "`{command}`: a campaign is of compare, crash or paper"
    ))
}

/// What a campaign is of: the command, and the options of each of its command lines.
#[derive(Debug, PartialEq)]
pub struct Spec {
    /// The command.
    pub command: String,
    /// The options of each command line.
    pub cells: Vec<Vec<String>>,
}

/// The file of a spec.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    command: String,
    #[serde(default)]
    options: Table,
    #[serde(default)]
    sweep: Table,
}

impl Spec {
    /// Reads a command line, or the file that the only word names.
    ///
    /// # Errors
    /// It is neither, or something in it is wrong.
    pub fn read(words: &[String]) -> Result<Spec, Failure> {
        match words {
            [command, options @ ..] if COMMANDS.contains(&command.as_str()) => Ok(Spec {
                command: command.clone(),
                cells: vec![options.to_vec()],
            }),
            [file] => {
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|e| failed(format!("{file}: {e}; SPEC is a file of TOML, or a command line of compare, crash or paper")))?;
                Spec::parse(&text).map_err(|e| usage(format!("{}: {e}", Path::new(file).display())))
            }
            [command, ..] => Err(unknown(command)),
            [] => Err(usage("a campaign of what?")),
        }
    }

    fn parse(text: &str) -> Result<Spec, Failure> {
        let text: Text = toml::from_str(text).map_err(|e| usage(e.to_string().trim()))?;
        let command = text.command;
        if !COMMANDS.contains(&command.as_str()) {
            return Err(unknown(&command));
        }
        let mut words = Vec::new();
        for (key, value) in &text.options {
            if text.sweep.contains_key(key) {
                return Err(usage(format!(
                    "`{key}` stands under [options] and under [sweep]"
                )));
            }
            words.extend(option(&command, key, value)?);
        }
        let mut cells = vec![words];
        if command != "compare" && !text.sweep.is_empty() {
            return Err(usage(format!(
                "[sweep] is for compare; one `{command}` is one report: put lists under [options], or plan each for itself"
            )));
        }
        for (key, values) in &text.sweep {
            let values = axis(&command, key, values)?;
            if cells.len().saturating_mul(values.len()) > CELLS_MAX {
                return Err(usage(format!(
                    "[sweep] has more than {CELLS_MAX} combinations: make several plans of it"
                )));
            }
            let with = |cell: &Vec<String>| {
                let more = |value: &Vec<String>| [&cell[..], value].concat();
                values.iter().map(more).collect::<Vec<_>>()
            };
            cells = cells.iter().flat_map(with).collect();
        }
        Ok(Spec { command, cells })
    }
}

/// Combinations of a sweep at most: all are in memory while it is planned.
const CELLS_MAX: usize = 1_000_000;

/// The words of an option.
fn option(command: &str, key: &str, value: &Value) -> Result<Vec<String>, Failure> {
    let name = format!("--{key}");
    if (command, key) == ("paper", "paper") {
        return Ok(vec![plain(key, value)?]);
    }
    Ok(match value {
        Value::Boolean(true) => vec![name],
        Value::Boolean(false) => Vec::new(),
        Value::Array(items) => {
            let items: Result<Vec<String>, Failure> = items.iter().map(|v| plain(key, v)).collect();
            let several = command == "crash" && ["workload", "device"].contains(&key);
            match several {
                true => items?.into_iter().flat_map(|v| [name.clone(), v]).collect(),
                false if command == "compare" && !["fs", "schemes"].contains(&key) => {
                    return Err(usage(format!(
                        "`{key}` takes one value; a list of it belongs under [sweep]"
                    )));
                }
                false => vec![name, items?.join(",")],
            }
        }
        value => vec![name, plain(key, value)?],
    })
}

/// The values of an option that is swept, each as words.
fn axis(command: &str, key: &str, values: &Value) -> Result<Vec<Vec<String>>, Failure> {
    let values = match values {
        Value::Array(values) => values.clone(),
        Value::String(text) if key == "seed" => seeds(text)?,
        _ => {
            return Err(usage(format!(
                "`{key}` under [sweep]: a list of values is needed; seeds may be a range, as \"1-20\""
            )));
        }
    };
    if values.is_empty() {
        return Err(usage(format!("`{key}` under [sweep] has no value")));
    }
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for value in &values {
        let words = option(command, key, value)?;
        if !seen.insert(words.clone()) {
            return Err(usage(format!("`{key}` under [sweep] has {value} twice")));
        }
        all.push(words);
    }
    Ok(all)
}

fn seeds(text: &str) -> Result<Vec<Value>, Failure> {
    let wrong = || {
        usage(format!(
            "seed = \"{text}\": a range is \"A-B\" with A not above B"
        ))
    };
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    match (from.trim().parse::<i64>(), to.trim().parse::<i64>()) {
        (Ok(from), Ok(to)) if from <= to && to.abs_diff(from) < CELLS_MAX as u64 => {
            Ok((from..=to).map(Value::Integer).collect())
        }
        (Ok(from), Ok(to)) if from <= to => Err(usage(format!(
            "seed = \"{text}\": more than {CELLS_MAX} seeds; make several plans of them"
        ))),
        _ => Err(wrong()),
    }
}

fn plain(key: &str, value: &Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(n) => Ok(n.to_string()),
        Value::Float(x) => Ok(x.to_string()),
        other => Err(usage(format!("`{key}`: {other} is no value of an option"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<String>, String> {
        let spec = Spec::parse(text).map_err(|e| e.to_string())?;
        let line = |cell: &Vec<String>| format!("{} {}", spec.command, cell.join(" "));
        Ok(spec.cells.iter().map(line).collect())
    }

    #[test]
    fn a_sweep_without_end_is_refused() {
        let sweep = |sweep: &str| lines(&format!("command = 'compare'\n[sweep]\n{sweep}"));
        for wide in [
            "seed = '1-9999999999'",
            "seed = '1-600000'\nsize = [64, 128]",
        ] {
            let why = sweep(wide).unwrap_err();
            assert!(why.contains("1000000"), "{why}");
        }
    }

    #[test]
    fn a_sweep_is_every_combination() {
        let text = "command = 'compare'\n[options]\nschemes = ['jbd2', 'emmc']\ntimers = 'off'\n[sweep]\nseed = '1-2'\nsize = [64, '1G']\n";
        assert_eq!(
            lines(text).unwrap(),
            [
                "compare --schemes jbd2,emmc --timers off --seed 1 --size 64",
                "compare --schemes jbd2,emmc --timers off --seed 1 --size 1G",
                "compare --schemes jbd2,emmc --timers off --seed 2 --size 64",
                "compare --schemes jbd2,emmc --timers off --seed 2 --size 1G",
            ]
        );
    }

    #[test]
    fn a_crash_has_lists_and_a_paper_a_name() {
        let text = "command = 'crash'\n[options]\nworkload = ['ace:1', 'mix']\nseed = [1, 3]\nno-prune = true\nquick = false\n";
        assert_eq!(
            lines(text).unwrap(),
            ["crash --no-prune --seed 1,3 --workload ace:1 --workload mix"]
        );
        let text = "command = 'paper'\n[options]\npaper = 'emmc'\nquick = true\n";
        assert_eq!(lines(text).unwrap(), ["paper emmc --quick"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("command = 'fsck'", "`fsck`: a campaign is of"),
            ("command = 'compare'\nx = 1", "unknown field `x`"),
            (
                "command = 'compare'\n[options]\nseed = [1, 2]",
                "belongs under [sweep]",
            ),
            ("command = 'compare'\n[sweep]\nseed = 1", "a list of values"),
            ("command = 'compare'\n[sweep]\nseed = [1, 1]", "has 1 twice"),
            ("command = 'compare'\n[sweep]\nseed = []", "has no value"),
            (
                "command = 'compare'\n[sweep]\nseed = '5-1'",
                "A not above B",
            ),
            (
                "command = 'compare'\n[sweep]\nseed = [{a = 1}]",
                "no value of an option",
            ),
            (
                "command = 'compare'\n[options]\nseed = 1\n[sweep]\nseed = [1]",
                "and under [sweep]",
            ),
            (
                "command = 'crash'\n[sweep]\nseed = [1]",
                "[sweep] is for compare",
            ),
        ] {
            let why = lines(text).unwrap_err();
            assert!(why.contains(word), "{word}: {why}");
        }
    }

    #[test]
    fn options_that_are_not_of_a_plan_are_refused() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        for line in ["--out x", "--out=x", "--store s", "--jobs 2"] {
            let refused = Cell::of("compare", &words(line)).err().unwrap().to_string();
            assert!(refused.contains("is not for a plan"), "{refused}");
        }
        let refused = Cell::of("compare", &words("--sizes 3")).err().unwrap();
        assert!(refused.to_string().contains("--sizes"), "{refused}");
        let cell = Cell::of("compare", &words("--schemes jbd2,emmc --size 64")).unwrap();
        let mut tasks = 0;
        cell.each(&mut |_| {
            tasks += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(tasks, 2);
    }
}
