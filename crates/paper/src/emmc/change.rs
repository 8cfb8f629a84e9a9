//! Section V: the size of the paper's change to the kernel, which has no counterpart here.

use super::job::{Job, Outcomes};
use super::{Plan, published};
use crate::PaperError;
use crate::{Row, Section};

/// There are no jobs.
pub fn jobs(_plan: &Plan) -> Vec<Job> {
    Vec::new()
}

/// Makes the section, with a row that says so.
///
/// # Errors
/// The committed table is not valid.
pub fn section(_plan: &Plan, _outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published()?;
    let lines = table.get("V", "lines changed in Linux 3.10", None);
    Ok(Section {
        title: "V: size of the change".into(),
        rows: vec![Row::unmeasured(lines, None)],
        ..Section::default()
    })
}
