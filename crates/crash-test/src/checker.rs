//! The part that judges: a line for each tree comes in, and one with the verdict goes out.
//!
//! ```text
//! from standard input    PATH <tab> FILE WITH ACKNOWLEDGEMENTS
//! to descriptor 3        ok   or   bad WHY
//! ```

use crate::case::Check;
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::Path;
#[allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a process of its own, in which no simulation runs"
)]
use std::sync::mpsc::{Receiver, channel};

/// Where answers go: standard output belongs to the harness.
const ANSWERS: &str = "/proc/self/fd/3";

/// Judges until the input ends.
///
/// # Errors
/// Input or output fail.
pub fn serve(check: &Check) -> io::Result<()> {
    let panics = panics();
    let mut answers = File::options().write(true).open(ANSWERS)?;
    for line in io::stdin().lock().lines() {
        let answer = match judged(check, &line?, &panics)? {
            Ok(()) => String::from("ok\n"),
            Err(why) => format!("bad {}\n", one_line(&why)),
        };
        answers.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// What panics say, with their places, from now on.
#[allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a process of its own, in which no simulation runs"
)]
fn panics() -> Receiver<String> {
    let (sender, receiver) = channel();
    set_hook(Box::new(move |info| {
        let words = info.payload_as_str().unwrap_or("a panic without words");
        let place = info
            .location()
            .map(|place| format!(" ({}:{})", place.file(), place.line()));
        // Nobody hears a panic of a thread that outlives the checks.
        let _ = sender.send(format!("{words}{}", place.unwrap_or_default()));
    }));
    receiver
}

/// One tree: the reason why it is bad, if it is.
#[allow(clippy::disallowed_types, reason = "what `panics` answers")]
fn judged(check: &Check, line: &str, panics: &Receiver<String>) -> io::Result<Result<(), String>> {
    let asked = line.split_once('\t');
    let (dir, acked) = asked.ok_or_else(|| io::Error::other(format!("no tab in {line:?}")))?;
    let acked: Vec<String> = fs::read_to_string(acked)?
        .lines()
        .map(String::from)
        .collect();
    let verdict = catch_unwind(AssertUnwindSafe(|| check(Path::new(dir), &acked)));
    // The first one is the reason; those behind it must not be heard as that of the next tree.
    let mut all = panics.try_iter();
    let said = all.next();
    all.for_each(drop);
    Ok(match verdict {
        Ok(verdict) => verdict,
        Err(_) => Err(said.unwrap_or_else(|| "a panic without words".into())),
    })
}

/// The text in one line: an answer is one.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_beside_that_of_the_check_is_not_heard_about_the_next_tree() {
        let folder = tempfile::tempdir().unwrap();
        let acked = folder.path().join("acked");
        fs::write(&acked, "").unwrap();
        let panics = panics();
        let check: Check = Box::new(|dir, _| {
            #[allow(clippy::disallowed_methods, reason = "no simulation runs here")]
            let beside = std::thread::spawn(|| panic!("beside")).join();
            assert!(dir.ends_with("good") && beside.is_ok(), "{}", dir.display());
            Ok(())
        });
        let heard = ["one", "two"].map(|name| {
            let line = format!("/{name}\t{}", acked.display());
            let why = judged(&check, &line, &panics).unwrap().unwrap_err();
            (why, panics.try_recv().is_ok())
        });
        // That of the harness again, before anything here may fail.
        let _ = std::panic::take_hook();
        for (why, left) in heard {
            assert!(why.starts_with("beside") && !left, "{why}");
        }
    }

    #[test]
    fn an_answer_is_one_line() {
        let assertion = "assertion `left == right` failed\n  left: 1\n right: 2\n";
        assert_eq!(
            one_line(assertion),
            "assertion `left == right` failed; left: 1; right: 2"
        );
    }
}
