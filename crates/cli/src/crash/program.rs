//! `varve crash --image`: runs a program of the user on a recorded image, or takes the log of a
//! device, and cuts it.

use super::bar;
use super::shell::{LOOK, Shell};
use crate::args::CrashArgs;
use crate::failure::{Failure, failed, no_thread, tell, usage};
use crate::mount::{let_go, let_go_unused};
use crate::out::{self, OutFolder, say};
use crate::stop::{Part, Stop};
use crash::program::{
    Bad, Court, Explored, HostCourt, Judge, Recorded, RecordedDevice, Room, explore, load,
    read_log, save, write_log,
};
use fuse::{Mounted, Options};
use rig::check_absent;
use serde_json::{Value, json};
use serve::file::NAME;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a program that has left its image behind may keep it open after the command has ended.
const CLOSING: Duration = Duration::from_secs(60);

/// Runs the command or reads the log, explores, reports; fails if a state is not whole.
pub fn program(args: &CrashArgs, image: &Path) -> Result<(), Failure> {
    check_log(args)?;
    let out = OutFolder::prepare(&args.out)?;
    let mut room = Room::new(args.memory << 20);
    let (start, bytes) = load(image, &mut room).map_err(failed)?;
    // From here on there is something to put in order.
    let stop = Stop::watch()?;
    let recorded = match (&args.run, &args.log) {
        (Some(command), _) => {
            let device = Arc::new(RecordedDevice::new(start, bytes, room));
            let ran = run(&device, command, &stop);
            if let Some(signal) = stop.signal() {
                let kept = "the command had not ended: nothing was cut, nothing is written";
                return Err(Failure::Stopped(signal, kept.into()));
            }
            // What fails then, fails because of that.
            let recorded = device.recorded().map_err(failed)?;
            ran?;
            recorded
        }
        (None, Some(log)) => read_log(log, start, bytes, None, room).map_err(failed)?,
        (None, None) => return Err(usage("--image needs --run or --log")),
    };
    let judge = match &args.judge[..] {
        [command, ..] => Judge::Command(command.clone()),
        [] => Judge::Checker,
    };
    let folder = tempfile::tempdir().map_err(|e| failed(format!("a folder for states: {e}")))?;
    let court = HostCourt::new(judge, &recorded.trace, bytes, folder.path());
    explored(
        args,
        &recorded,
        bytes,
        &mut court.map_err(failed)?,
        &out,
        &stop,
    )
}

/// Refuses a log that cannot be written before anything runs.
pub fn check_log(args: &CrashArgs) -> Result<(), Failure> {
    match &args.write_log {
        Some(path) => {
            check_absent(path, args.force).map_err(|e| failed(format!("--write-log {e}")))
        }
        None => Ok(()),
    }
}

/// Explores what was recorded, reports; fails if a state is not whole.
pub fn explored(
    args: &CrashArgs,
    recorded: &Recorded,
    bytes: u64,
    court: &mut dyn Court,
    out: &OutFolder,
    stop: &Stop,
) -> Result<(), Failure> {
    if let Some(path) = &args.write_log {
        write_log(recorded, path, args.force).map_err(failed)?;
    }
    let bar = bar(1);
    let since = Instant::now();
    let explored = explore(recorded, &bound(args), court, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        stop.signal().is_none()
    });
    bar.finish_and_clear();
    // A judge that the same interrupt ended has judged nothing.
    let explored = explored.map_err(|e| match stop.signal() {
        None => failed(e),
        Some(signal) => Failure::Stopped(signal, "nothing is written".into()),
    })?;
    keep(args, &explored, since.elapsed(), bytes, out, stop)
}

/// Writes what was found and tells it.
fn keep(
    args: &CrashArgs,
    explored: &Explored,
    took: Duration,
    bytes: u64,
    out: &OutFolder,
    stop: &Stop,
) -> Result<(), Failure> {
    let stopped = stop.signal().filter(|_| explored.cuts < explored.cuts_all);
    let part = stopped.map(|signal| Part::new(signal, explored.cuts, explored.cuts_all, "cuts"));
    let mut results = results(args, explored);
    if let Some(part) = &part {
        results["incomplete"] = part.mark().into();
    }
    let results = format!("{results:#}\n");
    out.write("results.json", &results)?;
    if let Some(bad) = &explored.first {
        save(&bad.image, bytes, &out.path().join("bad.img")).map_err(failed)?;
        out.write("bad.txt", &told(bad))?;
    }
    match args.json {
        true => say(&results)?,
        false => say(&text(explored, took))?,
    }
    match part {
        None => verdict(explored, out.path()),
        Some(part) => Err(part.kept_in(out.path())),
    }
}

