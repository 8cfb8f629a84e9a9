//! The `varve` command: picks the subcommand, and turns its result into an exit code.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod args;
mod blocks;
mod calibrate;
mod campaign;
mod compare;
mod crash;
mod device;
mod failure;
mod formats;
mod fsck;
mod host_sqlite;
mod image;
mod json;
mod manual;
mod mkfs;
mod mount;
mod out;
mod paper;
mod pool;
mod progress;
mod record;
mod replay;
mod saved;
mod schema;
mod serve;
mod shell;
mod size;
mod stop;
mod table;
mod versus;
mod worker;

use args::{Args, Command};
use clap::Parser;
use clap::error::ErrorKind;
use failure::{Failure, tell};
use progress::Progress;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let given = words();
    let given = mount::as_helper(&given).unwrap_or(given);
    let args = Args::try_parse_from(given).unwrap_or_else(|e| refuse(&e));
    progress::choose(match args.quiet {
        true => Progress::None,
        false => args.shown_progress,
    });
    let result = match args.command {
        Command::Fsck(options) => return fsck::fsck(&options),
        Command::Recover(options) => return fsck::recover::recover(&options),
        Command::Record(options) => return record::record(&options),
        Command::Compare(options) => compare::compare(&options),
        Command::Campaign(options) => campaign::campaign(&options),
        Command::Crash(options) => crash::crash(&options),
        Command::Ack(options) => crash::ack(&options),
        Command::CrashWorker => crash::worker::serve(),
        Command::ProgramWorker => campaign::program::serve(),
        Command::InTheGuest => {
            guest::hook_with(::crash::program::in_guest);
            Err(failure::usage("only for a script in a guest"))
        }
        Command::Device(options) => device::device(&options),
        Command::Mkfs(options) => mkfs::mkfs(&options),
        Command::Info(options) => image::info(&options),
        Command::Ls(options) => image::ls(&options),
        Command::Cat(options) => image::cat(&options),
        Command::Cp(options) => image::copy(&options),
        Command::Extract(options) => image::extract(&options),
        Command::Dump(options) => image::dump(&options),
        Command::Mount(options) => mount::mount(&options),
        Command::Umount(options) => mount::umount(&options),
        Command::Completions(options) => manual::completions(&options),
        Command::Man(options) => manual::man(&options),
        Command::Serve(options) => self::serve::serve(&options),
        Command::HostSqlite(options) => host_sqlite::run(&options),
        Command::Replay(options) => replay::replay(&options),
        Command::Paper(options) => paper::paper(&options),
        Command::PaperWorker => paper::worker::serve(),
        Command::Schema(options) => schema::schema(&options),
        Command::Report(options) => versus::report(&options),
        Command::Worker => worker::serve(),
    };
    progress::end();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Told) {
                failure::tell(&failure);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The command line. Under the name `fsck.varve`, by which fsck(8) calls, it is that of
/// `varve fsck`; as for every `fsck.TYPE`, a volume is repaired as far as that can be done without
/// asking, unless -n, -p or -y says more.
fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if called_by_fsck() {
        words.splice(..1, ["varve".into(), "fsck".into()]);
        let says = |word: &OsString| {
            let word = word.to_string_lossy();
            word.starts_with('-') && !word.starts_with("--") && word.contains(['n', 'p', 'y', 'a'])
        };
        if !words[2..].iter().any(says) {
            words.insert(2, "-a".into());
        }
    }
    words
}

fn called_by_fsck() -> bool {
    let name = std::env::args_os().next();
    let name = name.as_deref().map(Path::new).and_then(Path::file_name);
    name.is_some_and(|name| name.to_string_lossy().starts_with("fsck."))
}

/// Help and version go to standard output; a wrong command line ends with 2, or with what e2fsck
/// says of it.
fn refuse(e: &clap::Error) -> ! {
    let is_fsck = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "fsck");
    // Help is for reading, and what asks for help because nothing was said is no mistake.
    if !e.use_stderr() || e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        e.exit();
    }
    tell(in_a_line(&e.render().to_string()));
    std::process::exit(match is_fsck || called_by_fsck() {
        true => fsck::USAGE.into(),
        false => 2,
    });
}

/// An error of the command line on one line: what is wrong and what is like it; without the usage,
/// which `--help` shows.
fn in_a_line(rendered: &str) -> String {
    let mut out = String::new();
    for paragraph in rendered.split("\n\n") {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        let said = words.join(" ");
        match words.first() {
            None | Some(&"Usage:" | &"For") => {}
            Some(&"error:") => out.push_str(said.trim_start_matches("error: ")),
            Some(_) => out.push_str(&format!(" ({said})")),
        }
    }
    out + "; --help tells more"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_command_line_is_one_line() {
        let rendered = "error: unexpected argument '--limit' found\n\n  tip: a similar argument exists: \
                        '--timing'\n\nUsage: varve compare --timing <NAME>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            in_a_line(rendered),
            "unexpected argument '--limit' found (tip: a similar argument exists: '--timing'); --help tells more"
        );
    }
}
