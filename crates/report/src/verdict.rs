//! What a comparison answers, in one sentence a question: which scheme is the fastest, how long the
//! device lives, and which call takes longest at worst.

use crate::best::best;
use crate::results::Run;
use crate::{gain, wear};

/// A question, and its answer by the figures of the runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The question, in a few words.
    pub asked: &'static str,
    /// The answer, in a sentence or two.
    pub answer: String,
}

/// The answers that the runs have. A scheme without journal is no answer, because it may lose what
/// it is asked to keep; where it is ahead, it is named beside.
pub fn answers(runs: &[Run]) -> Vec<Answer> {
    let of = |asked, answer: Option<String>| answer.map(|answer| Answer { asked, answer });
    let all = [
        of("Which is the fastest?", fastest(runs)),
        of("How long does the device live?", wear::sentence(runs)),
        of("Which has the shortest worst fsync?", shortest(runs)),
    ];
    all.into_iter().flatten().collect()
}

/// Rates that differ by less than this share are one.
const SAME: f64 = 0.001;

fn name(run: &Run) -> String {
    format!("{}/{}", run.fs, run.scheme)
}

fn fastest(runs: &[Run]) -> Option<String> {
    let best = best(runs, |run| Some(run.ops_per_s))?;
    let safe = best.safe;
    let rate = |run: &Run| format!("{:.1} operations/s", run.ops_per_s);
    let is_same = |run: &Run| (run.ops_per_s / safe.ops_per_s - 1.0).abs() < SAME;
    if runs.len() > 1 && runs.iter().all(is_same) {
        let by_sync = shortest_mean(runs).unwrap_or_default();
        return Some(format!("None: all have {}{by_sync}.", rate(safe)));
    }
    let first = runs.first().filter(|first| name(first) != name(safe));
    let over = first.map_or(String::new(), |first| {
        let gain = gain(safe.ops_per_s, first.ops_per_s);
        format!(", {gain} % over {}", name(first))
    });
    let more = best.beside(rate);
    Some(format!("{} with {}{over}.{more}", name(safe), rate(safe)))
}

/// Where a recording or the processor sets the pace, the fsyncs tell the schemes apart.
fn shortest_mean(runs: &[Run]) -> Option<String> {
    let mean = |run: &Run| run.latency_us.fsync.mean;
    let syncing = runs.iter().any(|run| mean(run) > 0.0);
    let best = best(runs, |run| syncing.then(|| -mean(run)))?;
    let safe = best.safe;
    let first = runs.first().filter(|first| name(first) != name(safe));
    let over = first.map_or(String::new(), |first| {
        format!(", where {} has {:.0} us", name(first), mean(first))
    });
    Some(format!(
        ", so the load sets the pace. Its fsyncs are the shortest with {}, {:.0} us in the mean{over}",
        name(safe),
        mean(safe)
    ))
}

fn shortest(runs: &[Run]) -> Option<String> {
    let worst = |run: &Run| run.latency_us.fsync.max;
    // A workload without syncs has no worst one.
    let syncing = runs.iter().any(|run| worst(run) > 0.0);
    let best = best(runs, |run| syncing.then(|| -worst(run)))?;
    let safe = best.safe;
    let at_most = |run: &Run| format!("{:.0} us at most", worst(run));
    let first = runs.first().filter(|first| name(first) != name(safe));
    let over = first.map_or(String::new(), |first| {
        format!(", where {} has {}", name(first), at_most(first))
    });
    let more = best.beside(at_most);
    Some(format!(
        "{} with {}{over}.{more}",
        name(safe),
        at_most(safe)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::some_run;

    fn run(scheme: &str, ops_per_s: f64, worst_us: f64) -> Run {
        let mut run = some_run(scheme);
        run.ops_per_s = ops_per_s;
        run.latency_us.fsync.max = worst_us;
        run
    }

    fn told(runs: &[Run]) -> Vec<String> {
        answers(runs).into_iter().map(|a| a.answer).collect()
    }

    #[test]
    fn the_fastest_is_safe_and_no_journal_is_named_beside() {
        let runs = [
            run("jbd2", 100.0, 900.0),
            run("emmc", 150.0, 700.0),
            run("none", 200.0, 600.0),
        ];
        let wanted = [
            "ext4/emmc with 150.0 operations/s, +50.0 % over ext4/jbd2. ext4/none has 200.0 operations/s, and keeps no fsync at a power cut.",
            "ext4/emmc with 700 us at most, where ext4/jbd2 has 900 us at most. ext4/none has 600 us at most, and keeps no fsync at a power cut.",
        ];
        assert_eq!(told(&runs), wanted);
        let safe = told(&runs[..2]);
        assert!(
            safe.iter().all(|answer| !answer.contains("none")),
            "{safe:?}"
        );
    }

    #[test]
    fn of_equal_runs_none_is_the_fastest_and_without_syncs_none_is_the_shortest() {
        let mut runs = [run("jbd2", 100.0, 0.0), run("emmc", 100.04, 0.0)];
        runs.iter_mut()
            .for_each(|run| run.latency_us.fsync.mean = 0.0);
        assert_eq!(told(&runs), ["None: all have 100.0 operations/s."]);
        runs[0].latency_us.fsync.mean = 900.0;
        runs[1].latency_us.fsync.mean = 400.0;
        let wanted = "None: all have 100.0 operations/s, so the load sets the pace. Its fsyncs are the shortest with ext4/emmc, 400 us in the mean, where ext4/jbd2 has 900 us.";
        assert_eq!(told(&runs)[0], wanted);
        let slow = told(&[run("jbd2", 0.16, 0.0), run("emmc", 0.24, 0.0)]);
        assert!(slow[0].starts_with("ext4/emmc with 0.2"), "{slow:?}");
        let alone = told(&runs[..1]);
        assert_eq!(alone[0], "ext4/jbd2 with 100.0 operations/s.");
        assert_eq!(told(&[]), [""; 0]);
        assert_eq!(
            told(&[run("none", 100.0, 5.0)]),
            [""; 0],
            "nothing that is safe"
        );
    }
}
