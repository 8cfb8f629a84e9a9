//! Parses the lines of strace into calls with arguments and results, and joins the two halves of a
//! call that another thread's lines interrupt.

use crate::RunError;
use crate::recording::reading::Reading;
use crate::recording::text_lines::{self, CALLS_MAX, too_many};
use std::collections::BTreeMap;
use std::io::BufRead;

/// Microseconds of a day; the times of `-tt` begin anew at midnight.
const DAY_US: u64 = 24 * 3600 * 1_000_000;
/// Seconds above which a time of day in seconds is one since 1970 (`-ttt`), else one since the
/// line before (`-r`).
const EPOCH_SECONDS: u64 = 100_000_000;
/// Latest time in seconds, so that nanoseconds of it can be held.
const SECONDS_MAX: u64 = 1 << 33;
const BROKEN: &str = "broken line";
/// The fault of a line without a time.
pub(super) const NO_TIME: &str = "line without a time (record with `strace -f -tt`)";

/// A call as its line has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Raw {
    pub pid: u32,
    /// When it began, microseconds.
    pub us: u64,
    pub name: String,
    /// The text between the parentheses.
    pub args: String,
    /// The text behind `=`.
    pub result: String,
}

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Said<'a> {
    Whole(&'a str, &'a str, &'a str),
    /// The name and the arguments up to the interruption.
    Begun(&'a str, &'a str),
    /// The name, the other arguments, the result.
    Resumed(&'a str, &'a str, &'a str),
    Exited,
    /// A signal, or a message of strace.
    Else,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clock {
    /// Since midnight.
    Day(u64),
    /// Since 1970.
    Epoch(u64),
    /// Since the line before.
    Step(u64),
}

/// True if the line is a call in this format.
pub fn is_call(line: &str) -> bool {
    let whole = |said| matches!(said, Ok(Said::Whole(..) | Said::Begun(..)));
    let (_, _, rest) = head(line);
    whole(said(rest))
}

/// Something that happened, in the order of the file.
pub(super) enum Step {
    Call(Raw),
    Exit(u32),
}

/// Reads all calls. A call stands where it began, but one that makes a descriptor where it ended,
/// because only then others can use that.
pub(super) fn read(
    lines: &mut dyn BufRead,
    strict: bool,
    reading: &mut Reading,
) -> Result<Vec<Step>, RunError> {
    let mut joiner = Joiner::default();
    text_lines::each(
        lines,
        strict,
        reading,
        |reading, number, text| match joiner.take(text) {
            Ok(()) if joiner.steps.len() > CALLS_MAX => Err(too_many(&reading.name)),
            Ok(()) => Ok(()),
            Err(kind) => reading.fault(strict, kind, number, text.as_bytes()),
        },
    )?;
    let unended = joiner.begun.len() as u64;
    if unended > 0 {
        *reading.left_out.entry("calls without an end").or_default() += unended;
    }
    reading.threads = joiner.threads.len();
    reading.seconds = joiner.last.saturating_sub(joiner.first.unwrap_or(0)) as f64 / 1e6;
    Ok(joiner.steps.into_iter().flatten().collect())
}

#[derive(Default)]
struct Joiner {
    /// `None` is the place of a call that has begun and not ended.
    steps: Vec<Option<Step>>,
    /// The begun call of each thread, and its place.
    begun: BTreeMap<u32, (Raw, usize)>,
    threads: BTreeMap<u32, ()>,
    days: u64,
    day_before: u64,
    sum: u64,
    first: Option<u64>,
    last: u64,
}

impl Joiner {
    /// Takes a line; the error is its fault.
    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let (pid, clock, rest) = head(line);
        let said = said(rest)?;
        if said == Said::Else {
            return Ok(());
        }
        let said_us = self.time(clock.ok_or(NO_TIME)?);
        // The order of the lines is that of the calls, whatever the clock did.
        let us = said_us.max(self.last);
        self.first.get_or_insert(us);
        self.last = us;
        self.threads.insert(pid, ());
        let raw = |name: &str, args: String, result: &str| Raw {
            pid,
            us,
            name: name.into(),
            args,
            result: result.trim().into(),
        };
        match said {
            Said::Whole(name, args, result) => {
                let call = raw(name, args.into(), result);
                self.steps.push(Some(Step::Call(call)));
            }
            Said::Begun(name, args) => {
                let place = self.steps.len();
                self.steps.push(None);
                self.begun.insert(pid, (raw(name, args.into(), ""), place));
            }
            Said::Resumed(name, args, result) => {
                let begun = self.begun.remove(&pid);
                let begun = begun.filter(|(call, _)| call.name == name);
                let Some((mut call, place)) = begun else {
                    return Err("end of a call without its beginning");
                };
                call.args.push_str(args);
                call.result = result.trim().into();
                match makes_descriptor(name) {
                    true => {
                        call.us = us;
                        self.steps.push(Some(Step::Call(call)));
                    }
                    false => self.steps[place] = Some(Step::Call(call)),
                }
            }
            Said::Exited => {
                self.begun.remove(&pid);
                self.steps.push(Some(Step::Exit(pid)));
            }
            Said::Else => {}
        }
        match us == said_us {
            true => Ok(()),
            false => Err("time goes back"),
        }
    }

    fn time(&mut self, clock: Clock) -> u64 {
        match clock {
            Clock::Epoch(us) => us,
            Clock::Step(us) => {
                self.sum = (self.sum + us).min(SECONDS_MAX * 1_000_000);
                self.sum
            }
            Clock::Day(us) => {
                if us + DAY_US / 2 < self.day_before && self.days < SECONDS_MAX / 86_400 {
                    self.days += 1;
                }
                self.day_before = us;
                self.days * DAY_US + us
            }
        }
    }
}

/// True for calls whose result is a descriptor.
fn makes_descriptor(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "open", "openat", "openat2", "creat", "dup", "dup2", "dup3", "fcntl", "fcntl64",
    ];
    NAMES.contains(&name)
}

