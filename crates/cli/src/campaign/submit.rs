//! `varve campaign submit`: an array job of Slurm, of which each task works on its share of the
//! plan, or the same through [Dask](super::dask). A task that is lost with its node is queued
//! again; what it had made is in the store.

use super::plan::{Entry, Plan};
use super::shelf::Shelf;
use super::status::span;
use crate::args::SubmitArgs;
use crate::failure::{Failure, failed, usage};
use crate::out::say;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds of work of one task of the array, where no number of tasks is given.
const TASK_SECONDS: f64 = 600.0;
/// Most tasks then: the default limit of Slurm (MaxArraySize 1001).
const TASKS_MAX: u64 = 1000;

/// Writes the script, and submits it.
pub fn submit(args: &SubmitArgs) -> Result<(), Failure> {
    let plan = Plan::open(&args.plan)?;
    let shelf = Shelf::open(&args.store)?;
    plan.of_this_build(&shelf.build)?;
    let (mut jobs, mut cost) = (0u64, 0.0);
    plan.each(|entry| {
        if let Entry::Job(job) = entry {
            jobs += 1;
            cost += job.cost;
        }
        Ok(())
    })?;
    if jobs == 0 {
        return Err(usage(format!("{}: it has no job", args.plan.display())));
    }
    if let Some(address) = &args.dask {
        return super::dask::submit(args, address);
    }
    let fitting = (cost / TASK_SECONDS / f64::from(args.cpus.get())).ceil() as u64;
    let tasks = args.tasks.map_or(fitting, |n| n.get().into());
    let most = if args.tasks.is_some() {
        u64::MAX
    } else {
        TASKS_MAX
    };
    let tasks = tasks.clamp(1, jobs.min(most));
    let program = program(&shelf, args)?;
    let script = script(args, &program, tasks)?;
    if args.dry_run {
        return say(&script);
    }
    let id = sbatch(&script)?;
    say(&format!(
        "{jobs} jobs, about {} on one core, in {tasks} tasks: job {id}\n`varve campaign status` shows how far it is\n",
        span(cost)
    ))
}

/// The program that tasks run: a copy in the store. A task may begin hours later, as one does whose
/// node was lost; by then a build or an update may have put another program in the place of this
/// one, and that refuses the plan. Where the store may hold no programs it is this one. For
/// a script that is only printed there is a copy, too, so that it can be submitted as it is.
fn program(shelf: &Shelf, args: &SubmitArgs) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|e| failed(format!("own program: {e}")))?;
    let mount = rustix::fs::statvfs(&args.store);
    let barred =
        |mount: rustix::fs::StatVfs| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    if mount.is_ok_and(barred) {
        return Ok(own);
    }
    absolute(&shelf.store.put_program(&shelf.build).map_err(failed)?)
}

fn script(args: &SubmitArgs, program: &Path, tasks: u64) -> Result<String, Failure> {
    let throttle = args.throttle.map_or(String::new(), |n| format!("%{n}"));
    let mut text = String::from("#!/bin/sh\n");
    let mut option = |words: String| {
        // A line of options ends where it ends: nothing of it reaches the shell.
        let _ = writeln!(text, "#SBATCH {words}");
    };
    option("--job-name=varve-campaign".into());
    option(format!("--array=1-{tasks}{throttle}"));
    option(format!("--cpus-per-task={}", args.cpus));
    option("--requeue".into());
    option("--open-mode=append".into());
    // What is under way at the end of its time is given up in order.
    // Without `B:` only the steps of a job would hear of it, and this one has none.
    option("--signal=B:TERM@30".into());
    for (name, value) in [
        ("partition", &args.partition),
        ("time", &args.time),
        ("mem", &args.mem),
    ] {
        if let Some(value) = value {
            option(format!("--{name}={}", line(value)?));
        }
    }
    for more in &args.sbatch {
        option(line(more)?.into());
    }
    let (plan, store) = (absolute(&args.plan)?, absolute(&args.store)?);
    let _ = writeln!(
        text,
        "exec {} campaign work --plan {} --store {} --share \"$SLURM_ARRAY_TASK_ID/{tasks}\" --workers {}",
        quoted(program)?,
        quoted(&plan)?,
        quoted(&store)?,
        args.cpus
    );
    Ok(text)
}

fn line(text: &str) -> Result<&str, Failure> {
    match text.chars().any(char::is_control) {
        true => Err(usage(format!("{text:?}: an option of sbatch is one line"))),
        false => Ok(text),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize()
        .map_err(|e| failed(format!("{}: {e}", path.display())))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> Result<String, Failure> {
    let text = path.to_str();
    let text = text.ok_or_else(|| {
        usage(format!(
            "{}: a script needs a path in UTF-8",
            path.display()
        ))
    })?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Submits a script: the id of the job.
fn sbatch(script: &str) -> Result<String, Failure> {
    let why = |e: std::io::Error| {
        failed(format!(
            "sbatch: {e}; where Slurm is installed the same command submits, --dry-run prints the script"
        ))
    };
    let mut child = Command::new("sbatch")
        .arg("--parsable")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(why)?;
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // An sbatch that ends early says why itself.
    let _ = stdin.write_all(script.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(why)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        false => Err(failed(format!(
            "sbatch refuses the job ({})",
            output.status
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_and_options_one_line() {
        assert_eq!(quoted(Path::new("/a b/it's")).unwrap(), r"'/a b/it'\''s'");
        assert!(line("--account=lab").is_ok());
        assert!(
            line("a\nrm -rf /")
                .unwrap_err()
                .to_string()
                .contains("one line")
        );
    }
}
