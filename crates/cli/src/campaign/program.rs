//! A campaign of `crash --dir`: one recording, whose trees are judged in shares. A tree belongs to
//! the share that its hash names, so shares need to know nothing of each other; each makes all
//! trees, which costs little beside a judge that is a program.

use super::plan::Writer;
use super::share::{Found, Job};
use super::spec::Cell;
use super::task::Task;
use super::{build, status};
use crate::args::CrashArgs;
use crate::crash::dir::shares;
use crate::failure::{Failure, failed, tell};
use crate::worker::Line;
use std::io::{BufWriter, Read, Write, stdout};
use std::path::{Path, PathBuf};

/// Options of `crash` that are spent on the recording, with a value each.
const SPENT: [&str; 8] = [
    "--run",
    "--setup",
    "--from",
    "--acks",
    "--fail",
    "--runs",
    "--keep",
    "--recording",
];
/// The same without a value.
const SPENT_ALONE: [&str; 3] = ["--backtrace", "--allow-unchanged", "--allow-failure"];

/// Records the command, and writes a plan of shares that take about so many seconds.
///
/// # Errors
/// It cannot be recorded or judged; the plan cannot be written.
pub fn plan(args: &CrashArgs, words: &[String], seconds: f64) -> Result<(), Failure> {
    let named =
        |bytes: &[u8]| PathBuf::from(format!("{}.recording", &super::store::sum(bytes)[..16]));
    let (file, origin) = shares::recording(args, named)?;
    let words = of_recording(words, &file)?;
    let Cell::Program(args) = Cell::of("crash", &words)? else {
        return Err(failed(
            "the options without the command are those of another command",
        ));
    };
    let measured = shares::measured(&args, &file)?;
    let judging = measured.trees as f64 * measured.judging;
    // A share makes all trees, whatever it judges.
    let room = (seconds - measured.making).max(seconds / 2.0);
    let count = (judging / room)
        .ceil()
        .clamp(1.0, measured.trees.max(1) as f64) as u64;
    let cost = measured.making + judging / count as f64;
    let files = named_files(&args);
    let mut writer = Writer::begin(BufWriter::new(stdout()), build::build()?, "crash")?;
    writer.cell(words.clone())?;
    for share in 0..count {
        let job = Job {
            recording: file.clone(),
            files: files.clone(),
            words: words.clone(),
            share,
            shares: count,
            origin: origin.clone(),
        };
        writer.job(Task::program(&job), cost)?;
    }
    let jobs = writer.end()?;
    tell(format!(
        "{jobs} jobs, {} trees of {}, about {} on one core",
        measured.trees,
        file.display(),
        status::span(cost * jobs as f64)
    ));
    Ok(())
}

/// The options without those that are spent on the recording, and with its file.
fn of_recording(words: &[String], file: &Path) -> Result<Vec<String>, Failure> {
    let file = file.to_str().ok_or_else(|| {
        failed(format!(
            "{}: a plan holds names of Unicode only",
            file.display()
        ))
    })?;
    let mut kept: Vec<String> = vec!["--dir".into(), "--recording".into(), file.into()];
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if SPENT.contains(&name) {
            if !word.contains('=') {
                words.next();
            }
        } else if name == "--dir" {
            words.next_if(|next| !word.contains('=') && !next.starts_with('-'));
        } else if name == "--size" {
            words.next_if(|_| !word.contains('='));
        } else if !SPENT_ALONE.contains(&name) {
            kept.push(word.clone());
        }
    }
    Ok(kept)
}

/// The files that commands which judge name: a check that was changed is another check.
fn named_files(args: &CrashArgs) -> Vec<PathBuf> {
    let options = &args.program;
    let commands = options.check.iter().chain(&options.check_server);
    let mut files: Vec<PathBuf> = commands
        .chain(&args.judge)
        .flat_map(|text| words_of(text))
        .map(PathBuf::from)
        // Programs of the host are as equal on all hosts as the host is.
        .filter(|path| !path.starts_with("/usr") && !path.starts_with("/bin") && path.is_file())
        .collect();
    files.sort();
    files.dedup();
    files
}

/// What may be a name of a file in a command line: its words as a shell has them, quotes taken off
/// and the home directory put in, and every piece between signs that mean something to a shell.
fn words_of(text: &str) -> Vec<String> {
    let pieces = text.split(|c: char| c.is_whitespace() || "=;'\"&|()<>".contains(c));
    let words = shlex::split(text).unwrap_or_default();
    let words = words.into_iter().map(|word| {
        let bare = word.trim_start_matches(['<', '>']);
        let home = ["~/", "$HOME/", "${HOME}/"];
        match home.iter().find_map(|home| bare.strip_prefix(home)) {
            Some(rest) => format!("{}/{rest}", std::env::var("HOME").unwrap_or_default()),
            None => bare.into(),
        }
    });
    words.chain(pieces.map(String::from)).collect()
}

/// Runs as the worker: reads one job and answers what is said of its trees.
///
/// # Errors
/// Standard input holds no job.
pub fn serve() -> Result<(), Failure> {
    crate::worker::begin()?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    let job: Job = serde_json::from_str(&text).map_err(failed)?;
    let line = match judged(&job) {
        Ok(found) => Line::Done(found),
        Err(why) => Line::Failed(why.to_string()),
    };
    let text = serde_json::to_string(&line).map_err(failed)?;
    // A parent that is gone needs no answer.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}

fn judged(job: &Job) -> Result<Found, Failure> {
    let Cell::Program(mut args) = Cell::of("crash", &job.words)? else {
        return Err(failed("the job has the options of another command"));
    };
    args.jobs = std::num::NonZeroUsize::new(1);
    shares::share(&args, &job.recording, job.share, job.shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_found_in_quotes_and_below_the_home_directory() {
        let has = |text: &str, word: &str| words_of(text).iter().any(|w| w == word);
        assert!(has("sh '/a b/check me.sh' x", "/a b/check me.sh"));
        assert!(has("python3 check.py; cat <list", "check.py"));
        assert!(has("cat <list", "list"));
        assert!(has("same-or-old=c.json", "c.json"));
        let home = std::env::var("HOME").unwrap_or_default();
        for text in ["~/c.sh", "$HOME/c.sh", "\"${HOME}/c.sh\" --all"] {
            assert!(has(text, &format!("{home}/c.sh")), "{text}");
        }
        // An open quote is the shell's to refuse.
        assert!(has("sh 'c.sh", "c.sh"));
    }

    #[test]
    fn what_is_spent_on_the_recording_is_left_out() {
        let line = [
            "--dir",
            "d",
            "--run",
            "sh x",
            "--setup=a=b",
            "--check",
            "sh c",
            "--backtrace",
            "--model",
            "posix",
            "--size",
            "64",
            "--acks",
            "stdout",
        ];
        let words: Vec<String> = line.map(String::from).to_vec();
        let kept = of_recording(&words, Path::new("r")).unwrap();
        assert_eq!(
            kept,
            [
                "--dir",
                "--recording",
                "r",
                "--check",
                "sh c",
                "--model",
                "posix"
            ]
        );
        let words: Vec<String> = ["--dir", "--run=x", "--judge", "git"]
            .map(String::from)
            .to_vec();
        let kept = of_recording(&words, Path::new("r")).unwrap();
        assert_eq!(kept, ["--dir", "--recording", "r", "--judge", "git"]);
    }
}
