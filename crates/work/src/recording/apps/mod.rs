//! The eight applications of the eMMC paper, synthesised: only two of them have recordings.
//!
//! The paper characterises its applications by how often they sync and by how much metadata and
//! data a commit carries. A generated application does what such applications do (SQLite
//! transactions, cache files, preferences, thumbnails that other threads make and remove) in a mix
//! that gives these three values on the baseline; times between calls come from a recording. The
//! committed parameters were fitted to the baseline alone. docs/use/apps.md has method, parameters
//! and result.
//!
//! - A1: the number of fsyncs is the application's rate times the length, rounded to a whole
//!   number, for every seed.
//! - A2: a recording depends on the name, the length and the seed alone, as the parameters of a
//!   name are committed.
//! - A3: shares of actions, pages and file turnover are dealt, not drawn: whatever the seed, they
//!   add up to the same.

mod actions;
mod deal;
mod parameters;
mod phone;
mod schedule;
#[cfg(test)]
mod tests;

pub use parameters::{Mix, Parameters, Point, Table, table};

use super::Recording;
use base::Rng;
use thiserror::Error;

/// The eight applications, in the order of the paper's tables.
pub const APPS: [&str; 8] = [
    "facebook",
    "twitter",
    "google-map",
    "gmail",
    "netflix",
    "angry-birds",
    "chrome",
    "amazon",
];

/// Longest recording that is generated, seconds.
pub const SECONDS_MAX: u32 = 3600;

/// Why no recording could be generated.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AppError {
    /// No application of that name.
    #[error("unknown app `{given}`; there is: {valid}")]
    Name {
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// The length is 0 or above [`SECONDS_MAX`].
    #[error("an app runs for 1 to {SECONDS_MAX} seconds, not {0}")]
    Seconds(u32),
    /// A parameter is out of range.
    #[error("app `{app}`: {wrong}")]
    Parameters {
        /// The application.
        app: String,
        /// The parameter and what is wrong with it.
        wrong: String,
    },
}

/// Generates what the application does in `seconds`.
///
/// # Errors
/// The name is not in [`APPS`], or the length is 0 or above [`SECONDS_MAX`].
pub fn generate(app: &str, seconds: u32, seed: u64) -> Result<Recording, AppError> {
    let table = table();
    let parameters = table.apps.iter().find(|p| p.name == app);
    let parameters = parameters.ok_or_else(|| AppError::Name {
        given: app.into(),
        valid: APPS.join(", "),
    })?;
    generate_with(&table, parameters, seconds, seed)
}

/// Like [`generate`], with parameters that the caller chooses.
///
/// # Errors
/// As [`generate`]; parameters out of range.
pub fn generate_with(
    table: &Table,
    app: &Parameters,
    seconds: u32,
    seed: u64,
) -> Result<Recording, AppError> {
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(AppError::Seconds(seconds));
    }
    app.check()?;
    let rng = Rng::named(seed, &format!("app/{}", app.name));
    Ok(schedule::record(table, app, seconds, rng))
}