/// The process or thread (0 where lines have none), the time, and the rest of a line.
fn head(line: &str) -> (u32, Option<Clock>, &str) {
    let mut rest = line.trim_start();
    let mut pid = 0;
    if let Some(inner) = rest.strip_prefix("[pid") {
        if let Some((number, behind)) = numbered(inner.trim_start())
            && let Some(behind) = behind.trim_start().strip_prefix(']')
        {
            (pid, rest) = (number, behind.trim_start());
        }
    } else if let Some((number, behind)) = numbered(rest)
        && behind.starts_with(' ')
    {
        (pid, rest) = (number, behind.trim_start());
    }
    match rest.split_once(' ') {
        Some((word, behind)) => match clock(word) {
            Some(clock) => (pid, Some(clock), unmarked(behind.trim_start())),
            None => (pid, None, rest),
        },
        None => (pid, None, rest),
    }
}

/// The number of a process at the begin of a text, and what stands behind it and behind the name
/// that `-Y` adds: `77<app>`. A name may hold any sign.
fn numbered(text: &str) -> Option<(u32, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, behind) = (text[..digits].parse().ok()?, &text[digits..]);
    let named = || behind.strip_prefix('<').and_then(|name| ends_name(name));
    Some((number, named().unwrap_or(behind)))
}

/// What stands behind the `>` that ends a name: a blank and a time, a bracket, or the next call.
fn ends_name(text: &str) -> Option<&str> {
    let ends = text.match_indices('>').map(|(at, _)| &text[at + 1..]);
    let timed = |behind: &&str| {
        let word = behind.trim_start().split(' ').next();
        behind.starts_with(' ') && word.is_some_and(|word| clock(word).is_some())
    };
    ends.clone()
        .find(timed)
        .or_else(|| ends.clone().find(|behind| behind.starts_with(']')))
        .or_else(|| ends.clone().find(|behind| behind.starts_with(' ')))
}

/// A line without the number of its call (`-n`) and the place in the program (`-i`).
fn unmarked(mut rest: &str) -> &str {
    while let Some((inside, behind)) = rest.strip_prefix('[').and_then(|r| r.split_once("] ")) {
        let mark = inside
            .trim_start()
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b == b'?');
        if !mark {
            break;
        }
        rest = behind.trim_start();
    }
    rest
}

fn clock(word: &str) -> Option<Clock> {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    if !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let us = format!("{fraction:0<6}")[..6].parse::<u64>().ok()?;
    let number = |text: &str| match digits(text) {
        true => text.parse::<u64>().ok().filter(|n| *n < SECONDS_MAX),
        false => None,
    };
    if let [hours, minutes, seconds] = whole.split(':').collect::<Vec<_>>()[..] {
        let (h, m, s) = (number(hours)?, number(minutes)?, number(seconds)?);
        let day = h < 24 && m < 60 && s <= 60;
        return day.then(|| Clock::Day((h * 3600 + m * 60 + s) * 1_000_000 + us));
    }
    let seconds = number(whole).filter(|_| word.contains('.'))?;
    let all = seconds * 1_000_000 + us;
    Some(match seconds >= EPOCH_SECONDS {
        true => Clock::Epoch(all),
        false => Clock::Step(all),
    })
}

