//! The calls around a cut, a lane for each thread, with what became of each.

use super::Told;
use crate::call::{Recording, What, Who};
use crate::record;
use schemars::JsonSchema;
use serde::Serialize;

/// Calls that are shown in front of the first one that matters.
const BEFORE: usize = 2;
/// Calls that are shown behind the cut.
const BEHIND: usize = 1;

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It matters for nothing here.
    Plain,
    /// Something of it is lost.
    Lost,
    /// That it is durable makes the state bad.
    Kept,
    /// The acknowledgement that is broken.
    Promise,
    /// The power went while it was carried out.
    UnderWay,
    /// The power went before it.
    Never,
    /// The device refused it.
    Failed,
}

/// A call, or several that are not shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Row {
    /// Index of the call.
    pub call: usize,
    /// Its lane.
    pub lane: usize,
    /// It in words.
    pub words: String,
    /// What became of it.
    pub fate: Fate,
    /// What is lost of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// The program's stack at a call that matters, if stacks were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Calls behind it that are not shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

/// The calls around a cut.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Lanes {
    /// Who made the calls of each lane.
    pub names: Vec<String>,
    /// The calls.
    pub rows: Vec<Row>,
    /// The power did not go: this is what is there.
    #[serde(skip_serializing_if = "is_false")]
    pub without_cut: bool,
}

/// A thread in words.
pub fn who(who: &Who) -> String {
    match (who.process, who.thread) {
        (0, _) => "kernel".into(),
        (process, thread) if process == thread => format!("{}[{process}]", who.program),
        (process, thread) => format!("{}[{process}/{thread}]", who.program),
    }
}

impl Lanes {
    /// At most about `rows_max` calls: those that matter, and those between them where there is
    /// room.
    pub fn new(recording: &Recording, told: &Told, rows_max: usize) -> Lanes {
        let all = &recording.calls;
        let cut = told.state.calls.min(all.len());
        let mut matter: Vec<usize> = told.lost.iter().chain(&told.kept).copied().collect();
        matter.extend(told.promise);
        matter.extend(cut.checked_sub(1));
        let from = matter
            .iter()
            .min()
            .map_or(0, |first| first.saturating_sub(BEFORE));
        let to = (cut + BEHIND).min(all.len());
        let is_near = |nr: usize| matter.iter().any(|&other| other.abs_diff(nr) <= 1);
        let mut shown: Vec<usize> = (from..to).collect();
        if shown.len() > rows_max {
            shown.retain(|&nr| matter.contains(&nr) || is_near(nr) || nr >= cut);
        }
        if shown.len() > rows_max {
            shown.retain(|nr| matter.contains(nr));
            shown.truncate(rows_max);
        }
        let mut names: Vec<String> = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        for (at, &nr) in shown.iter().enumerate() {
            let name = who(&all[nr].who);
            let lane = names.iter().position(|known| *known == name);
            let lane = lane.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            let lost = told.state.lost.iter().filter(|part| part.call == nr);
            let fate = match all[nr].what.failure().filter(|_| nr < cut) {
                Some(_) => Fate::Failed,
                None => fate(told, nr, cut),
            };
            let stack = match fate {
                Fate::Plain | Fate::UnderWay | Fate::Never => Vec::new(),
                Fate::Lost | Fate::Kept | Fate::Promise | Fate::Failed => all[nr].stack.clone(),
            };
            rows.push(Row {
                call: nr,
                lane,
                words: record::line(&all[nr]),
                fate,
                lost: lost.map(ToString::to_string).collect(),
                stack,
                skipped: shown.get(at + 1).unwrap_or(&to).saturating_sub(nr + 1),
            });
        }
        Lanes {
            names,
            rows,
            without_cut: told.without_cut,
        }
    }
}

fn fate(told: &Told, nr: usize, cut: usize) -> Fate {
    match nr {
        _ if nr >= cut => Fate::Never,
        _ if told.lost.contains(&nr) => Fate::Lost,
        _ if told.promise == Some(nr) => Fate::Promise,
        _ if told.kept.contains(&nr) => Fate::Kept,
        _ if told.state.under_way && nr + 1 == cut => Fate::UnderWay,
        _ => Fate::Plain,
    }
}

impl Fate {
    /// It in a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Fate::Plain => "",
            Fate::Lost => "LOST",
            Fate::Kept => "durable",
            Fate::Promise => "promised",
            Fate::UnderWay => "not answered",
            Fate::Never => "not begun",
            Fate::Failed => "FAILED",
        }
    }
}

impl Lanes {
    /// What divides the calls before the moment from those behind it.
    pub fn moment(&self) -> &'static str {
        match self.without_cut {
            true => "no power cut: this is what is there",
            false => "power cut",
        }
    }
}

/// The innermost frame of a call's stack that names a file and a line.
pub fn source(recording: &Recording, call: usize) -> Option<(&str, &str)> {
    let call = recording.calls.get(call)?;
    call.stack.iter().find_map(|frame| {
        let word = frame.split_whitespace().next_back()?;
        let (file, line) = word.trim_matches(['(', ')']).rsplit_once(':')?;
        let is_line = !line.is_empty() && line.bytes().all(|c| c.is_ascii_digit());
        (is_line && !file.is_empty()).then_some((file, line))
    })
}

/// Number of acknowledgements of a recording.
pub fn promises(recording: &Recording) -> usize {
    let is_one = |what: &What| matches!(what, What::Acknowledge(_));
    recording
        .calls
        .iter()
        .filter(|call| is_one(&call.what))
        .count()
}
