//! One run of the command: volume, mount, setup, recording, and an end that leaves nothing behind.

use super::ACKS_VARIABLE;
use super::family::{self, Family};
use super::keeper::Keeper;
use super::lacks::lacks;
use super::outside::Outside;
use super::place::Place;
use crate::args::{AckWay, CrashArgs};
use crate::crash::shell::Shell;
use crate::failure::{Failure, failed, tell};
use crate::image::Putter;
use crate::stop::Stop;
use ::program::call::Recording;
use ::program::record::{ACKS, AckSocket, Recorder, STDOUT, Syncs, volume};
use rig::Vfs;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Behind the end of a command: when it is told whom it has left behind, and that they are waited
/// for.
const QUIET: Duration = Duration::from_secs(2);

/// Where the host does not let filters of calls be put over a command.
const UNSEEN: &str = "sync and syncfs of the command were not seen, or not all of them, because the host refuses filters of system calls (seccomp) or a look at a process: what only these synced counts as unsynced";

/// A run of the command.
pub struct Recorded {
    /// What it did on the volume.
    pub recording: Recording,
    /// What is to be told of it.
    pub notes: Vec<String>,
    /// Faults that were asked for and never came about: no such call was made.
    pub unmet: Vec<String>,
}

/// Runs the command once, and answers what it did.
pub fn record(args: &CrashArgs, command: &str, stop: &Arc<Stop>) -> Result<Recorded, Failure> {
    // Before the family, whose end is not its own.
    let mut keeper = Keeper::start();
    let family = Family::adopt()?;
    let options = &args.program;
    let user = (rustix::process::geteuid(), rustix::process::getegid());
    let owner = (user.0.as_raw(), user.1.as_raw());
    let fs = volume(options.size << 20, owner).map_err(failed)?;
    let echo = Box::new(|bytes: &[u8]| {
        // A reader of ours that has gone does not end the command.
        let _ = std::io::stderr().write_all(bytes);
    });
    let room = usize::try_from(args.memory << 20).unwrap_or(usize::MAX);
    let recorder = Recorder::new(fs, room, &options.fail, echo);
    let vfs = Vfs::new(recorder.clone());
    if let Some(folder) = &options.from {
        copy(&vfs, folder, options.size)?;
    }
    let wanted = options.dir.as_ref().and_then(Option::as_deref);
    let place = Place::mount(&vfs, wanted)?;
    if let Some(keeper) = &mut keeper {
        keeper.mount(place.dir());
        keeper.folder(place.folder());
    }
    let ran = run(
        args,
        command,
        (&recorder, &place),
        (&family, &mut keeper),
        stop,
    );
    // Whatever has become of the command: no process of its is left, and then no mount.
    family.end();
    let ended = place.end();
    if let Some(keeper) = &mut keeper {
        keeper.unmounted();
    }
    let recording = ran?;
    ended?;
    Ok(recording)
}

/// Fills the volume with a copy of a folder.
fn copy(vfs: &Arc<Vfs>, folder: &Path, size_mib: u64) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(failed(format!("{}: is no directory", folder.display())));
    }
    let name = "the volume of --dir";
    let mut putter = Putter::new(vfs, name.into());
    let put = putter.put(folder, b"/");
    putter.tell();
    put.map_err(|e| {
        failed(format!(
            "--from {}: {e}; the volume has {size_mib} MiB, see --size",
            folder.display()
        ))
    })
}

fn run(
    args: &CrashArgs,
    command: &str,
    (recorder, place): (&Arc<Recorder>, &Place),
    (family, keeper): (&Family, &mut Option<Keeper>),
    stop: &Stop,
) -> Result<Recorded, Failure> {
    let patience = Duration::from_secs(args.timeout);
    if let Some(setup) = &args.program.setup {
        let mut shell = shell(setup, place)?;
        finish(
            "--setup",
            &mut shell,
            (family, keeper, stop),
            patience,
            false,
        )?;
    }
    place.settle()?;
    if args.program.backtrace {
        let at = std::fs::metadata(place.dir());
        let at = at.map_err(|e| failed(format!("{}: {e}", place.dir().display())))?;
        recorder.read_stacks(at.dev());
    }
    recorder.begin().map_err(failed)?;
    let at = place.beside("acks.socket");
    let socket =
        AckSocket::listen(&at, recorder).map_err(|e| failed(format!("{}: {e}", at.display())))?;
    let mut shell = shell(command, place)?;
    shell
        .env(ACKS_VARIABLE, place.dir().join(ACKS))
        .env("VARVE_ACK_SOCKET", &at);
    if args.program.acks == Some(AckWay::Stdout) {
        let file = place.dir().join(STDOUT);
        let opened = OpenOptions::new().append(true).open(&file);
        shell.stdout(opened.map_err(|e| failed(format!("{}: {e}", file.display())))?);
    }
    let syncs = Syncs::of(&mut shell, place.dir(), recorder);
    let syncs =
        syncs.map_err(|e| failed(format!("to see syncs of {}: {e}", place.dir().display())))?;
    let may_fail = args.may_fail();
    let (done, outside) = Outside::while_working(place.dir(), family, || {
        let by = (family, &mut *keeper, stop);
        finish("--run", &mut shell, by, patience, may_fail)
    });
    // Its end of the standard output.
    drop(shell);
    socket.close();
    let sees_syncs = syncs.close();
    if stop.signal().is_none() {
        // What fails then, fails because of that.
        recorder.complete().map_err(failed)?;
    }
    done.map_err(|why| with_refused(why, recorder, place.dir(), args.program.size))?;
    place.settle()?;
    let (mut recording, unmet) = recorder.end().map_err(failed)?;
    let folder = std::env::current_dir().unwrap_or_default();
    let without = recorder.tell_stacks(&mut recording, &folder);
    if without > 0 {
        let all = recording.calls.len();
        tell(format!(
            "--backtrace: {without} of {all} calls have no stack: their program is a script, could not be read, or lies on the volume itself, or --memory is too small for more"
        ));
    }
    if !recording.changes() && !args.program.allow_unchanged {
        let outside = outside.map_or_else(String::new, |words| format!("; {words}"));
        return Err(failed(format!(
            "no change in $VARVE_DIR was recorded: does the program write elsewhere? Its working directory is $VARVE_DIR; --allow-unchanged takes a run without a change{outside}"
        )));
    }
    let notes = notes(recorder, args, outside, sees_syncs);
    let unmet = unmet.iter().map(ToString::to_string).collect();
    Ok(Recorded {
        recording,
        notes,
        unmet,
    })
}

