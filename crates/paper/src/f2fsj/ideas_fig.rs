//! Fig 16: what each of the four ideas contributes to the gain of F2FSJ over a journal of pages.

use super::job::{Job, Outcomes, measured};
use super::measure::BenchJob;
use super::names::Op;
use super::scale::CORES;
use super::shapley::{self, PLAYERS, SETS};
use super::sized::{gain, job, rate};
use super::system::{IDEAS, System, ideas};
use super::{Plan, published};
use crate::PaperError;
use crate::beside::{group, without_published};
use crate::{Experiment, Row, Section, number};
use report::plot;

const FIGURE: &str = "Fig 16";
/// Least gain that is divided into shares: a smaller one would be a divisor near zero.
const LEAST_GAIN: f64 = 0.02;

/// The group of bars with the means over the operations.
const MEAN: &str = "mean";

fn count(plan: &Plan) -> u32 {
    plan.pick(16_000, 2_000, 200)
}

/// The journal with a set of ideas; bit `n` of the set is idea `n` of [`IDEAS`].
fn system(set: usize) -> System {
    match set {
        0 => System::PageJournal,
        set if set == SETS - 1 => System::F2fsj,
        set => System::With(ideas(shapley::members(set))),
    }
}

fn of(plan: &Plan, op: Op, set: usize) -> BenchJob {
    job(plan, system(set), op, (count(plan), ""), CORES)
}

/// The jobs: each operation with each set of ideas.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let each = |op: Op| (0..SETS).map(move |set| Job::Bench(of(plan, op, set)));
    Op::FOUR.into_iter().flat_map(each).collect()
}

/// The results of one operation.
struct Shown {
    name: &'static str,
    /// Operations per second with each set of ideas.
    rates: [f64; SETS],
}

impl Shown {
    fn gain(&self) -> f64 {
        gain(self.rates[SETS - 1], self.rates[0]).unwrap_or(0.0)
    }

    /// What each idea adds, as a share of the rate of the journal of pages.
    fn parts(&self, of: [f64; PLAYERS]) -> [f64; PLAYERS] {
        of.map(|rate| rate / self.rates[0].max(f64::MIN_POSITIVE))
    }

    /// The ideas' shares of the gain if each is added to those before it, in the paper's order.
    fn in_order(&self) -> [f64; PLAYERS] {
        let whole = self.rates[SETS - 1] - self.rates[0];
        let with = |ideas: usize| self.rates[(1 << ideas) - 1];
        std::array::from_fn(|n| (with(n + 1) - with(n)) / whole)
    }

    /// The ideas' shares of the gain; `None` if the gain is too small for shares.
    fn shares(&self) -> Option<[f64; PLAYERS]> {
        let whole = self.gain();
        let values = self.parts(shapley::values(&self.rates));
        (whole.abs() >= LEAST_GAIN).then(|| values.map(|v| v / whole))
    }
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing, or the plot cannot be drawn.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut shown = Vec::new();
    for op in Op::FOUR {
        let mut rates = [0.0; SETS];
        for (set, place) in rates.iter_mut().enumerate() {
            *place = rate(measured(outcomes, &of(plan, op, set))?);
        }
        let name = op.word();
        shown.push(Shown { name, rates });
    }
    Ok(Section {
        title: "Fig 16: what each idea contributes".into(),
        words: words(plan, &shown),
        rows: rows(&shown),
        tables: vec![values_table(&shown), sets_table(&shown)],
        plots: vec![shares(&shown), plotted(&shown)],
    })
}

