//! How `varve umount` learns the outcome of the unmount: it connects to the process behind the
//! mount before it removes the mount, and reads until that process ends.
//!
//! The socket is an abstract one, named after the mount's device number: it needs no folder,
//! disappears with its process, and is visible within one network namespace. Connections wait in
//! its queue until the mount has gone; until then no task answers them.
//!
//! The kernel may give the device number of a removed mount to a new mount at once, while the
//! volume of the removed one is still being written. So the socket name is given up as soon as the
//! mount has gone ([`Verdict::close`]), and a new mount waits for that moment ([`Verdict::listen`])
//! before it reports that it is ready: so no `umount` ever asks the process of another mount.

use std::io::{self, Read, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is written for a clean volume; else it is the reason.
const CLEAN: &str = "clean";
/// How long an answer may take before a word is due.
const SILENCE: Duration = Duration::from_secs(2);
/// How long the name of a mount that has gone is waited for, and how long between two looks.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

fn name(device: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("varve-mount-{device}"))
}

/// The side of the process behind the mount, which tells the outcome.
pub struct Verdict(Mutex<Asked>);

enum Asked {
    /// Connections are accepted.
    Open(UnixListener),
    /// The connections that came while the mount was there; no further ones are accepted.
    Closed(Vec<UnixStream>),
}

impl Verdict {
    /// Accepts connections from now on. Where that is impossible, the outcome cannot be asked for.
    pub fn listen(device: &str) -> Verdict {
        let listener = name(device).and_then(|name| bind(&name));
        Verdict(Mutex::new(match listener {
            Ok(listener) => Asked::Open(listener),
            Err(_) => Asked::Closed(Vec::new()),
        }))
    }

    /// The mount has gone: connected callers wait for the outcome, and the name is free.
    pub fn close(&self) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Asked::Open(listener) = &*asked else {
            return;
        };
        let mut streams = Vec::new();
        if listener.set_nonblocking(true).is_ok() {
            while let Ok((stream, _)) = listener.accept() {
                streams.push(stream);
            }
        }
        *asked = Asked::Closed(streams);
    }

    /// Tells the outcome to all connected callers.
    pub fn tell(&self, ended: &Result<(), String>) {
        self.close();
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Asked::Closed(streams) = &mut *asked else {
            return;
        };
        let text = ended.as_ref().err().map_or(CLEAN, String::as_str);
        for mut stream in streams.drain(..) {
            // A caller that has gone meanwhile needs no answer.
            let _ = stream.write_all(text.as_bytes());
        }
    }
}

/// Waits until the process of a mount that has gone gives the name up.
fn bind(name: &SocketAddr) -> io::Result<UnixListener> {
    let since = Instant::now();
    loop {
        match UnixListener::bind_addr(name) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && since.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            bound => return bound,
        }
    }
}

/// A connection of `varve umount` that waits for the outcome.
pub struct Question(UnixStream);

impl Question {
    /// Connects to the process behind the mount with this device number; `None`: it cannot be
    /// reached from here.
    pub fn ask(device: &str) -> Option<Question> {
        let stream = UnixStream::connect_addr(&name(device).ok()?).ok()?;
        stream.set_read_timeout(Some(SILENCE)).ok()?;
        Some(Question(stream))
    }

    /// Waits for the outcome. After some time without one `patience` is called, once, and can end
    /// the wait.
    ///
    /// # Errors
    /// Why the volume is not clean; the error of `patience`.
    pub fn wait(mut self, patience: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let mut patience = Some(patience);
        let mut answer = Vec::new();
        loop {
            match self.0.read_to_end(&mut answer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    patience.take().map_or(Ok(()), |patience| patience())?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        match String::from_utf8_lossy(&answer).as_ref() {
            CLEAN => Ok(()),
            "" => Err("the process behind the mount has died".into()),
            why => Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_mount_with_the_same_number_is_the_one_that_is_asked() {
        let device = format!("test-next-{}", std::process::id());
        let first = Verdict::listen(&device);
        let of_first = Question::ask(&device).expect("it listens");
        let of_second = std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let second = Verdict::listen(&device);
                let question = Question::ask(&device).expect("it listens");
                second.tell(&Ok(()));
                question.wait(|| Ok(()))
            });
            std::thread::sleep(Duration::from_millis(50));
            first.close();
            second.join().expect("no panic")
        });
        first.tell(&Err("the first".into()));
        assert_eq!(of_second, Ok(()));
        assert_eq!(of_first.wait(|| Ok(())), Err("the first".into()));
    }

    #[test]
    fn who_asks_before_the_end_is_told() {
        let device = format!("test-{}", std::process::id());
        assert!(Question::ask(&device).is_none(), "nobody listens");
        for ended in [Ok(()), Err("the host is full".to_string())] {
            let verdict = Verdict::listen(&device);
            let questions = [Question::ask(&device), Question::ask(&device)];
            verdict.close();
            assert!(Question::ask(&device).is_none(), "its mount has gone");
            verdict.tell(&ended);
            for question in questions {
                let answer = question.expect("it listens").wait(|| Ok(()));
                assert_eq!(answer, ended);
            }
        }
        let verdict = Verdict::listen(&device);
        let question = Question::ask(&device).expect("it listens");
        drop(verdict);
        assert!(question.wait(|| Ok(())).is_err(), "it died");

        let verdict = Verdict::listen(&device);
        let question = Question::ask(&device).expect("it listens");
        let gives_up = question.wait(|| Err("enough".into()));
        assert_eq!(gives_up, Err("enough".into()));
        drop(verdict);
    }
}
