//! The job of CrashMonkey's two tests in section 5.4: cuts the workload everywhere, and recovers
//! and judges every state that is within a bound.

use crate::PaperError;
use crash::campaign::{BATCH, Explored, Reach, explore};
use crash::case::{Case, Volumes};
use serde::{Deserialize, Serialize};

/// The job: what to explore.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrashJob {
    /// The workload, with a scheme and a device whose promises are stated.
    pub case: Case,
    /// The bound of the exploration.
    pub reach: Reach,
}

/// What the exploration found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Judged {
    /// Number of moments at which the power was cut.
    pub cuts: u64,
    /// Number of states that were recovered and judged.
    pub states: u64,
    /// Number of states that break a promise.
    pub violations: u64,
    /// What the first of those states breaks.
    pub first: Option<String>,
}

impl CrashJob {
    /// Explores the workload.
    ///
    /// # Errors
    /// The run itself fails, or something that is no property of a state.
    pub fn run(&self) -> Result<Judged, PaperError> {
        let setup = self.case.setup(&mut Volumes::default())?;
        let Explored {
            points,
            judged,
            violations,
            findings,
            failure,
            ..
        } = explore(&setup, &self.reach, BATCH, &mut |_| {})?;
        if let Some(why) = failure {
            return Err(PaperError::Check(why));
        }
        let first = findings.first().map(|f| f.violations.join("; "));
        Ok(Judged {
            cuts: points,
            states: judged,
            violations,
            first,
        })
    }
}
