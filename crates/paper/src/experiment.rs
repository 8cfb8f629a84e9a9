//! Runs of a report in which the cause that a row names is removed or applied, and whether that
//! closes the difference. The verdict follows from the figures alone.

use crate::{Published, number};
use report::metrics::round;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Part of a difference that has to go for the cause to count for something: with less, a run
/// differs as much by chance.
pub const COUNTS: f64 = 0.25;

/// Runs in which one cause was varied, and what they say of a row outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// The cause that was removed or applied, as `the CPU costs of the table`.
    pub cause: String,
    /// What the value is with the cause as in the row, where the runs of the experiment differ from
    /// those of the row in something else as well (they have fewer objects, say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<f64>,
    /// What the value is otherwise.
    pub trials: Vec<Trial>,
    /// What the trial says that comes nearest.
    pub verdict: Verdict,
}

/// One way in which the cause was varied.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// How it was, as `half of them`.
    pub with: String,
    /// What the value is then.
    pub measured: f64,
    /// Where the value is from. Only a run that was made for its cause closes or narrows anything.
    #[serde(default, skip_serializing_if = "Basis::is_run")]
    pub basis: Basis,
}

/// Where the value of a trial is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A run in which the cause was varied.
    #[default]
    Run,
    /// The row's own runs, with something added or left out by calculation: it says what a cause
    /// would have to do, and not that the cause does it.
    Arithmetic,
    /// A run of something that was fitted to published values of the same thing. It comes near them
    /// whatever the row is, so it says nothing of the row.
    Fitted,
}

impl Basis {
    fn is_run(&self) -> bool {
        *self == Basis::Run
    }

    /// What is said of such a trial, behind its value.
    fn words(self) -> &'static str {
        match self {
            Basis::Run => "",
            Basis::Arithmetic => " by arithmetic",
            Basis::Fitted => " (fitted, says nothing)",
        }
    }
}

/// What an experiment says of the difference of a row.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The value agrees.
    Closed,
    /// The distance from what was published is smaller by `COUNTS` or more; in the row's unit.
    Narrowed {
        /// Its distance in the row, or in the control.
        from: f64,
        /// Its distance in the nearest trial.
        to: f64,
    },
    /// No run closes or narrows it, but arithmetic on the row's own runs would.
    Arithmetic,
    /// It is as large as before, nearly, or larger.
    NotExplained,
}

impl Verdict {
    /// Part of the difference that is left: 0 if it is closed, 1 if no run explains any.
    pub fn left(self) -> f64 {
        match self {
            Verdict::Closed => 0.0,
            Verdict::Narrowed { from, to } => to / from,
            Verdict::Arithmetic | Verdict::NotExplained => 1.0,
        }
    }

    /// The verdict that explains more.
    #[must_use]
    pub fn better(self, other: Verdict) -> Verdict {
        let rank = |v: Verdict| (v.left(), v == Verdict::NotExplained);
        if rank(other) < rank(self) {
            other
        } else {
            self
        }
    }

    /// The verdict in words.
    pub fn words(self) -> String {
        match self {
            Verdict::Closed => "closed".into(),
            Verdict::Narrowed { from, to } => {
                format!("narrowed from {} to {}", number(from), number(to))
            }
            Verdict::Arithmetic => "explained by arithmetic only".into(),
            Verdict::NotExplained => "not explained".into(),
        }
    }
}

impl Experiment {
    /// An experiment on that cause, without runs.
    pub fn on(cause: &str) -> Experiment {
        Experiment {
            cause: cause.into(),
            control: None,
            trials: Vec::new(),
            verdict: Verdict::NotExplained,
        }
    }

    /// Sets what the value is with the cause as in the row, but otherwise as in the trials; a
    /// quotient that is no number sets nothing.
    #[must_use]
    pub fn against(mut self, control: f64) -> Experiment {
        self.control = control.is_finite().then(|| round(control));
        self
    }

    /// Adds a trial: how the cause was, and what the value is then. A quotient that is no number
    /// adds none.
    #[must_use]
    pub fn with(self, with: &str, measured: f64) -> Experiment {
        self.trial(with, measured, Basis::Run)
    }

    /// Adds what the value would be by arithmetic on the row's own runs.
    #[must_use]
    pub fn computed(self, with: &str, measured: f64) -> Experiment {
        self.trial(with, measured, Basis::Arithmetic)
    }

    /// Adds a run of something that was fitted to published values of the same thing.
    #[must_use]
    pub fn fitted(self, with: &str, measured: f64) -> Experiment {
        self.trial(with, measured, Basis::Fitted)
    }

    fn trial(mut self, with: &str, measured: f64, basis: Basis) -> Experiment {
        self.trials.extend(measured.is_finite().then(|| Trial {
            with: with.into(),
            measured: round(measured),
            basis,
        }));
        self
    }

    /// The experiment with its verdict on a row of this value. A control that agrees leaves nothing
    /// for the cause to close.
    pub(crate) fn judged(mut self, published: &Published, measured: f64) -> Experiment {
        let by_runs = self.verdict_by(Basis::Run, published, measured);
        let computed = self.verdict_by(Basis::Arithmetic, published, measured);
        let computed = match computed {
            Verdict::NotExplained => Verdict::NotExplained,
            _ => Verdict::Arithmetic,
        };
        self.verdict = by_runs.better(computed);
        self
    }