fn said(rest: &str) -> Result<Said<'_>, &'static str> {
    if rest.starts_with("+++") {
        return Ok(Said::Exited);
    }
    let message = rest.starts_with("---") || rest.starts_with("strace: ");
    // `-k` tells below each call from where in the program it came.
    let place = rest.starts_with("> ");
    if message || place || rest.starts_with("[ Process PID=") {
        return Ok(Said::Else);
    }
    if let Some(inner) = rest.strip_prefix("<... ") {
        let (name, inner) = inner.split_once(" resumed>").ok_or(BROKEN)?;
        // Some versions have a blank or a comma between the halves.
        let (args, result) = ended(inner)?;
        return Ok(Said::Resumed(name, args, result));
    }
    let (name, inner) = rest.split_once('(').ok_or(BROKEN)?;
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(word) {
        return Err(BROKEN);
    }
    if let Some(args) = inner.strip_suffix("<unfinished ...>") {
        return Ok(Said::Begun(name, args.trim_end()));
    }
    let (args, result) = ended(inner)?;
    Ok(Said::Whole(name, args, result))
}

/// Splits at the parenthesis that ends the arguments, behind which `=` and the result stand.
fn ended(inner: &str) -> Result<(&str, &str), &'static str> {
    let mut last = None;
    // A result holds no `) = `, while the content of a string or a structure may.
    for (at, _) in inner.match_indices(')') {
        let behind = inner[at + 1..].trim_start();
        if behind.starts_with("= ") {
            last = Some((at, behind));
        }
    }
    let (at, behind) = last.ok_or(BROKEN)?;
    Ok((&inner[..at], &behind[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, strict: bool) -> (Result<Vec<Step>, RunError>, Reading) {
        let mut reading = Reading::default();
        let steps = read(&mut text.as_bytes(), strict, &mut reading);
        (steps, reading)
    }

    fn calls(text: &str) -> Vec<Raw> {
        let calls = all(text, true).0.unwrap().into_iter();
        calls
            .filter_map(|step| match step {
                Step::Call(raw) => Some(raw),
                Step::Exit(_) => None,
            })
            .collect()
    }

    #[test]
    fn lines_of_all_clocks_and_threads_are_calls() {
        for (line, pid, us) in [
            ("12:00:01.000002 close(3) = 0 <0.000004>", 0, 43_201_000_002),
            ("77  12:00:01 close(3)   = 0", 77, 43_201_000_000),
            ("[pid   9] 00:00:00.5 close(3) = 0", 9, 500_000),
            ("5 1700000000.000001 close(3) = 0", 5, 1_700_000_000_000_001),
            ("     0.000123 close(3) = 0", 0, 123),
        ] {
            let raw = calls(line).remove(0);
            assert_eq!((raw.pid, raw.us), (pid, us), "{line}");
            assert_eq!((&*raw.name, &*raw.args), ("close", "3"), "{line}");
            assert!(raw.result.starts_with('0'), "{line}");
        }
    }

    #[test]
    fn halves_are_joined_and_descriptors_come_where_they_are_made() {
        let text = "1 00:00:01 openat(AT_FDCWD, \"a\",  <unfinished ...>\n\
                    2 00:00:02 read(4,  <unfinished ...>\n\
                    2 00:00:03 <... read resumed>\"x) = 1\", 7) = 6\n\
                    1 00:00:04 <... openat resumed>O_RDONLY) = 4\n\
                    1 00:00:05 +++ exited with 0 +++\n";
        let calls = calls(text);
        let names: Vec<(&str, u64)> = calls.iter().map(|c| (&*c.name, c.us / 1_000_000)).collect();
        assert_eq!(names, [("read", 2), ("openat", 4)]);
        assert_eq!(calls[0].args, "4,\"x) = 1\", 7");
        assert_eq!(calls[0].result, "6");
    }

    #[test]
    fn midnight_is_no_way_back() {
        let text = "23:59:59.9 close(3) = 0\n00:00:00.1 close(4) = 0\n";
        let calls = calls(text);
        assert_eq!(calls[1].us - calls[0].us, 200_000);
    }

    #[test]
    fn faults_have_names() {
        for (line, kind) in [
            ("1 00:00:01 openat(AT_FDCWD, \"a", BROKEN),
            ("1 00:00:01 close(3) =", BROKEN),
            (
                "1 00:00:01 <... close resumed>) = 0",
                "without its beginning",
            ),
            ("1 close(3) = 0", "without a time"),
            (
                "1 00:00:02 close(3) = 0\n1 00:00:01 close(4) = 0",
                "time goes back",
            ),
            ("hello", BROKEN),
        ] {
            let e = all(line, true).0.map(drop).unwrap_err().to_string();
            assert!(e.contains(kind), "{line}: {e}");
            assert_eq!(all(line, false).1.faults.len(), 1, "{line}");
        }
        let half = all("1 00:00:01 close(3 <unfinished ...>\n", true).1;
        assert_eq!(half.left_out["calls without an end"], 1);
        assert!(!is_call("Tue, 1 (a) = b") && is_call("1 00:00:01 close(3) = 0"));
    }
}
