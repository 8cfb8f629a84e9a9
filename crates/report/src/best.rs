//! Which run of a comparison is ahead by a figure, and whether it may be recommended.

use crate::results::Run;

/// The scheme that keeps no promise at a power cut: a file system without journal.
const NO_JOURNAL: &str = "none";

/// The best runs by a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Best<'a> {
    /// The first of those with the largest figure that keep what an fsync promised.
    pub safe: &'a Run,
    /// The one without journal, if it has a larger figure than all of them.
    pub ahead: Option<&'a Run>,
}

/// The best runs; `None` if no run with a journal has the figure.
pub fn best(runs: &[Run], value: impl Fn(&Run) -> Option<f64>) -> Option<Best<'_>> {
    let mut safe: Option<(&Run, f64)> = None;
    let mut bare: Option<(&Run, f64)> = None;
    for run in runs {
        let Some(here) = value(run) else { continue };
        let place = if is_safe(run) { &mut safe } else { &mut bare };
        if place.is_none_or(|(_, best)| here > best) {
            *place = Some((run, here));
        }
    }
    let (safe, most) = safe?;
    Some(Best {
        safe,
        ahead: bare.filter(|(_, here)| *here > most).map(|(run, _)| run),
    })
}

/// Whether the run keeps what an fsync promised.
fn is_safe(run: &Run) -> bool {
    run.scheme.split('+').next() != Some(NO_JOURNAL)
}

impl Best<'_> {
    /// Says of the run without journal that it is ahead, with its figure; empty if it is not.
    pub fn beside(&self, figure: impl Fn(&Run) -> String) -> String {
        self.ahead.map_or(String::new(), |run| {
            let name = format!("{}/{}", run.fs, run.scheme);
            format!(
                " {name} has {}, and keeps nothing at a power cut.",
                figure(run)
            )
        })
    }
}