    /// What the trials on this basis alone say.
    fn verdict_by(&self, basis: Basis, published: &Published, measured: f64) -> Verdict {
        let agrees = |value| published.class.within(published, value) == Some(true);
        let trials = self.trials.iter().filter(|trial| trial.basis == basis);
        let nearest = trials.map(|trial| trial.measured);
        let nearest = nearest.min_by(|a, b| published.gap(*a).total_cmp(&published.gap(*b)));
        let from = self.control.unwrap_or(measured);
        match nearest {
            Some(_) if agrees(from) => Verdict::NotExplained,
            Some(nearest) if agrees(nearest) => Verdict::Closed,
            Some(nearest) => match (round(published.gap(from)), round(published.gap(nearest))) {
                (from, to) if to <= (1.0 - COUNTS) * from => Verdict::Narrowed { from, to },
                _ => Verdict::NotExplained,
            },
            None => Verdict::NotExplained,
        }
    }

    /// The experiment in a sentence.
    pub fn words(&self) -> String {
        let control = self
            .control
            .map(|value| format!("as here {}", number(value)));
        let trials = self.trials.iter();
        let trials =
            trials.map(|t| format!("{} {}{}", t.with, number(t.measured), t.basis.words()));
        let runs: Vec<String> = control.into_iter().chain(trials).collect();
        let verdict = self.verdict.words();
        format!("{}: {} ({verdict})", self.cause, runs.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn published(class: Class, value: f64) -> Published {
        Published {
            range: Some((0.1, 0.2)),
            ..Published::new("F", "i", "u", class, Some(value))
        }
    }

    fn verdict(class: Class, value: f64, measured: f64, trials: &[f64]) -> Verdict {
        let add = |e: Experiment, trial: &f64| e.with("t", *trial);
        let experiment = trials.iter().fold(Experiment::on("c"), add);
        experiment
            .judged(&published(class, value), measured)
            .verdict
    }

    #[test]
    fn the_nearest_trial_decides() {
        use Verdict::{Closed, Narrowed, NotExplained};
        let narrowed = |from, to| Narrowed { from, to };
        for (class, value, measured, trials, wanted) in [
            (Class::Gain, 0.3, 0.0, &[-0.1, 0.25][..], Closed),
            (Class::Gain, 0.3, 0.0, &[-0.1, 0.1], narrowed(0.3, 0.2)),
            (Class::Gain, 0.3, 0.0, &[-0.1, 0.07], NotExplained),
            (Class::Gain, 0.3, 0.0, &[], NotExplained),
            (Class::Most, 1.0, 1.4, &[1.3], narrowed(0.4, 0.3)),
            (Class::Most, 1.0, 1.4, &[1.5, 0.2], Closed),
            (Class::Least, 1.0, 0.2, &[0.3], NotExplained),
            (Class::Range, 9.9, 0.6, &[0.3], narrowed(0.4, 0.1)),
            (Class::Range, 9.9, -0.3, &[0.6], NotExplained),
        ] {
            let found = verdict(class, value, measured, trials);
            assert_eq!(found, wanted, "{class:?} {measured} {trials:?}");
        }
    }

    #[test]
    fn a_control_stands_for_the_row_and_one_that_agrees_proves_nothing() {
        let published = published(Class::Gain, 0.3);
        let of = |control, trial| {
            let experiment = Experiment::on("c").against(control).with("t", trial);
            experiment.judged(&published, -0.5).verdict
        };
        let narrowed = Verdict::Narrowed { from: 0.2, to: 0.1 };
        assert_eq!(of(0.1, 0.2), narrowed);
        assert_eq!(of(0.1, 0.1), Verdict::NotExplained);
        assert_eq!(of(0.29, 0.3), Verdict::NotExplained);
        assert_eq!([narrowed.left(), Verdict::Closed.left()], [0.5, 0.0]);
    }

    #[test]
    fn only_a_run_of_its_own_closes_or_narrows() {
        let published = published(Class::Gain, 0.3);
        let of = |e: Experiment| e.judged(&published, 0.0).verdict;
        let on = || Experiment::on("c");
        assert_eq!(of(on().with("t", 0.3)), Verdict::Closed);
        assert_eq!(of(on().fitted("t", 0.3)), Verdict::NotExplained);
        assert_eq!(of(on().computed("t", 0.3)), Verdict::Arithmetic);
        assert_eq!(of(on().computed("t", 0.1)), Verdict::Arithmetic);
        assert_eq!(of(on().computed("t", 0.01)), Verdict::NotExplained);
        let both = on().computed("t", 0.3).with("u", 0.1);
        let narrowed = Verdict::Narrowed { from: 0.3, to: 0.2 };
        assert_eq!(of(both), narrowed);
        let all = [Verdict::NotExplained, Verdict::Arithmetic, narrowed];
        assert_eq!(all.into_iter().reduce(Verdict::better), Some(narrowed));
        assert_eq!(all[0].better(all[1]), Verdict::Arithmetic);
    }

    #[test]
    fn it_is_told_with_its_runs() {
        let experiment = Experiment::on("the CPU costs").against(0.1);
        let experiment = experiment.with("half of them", 0.125).with("twice", 0.2);
        let experiment = experiment.judged(&published(Class::Gain, 0.3), 0.05);
        let wanted =
            "the CPU costs: as here 0.1, half of them 0.125, twice 0.2 (narrowed from 0.2 to 0.1)";
        assert_eq!(experiment.words(), wanted);
        let json = serde_json::to_string(&experiment.verdict).unwrap();
        assert_eq!(json, r#"{"narrowed":{"from":0.2,"to":0.1}}"#);
    }
}
