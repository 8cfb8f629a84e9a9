//! `varve record`: runs a command under strace and keeps its system calls as a recording, which
//! `varve replay` runs on each scheme.
//!
//! strace does the tracing, because it knows every architecture and each system call. It is asked
//! for no content (`-s 0`), so that a recording can be handed on, and for the paths of descriptors
//! (`-y`), so that files that were open before are known.

use crate::args::RecordArgs;
use crate::failure::{Failure, failed, tell, usage};
use crate::replay::summary;
use crate::shell;
use crate::stop::Stop;
use base::plain;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;
use work::recording;

/// How often the end of the command and a signal are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// What is traced: calls on names, on descriptors and of processes, and the requests that strace
/// cannot look into, so that they are counted.
const TRACED: &str = "trace=file,desc,process,io_uring_enter,io_submit,sync";

/// Runs the command; its exit code is the command's own.
pub fn record(args: &RecordArgs) -> ExitCode {
    match recorded(args) {
        Ok(status) => {
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(e) => {
            tell(&e);
            ExitCode::from(e.exit_code())
        }
    }
}

fn recorded(args: &RecordArgs) -> Result<ExitStatus, Failure> {
    let file = &args.output;
    if file.exists() && !args.force {
        let file = file.display();
        return Err(usage(format!(
            "{file} is there already; --force replaces it, -o names another file"
        )));
    }
    strace_is_there()?;
    fs::write(file, "").map_err(|e| failed(format!("{} cannot be made: {e}", file.display())))?;
    let stop = Stop::watch()?;
    let mut strace = Command::new("strace");
    strace.args(["-f", "-ttt", "-T", "-y", "-s", "0", "--seccomp-bpf"]);
    strace.args(["-e", TRACED, "-o"]);
    strace.arg(file).arg("--").args(&args.command);
    let child = strace.spawn();
    let child = child.map_err(|e| failed(format!("strace cannot be run: {e}")))?;
    let status = ended(child, &stop)?;
    tell_what(file, &args.command[0].to_string_lossy());
    Ok(status)
}

fn strace_is_there() -> Result<(), Failure> {
    match Command::new("strace").arg("-V").output() {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(failed(
            "strace is not installed; it does the recording (Debian: apt install strace)",
        )),
        Err(e) => Err(failed(format!("strace cannot be run: {e}"))),
    }
}

/// Waits for the end. A signal is handed on to the command, since strace holds it back.
fn ended(mut child: Child, stop: &Stop) -> Result<ExitStatus, Failure> {
    let mut handed_on = false;
    loop {
        let status = child.try_wait();
        if let Some(status) = status.map_err(|e| failed(format!("waiting for strace: {e}")))? {
            return Ok(status);
        }
        if let (Some(signal), false) = (stop.signal(), handed_on) {
            handed_on = true;
            for pid in children(child.id()) {
                if let (Some(pid), Some(signal)) =
                    (Pid::from_raw(pid), Signal::from_named_raw(signal))
                {
                    let _ = kill_process(pid, signal);
                }
            }
        }
        thread::sleep(LOOK);
    }
}

fn children(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Whether a recording ends within a line, or stands where there is no room for another.
fn is_cut(file: &Path) -> bool {
    let room = rustix::fs::statvfs(file).map_or(1, |fs| fs.f_bavail);
    let mut last = [0];
    let whole = fs::File::open(file).and_then(|mut file| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    });
    room == 0 || whole.is_err() || last != *b"\n"
}

/// Says what was recorded and what to do with it, on standard error: standard output is the
/// command's.
fn tell_what(file: &Path, command: &str) {
    let shown = file.display();
    match recording::read_with(file, false) {
        Ok((recording, reading)) => {
            eprint!("{}", summary(&reading, recording.calls.len()));
            if is_cut(file) {
                tell(format!(
                    "{shown} is cut short, as by a full disk: it has the beginning alone. Make room, or choose another place with -o"
                ));
                return;
            }
            let file = file.to_string_lossy();
            let again = plain::message(&shell::file(&file));
            eprintln!("Compare the schemes on it: varve replay {again}");
        }
        Err(_) if fs::metadata(file).is_ok_and(|m| m.len() == 0) => {
            let _ = fs::remove_file(file);
            tell(format!(
                "nothing was recorded: strace could not start {command}, or may not trace it (ptrace is forbidden in some containers)"
            ));
        }
        Err(e) => tell(format!("{shown} is kept; it cannot be replayed: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_ends_within_a_line_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.strace");
        for (text, cut) in [
            ("1 1.0 close(3) = 0\n", false),
            ("1 1.0 clo", true),
            ("", true),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(is_cut(&file), cut, "{text:?}");
        }
    }
}
