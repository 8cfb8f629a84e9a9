//! `varve campaign`: many jobs of `compare`, `crash` or `paper`, made by workers that share a
//! folder and nothing else, and merged as if one process had made them.

mod build;
mod cost;
mod cut;
mod dask;
mod gate;
mod hands;
mod long;
mod merge;
mod plan;
pub mod program;
pub mod share;
pub mod shelf;
mod spec;
pub mod status;
pub mod store;
mod submit;
pub mod task;
mod work;

use crate::args::{CampaignCommand, PlanArgs};
use crate::failure::{Failure, tell, usage};
use long::Long;
use plan::Writer;
use spec::{Cell, Spec};
use std::collections::BTreeSet;
use std::io::{BufWriter, stdout};

/// Runs a subcommand.
pub fn campaign(command: &CampaignCommand) -> Result<(), Failure> {
    match command {
        CampaignCommand::Plan(args) => plan(args),
        CampaignCommand::Work(args) => work::work(args),
        CampaignCommand::Status(args) => status::status(args),
        CampaignCommand::Merge(args) => merge::merge(args),
        CampaignCommand::Submit(args) => submit::submit(args),
    }
}

/// Writes a plan to standard output.
fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let spec = Spec::read(&args.spec)?;
    // Everything is checked before the first line is written.
    let cells = spec.cells.into_iter();
    let cells = cells.map(|words| Cell::of(&spec.command, &words).map(|cell| (words, cell)));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    if let [(words, Cell::Program(options))] = &cells[..] {
        return program::plan(options, words, args.job_seconds);
    }
    if let Some((_, first)) = cells.first() {
        // A wrong option of the jobs leaves the plan as it was.
        first.check()?;
    }
    let out = BufWriter::new(stdout());
    let mut writer = Writer::begin(out, build::build()?, &spec.command)?;
    let (mut seconds, mut ids, mut long) = (0.0, BTreeSet::new(), Long::default());
    for (words, cell) in cells {
        let line = words.join(" ");
        writer.cell(words)?;
        cell.each(&mut |task| {
            let cost = cost::of(&task);
            let name = matches!(cell, Cell::Compare(_)).then(|| task.name());
            let mut new = true;
            for (task, cost) in cut::cut(task, cost, args.job_seconds) {
                seconds += cost;
                long.look(&task, cost);
                new &= ids.insert(store::Id::of(&writer.job(task, cost)?));
            }
            // A case of `crash` may belong to two groups; it runs once.
            match name.filter(|_| !new) {
                Some(name) => Err(usage(format!("`{line}` asks again for {name}"))),
                None => Ok(()),
            }
        })?;
    }
    let jobs = writer.end()?;
    tell(format!(
        "{jobs} jobs, about {} on one core",
        status::span(seconds)
    ));
    if let Some(remark) = long.remark() {
        tell(remark);
    }
    Ok(())
}
