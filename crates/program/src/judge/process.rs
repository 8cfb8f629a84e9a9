//! Processes of judges: started in a group of their own, heard until a deadline, ended with all
//! that they started.

use crate::state::JudgeError;
use base::{Nanos, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// Most bytes of a judge's words that are kept.
pub const WORDS_MAX: usize = 4096;
/// How often is asked whether to stop.
const LOOK: Nanos = Nanos(50_000_000);

/// Answers true when everything shall end.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// How long a judge may take, and when it has to end at once.
#[derive(Clone)]
pub struct Patience {
    /// Longest time for one state.
    pub timeout: Nanos,
    /// Asked every 50 ms.
    pub stop: Stop,
}

/// Why nobody waits any longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The time is up.
    Timeout,
    /// [`Patience::stop`] said so.
    Stopped,
}

impl Patience {
    /// Waits until one of `fds` has something to read, at most until `since` plus the timeout.
    pub fn wait(&self, fds: &mut [PollFd<'_>], since: Time) -> io::Result<Result<(), Over>> {
        loop {
            if (self.stop)() {
                return Ok(Err(Over::Stopped));
            }
            let gone = rt::now().0.saturating_sub(since.0);
            let Some(left) = self.timeout.0.checked_sub(gone).filter(|&left| left > 0) else {
                return Ok(Err(Over::Timeout));
            };
            let nanos = left.min(LOOK.0);
            let time = Timespec {
                tv_sec: 0,
                tv_nsec: nanos as i64,
            };
            match poll(fds, Some(&time)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(Ok(())),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// A process with all that it starts.
pub struct Group {
    child: Child,
    exited: OwnedFd,
    ended: bool,
}

impl Group {
    /// Starts it.
    ///
    /// # Errors
    /// The host refuses.
    pub fn start(command: &mut Command) -> io::Result<Group> {
        let child = command.process_group(0).spawn()?;
        let exited = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Group {
            child,
            exited,
            ended: false,
        })
    }

    /// Its child, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Readable when the process has ended.
    pub fn exited(&self) -> &OwnedFd {
        &self.exited
    }

    /// Ends whatever of it still runs, and answers how the process itself ended.
    ///
    /// # Errors
    /// The host refuses.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        // Until the process is waited for, its number is that of its group and of no other.
        if !self.ended {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.ended = true;
        }
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nothing of a judge outlives it, whichever way the exploration ends.
        let _ = self.end();
    }
}

/// Makes reading from `fd` never wait.
pub fn without_waiting(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Takes what is there to read; keeps the first [`WORDS_MAX`] bytes. Answers false at the end.
pub fn take_words(from: &mut impl Read, words: &mut Vec<u8>) -> io::Result<bool> {
    let mut buf = [0; 4096];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return Ok(false),
            Ok(n) => {
                let room = WORDS_MAX.saturating_sub(words.len());
                words.extend_from_slice(&buf[..n.min(room)]);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// How a command ended, and the first words that it printed.
pub struct Heard {
    /// Its status; `None`: it took too long and was ended.
    pub status: Option<ExitStatus>,
    /// What it printed on both outputs.
    pub words: String,
}

/// Runs a command to its end.
///
/// # Errors
/// It cannot be run, or everything has to end.
pub fn hear(command: &mut Command, patience: &Patience) -> Result<Heard, JudgeError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |e: io::Error| JudgeError(format!("running {program}: {e}"));
    let (mut reader, writer) = io::pipe().map_err(failed)?;
    let heard = (|| {
        without_waiting(&reader)?;
        command.stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut group = Group::start(command)?;
        // Our own copies of the pipe's end would keep it open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (over, words) = listen(&mut group, &mut reader, patience)?;
        let status = group.end()?;
        io::Result::Ok((over, status, words))
    })();
    let (over, status, words) = heard.map_err(failed)?;
    if over == Some(Over::Stopped) {
        return Err(stopped());
    }
    let words = String::from_utf8_lossy(&words).trim_end().to_string();
    Ok(Heard {
        status: over.is_none().then_some(status),
        words,
    })
}

/// The error of a judge that was ended because everything ends.
pub fn stopped() -> JudgeError {
    JudgeError("the judge was stopped".into())
}

fn listen(
    group: &mut Group,
    reader: &mut PipeReader,
    patience: &Patience,
) -> io::Result<(Option<Over>, Vec<u8>)> {
    let since = rt::now();
    let mut words = Vec::new();
    let mut open = true;
    loop {
        let exited = PollFd::new(group.exited(), PollFlags::IN);
        let has_ended = match open {
            true => {
                let mut fds = [exited, PollFd::new(&*reader, PollFlags::IN)];
                if let Err(over) = patience.wait(&mut fds, since)? {
                    return Ok((Some(over), words));
                }
                !fds[0].revents().is_empty()
            }
            false => {
                let mut fds = [exited];
                if let Err(over) = patience.wait(&mut fds, since)? {
                    return Ok((Some(over), words));
                }
                true
            }
        };
        open = open && take_words(reader, &mut words)?;
        if has_ended {
            return Ok((None, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(millis: u64) -> Patience {
        Patience {
            timeout: Nanos(millis * 1_000_000),
            stop: Arc::new(|| false),
        }
    }

    fn sh(text: &str, patience: &Patience) -> Result<Heard, JudgeError> {
        hear(Command::new("sh").args(["-c", text]), patience)
    }

    #[test]
    fn words_and_status_of_a_command() {
        let heard = sh("echo out; echo err >&2; exit 3", &patience(10_000)).unwrap();
        assert_eq!(heard.status.and_then(|status| status.code()), Some(3));
        assert_eq!(heard.words, "out\nerr");
        let many = sh("head -c 1000000 /dev/zero | tr '\\0' x", &patience(10_000)).unwrap();
        assert!(many.status.is_some_and(|status| status.success()));
        assert_eq!(many.words, "x".repeat(WORDS_MAX));
        let closed = sh("exec >&- 2>&-; sleep 0.1; exit 4", &patience(10_000)).unwrap();
        assert_eq!(closed.status.and_then(|status| status.code()), Some(4));
    }

    #[test]
    fn what_hangs_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let text = format!("(sleep 1; touch {}) & sleep 100", mark.display());
        let since = rt::now();
        let heard = sh(&text, &patience(100)).unwrap();
        assert!(heard.status.is_none());
        // One that ends and leaves something behind holds nobody up, either.
        let left = format!("(sleep 1; touch {}) & exit 0", mark.display());
        assert!(sh(&left, &patience(100_000)).unwrap().status.is_some());
        assert!(rt::now().0 - since.0 < 1_000_000_000);
        rt::sleep(Nanos(1_300_000_000));
        assert!(!mark.exists());
    }

    #[test]
    fn who_is_told_to_stop_stops() {
        let patience = Patience {
            timeout: Nanos(u64::MAX),
            stop: Arc::new(|| true),
        };
        let why = sh("sleep 100", &patience).err().unwrap().to_string();
        assert!(why.contains("stopped"), "{why}");
    }
}
