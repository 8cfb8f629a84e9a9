//! Which run of a comparison is ahead by a figure, and whether it may be recommended.

use crate::results::Run;

/// Schemes, and parts of their names, that keep no promise of an fsync at a power cut: a file
/// system without journal, and F2FS that sends no flush.
const BREAKS_FSYNC: [&str; 2] = ["none", "fsync_mode=nobarrier"];

/// The best runs by a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Best<'a> {
    /// The first of those with the largest figure that keep what an fsync promised.
    pub safe: &'a Run,
    /// The one that does not, if it has a larger figure than all of them.
    pub ahead: Option<&'a Run>,
}

/// The best runs; `None` if no run that keeps what an fsync promised has the figure.
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
    !run.scheme
        .split('+')
        .any(|part| BREAKS_FSYNC.contains(&part))
}

impl Best<'_> {
    /// Says of the run that keeps no promise that it is ahead, with its figure; empty if it is not.
    pub fn beside(&self, figure: impl Fn(&Run) -> String) -> String {
        self.ahead.map_or(String::new(), |run| {
            let name = format!("{}/{}", run.fs, run.scheme);
            format!(
                " {name} has {}, and keeps no fsync at a power cut.",
                figure(run)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_an_fsync_is_told_and_not_recommended() {
        let run = |scheme: &str, ops| {
            let mut run = crate::page::some_run(scheme);
            run.ops_per_s = ops;
            run
        };
        for lossy in [
            "none",
            "none+commit=1",
            "checkpoint-60+fsync_mode=nobarrier",
        ] {
            let runs = [run("jbd2", 10.0), run(lossy, 90.0), run("emmc", 20.0)];
            let best = best(&runs, |run| Some(run.ops_per_s)).expect("runs");
            assert_eq!(best.safe.scheme, "emmc");
            assert_eq!(best.ahead.map(|run| &run.scheme[..]), Some(lossy));
            let beside = best.beside(|run| run.ops_per_s.to_string());
            assert!(beside.ends_with("90, and keeps no fsync at a power cut."));
        }
    }
}