fn rows(shown: &[Shown]) -> Vec<Row> {
    let table = published();
    let shares: Vec<_> = shown
        .iter()
        .filter_map(|s| Some((s, s.shares()?)))
        .collect();
    let row = |(n, idea): (usize, &&str)| {
        let published = table.get(FIGURE, &format!("{idea}: part of the gain"), None);
        if shares.is_empty() {
            let gains: Vec<_> = shown.iter().map(|s| number(s.gain())).collect();
            let why = format!(
                "there is no gain to share: F2FSJ over the journal of pages is {} (a gain below {LEAST_GAIN} is none)",
                gains.join(", ")
            );
            return Row::unmeasured(published, Some(&why));
        }
        let mean = shares.iter().map(|(_, of)| of[n]).sum::<f64>() / shares.len() as f64;
        let each = shares.iter().map(|(s, of)| {
            let (name, whole) = (s.name, number(s.gain()));
            let out = s.parts(shapley::left_out(&s.rates))[n];
            let alone = s.parts(shapley::alone(&s.rates))[n];
            format!(
                "{name}: {} of a gain of {whole} (left out of F2FSJ it costs {}, alone in a journal of pages it brings {})",
                number(of[n]),
                number(out),
                number(alone)
            )
        });
        let each: Vec<_> = each.collect();
        let in_order = shares.iter().map(|(s, _)| s.in_order()[n]).sum::<f64>();
        let method = Experiment::on("how shares are computed").with(
            "what each adds to those before it, in the paper's order",
            in_order / shares.len() as f64,
        );
        let why = format!(
            "from the sixteen runs of each operation: {}",
            each.join("; ")
        );
        Row::judged(published, mean)
            .because(&why)
            .shown_by(published, method)
    };
    IDEAS.iter().enumerate().map(row).collect()
}

fn words(plan: &Plan, shown: &[Shown]) -> Vec<String> {
    let mut words = vec![
        format!(
            "The paper gives shares and no method. Here each operation runs with all sixteen sets of the four ideas, {} objects each with a ring as much \
             smaller than the paper's; the share of an idea is its Shapley value: the mean of what it adds over all orders in which the four can \
             be added, over the whole gain. It is the only division that sums up to the whole and does not depend on an order. Beside it stand what is \
             lost when one idea is left out of F2FSJ, and what it brings alone. The rows are means over the operations.",
            count(plan)
        ),
        "An idea left out: records=pages, lists=global, switch=wait, fast-forward=off (docs/design/f2fsj.md). One process: contention of locks is that of the \
         operations with the tasks that commit and apply."
            .into(),
    ];
    let none: Vec<_> = shown.iter().filter(|s| s.shares().is_none()).collect();
    if !none.is_empty() {
        let names: Vec<_> = none
            .iter()
            .map(|s| format!("{} ({})", s.name, number(s.gain())))
            .collect();
        words.push(format!(
            "Without shares, because F2FSJ gains less than {LEAST_GAIN} on them: {}.",
            names.join(", ")
        ));
    }
    words
}

fn values_table(shown: &[Shown]) -> crate::Listed {
    let head = [
        "operation",
        "gain",
        "idea",
        "share",
        "Shapley value",
        "left out",
        "alone",
    ];
    let mut lines = Vec::new();
    for s in shown {
        let all = [shapley::values, shapley::left_out, shapley::alone];
        let [values, out, alone] = all.map(|of| s.parts(of(&s.rates)));
        for (n, idea) in IDEAS.iter().enumerate() {
            let share = s.shares().map_or("-".into(), |of| number(of[n]));
            let figures = [values[n], out[n], alone[n]].map(number);
            let mut line = vec![s.name.into(), number(s.gain()), (*idea).into(), share];
            line.extend(figures);
            lines.push(line);
        }
    }
    let caption = "Each idea: its Shapley value, what leaving it out of F2FSJ costs, what it brings alone; in parts of the rate of the journal of pages";
    (caption.into(), head.map(String::from).into(), lines)
}

fn sets_table(shown: &[Shown]) -> crate::Listed {
    let mut head: Vec<String> = IDEAS.map(String::from).into();
    head.extend(shown.iter().map(|s| s.name.to_string()));
    let line = |set| {
        let has = shapley::members(set).map(|has| if has { "yes" } else { "-" }.to_string());
        let rates = shown.iter().map(|s| number(s.rates[set]));
        has.into_iter().chain(rates).collect()
    };
    let lines = (0..SETS).map(line).collect();
    (
        "Operations a second with each set of ideas".into(),
        head,
        lines,
    )
}

