//! A kernel that runs, and what sees to it that nothing of it outlives this process.
//!
//! A kernel in user mode has helpers that stay when it is killed alone. This process ends the whole
//! group and removes the scratch directory in any order that it keeps; where it is killed itself, a
//! shell that waits for that does the same: its input ends with this process, in whatever way.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A line is the word that all is done; an end without one is that of this process. `dash` takes
/// no `--` between the signal and the number of a group.
const KEEPER: &str = "if read -r word; then exit 0; fi; kill -KILL \"-$1\"; rm -rf -- \"$2\"";

/// The kernel's process, which leads a group of its own.
pub(crate) struct Running {
    child: Child,
    keeper: Child,
}

impl Running {
    /// Watches over a kernel that was just started with this scratch directory.
    ///
    /// # Errors
    /// There is no shell; the kernel is killed.
    pub fn new(mut child: Child, scratch: &Path) -> io::Result<Running> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", KEEPER, "sh", &child.id().to_string()])
            .arg(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt at the terminal is not for it.
            .process_group(0);
        match shell.spawn() {
            Ok(keeper) => Ok(Running { child, keeper }),
            Err(e) => {
                end_group(&child)?;
                child.wait()?;
                Err(e)
            }
        }
    }

    /// Whether the kernel has ended by itself.
    ///
    /// # Errors
    /// The host fails.
    pub fn is_over(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// The host fails.
    pub fn kill(&mut self) -> io::Result<()> {
        let ended = end_group(&self.child);
        // Before the number of the group can be another's.
        if let Some(mut word) = self.keeper.stdin.take() {
            // It has gone only if somebody killed it.
            let _ = word.write_all(b"done\n");
        }
        ended?;
        self.child.wait()?;
        self.keeper.wait().map(drop)
    }
}

/// The guest's processes are processes of the host, in the group of the kernel.
fn end_group(child: &Child) -> io::Result<()> {
    let group = rustix::process::Pid::from_child(child);
    match rustix::process::kill_process_group(group, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// This process is killed, so nobody says that all is done: the shell ends the whole group and
    /// removes the folder.
    #[test]
    fn whoever_kills_this_process_leaves_no_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let mut helper_and_kernel = Command::new("sh");
        helper_and_kernel
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = helper_and_kernel.spawn().unwrap();
        let mut helper = String::new();
        let out = child.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut helper).unwrap();
        let helper: i32 = helper.trim().parse().unwrap();
        let mut running = Running::new(child, &scratch).unwrap();
        drop(running.keeper.stdin.take());
        running.keeper.wait().unwrap();
        let killed = running.child.wait().unwrap().signal();
        assert_eq!(killed, Some(rustix::process::Signal::KILL.as_raw()));
        assert!(!scratch.exists());
        // It may be left as a zombie that nobody waits for.
        let state = std::fs::read_to_string(format!("/proc/{helper}/stat"));
        assert!(state.is_err() || state.is_ok_and(|state| state.contains(") Z ")));
    }
}
