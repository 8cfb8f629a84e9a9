//! The parts together answer each published value of the table once, and name no other one.

use super::bare::Sample;
use super::job::{Job, Outcome, Outcomes, Work};
use super::plan::{Mode, Plan};
use super::recovery::Recovered;
use super::{PARTS, published};
use crate::study;
use report::results::{Flash, Run};
use std::collections::BTreeSet;

/// A run as a figure could get it.
fn some_run() -> Run {
    let plan = Plan::new(true, 1);
    let mut stack = plan.stack_of("jbd2", "loop-like", 32 << 20);
    stack.timers = false;
    let config = plan.config(stack, "bonnie:phase=block,mib=1");
    let mut run = work::run::run(&config, &mut |_, _| {}).unwrap().run;
    run.flash = Some(Flash {
        programs: 2100,
        map_programs: 4,
        ..Flash::default()
    });
    run
}

fn made_up(jobs: &[Job]) -> Outcomes {
    let run = some_run();
    let outcome = |job: &Job| match job {
        Job::Run(_) | Job::Whole(_) => Outcome::Run(Box::new(run.clone())),
        Job::Bare(job) => {
            let sample = Sample {
                programs: 100,
                page_bytes: 512,
                transactions: 1,
                blocks: 2,
                host: 3,
                ..Sample::default()
            };
            Outcome::Samples(vec![sample; job.samples as usize])
        }
        Job::Recovery(_) => Outcome::Recovered(Box::new(Recovered {
            mount_ms: 3.0,
            clean_mount_ms: 1.0,
            ..Recovered::default()
        })),
    };
    jobs.iter().map(|job| (job.key(), outcome(job))).collect()
}

#[test]
fn every_published_value_has_its_row_in_one_section() {
    for quick in [true, false] {
        let plan = Plan::new(quick, 1);
        let parts = study::parts(PARTS, &[]).unwrap();
        let outcomes = made_up(&study::jobs(&plan, &parts));
        let made = study::report("jftl", &plan, (&parts, &outcomes), "c".into(), None);
        let (report, sections) = made.unwrap();
        assert_eq!(
            study::silent(&sections),
            Vec::<String>::new(),
            "a plot without the published value"
        );
        assert_eq!(
            study::unanswered(&published(), &sections),
            Vec::<String>::new()
        );
        assert_eq!(
            report.rows.len(),
            sections.iter().map(|s| s.rows.len()).sum::<usize>()
        );
        let read: crate::Report = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(read.rows.len(), report.rows.len());
    }
}

#[test]
fn a_part_without_its_outcome_says_which() {
    let plan = Plan::new(true, 1);
    let part = &PARTS[0];
    let e = (part.section)(&plan, &Outcomes::new())
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("did not ask for it") && e.contains("bonnie"),
        "{e}"
    );
}

#[test]
fn names_of_parts_are_unique_and_modes_stand_on_the_device() {
    let names: BTreeSet<&str> = PARTS.iter().map(|p| p.name).collect();
    assert_eq!(names.len(), PARTS.len());
    let plan = Plan::new(true, 1);
    for mode in Mode::ALL {
        plan.stack(mode).check().unwrap();
    }
}

#[test]
fn the_same_jobs_give_the_same_rows() {
    let plan = Plan::new(true, 1);
    let chosen = ["recovery".to_string(), "pages16k".to_string()];
    let parts = study::parts(PARTS, &chosen).unwrap();
    let jobs: Vec<Job> = study::jobs(&plan, &parts)
        .into_iter()
        .filter(|job| !matches!(job, Job::Bare(job) if job.pairs > 4))
        .collect();
    let once = |job: &Job| serde_json::to_string(&job.run().unwrap()).unwrap();
    for job in jobs.iter().step_by(4) {
        assert_eq!(once(job), once(job), "{}", job.key());
    }
}

#[test]
fn the_committed_table_reads() {
    let table = published();
    assert!(table.all().iter().all(|p| p.value.is_some()));
    table.get("Model", "ordered, fresh device", None);
}
