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

fn name(run: &Run) -> String {
    format!("{}/{}", run.fs, run.scheme)
}

fn fastest(runs: &[Run]) -> Option<String> {
    let best = best(runs, |run| Some(run.ops_per_s))?;
    let safe = best.safe;
    let rate = |run: &Run| format!("{:.1} operations/s", run.ops_per_s);
    let first = runs.first().filter(|first| name(first) != name(safe));
    let over = first.map_or(String::new(), |first| {
        let gain = gain(safe.ops_per_s, first.ops_per_s);
        format!(", {gain} % over {}", name(first))
    });
    let more = best.beside(rate);
    Some(format!("{} with {}{over}.{more}", name(safe), rate(safe)))
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
            "ext4/emmc with 150.0 operations/s, +50.0 % over ext4/jbd2. ext4/none has 200.0 operations/s, and keeps nothing at a power cut.",
            "ext4/emmc with 700 us at most, where ext4/jbd2 has 900 us at most. ext4/none has 600 us at most, and keeps nothing at a power cut.",
        ];
        assert_eq!(told(&runs), wanted);
        let safe = told(&runs[..2]);
        assert!(
            safe.iter().all(|answer| !answer.contains("none")),
            "{safe:?}"
        );
    }

    #[test]
    fn of_equal_runs_the_first_is_named_and_without_syncs_none_is_the_shortest() {
        let runs = [run("jbd2", 100.0, 0.0), run("emmc", 100.0, 0.0)];
        assert_eq!(told(&runs), ["ext4/jbd2 with 100.0 operations/s."]);
        assert_eq!(told(&[]), [""; 0]);
        assert_eq!(
            told(&[run("none", 100.0, 5.0)]),
            [""; 0],
            "nothing that is safe"
        );
    }
}
