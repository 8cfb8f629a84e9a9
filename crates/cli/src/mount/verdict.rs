//! How `varve umount` learns what has become of the volume: it connects to the process behind the mount before it takes the mount away, and
//! reads until that process ends.
//!
//! The socket is an abstract one, named after the mount's device number: it needs no folder, goes with its process, and is seen in the same
//! network namespace. Connections wait in its queue until the end; nobody has to answer them before.

use std::io::{self, Read, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// What is written for a clean volume; else it is the reason.
const CLEAN: &str = "clean";
/// How long an answer may take before a word is due.
const SILENCE: Duration = Duration::from_secs(2);

fn name(device: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("varve-mount-{device}"))
}

/// The side of the process behind the mount.
pub struct Verdict(Option<UnixListener>);

impl Verdict {
    /// Takes questions from now on. Where that is impossible, nobody can ask.
    pub fn listen(device: &str) -> Verdict {
        let listener = name(device).and_then(|name| UnixListener::bind_addr(&name));
        Verdict(listener.ok())
    }

    /// Answers them.
    pub fn tell(self, ended: &Result<(), String>) {
        let Some(listener) = self.0 else { return };
        if listener.set_nonblocking(true).is_err() {
            return;
        }
        let text = ended.as_ref().err().map_or(CLEAN, String::as_str);
        while let Ok((mut stream, _)) = listener.accept() {
            // Who has gone meanwhile does not want to know.
            let _ = stream.write_all(text.as_bytes());
        }
    }
}

/// A question that waits.
pub struct Question(UnixStream);

impl Question {
    /// Asks the process behind the mount with this device number; `None`: it cannot be asked from here.
    pub fn ask(device: &str) -> Option<Question> {
        let stream = UnixStream::connect_addr(&name(device).ok()?).ok()?;
        stream.set_read_timeout(Some(SILENCE)).ok()?;
        Some(Question(stream))
    }

    /// Waits for the answer. After a silence `patience` is called, once, and can end the waiting.
    ///
    /// # Errors
    /// Why the volume is not clean; what `patience` says.
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
    fn who_asks_before_the_end_is_told() {
        let device = format!("test-{}", std::process::id());
        assert!(Question::ask(&device).is_none(), "nobody listens");
        for ended in [Ok(()), Err("the host is full".to_string())] {
            let verdict = Verdict::listen(&device);
            let questions = [Question::ask(&device), Question::ask(&device)];
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
