//! The job of CrashMonkey's two tests in section 5.4: the workload is cut everywhere within a
//! bound, and every state is recovered and judged.

use crate::PaperError;
use crash::campaign::{BATCH, Explored, Reach, explore};
use crash::case::{Case, Volumes};
use serde::{Deserialize, Serialize};

/// What to explore.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrashJob {
    /// The workload under a scheme on a device of stated promises.
    pub case: Case,
    /// How far to look.
    pub reach: Reach,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Judged {
    /// Moments at which the power was cut.
    pub cuts: u64,
    /// States recovered and judged.
    pub states: u64,
    /// States that break a promise.
    pub violations: u64,
    /// What the first of them breaks.
    pub first: Option<String>,
}

impl CrashJob {
    /// Explores.
    ///
    /// # Errors
    /// The run itself fails; something that is no property of a state does.
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
