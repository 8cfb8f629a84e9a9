//! The verdicts of the two checkers on a volume.

use super::super::e2fsprogs::{output, run_in, said};
use crate::Result;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// The verdict of a checker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// There is nothing to mend.
    Clean,
    /// There is something to mend.
    Damaged,
    /// The volume cannot be judged.
    Refused,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Clean => "clean",
            Verdict::Damaged => "damaged",
            Verdict::Refused => "refused",
        })
    }
}

/// Bits of the exit codes of fsck programs: errors are left, and the check could not be done.
const LEFT: i32 = 4;
const OPERATIONAL: i32 = 8;
/// Most bytes of their output that are kept.
const WORDS_MAX: usize = 1500;

/// The verdict of `e2fsck -fn`. It does not bring a log home with `-n`, so that is done before.
pub fn theirs(volume: &Path) -> Result<(Verdict, String)> {
    let copy = volume.with_extension("copy");
    let (from, to) = (volume.to_string_lossy(), copy.to_string_lossy());
    run_in(Path::new("."), "cp", &["--sparse=always", &from, &to])?;
    let (mut code, mut text) = look(&copy)?;
    if text.contains("skipping journal recovery") {
        let mut command = Command::new("e2fsck");
        let out = output(command.args(["-fy", "-E", "journal_only"]).arg(&copy))?;
        let (recovery, words) = (out.status.code().unwrap_or(-1), said(&out));
        let (behind, rest) = look(&copy)?;
        // A log that it refuses is damage, whatever the check behind it finds.
        code = if recovery > 1 { recovery } else { behind };
        text = format!("{words}\n{rest}");
    }
    std::fs::remove_file(&copy).map_err(|e| e.to_string())?;
    Ok((verdict_of(code, &text), short(&text)))
}

/// Runs `e2fsck -fn`. On some volumes its output has no end; then it is stopped, and has found
/// enough.
fn look(volume: &Path) -> Result<(i32, String)> {
    let words = volume.with_extension("words");
    let limited = "ulimit -f 4096; exec timeout 60 e2fsck -fn \"$1\" > \"$2\" 2>&1";
    let out = output(
        Command::new("bash")
            .args(["-c", limited, "e2fsck"])
            .arg(volume)
            .arg(&words),
    )?;
    let text = std::fs::read(&words).map_err(|e| format!("{}: {e}", words.display()))?;
    std::fs::remove_file(&words).map_err(|e| e.to_string())?;
    Ok((
        out.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

fn verdict_of(code: i32, text: &str) -> Verdict {
    let asks = asks(text);
    // It adds 8 if it then stops.
    if code & OPERATIONAL != 0 && code & LEFT == 0 && !asks {
        Verdict::Refused
    } else if code != 0 || asks || text.contains("trying backup blocks") {
        Verdict::Damaged
    } else {
        Verdict::Clean
    }
}

/// Whether e2fsck asked to mend damage, which does not always count for its exit code. What could
/// be stored better is no damage, and neither is a time of the volume ahead of this clock, because
/// the tests run with clocks of their own.
fn asks(text: &str) -> bool {
    let mut ahead = false;
    for line in text.lines() {
        let question = line.contains("? no");
        if question && !ahead && !line.contains("could be") {
            return true;
        }
        let begins = line.contains("last mount time") || line.contains("last write time");
        ahead = begins || (ahead && !question);
    }
    false
}

/// The verdict of `varve fsck -n`; listing and describing the volume must not panic either.
pub fn ours(varve: &Path, volume: &Path) -> Result<(Verdict, String)> {
    let command = |args: &[&str]| {
        let out = output(Command::new(varve).args(args).arg(volume))?;
        let text = said(&out);
        match out.status.code() {
            Some(code) if !text.contains("panicked") => Ok((code, text)),
            other => Err(format!("varve {}: {other:?}: {text}", args.join(" "))),
        }
    };
    command(&["ls", "-R"])?;
    command(&["info"])?;
    let (code, text) = command(&["fsck", "-n"])?;
    let verdict = match code {
        0 => Verdict::Clean,
        LEFT => Verdict::Damaged,
        OPERATIONAL => Verdict::Refused,
        other => return Err(format!("varve fsck ended with {other}: {text}")),
    };
    Ok((verdict, short(&text)))
}

fn short(text: &str) -> String {
    text.chars()
        .take(WORDS_MAX)
        .collect::<String>()
        .replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_about_damage_count() {
        let cases = [
            (0, "Pass 1\n", Verdict::Clean),
            (
                0,
                "Inode 12 extent tree could be narrower.  Optimize? no\n",
                Verdict::Clean,
            ),
            (
                0,
                "Superblock last write time (2106,\n\tnow = 2026) is in the future.\nFix? no\n",
                Verdict::Clean,
            ),
            (
                0,
                "Superblock last write time (2106,\nnow = 2026)\nFix? no\nClear? no\n",
                Verdict::Damaged,
            ),
            (0, "Bad extra isize (1).  Fix? no\n", Verdict::Damaged),
            (
                0,
                "Superblock invalid, trying backup blocks...\n",
                Verdict::Damaged,
            ),
            (4, "", Verdict::Damaged),
            (8, "Bad magic number\n", Verdict::Refused),
            (
                12,
                "Superblock has invalid MMP magic.  Fix? no\n",
                Verdict::Damaged,
            ),
        ];
        for (code, text, verdict) in cases {
            assert_eq!(verdict_of(code, text), verdict, "{code} {text}");
        }
    }
}
