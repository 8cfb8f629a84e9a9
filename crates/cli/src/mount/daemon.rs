//! A mount in the background. The parent starts this program again, waits until the mount is ready,
//! and exits. If the mount fails before that, the child reports the error on the standard error
//! that it inherited, and its exit code becomes that of the parent.

use super::Plan;
use crate::failure::{Failure, failed};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// What the child writes when the mount is up.
const READY: &[u8] = b"ready\n";

/// What the C library's allocator reads at its start. Requests are taken by whichever thread is
/// free, so each of its arenas would grow to what one request after the other needs: of 60,000 new
/// files a third of the memory lies idle that way.
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Starts the child and waits until its mount is up.
pub fn start(plan: &Plan) -> Result<(), Failure> {
    let of_child = |e: std::io::Error| failed(format!("starting the background process: {e}"));
    let arenas = std::env::var(ARENAS).unwrap_or_else(|_| "1".into());
    let mut child = Command::new("/proc/self/exe")
        .env(ARENAS, arenas)
        .arg0_varve()
        .args(["mount", "--daemon"])
        .arg(&plan.image)
        .arg(&plan.dir)
        .args(["-o", &plan.text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .current_dir("/")
        .spawn()
        .map_err(of_child)?;
    let mut word = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        // The child closes its end when it is ready, and when it ends.
        out.read_to_end(&mut word).map_err(of_child)?;
    }
    if word == READY {
        return Ok(());
    }
    let status = child.wait().map_err(of_child)?;
    match (status.code(), status.signal()) {
        // The child has reported the reason.
        (Some(code), _) if code != 0 => std::process::exit(code),
        (_, signal) => Err(failed(format!(
            "the background process ended before the mount was up (signal {signal:?})"
        ))),
    }
}

/// The name under which the child runs: not that of a helper of `mount(8)`.
trait Named {
    fn arg0_varve(&mut self) -> &mut Self;
}

impl Named for Command {
    fn arg0_varve(&mut self) -> &mut Command {
        std::os::unix::process::CommandExt::arg0(self, "varve")
    }
}

/// In the child: sets the name that other users of the image are told, and that `ps` shows; the
/// kernel has named the process after the link that was run.
pub fn name() {
    // Without `/proc` it keeps that name.
    let _ = std::fs::write("/proc/self/comm", "varve");
}

/// The end of the child's start: what it takes to leave the terminal.
pub struct Leave(File);

impl Leave {
    /// In the child, before the mount: afterwards a host that has no descriptor left would leave a
    /// mount that nobody answers.
    ///
    /// # Errors
    /// The host refuses.
    pub fn prepare() -> Result<Leave, Failure> {
        let null = File::options().read(true).write(true).open("/dev/null");
        null.map(Leave).map_err(of_terminal)
    }

    /// The mount is up: leaves the session and the terminal, and lets the parent go.
    ///
    /// # Errors
    /// The host refuses.
    pub fn ready(self) -> Result<(), Failure> {
        let detach = || -> std::io::Result<()> {
            // Fails for the leader of a process group, which a child is not.
            let _ = rustix::process::setsid();
            rustix::stdio::dup2_stderr(&self.0)?;
            rustix::io::write(rustix::stdio::stdout(), READY)?;
            rustix::stdio::dup2_stdout(&self.0)?;
            Ok(())
        };
        detach().map_err(of_terminal)
    }
}

fn of_terminal(e: std::io::Error) -> Failure {
    failed(format!("leaving the terminal: {e}"))
}
