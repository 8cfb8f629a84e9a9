//! A device that finds repeated content and remaps by itself, under an unchanged journal.

use super::job::{Job, Outcomes, run_of};
use super::measure::ratio;
use super::modern::{line, loads, table};
use super::plan::{BYTES, DEVICE, Mode, Plan};
use crate::PaperError;
use crate::{Row, Section};
use report::results::Run;

fn transparent(plan: &Plan, load: &str, mode: Mode) -> Job {
    let device = format!("{DEVICE},transparent=true");
    Job::Run(plan.config(plan.stack_of(mode.scheme(), &device, BYTES), load))
}

/// The jobs: each load with an unchanged journal on both devices, and with JFTL.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for (_, load) in loads(plan) {
        for mode in [Mode::Ordered, Mode::Journaled] {
            all.push(transparent(plan, &load, mode));
        }
        all.extend(Mode::PAPER.map(|mode| plan.run(mode, &load)));
    }
    all
}

/// Makes the section of a device that remaps by itself.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Transparent remap under an unchanged journal".into(),
        words: vec![
            "nandsim-2007 with transparent = true knows nothing of journals: it recognises a home write whose content it holds already and shares the \
             page. jbd2 on it beside jbd2 and jftl on the plain device."
                .into(),
        ],
        ..Section::default()
    };
    let mut lines = Vec::new();
    for (name, load) in loads(plan) {
        let run = |mode| run_of(outcomes, &plan.run(mode, &load));
        for (plain, remap) in [
            (Mode::Ordered, Mode::OrderedJftl),
            (Mode::Journaled, Mode::JournaledJftl),
        ] {
            let by_itself = run_of(outcomes, &transparent(plan, &load, plain))?;
            let (copied, remapped) = (run(plain)?, run(remap)?);
            lines.push(line(name, plain.word(), copied));
            lines.push(line(
                name,
                &format!("{}, transparent", plain.word()),
                by_itself,
            ));
            lines.push(line(name, remap.word(), remapped));
            let programs = |run: &Run| run.flash.as_ref().map_or(0, |f| f.programs) as f64;
            let saved = ratio(
                programs(copied) - programs(by_itself),
                programs(copied) - programs(remapped),
            );
            let item = "programs that the device saves by itself over those that JFTL saves";
            section.rows.push(
                Row::ours("Transparent", item, "fraction", saved)
                    .of(&format!("{name}, {}", plain.word())),
            );
        }
    }
    section.tables.push(table(lines));
    Ok(section)
}
