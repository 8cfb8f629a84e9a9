//! Section 5.3: operations on names on a volume that was aged, beside a fresh one.

use super::Plan;
use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Host, Measured};
use super::names::Op;
use super::published;
use super::scale::{CORES, FLAT_DEVICE, ring, shorter};
use super::sized::{gain, rate};
use super::system::{Size, System};
use crate::PaperError;
use crate::{Experiment, Row, Section, number};
use work::RunConfig;

const FIGURE: &str = "5.3 aged";
const ITEM: &str = "aged volume: F2FSJ over checkpoint-60";
const OPS: [Op; 3] = [Op::Mkdir, Op::Create4k, Op::Unlink4k];
const SYSTEMS: [System; 4] = [
    System::Checkpoint60,
    System::Checkpoint5Bg,
    System::F2fsj,
    System::Ext4,
];
/// Share of the volume that files take before the operations, and how often it is written over,
/// both in percent. A smaller volume is filled less, as F2FS keeps a larger part of it for itself.
fn aging(plan: &Plan) -> (u32, u32) {
    plan.pick((60, 60), (40, 30), (3, 3))
}

fn job(plan: &Plan, op: Op, system: System, aged: bool) -> BenchJob {
    let (mib, objects) = plan.pick((512, 5000), (256, 1500), (256, 200));
    let size = Size {
        bytes: mib << 20,
        ring: ring(objects),
        shorter: shorter(objects),
    };
    let workload = op.workload(objects);
    BenchJob {
        run: RunConfig {
            stack: system.stack(FLAT_DEVICE, size, plan.seed),
            workload: match aged {
                true => {
                    let (percent, overwrites) = aging(plan);
                    format!("{workload},aged={percent}%,overwrites={overwrites}%")
                }
                false => workload,
            },
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(CORES),
    }
}

/// The jobs: each operation on each system, on an aged volume and on a fresh one.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |op: Op| {
        let each = |aged| SYSTEMS.map(|system| Job::Bench(job(plan, op, system, aged)));
        each(true).into_iter().chain(each(false))
    };
    OPS.into_iter().flat_map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let of = |op, system, aged| measured(outcomes, &job(plan, op, system, aged));
    let (mut rows, mut ours, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for op in OPS {
        let over = |other, aged| {
            let (a, b) = (of(op, System::F2fsj, aged)?, of(op, other, aged)?);
            Ok::<f64, PaperError>(gain(rate(a), rate(b)).unwrap_or(0.0))
        };
        let fresh = over(System::Checkpoint60, false)?;
        let published = table.get(FIGURE, ITEM, None);
        let row = Row::judged(published, over(System::Checkpoint60, true)?);
        let age = Experiment::on("the age of the volume").with("fresh", fresh);
        let (a, b) = (
            of(op, System::F2fsj, true)?,
            of(op, System::Checkpoint60, true)?,
        );
        let why = format!(
            "the same on a fresh volume is {}; {}; {}",
            number(fresh),
            parts(System::F2fsj, a),
            parts(System::Checkpoint60, b)
        );
        rows.push(row.of(op.word()).because(&why).shown_by(published, age));
        for other in [System::Checkpoint5Bg, System::Ext4] {
            let item = format!("aged volume: F2FSJ over {}", other.name());
            ours.push(Row::ours(FIGURE, &item, "gain", over(other, true)?).of(op.word()));
        }
        let item = "fresh volume of the same size: F2FSJ over checkpoint-60";
        ours.push(Row::ours(FIGURE, item, "gain", fresh).of(op.word()));
        for system in SYSTEMS {
            lines.push(line(
                op,
                system,
                of(op, system, true)?,
                of(op, system, false)?,
            ));
        }
    }
    rows.extend(ours);
    Ok(Section {
        title: "5.3: an aged volume".into(),
        words: words(plan),
        rows,
        tables: vec![(
            "Operations a second, and sections that were cleaned".into(),
            HEAD.map(String::from).into(),
            lines,
        )],
        plots: Vec::new(),
    })
}

/// Says what a run consisted of.
fn parts(system: System, found: &Measured) -> String {
    format!(
        "{}: {} s, of it {} s inside of checkpoints and {} s cleaning {} sections, longest operation {} ms",
        system.name(),
        number(found.seconds),
        number(found.checkpoints.inside_s),
        number(found.cleaned.foreground_s),
        found.cleaned.sections,
        number(found.latency_us.max / 1e3)
    )
}

const HEAD: [&str; 7] = [
    "operation",
    "system",
    "aged",
    "fresh",
    "longest aged (ms)",
    "cleaned while aging",
    "cleaned in the run",
];

fn line(op: Op, system: System, aged: &Measured, fresh: &Measured) -> Vec<String> {
    vec![
        op.word().into(),
        system.name(),
        number(rate(aged)),
        number(rate(fresh)),
        number(aged.latency_us.max / 1e3),
        aged.cleaned.before.to_string(),
        aged.cleaned.sections.to_string(),
    ]
}

fn words(plan: &Plan) -> Vec<String> {
    let (percent, overwrites) = aging(plan);
    vec![
        format!(
            "As Geriatrix ages (docs/use/workloads.md): files with an inode each fill {percent} % of the volume, then bytes of {overwrites} % of it are written while other \
             files go; each system is aged by the same operations. The volume is smaller than elsewhere in this report so that this takes seconds; profile and utilisation \
             of the paper are not published."
        ),
        "Cleaning is that of the system: sections count that were picked as victims. The drive has its SLC area off (docs/design/models.md, N7).".into(),
    ]
}
