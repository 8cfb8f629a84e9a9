//! The result as one value, which is `results.json`.

use super::lanes::{Lanes, promises, source};
use super::{Finding, Told};
use crate::call::Recording;
use crate::explore::Explored;
use crate::state::acknowledged;
use schemars::JsonSchema;
use serde::Serialize;

/// Most calls that are told of a finding.
const ROWS_MAX: usize = 200;

/// The command that makes it.
const COMMAND: &str = "crash --dir";

/// What the caller knows.
#[derive(Clone, Default, Debug)]
pub struct Context {
    /// The command that was run.
    pub run: String,
    /// What judged, in words; empty if nothing did.
    pub judges: Vec<String>,
    /// What makes a state again, but for its model and line:
    /// `varve crash --dir --recording FILE ... --state`.
    pub again: String,
    /// What was unsynced at acknowledgements, in words.
    pub lint: Vec<String>,
    /// What else is to be told.
    pub notes: Vec<String>,
    /// Why the result is a part, if it is.
    pub incomplete: Option<String>,
}

/// The result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// `crash --dir`.
    pub command: &'static str,
    /// The command that was run.
    pub run: String,
    /// What judged, in words.
    pub judges: Vec<String>,
    /// Recorded calls, with acknowledgements.
    pub calls: usize,
    /// Acknowledgements.
    pub acknowledgements: usize,
    /// Distinct trees that were judged.
    pub judged: u64,
    /// Why this is a part, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Why there is no verdict, if the test itself is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What each model left.
    pub models: Vec<OfModelReport>,
    /// Mistakes.
    pub findings: Vec<OfFinding>,
    /// What was unsynced at acknowledgements.
    pub lint: Vec<String>,
    /// What else is to be told.
    pub notes: Vec<String>,
}

/// What a model left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OfModelReport {
    /// Its name.
    pub name: String,
    /// Moments of a cut.
    pub cuts: u64,
    /// States.
    pub states: u64,
    /// Distinct trees among them.
    pub trees: u64,
    /// Distinct trees that are bad.
    pub bad: u64,
    /// States that the bound left out.
    pub beyond: u64,
    /// Findings that it has a part in.
    pub findings: usize,
    /// Groups of bad states of which none was kept.
    pub groups_not_kept: u64,
    /// Why it gave up, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

/// A finding in a model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct InModel {
    /// Its name.
    pub model: String,
    /// Distinct bad trees that belong to it.
    pub states: u64,
    /// How the model makes one of them again.
    pub line: String,
}

/// A mistake of the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OfFinding {
    /// From 1 on.
    pub number: usize,
    /// The mistake.
    pub sentence: String,
    /// What the judge says.
    pub why: String,
    /// Syncs that lack.
    pub lacks: Vec<String>,
    /// Equal in runs of the same program.
    pub key: String,
    /// Calls that had begun at the cut.
    pub cut: usize,
    /// What had been acknowledged.
    pub acknowledged: Vec<String>,
    /// What is lost.
    pub lost: Vec<String>,
    /// The models that leave it.
    pub models: Vec<InModel>,
    /// The line that makes the state again.
    pub again: String,
    /// Source file and line of the call that matters most, if stacks were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<(String, String)>,
    /// The calls around the cut.
    pub story: Lanes,
}

impl Report {
    /// Puts the result together.
    pub fn new(
        context: Context,
        recording: &Recording,
        explored: &Explored,
        findings: &[Finding],
    ) -> Report {
        let numbered = findings.iter().zip(1..);
        let findings: Vec<OfFinding> = numbered
            .map(|(finding, number)| of_finding(&context, recording, finding, number))
            .collect();
        let models = explored.models.iter().map(|model| {
            let has = |finding: &&OfFinding| finding.models.iter().any(|of| of.model == model.name);
            OfModelReport {
                name: model.name.clone(),
                cuts: model.counts.cuts,
                states: model.counts.states,
                trees: model.distinct,
                bad: model.bad,
                beyond: model.counts.beyond,
                findings: findings.iter().filter(has).count(),
                groups_not_kept: model.groups - model.kept.len() as u64,
                gave_up: model.gave_up.clone(),
            }
        });
        Report {
            schema: 1,
            command: COMMAND,
            models: models.collect(),
            run: context.run,
            judges: context.judges,
            calls: recording.calls.len(),
            acknowledgements: promises(recording),
            judged: explored.judged,
            incomplete: context.incomplete,
            error: None,
            findings,
            lint: context.lint,
            notes: context.notes,
        }
    }

    /// That of a test which came to no verdict.
    pub fn broken(run: &str, why: &str) -> Report {
        Report {
            schema: 1,
            command: COMMAND,
            run: run.into(),
            judges: Vec::new(),
            calls: 0,
            acknowledgements: 0,
            judged: 0,
            incomplete: None,
            error: Some(why.into()),
            models: Vec::new(),
            findings: Vec::new(),
            lint: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether any tree is bad.
    pub fn is_bad(&self) -> bool {
        self.models.iter().any(|model| model.bad > 0)
    }

    /// Whether everything was looked at.
    pub fn is_whole(&self) -> bool {
        let looked_at = |model: &OfModelReport| model.gave_up.is_none() && model.states > 0;
        self.incomplete.is_none() && self.error.is_none() && self.models.iter().all(looked_at)
    }

    /// It as JSON.
    ///
    /// # Errors
    /// The text cannot be made.
    pub fn json(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        Ok(text + "\n")
    }
}

fn of_finding(
    context: &Context,
    recording: &Recording,
    finding: &Finding,
    number: usize,
) -> OfFinding {
    let told = &finding.told;
    let state = &told.state;
    let acked = acknowledged(recording, recording.calls.len());
    let acked = acked.iter().take(state.acknowledged);
    OfFinding {
        number,
        sentence: told.sentence.clone(),
        why: told.why.clone(),
        lacks: told.lacks.clone(),
        key: told.key.clone(),
        cut: state.calls,
        acknowledged: acked.map(ToString::to_string).collect(),
        lost: state.lost.iter().map(ToString::to_string).collect(),
        again: again(context, finding),
        models: finding.of.clone(),
        source: source_of(recording, told),
        story: Lanes::new(recording, told, ROWS_MAX),
    }
}

fn again(context: &Context, finding: &Finding) -> String {
    match finding.of.first() {
        Some(of) => {
            let state = format!("{} {}", of.model, of.line).replace('\'', "'\\''");
            format!("{} '{state}'", context.again)
        }
        None => String::new(),
    }
}

fn source_of(recording: &Recording, told: &Told) -> Option<(String, String)> {
    let calls = told.kept.iter().chain(&told.promise).chain(&told.lost);
    let mut sources = calls.filter_map(|&call| source(recording, call));
    let (file, line) = sources.next()?;
    Some((file.into(), line.into()))
}
