//! Parameters of the two workloads that run system calls: those of a recording in a file, and those
//! of a generated application.

use super::Background;
use super::values::{SpecError, key, number};
use crate::recording::apps::APPS;
use base::Nanos;
use std::fmt;

base::words! {
    /// What decides when a call starts, beside the order of the recording.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Pace: "pace" {
        /// Not before the recorded time: timers and windows are those of the recording. For
        /// characterisation.
        Recorded => "recorded",
        /// After the application's own time, see [`Pacing`]. For performance.
        Busy => "busy",
        /// As soon as the calls before it allow.
        None => "none",
    }
}

/// When calls start.
///
/// With `pace=busy` the application's own time is the recorded time between the starts of two
/// calls, times `think`, with two exceptions, where it is nothing:
/// - if that time is longer than `idle`: then the application waited for a user, the network or a
///   timer;
/// - after a sync of the same thread: then that time is the recording device's, and a device is
///   what is modelled here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacing {
    /// What decides when a call starts.
    pub pace: Pace,
    /// Factor on the application's own time, in thousandths.
    pub think_milli: u32,
    /// Longer times than this between two calls are pauses, not the application's own time.
    pub idle: Nanos,
}

impl Default for Pacing {
    fn default() -> Self {
        Pacing {
            pace: Pace::Busy,
            think_milli: 1000,
            idle: Nanos::from_millis(20),
        }
    }
}

/// Largest factor that is accepted.
const THINK_MAX: f64 = 1000.0;
const IDLE_MS_MAX: u64 = 3_600_000;

impl Pacing {
    const KEYS: &'static str = "pace, think, idle";

    /// Sets one parameter; false if the key is not one of these.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "pace" => self.pace = value.parse()?,
            "think" => self.think_milli = factor(value)?,
            "idle" => {
                let digits = value.strip_suffix("ms").unwrap_or(value);
                self.idle = Nanos::from_millis(number(digits, 0..=IDLE_MS_MAX)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What `span` of recorded own time is in the replay.
    pub fn think(&self, span: Nanos) -> Nanos {
        let scaled = u128::from(span.0) * u128::from(self.think_milli) / 1000;
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

fn factor(text: &str) -> Result<u32, SpecError> {
    let parsed: Option<f64> = text.parse().ok();
    let valid = parsed.filter(|x| (0.0..=THINK_MAX).contains(x));
    let rounded = valid.map(|x| (x * 1000.0).round() as u32);
    rounded.ok_or_else(|| SpecError::Value {
        given: text.into(),
        valid: format!("a factor from 0 to {THINK_MAX}, as 0.5"),
    })
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let think = f64::from(self.think_milli) / 1000.0;
        let idle = self.idle.0 / 1_000_000;
        write!(f, "pace={},think={think},idle={idle}ms", self.pace.word())
    }
}

/// Parameters of `replay:`, which runs a recording in a file. The path of the file is not among
/// them, but in [`RunConfig::recording`](crate::RunConfig::recording).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplaySpec {
    /// Name of the file without its folder, for people; may be empty.
    pub file: String,
    /// When calls start.
    pub pacing: Pacing,
    /// What runs beside it.
    pub background: Background,
}

impl ReplaySpec {
    /// The workload for the file of this name; characters that would end a parameter become `_`.
    pub fn of_file(name: &str, pacing: Pacing) -> ReplaySpec {
        let plain = |c: char| match c {
            c if c.is_whitespace() || c.is_control() => '_',
            ',' | '=' | ':' | ';' => '_',
            c => c,
        };
        ReplaySpec {
            file: name.chars().map(plain).collect(),
            pacing,
            background: Background::default(),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "file" => self.file = value.into(),
            _ if self.pacing.set(name, value)? || self.background.set(name, value)? => {}
            _ => return Err(key("replay", name, &format!("file, {}", keys()))),
        }
        Ok(())
    }
}

impl fmt::Display for ReplaySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replay:")?;
        if !self.file.is_empty() {
            write!(f, "file={},", self.file)?;
        }
        write!(f, "{},{}", self.pacing, self.background)
    }
}

/// Parameters of `app:`, which runs a generated application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppSpec {
    /// One of [`APPS`].
    pub name: String,
    /// How long the application was used, seconds of recorded time.
    pub seconds: u32,
    /// When calls start.
    pub pacing: Pacing,
    /// What runs beside it.
    pub background: Background,
}

/// Keys of the parameters that both workloads have, for messages.
fn keys() -> String {
    format!("{}, {}", Pacing::KEYS, Background::KEYS)
}

impl Default for AppSpec {
    fn default() -> Self {
        AppSpec {
            name: APPS[0].into(),
            seconds: 120,
            pacing: Pacing::default(),
            background: Background::default(),
        }
    }
}

const SECONDS_MAX: u64 = 3600;

impl AppSpec {
    /// Sets one parameter. The name stands without a key: `app:facebook,seconds=120`.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "seconds" => self.seconds = number(value, 1..=SECONDS_MAX)? as u32,
            _ if APPS.contains(&name) && value.is_empty() => self.name = name.into(),
            _ if self.pacing.set(name, value)? || self.background.set(name, value)? => {}
            _ => {
                let valid = format!("{}; seconds, {}", APPS.join(", "), keys());
                return Err(key("app", name, &valid));
            }
        }
        Ok(())
    }
}

impl fmt::Display for AppSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seconds) = (&self.name, self.seconds);
        let (pacing, background) = (self.pacing, self.background);
        write!(f, "app:{name},seconds={seconds},{pacing},{background}")
    }
}