/// What is to be told of a run that has ended well.
fn notes(
    recorder: &Recorder,
    args: &CrashArgs,
    outside: Option<String>,
    sees_syncs: bool,
) -> Vec<String> {
    let mut notes: Vec<String> = outside.into_iter().collect();
    notes.extend((!sees_syncs).then(|| UNSEEN.into()));
    notes.extend(full(recorder, args.program.size));
    notes.extend(recorder.refused().map(|refused| {
        format!("the volume has refused what a recording has no word for, so the command may have gone another way than elsewhere: {refused}")
    }));
    notes
}

/// That calls found no room, if so.
fn full(recorder: &Recorder, size_mib: u64) -> Option<String> {
    let calls = Some(recorder.full()).filter(|calls| *calls > 0)?;
    Some(format!(
        "the volume was full: {calls} calls of the command got ENOSPC; it has {size_mib} MiB, --size gives it more"
    ))
}

/// Why a command has failed, with the calls that the volume refused, and those that it has not.
fn with_refused(why: Failure, recorder: &Recorder, dir: &Path, size_mib: u64) -> Failure {
    let Failure::Failed(mut why) = why else {
        return why;
    };
    if let Some(full) = full(recorder, size_mib) {
        why.push_str(&format!("; {full}"));
    }
    if let Some(refused) = recorder.refused() {
        why.push_str(&format!("; the volume has refused: {refused}"));
    }
    let lacks = lacks(dir);
    if !lacks.is_empty() {
        why.push_str(&format!(
            "; if the command needs one of these, a mount of Varve has none: {}",
            lacks.join("; ")
        ));
    }
    failed(why)
}

/// A command in the directory. What it prints goes to standard error: standard output is for
/// results.
fn shell(command: &str, place: &Place) -> Result<Command, Failure> {
    let stderr = std::io::stderr().as_fd().try_clone_to_owned();
    let stderr = stderr.map_err(|e| failed(format!("standard error: {e}")))?;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(place.dir())
        .env("VARVE_DIR", place.dir())
        .stdout(Stdio::from(stderr));
    Ok(shell)
}

/// Runs a command to its end, and waits for what it leaves behind.
fn finish(
    option: &str,
    shell: &mut Command,
    (family, keeper, stop): (&Family, &mut Option<Keeper>, &Stop),
    patience: Duration,
    may_fail: bool,
) -> Result<(), Failure> {
    let since = Instant::now();
    let of_shell = |e: std::io::Error| failed(format!("sh: {e}"));
    let mut running = Shell::start(shell).map_err(of_shell)?;
    let (id, alone) = running.id();
    if let Some(keeper) = keeper {
        keeper.runs(id, alone);
    }
    let ended = running.wait(stop, Some(patience));
    if let Some(keeper) = keeper {
        keeper.ran();
    }
    let (status, by_itself) = ended.map_err(of_shell)?;
    if !by_itself {
        family.end();
    }
    let stopped = |signal| {
        let kept = format!(
            "the command of {option} had not ended: nothing was judged, nothing is written"
        );
        Failure::Stopped(signal, kept)
    };
    if let Some(signal) = stop.signal() {
        return Err(stopped(signal));
    }
    let why = match (by_itself, status.success()) {
        (true, true) => None,
        (true, false) => Some(format!("ended with {status}")),
        (false, _) => Some(format!(
            "did not end within {} s and was ended; --timeout SECONDS gives it longer",
            patience.as_secs()
        )),
    };
    match why {
        Some(why) if may_fail => tell(format!(
            "the command of {option} {why}; what it did until then is judged"
        )),
        Some(why) => {
            return Err(failed(format!(
                "the command of {option} {why}: nothing was judged; with --allow-failure it is judged as far as it came"
            )));
        }
        None => {}
    }
    let go_on = || stop.signal().is_none();
    // The patience is for all that it has started.
    let patient = || patience.saturating_sub(since.elapsed());
    let mut left = family.wait(QUIET.min(patient()), &go_on);
    if !left.is_empty() && go_on() && !patient().is_zero() {
        tell(format!(
            "the command of {option} has ended, and processes that it has left are waited for, at most {} s more (--timeout): {}",
            patient().as_secs() + 1,
            family::told(&left)
        ));
        left = family.wait(patient(), &go_on);
    }
    if let Some(signal) = stop.signal() {
        return Err(stopped(signal));
    }
    if !left.is_empty() {
        tell(format!(
            "the command of {option} has left processes, which did not end within the {} s of --timeout and are ended now: {}; let the command wait for them, or end them",
            patience.as_secs(),
            family::told(&left)
        ));
        family.end();
    }
    Ok(())
}