/// The ideas' shares of the gain, on the operations that have one, beside the published shares.
fn shares(shown: &[Shown]) -> (String, plot::Plot) {
    let having = shown.iter().filter_map(|s| Some((s.name, s.shares()?)));
    let mut having: Vec<(&str, [f64; PLAYERS])> = having.collect();
    if !having.is_empty() {
        let count = having.len() as f64;
        let mean = |n: usize| having.iter().map(|(_, of)| of[n]).sum::<f64>() / count;
        having.push((MEAN, std::array::from_fn(mean)));
    }
    let groups: Vec<String> = having.iter().map(|(name, _)| (*name).into()).collect();
    let series = IDEAS.iter().enumerate();
    let series: Vec<(String, Vec<f64>)> = series
        .map(|(n, idea)| {
            (
                idea.to_string(),
                having.iter().map(|(_, of)| of[n]).collect(),
            )
        })
        .collect();
    let drawn = plot::grouped_bars("Shares of the gain", "of the gain", &groups, &series);
    let table = published();
    let mark = |idea: &&str| {
        let item = format!("{idea}: part of the gain");
        table.get(FIGURE, &item, None).mark(Some(idea), group(MEAN))
    };
    let marks: Vec<_> = IDEAS.iter().filter_map(mark).collect();
    let caption = "Operations on which F2FSJ gains too little to be divided are left out.";
    (caption.into(), drawn.beside(&marks))
}

fn plotted(shown: &[Shown]) -> (String, plot::Plot) {
    let groups: Vec<String> = shown.iter().map(|s| s.name.to_string()).collect();
    let values: Vec<_> = shown
        .iter()
        .map(|s| s.parts(shapley::values(&s.rates)))
        .collect();
    let series = IDEAS.iter().enumerate();
    let series: Vec<_> = series
        .map(|(n, idea)| (idea.to_string(), values.iter().map(|v| v[n]).collect()))
        .collect();
    let drawn = plot::grouped_bars(
        "Shapley values of the ideas",
        "of the rate of the journal of pages",
        &groups,
        &series,
    );
    let caption = "What each idea adds to the throughput of a journal of pages.";
    let why = "it tells shares of the gain, which are drawn above";
    (without_published(caption, why), drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rate: impl Fn([bool; PLAYERS]) -> f64) -> Shown {
        Shown {
            name: "mkdir",
            rates: std::array::from_fn(|set| rate(shapley::members(set))),
        }
    }

    #[test]
    fn shares_are_of_the_gain_and_sum_up_to_one() {
        let two = shown(|has| 100.0 + 30.0 * f64::from(has[0]) + 10.0 * f64::from(has[3]));
        let shares = two.shares().expect("a gain");
        for (found, wanted) in shares.iter().zip([0.75, 0.0, 0.0, 0.25]) {
            assert!((found - wanted).abs() < 1e-9, "{shares:?}");
        }
        assert!((two.gain() - 0.4).abs() < 1e-9);
        for (found, wanted) in two.in_order().iter().zip([0.75, 0.0, 0.0, 0.25]) {
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
        assert_eq!(rows(&[two])[0].measured, Some(0.75));
    }

    #[test]
    fn where_nothing_is_gained_nothing_is_divided() {
        let none = shown(|has| 100.0 + f64::from(has[1]));
        assert_eq!(none.shares(), None);
        for row in rows(&[none]) {
            assert_eq!(row.measured, None);
            assert!(row.why.expect("a reason").contains("no gain to share"));
        }
    }

    #[test]
    fn the_first_and_the_last_set_are_the_two_journals() {
        assert_eq!(system(0), System::PageJournal);
        assert_eq!(system(SETS - 1), System::F2fsj);
        assert_eq!(system(0).scheme(None).to_string(), "page-journal");
        assert_eq!(system(0b0111).name(), "f2fsj+fast-forward=off");
    }
}