/// What to look at of a cut. Nothing is known of why blocks are written, so nothing can be pruned.
fn bound(args: &CrashArgs) -> rig::Bound {
    rig::Bound {
        prune: false,
        ..args.reach().bound()
    }
}

/// Mounts the device, runs the command to its end, and waits until no process uses the device.
fn run(device: &Arc<RecordedDevice>, command: &str, stop: &Stop) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(|e| failed(format!("a folder: {e}")))?;
    let vfs = device.mounted();
    let options = Options {
        // One at a time: a sync that is carried out after a write began after that write was
        // answered.
        threads: 1,
        ..Options::default()
    };
    let of_volume = Box::new(|what: &str| tell(what));
    let superuser = rustix::process::geteuid().is_root();
    let mounted = Mounted::new(
        &vfs,
        folder.path(),
        "varve-crash",
        superuser,
        &options,
        of_volume,
        None,
    )
    .map_err(|e| failed(format!("mounting the recorded device: {e}")))?;
    let place = mounted.device().unwrap_or_default();
    let session = std::thread::Builder::new().spawn(move || mounted.serve(|| ()));
    let session = session.map_err(no_thread("the mount"))?;
    let done = run_shell(command, &folder.path().join(NAME), stop);
    if stop.signal().is_some() {
        // What is left of the command may hold the mount: it goes out of sight, and its connection
        // ends with this process.
        let gone = let_go_unused(folder.path());
        return gone.or_else(|_| let_go(&place)).map_err(failed);
    }
    let since = Instant::now();
    let mut gone = let_go_unused(folder.path());
    while gone.is_err() && since.elapsed() < CLOSING {
        std::thread::sleep(LOOK);
        gone = let_go_unused(folder.path());
    }
    if let Err(why) = gone {
        let seconds = CLOSING.as_secs();
        return Err(failed(format!(
            "the command has ended, but its image is still in use after {seconds} s: {why}"
        )));
    }
    let served = session.join();
    served
        .unwrap_or_else(|_| Err("the session panicked".into()))
        .map_err(|e| failed(format!("the recorded device: {e}")))?;
    match done {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("the command ended with {status}"))),
        Err(e) => Err(failed(format!("sh: {e}"))),
    }
}

/// The command, to its end or to that of the patience with one that was asked to end.
fn run_shell(command: &str, device: &Path, stop: &Stop) -> std::io::Result<ExitStatus> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("VARVE_DEVICE", device);
    Ok(Shell::start(&mut shell)?.wait(stop, None)?.0)
}

fn text(explored: &Explored, took: Duration) -> String {
    let Explored {
        writes,
        flushes,
        acks,
        cuts,
        states,
        recovered,
        bad,
        bad_synced,
        beyond,
        ..
    } = explored;
    let rate = *states as f64 / took.as_secs_f64().max(1e-9);
    format!(
        "{writes} writes, {flushes} syncs, {acks} acknowledgements; {cuts} cuts, {states} states, {beyond} beyond the bound\n\
         {rate:.1} states a second; {recovered} states were recovered first; {bad} are not whole, {bad_synced} of them right behind a sync\n"
    )
}

/// Which state it is, and what the check that judged it said.
fn told(bad: &Bad) -> String {
    format!(
        "cut in or behind command {}, open writes: {}\n{}\n",
        bad.step, bad.choice, bad.why
    )
}

fn results(args: &CrashArgs, explored: &Explored) -> Value {
    let first = explored.first.as_ref();
    let judge = args.judge.first().or(args.program.check.as_ref());
    json!({
        "schema": 1, "command": "crash --run", "run": args.run, "log": args.log.as_deref().map(out::path), "judge": judge,
        "fs": args.kernel.fs, "mount": args.kernel.fs.as_ref().map(|_| &args.kernel.mount),
        "mode": args.reach().mode,
        "writes": explored.writes, "flushes": explored.flushes, "acks": explored.acks,
        "cuts": explored.cuts,
        "states": explored.states, "recovered": explored.recovered, "beyond": explored.beyond,
        "bad": explored.bad, "bad_synced": explored.bad_synced,
        "first": first.map(|bad| json!({
            "step": bad.step, "choice": bad.choice.to_string(), "why": bad.why,
        })),
    })
}

fn verdict(explored: &Explored, out: &Path) -> Result<(), Failure> {
    if explored.writes == 0 {
        return Err(failed("nothing was written to the device"));
    }
    match explored.bad {
        0 => say("every state is whole\n"),
        bad => Err(failed(format!(
            "{bad} of {} states are not whole; the first one is in {}/bad.img",
            explored.states,
            out.display()
        ))),
    }
}
