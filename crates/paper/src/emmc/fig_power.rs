//! Section VI.F, power: what the board takes with the baseline and with both mechanisms, and the
//! card with each scheme, estimated from counted operations.

use super::job::{Job, Outcomes, run_of};
use super::measure::{mean, ratio};
use super::plan::{AHEAD, BASE, BOTH, COALITION, FAST, FAST_ADAPTIVE, Pace, Plan, Source, marked};
use super::published;
use crate::PaperError;
use crate::{Row, Section, number};
use report::energy::{Counts, Energy, EnergyModel, PARTS};
use report::results::Run;
use rig::Profile;

const FIGURE: &str = "VI.F";
const ITEM: &str = "difference of the energy of the whole board, absolute";
/// Schemes compared on the whole board: the baseline and the paper's system.
const BOARD: [&str; 2] = [BASE, BOTH];
/// Schemes compared at the storage device.
const DEVICE: [&str; 10] = [
    BASE,
    COALITION,
    AHEAD,
    BOTH,
    "coalition",
    "emmc",
    "adaptive",
    FAST,
    FAST_ADAPTIVE,
    "none",
];
const ESTIMATE: &str = "estimate from a model";
/// The profile whose card this is.
const CARD: &str = "emmc-odroid-xu4";

/// A board with the card.
struct Powered {
    card: EnergyModel,
    /// Power of the board without the card, milliwatts.
    board_mw: f64,
}

impl Powered {
    /// Typical values; docs/design/energy.md has their sources.
    fn typical() -> Result<Powered, PaperError> {
        let card = Profile::open(CARD)
            .ok()
            .as_ref()
            .and_then(work::energy::model);
        let card = card.ok_or_else(|| {
            PaperError::Check(format!(
                "the profile {CARD} does not say what the card takes"
            ))
        })?;
        Ok(Powered {
            card,
            // This is 0.8 A at 5 V.
            board_mw: 4000.0,
        })
    }
    /// The values that make the difference between two schemes largest: a card that takes much on a
    /// board that takes little.
    fn largest_difference() -> Result<Powered, PaperError> {
        let typical = Powered::typical()?.card;
        Ok(Powered {
            card: EnergyModel {
                // This is 50 mA at 3.3 V.
                die_mw: 165.0,
                bus_pj: 2.0 * typical.bus_pj,
                // This is 200 mA at 1.8 V.
                controller_mw: 360.0,
                ..typical
            },
            // This is 0.4 A at 5 V.
            board_mw: 2000.0,
        })
    }
    /// Joules that board and card take for a run.
    fn whole_j(&self, run: &Run) -> f64 {
        let card = self.card.of(&counts(run)).device_j();
        card + run.virtual_seconds * self.board_mw * 1e-3
    }
}

/// What of a run the estimate needs; the card has no SLC area.
fn counts(run: &Run) -> Counts {
    let flash = run.flash.clone().unwrap_or_default();
    let blocks = run.blocks.values().sum();
    Counts::of(&run.device, &flash, (blocks, run.virtual_seconds, false))
}

/// The jobs: the apps at their recorded pace, where all systems take the same time; and busy, where
/// the storage device is at work.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources() {
            all.extend(BOARD.map(|s| plan.run(&source, s, timing, Pace::Recorded)));
            all.extend(DEVICE.map(|s| plan.run(&source, s, timing, Pace::BUSY)));
        }
    }
    all
}

/// Mean power of the board with both systems, watts, by app.
struct Boards {
    apps: Vec<(Source, [f64; 2])>,
}

impl Boards {
    fn of(
        plan: &Plan,
        outcomes: &Outcomes,
        timing: &str,
        powered: &Powered,
    ) -> Result<Boards, PaperError> {
        let mut apps = Vec::new();
        for source in plan.sources() {
            let mut watts = [0.0; 2];
            for (watt, scheme) in watts.iter_mut().zip(BOARD) {
                let run = run_of(outcomes, &plan.run(&source, scheme, timing, Pace::Recorded))?;
                *watt = ratio(powered.whole_j(run), run.virtual_seconds);
            }
            apps.push((source, watts));
        }
        Ok(Boards { apps })
    }
    fn difference(&self) -> f64 {
        let each = self.apps.iter().map(|(_, [a, b])| ratio(b - a, *a).abs());
        mean(&each.collect::<Vec<_>>())
    }
    /// Watts of a board without card for which the difference of the cards would be 1 %.
    fn one_percent_at(&self) -> f64 {
        let each = self.apps.iter().map(|(_, [a, b])| (b - a).abs() / 0.01);
        mean(&each.collect::<Vec<_>>())
    }
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "VI.F: power".into(),
        words: words(),
        ..Section::default()
    };
    for timing in plan.timings {
        board(plan, outcomes, timing, &mut section)?;
        device(plan, outcomes, timing, &mut section)?;
    }
    Ok(section)
}

