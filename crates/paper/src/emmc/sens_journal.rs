//! Sensitivity to the size of the journal, with two loads: an app with much metadata, and
//! PostMark's mix with fsync.

use super::job::{Job, Outcomes, run_of};
use super::measure::gain;
use super::plan::{BASE, BOTH, Pace, Plan};
use crate::PaperError;
use crate::{Row, Section};
use report::results::Run;

const FIGURE: &str = "Sensitivity";
/// Sizes of the journal in MiB, the standard one last. Larger ones are in Fig 17.
const SIZES: [u32; 4] = [4, 16, 64, 256];
const SCHEMES: [&str; 3] = [BASE, BOTH, "adaptive"];
/// The app with the most metadata blocks in a commit (Table 3).
const APP: &str = "amazon";
/// PostMark's mix with fsync: its name, and the workload of a full and of a quick report.
const FILES: (&str, [&str; 2]) = (
    "files with fsync",
    [
        "files:count=1000,transactions=3000,sync=on",
        "files:count=300,transactions=600,sync=on",
    ],
);

fn workloads(plan: &Plan) -> [(&'static str, String); 2] {
    let files = FILES.1[usize::from(plan.quick)];
    [
        (APP, plan.app_text(APP, Pace::BUSY)),
        (FILES.0, files.into()),
    ]
}

fn job(plan: &Plan, text: &str, scheme: &str, mib: u32, timing: &str) -> Job {
    let mut stack = plan.stack(scheme, timing);
    stack.journal_blocks = Some(mib << 8);
    plan.on(stack, text)
}

/// The jobs: each size under each scheme and both timing sets.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for (_, text) in workloads(plan) {
            for mib in SIZES {
                all.extend(SCHEMES.map(|s| job(plan, &text, s, mib, timing)));
            }
        }
    }
    all
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Sensitivity: the journal's size".into(),
        words: vec![
            "Performance over the same scheme with a journal of 256 MiB. A log that fills has to be emptied while callers wait; a coalition fills it \
             some eight times later."
                .into(),
        ],
        ..Section::default()
    };
    for timing in plan.timings {
        let mut lines = Vec::new();
        for (name, text) in workloads(plan) {
            for scheme in SCHEMES {
                let run = |mib| run_of(outcomes, &job(plan, &text, scheme, mib, timing));
                let standard = run(SIZES[SIZES.len() - 1])?;
                let mut cells = vec![name.to_string(), scheme.to_string()];
                for mib in SIZES {
                    let here = run(mib)?;
                    let over = gain(here, standard);
                    cells.push(format!("{:+.1} ({})", over * 100.0, home_writes(here)));
                    if mib != SIZES[SIZES.len() - 1] {
                        let item =
                            format!("performance of {scheme} over its own with 256 MiB, {name}");
                        let row = Row::ours(FIGURE, &item, "gain", over);
                        section
                            .rows
                            .push(row.of(&format!("{mib} MiB")).timed(timing));
                    }
                }
                lines.push(cells);
            }
        }
        let mut head = vec!["workload".to_string(), "scheme".into()];
        head.extend(SIZES.map(|mib| format!("{mib} MiB")));
        let caption = format!(
            "Performance over the same scheme with 256 MiB, %, and home blocks written; timing {timing}."
        );
        section.tables.push((caption, head, lines));
    }
    Ok(section)
}

fn home_writes(run: &Run) -> u64 {
    run.blocks.get("home").copied().unwrap_or(0)
}
