//! What of a recording causes the wear: bytes that went to the device by file, by call and by
//! process. The parts of each list sum up to all bytes.

use crate::metrics::round;
use crate::results::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Rows of a list; what is behind them is summed in one more.
const ROWS: usize = 20;

/// By what causes are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The file that a call names.
    File,
    /// The kind of the call.
    Call,
    /// The process or thread that made it.
    Process,
}

impl By {
    /// All of them.
    pub const ALL: [By; 3] = [By::File, By::Call, By::Process];
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            By::File => "file",
            By::Call => "call",
            By::Process => "process",
        })
    }
}

impl FromStr for By {
    type Err = String;
    fn from_str(text: &str) -> Result<By, String> {
        let found = By::ALL.into_iter().find(|by| by.to_string() == text);
        found.ok_or_else(|| format!("`{text}`: it may be file, call or process"))
    }
}

/// One cause and what it sent to the device in the measured part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The file, call or process.
    pub name: String,
    /// Bytes of file content.
    pub data_bytes: u64,
    /// Bytes of the log and of metadata that were sent while a sync of this cause waited for them.
    pub metadata_bytes: u64,
    /// Its share of what was sent later and nobody waited for: metadata at home, checkpoints.
    pub later_bytes: u64,
    /// Number of its syncs.
    pub syncs: u64,
}

impl Cause {
    /// All bytes of it.
    pub fn bytes(&self) -> u64 {
        self.data_bytes + self.metadata_bytes + self.later_bytes
    }
}

/// The causes of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Causes {
    /// By file, the largest first.
    pub file: Vec<Cause>,
    /// By kind of call.
    pub call: Vec<Cause>,
    /// By process or thread.
    pub process: Vec<Cause>,
}

impl Causes {
    /// The list of one kind.
    pub fn by(&self, by: By) -> &[Cause] {
        match by {
            By::File => &self.file,
            By::Call => &self.call,
            By::Process => &self.process,
        }
    }
}

/// The largest causes first; of many, those behind the first are one row.
pub fn ranked(mut all: Vec<Cause>) -> Vec<Cause> {
    all.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.name.cmp(&b.name)));
    if all.len() <= ROWS + 1 {
        return all;
    }
    let rest = all.split_off(ROWS);
    let sum = |of: fn(&Cause) -> u64| rest.iter().map(of).sum();
    all.push(Cause {
        name: format!("{} others", rest.len()),
        data_bytes: sum(|c| c.data_bytes),
        metadata_bytes: sum(|c| c.metadata_bytes),
        later_bytes: sum(|c| c.later_bytes),
        syncs: sum(|c| c.syncs),
    });
    all
}

/// The columns of the table of [`rows`]; the first is what causes are told by.
pub const COLUMNS: [&str; 7] = [
    "data KiB",
    "metadata KiB",
    "later KiB",
    "syncs",
    "all KiB",
    "share %",
    "erases due",
];

/// The rows of a table: name, then [`COLUMNS`]. Erases are in proportion to the bytes.
pub fn rows(run: &Run, by: By) -> Vec<Vec<String>> {
    let causes = run.causes.as_ref().map_or(&[][..], |c| c.by(by));
    let all: u64 = causes.iter().map(Cause::bytes).sum();
    let row = |c: &Cause| {
        let kib = |bytes: u64| format!("{:.0}", bytes as f64 / 1024.0);
        let share = c.bytes() as f64 / all.max(1) as f64;
        let due = run.wear.map(|w| round(w.erases_due * share));
        vec![
            c.name.clone(),
            kib(c.data_bytes),
            kib(c.metadata_bytes),
            kib(c.later_bytes),
            c.syncs.to_string(),
            kib(c.bytes()),
            format!("{:.1}", share * 100.0),
            due.map_or("-".into(), |due| format!("{due:.2}")),
        ]
    };
    causes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_behind_the_first_are_one_row_and_nothing_is_lost() {
        let cause = |n: u64| Cause {
            name: format!("{n:03}"),
            data_bytes: n,
            metadata_bytes: 1,
            later_bytes: 2,
            syncs: 1,
        };
        let all: Vec<Cause> = (0..50).map(cause).collect();
        let sum: u64 = all.iter().map(Cause::bytes).sum();
        let ranked = ranked(all);
        assert_eq!((ranked.len(), ranked[0].name.as_str()), (ROWS + 1, "049"));
        assert_eq!(ranked[ROWS].name, "30 others");
        assert_eq!(ranked.iter().map(Cause::bytes).sum::<u64>(), sum);
        assert_eq!(ranked.iter().map(|c| c.syncs).sum::<u64>(), 50);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for by in By::ALL {
            assert_eq!(by.to_string().parse::<By>(), Ok(by));
        }
        assert!("thread".parse::<By>().unwrap_err().contains("process"));
    }
}
