//! How a command shows how far it is: by a bar on a terminal, by lines of JSON, or not at all.

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// What `--progress` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Progress {
    /// Bars, if standard error is a terminal.
    #[default]
    Auto,
    /// A line of JSON on standard error whenever something is done, twice a second at most.
    Json,
    /// Nothing.
    None,
}

static CHOSEN: OnceLock<Progress> = OnceLock::new();
const PERIOD: Duration = Duration::from_millis(500);

/// Says how, for the whole process; the first call counts.
pub fn choose(progress: Progress) {
    CHOSEN.get_or_init(|| progress);
}

fn chosen() -> Progress {
    CHOSEN.get().copied().unwrap_or_default()
}

/// Whether bars are drawn on a terminal.
pub fn draws() -> bool {
    chosen() == Progress::Auto
}

/// A line of `--progress json`.
#[derive(PartialEq, Eq, Debug, Serialize)]
struct Line {
    /// The command, or the run of it.
    progress: String,
    done: u64,
    /// Absent where nobody knows how many there will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u64>,
    /// What the bar says beside its counts.
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

impl Line {
    fn of(what: &str, bar: &ProgressBar) -> Line {
        Line {
            progress: what.into(),
            done: bar.position(),
            of: bar.length().filter(|&all| all > 0),
            note: bar.message(),
        }
    }
}

/// Shows `bar` as was asked for; `what` names it in lines of JSON.
pub fn shown(what: &str, bar: ProgressBar) -> ProgressBar {
    if !draws() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if chosen() == Progress::Json {
        let watched = Arc::new(Watched {
            what: what.into(),
            bar: bar.clone(),
            last: Mutex::new(None),
        });
        all().push(watched.clone());
        // Without the thread only the lines between the first and the last are missing.
        let _ = thread::Builder::new().spawn(move || {
            while watched.say() {
                thread::sleep(PERIOD);
            }
        });
    }
    bar
}

/// A bar whose lines are printed. It is held, so that its last state can be told when who moved it
/// is gone.
struct Watched {
    what: String,
    bar: ProgressBar,
    last: Mutex<Option<Line>>,
}

static ALL: Mutex<Vec<Arc<Watched>>> = Mutex::new(Vec::new());

fn all() -> std::sync::MutexGuard<'static, Vec<Arc<Watched>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Prints a line if something has changed; false: nothing will any more.
    fn say(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = self.bar.is_finished();
        let line = Line::of(&self.what, &self.bar);
        if last.as_ref() != Some(&line) {
            eprintln!(
                "{}",
                serde_json::to_string(&line).expect("plain data serialises")
            );
            *last = Some(line);
        }
        !ends
    }
}

/// The command ends: prints what has changed since the last lines.
pub fn end() {
    for watched in all().drain(..) {
        watched.say();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let text = |bar: &ProgressBar| serde_json::to_string(&Line::of("crash", bar)).unwrap();
        let bar = ProgressBar::hidden();
        bar.set_position(3);
        assert_eq!(text(&bar), r#"{"progress":"crash","done":3}"#);
        bar.set_length(10);
        bar.set_message("7 states");
        assert_eq!(
            text(&bar),
            r#"{"progress":"crash","done":3,"of":10,"note":"7 states"}"#
        );
    }
}