fn words() -> Vec<String> {
    [
        "An estimate from a model, not a measurement: each counted operation (page read, program and erase of the chips, byte on the \
         bus, time with a command under way) has a constant with its source (docs/design/energy.md), the rest of the board a constant power. \
         The difference between two schemes on one board is that of the card alone.",
        "The apps run at their recorded pace, so that every system takes the same time, as at a meter on the board's supply; the \
         difference is that of mean power. A second row takes the constants that make the difference largest.",
    ]
    .map(String::from)
    .into()
}

fn board(
    plan: &Plan,
    outcomes: &Outcomes,
    timing: &str,
    section: &mut Section,
) -> Result<(), PaperError> {
    let table = published()?;
    let typical = Boards::of(plan, outcomes, timing, &Powered::typical()?)?;
    let largest = Boards::of(plan, outcomes, timing, &Powered::largest_difference()?)?;
    let ours = |item: &str, unit: &str, measured: f64| {
        Row::ours(FIGURE, item, unit, measured)
            .timed(timing)
            .noted(ESTIMATE)
    };
    section.rows.extend([
        Row::judged(table.get(FIGURE, ITEM, None), typical.difference())
            .timed(timing)
            .noted(ESTIMATE),
        ours(
            "the same with the constants that make it largest",
            "fraction",
            largest.difference(),
        ),
        ours(
            "power of a board at which the card's difference is 1 % of it",
            "W",
            typical.one_percent_at(),
        ),
    ]);
    let lines = typical.apps.iter().map(|(source, [a, b])| {
        let change = 100.0 * ratio(b - a, *a);
        vec![
            source.name(),
            number(*a),
            number(*b),
            format!("{change:+.4}"),
        ]
    });
    let head = ["app", "jbd2 (W)", "emmc-paper (W)", "difference (%)"];
    section.tables.push((
        format!("Mean power of the board, timing {timing}"),
        head.map(String::from).into(),
        lines.collect(),
    ));
    Ok(())
}

/// Energy of the card per 1000 fsyncs, of all apps together, by scheme.
fn device(
    plan: &Plan,
    outcomes: &Outcomes,
    timing: &str,
    section: &mut Section,
) -> Result<(), PaperError> {
    let mut lines = Vec::new();
    let card = Powered::typical()?.card;
    for scheme in DEVICE {
        let (mut all, mut fsyncs) = (Counts::default(), 0);
        for source in plan.sources() {
            let run = run_of(outcomes, &plan.run(&source, scheme, timing, Pace::BUSY))?;
            all = all + counts(run);
            fsyncs += syncs(run);
        }
        let energy = card.of(&all);
        let per_1000 = |joules: f64| 1000.0 * ratio(joules, fsyncs as f64);
        let row = Row::ours(
            FIGURE,
            "storage device alone, busy apps, each 1000 fsyncs",
            "J",
            per_1000(energy.device_j()),
        );
        section
            .rows
            .push(marked(row.of(scheme).timed(timing).noted(ESTIMATE), scheme));
        lines.push(line(scheme, &energy, &per_1000));
    }
    let head = ["scheme"].into_iter().chain(PARTS).chain(["all"]);
    section.tables.push((
        format!("Storage device, joules each 1000 fsyncs of the busy apps, timing {timing}"),
        head.map(String::from).collect(),
        lines,
    ));
    Ok(())
}

fn line(scheme: &str, energy: &Energy, per_1000: &dyn Fn(f64) -> f64) -> Vec<String> {
    let parts = PARTS.map(|part| number(per_1000(energy.parts[part])));
    let all = number(per_1000(energy.device_j()));
    [scheme.to_string()]
        .into_iter()
        .chain(parts)
        .chain([all])
        .collect()
}

/// Number of fsync calls of a run.
fn syncs(run: &Run) -> u64 {
    run.ops_by_kind
        .get("fsync")
        .map_or(run.ops, |kind| kind.ops)
}
