//! Shell commands of the user: each runs to its end, or to that of the patience with it.

use crate::stop::Stop;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long a command may take to end that was asked to.
const ENDING: Duration = Duration::from_secs(2);
/// How often is looked whether it has ended.
pub const LOOK: Duration = Duration::from_millis(20);

/// A running command.
pub struct Shell {
    child: Child,
    /// It is alone in its process group.
    alone: bool,
}

impl Shell {
    /// Starts `command`. With all that it starts it can be ended as one, unless its input is a
    /// terminal: it could not read from that then.
    pub fn start(command: &mut Command) -> io::Result<Shell> {
        let alone = !io::stdin().is_terminal();
        if alone {
            command.process_group(0);
        }
        let child = command.spawn()?;
        Ok(Shell { child, alone })
    }

    /// Its process, and whether that has a group of its own.
    pub fn id(&self) -> (u32, bool) {
        (self.child.id(), self.alone)
    }

    /// Waits until it ends. When the command `varve` is to stop, or the patience is over, it is
    /// asked to end, and then made to; the answer is how it ended, and whether by itself.
    pub fn wait(
        &mut self,
        stop: &Stop,
        patience: Option<Duration>,
    ) -> io::Result<(ExitStatus, bool)> {
        let since = Instant::now();
        let patient = || patience.is_none_or(|most| since.elapsed() < most);
        while stop.signal().is_none() && patient() {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status, true));
            }
            std::thread::sleep(LOOK);
        }
        self.send(Signal::TERM);
        let since = Instant::now();
        while since.elapsed() < ENDING {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status, false));
            }
            std::thread::sleep(LOOK);
        }
        self.send(Signal::KILL);
        Ok((self.child.wait()?, false))
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // The process may have ended by itself.
        let _ = match self.alone {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        };
    }
}
