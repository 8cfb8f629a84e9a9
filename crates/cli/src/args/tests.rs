//! What all commands have in common: each of them is looked at, so that a new one cannot forget it.

use super::Args;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};

/// Commands without `--json`, each with the reason.
const WITHOUT_JSON: [(&str, &str); 14] = [
    ("ack", "it prints nothing"),
    (
        "campaign merge",
        "what it makes are files, results.json among them",
    ),
    ("campaign plan", "it prints a line of JSON for each job"),
    ("campaign submit", "it prints what sbatch says, or a script"),
    ("cat", "it prints the content of files"),
    ("completions", "it prints a script"),
    ("cp", "it prints nothing"),
    ("man", "it prints a page"),
    ("mount", "it prints nothing"),
    ("record", "what is printed is the command's"),
    ("schema", "it prints JSON"),
    (
        "serve",
        "it ends by a signal; programs ask for the count by SIGUSR1",
    ),
    ("umount", "it prints nothing"),
    ("help", "clap's own"),
];
/// Sizes that are not ours.
const SIZES_OF_OTHERS: [&str; 1] = ["mem"];

/// All commands that a user may call, by their words; those that only have commands are left out.
fn commands() -> Vec<(String, Command)> {
    let mut whole = Args::command();
    whole.build();
    let mut found = Vec::new();
    below(&whole, "", &mut found);
    found
}

fn below(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
    for command in visible.filter(|command| command.get_name() != "help") {
        let words = format!("{words} {}", command.get_name());
        if command.has_subcommands() {
            below(command, &words, found);
        } else {
            found.push((words.trim().into(), command.clone()));
        }
    }
}

/// The name on the command line.
fn long(arg: &Arg) -> Option<&str> {
    arg.get_long()
        .or_else(|| arg.get_value_names()?.first().map(|name| name.as_str()))
}

#[test]
fn each_command_prints_json_where_that_says_something() {
    let mut without: Vec<String> = commands()
        .into_iter()
        .filter(|(_, command)| {
            !command
                .get_arguments()
                .any(|arg| arg.get_long() == Some("json"))
        })
        .map(|(words, _)| words)
        .collect();
    without.push("help".into());
    let mut told: Vec<&str> = WITHOUT_JSON.iter().map(|(words, _)| *words).collect();
    without.sort();
    told.sort_unstable();
    assert_eq!(without, told);
}

#[test]
fn each_command_takes_quiet_and_progress() {
    let commands = commands();
    assert!(commands.len() > 25, "{}", commands.len());
    for (words, command) in commands {
        for wanted in ["quiet", "progress", "help"] {
            let has = |arg: &Arg| arg.get_long() == Some(wanted);
            assert!(command.get_arguments().any(has), "{words}: --{wanted}");
        }
        let quiet = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some("quiet"));
        assert_eq!(quiet.and_then(Arg::get_short), Some('q'), "{words}");
    }
}

/// A suffix is understood, and what is no size is told in one form.
#[test]
fn each_size_takes_a_suffix() {
    let mut seen = 0;
    for (words, command) in commands() {
        for arg in command.get_arguments() {
            let names = arg.get_value_names().unwrap_or_default();
            let is_size = names
                .iter()
                .any(|name| ["SIZE", "BYTES"].contains(&name.as_str()));
            let Some(name) = long(arg).filter(|_| is_size) else {
                continue;
            };
            if SIZES_OF_OTHERS.contains(&name) {
                continue;
            }
            seen += 1;
            let told = |value: &str| {
                let line = format!("varve {words} --{name} {value}");
                let parsed = Args::command().try_get_matches_from(line.split(' '));
                // Other options of the command may be missing.
                parsed
                    .err()
                    .filter(|e| e.kind() == ErrorKind::ValueValidation)
            };
            for good in ["4096k", "4096K", "64M"] {
                assert!(told(good).is_none(), "{words} --{name} {good}");
            }
            let refused = told("5X").unwrap_or_else(|| panic!("{words} --{name} 5X is taken"));
            let text = refused.to_string();
            assert!(
                text.contains("`5X` is no size: a whole number"),
                "{words}: {text}"
            );
        }
    }
    assert!(seen >= 10, "{seen}");
}

/// A help text is a sentence.
#[test]
fn each_option_is_explained() {
    for (words, command) in commands() {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(about.len() > 10, "{words} has no description");
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{words}: {} has no help", arg.get_id());
        }
    }
}
