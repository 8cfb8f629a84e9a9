//! A judge that is a server: one process that gets a line for each state and answers with one.
//!
//! ```text
//! to its standard input      PATH <tab> FILE WITH ACKNOWLEDGEMENTS <newline>
//! from its standard output   ok <newline>   or   bad WHY <newline>
//! ```
//!
//! A server that dies, hangs or answers something else is started once more for the same state, as
//! the fault may be that of an earlier one, and is asked about the tree made anew, which it may
//! have changed before; the second time in a row is an error.

use super::command::too_long;
use super::folder::TreeFolder;
use super::process::{Group, Over, Patience, WORDS_MAX, stopped, take_words, without_waiting};
use super::{Answer, Check};
use crate::state::{JudgeError, Verdict};
use crate::tree::Tree;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// Longest answer in bytes.
const ANSWER_MAX: usize = 1 << 16;

/// A server.
pub struct ServerCheck {
    text: String,
    patience: Patience,
    running: Option<Running>,
    /// It gave no verdict when it was asked last.
    failed: bool,
}

struct Running {
    /// The process ends with it.
    _group: Group,
    input: ChildStdin,
    output: ChildStdout,
    errors: PipeReader,
    /// The first words of its standard error.
    words: Vec<u8>,
    /// What it answered and nobody has asked for.
    rest: Vec<u8>,
}

/// Why there is no verdict.
enum Trouble {
    Ended,
    TooLong,
    Stopped,
    Rubbish(String),
    Host(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Trouble {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Trouble::Ended,
            _ => Trouble::Host(e),
        }
    }
}

impl ServerCheck {
    /// A server that this shell command starts; it is started for the first state.
    pub fn new(text: String, patience: Patience) -> ServerCheck {
        ServerCheck {
            text,
            patience,
            running: None,
            failed: false,
        }
    }

    fn start(&self) -> io::Result<Running> {
        let (errors, writer) = io::pipe()?;
        without_waiting(&errors)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.text]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        shell.stderr(writer);
        let mut group = Group::start(&mut shell)?;
        let pipes = (group.child().stdin.take(), group.child().stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err(io::Error::other("it has no pipes"));
        };
        without_waiting(&output)?;
        Ok(Running {
            _group: group,
            input,
            output,
            errors,
            words: Vec::new(),
            rest: Vec::new(),
        })
    }

    fn ask(&mut self, folder: &TreeFolder) -> Result<Verdict, Trouble> {
        if self.running.is_none() {
            self.running = Some(self.start()?);
        }
        let Some(running) = &mut self.running else {
            return Err(Trouble::Ended);
        };
        let acked = folder.acked();
        let parts = [
            folder.path().as_os_str().as_bytes(),
            acked.as_os_str().as_bytes(),
        ];
        let mut line = parts.join(&b'\t');
        line.push(b'\n');
        running.input.write_all(&line)?;
        let answer = running.answer(&self.patience)?;
        match answer.split_once(' ') {
            _ if answer == "ok" => Ok(Verdict::Good),
            _ if answer == "bad" => Ok(Verdict::Bad("the server says no more than `bad`".into())),
            Some(("bad", why)) => {
                let why: String = why.chars().take(WORDS_MAX).collect();
                Ok(Verdict::Bad(why))
            }
            _ => Err(Trouble::Rubbish(answer)),
        }
    }

    /// What to tell of a trouble that came twice.
    fn error(&mut self, trouble: Trouble) -> JudgeError {
        let words = self.running.take().map(|running| running.words);
        let words = String::from_utf8_lossy(&words.unwrap_or_default()).into_owned();
        let words = match words.trim_end() {
            "" => String::new(),
            words => format!("\n{words}"),
        };
        match trouble {
            Trouble::Stopped => stopped(),
            Trouble::TooLong => too_long("the judge server", self.patience.timeout),
            Trouble::Host(e) => JudgeError(format!("the judge server: {e}")),
            Trouble::Ended => JudgeError(format!(
                "the judge server ended without an answer, twice for the same state: let it answer `bad WHY` where a check fails, and read lines until its input ends{words}"
            )),
            Trouble::Rubbish(answer) => {
                let answer: String = answer.chars().take(200).collect();
                JudgeError(format!(
                    "the judge server printed {answer:?}, twice for the same state: it has to print one line for each path, `ok` or `bad WHY`, and everything else to standard error{words}"
                ))
            }
        }
    }
}

impl Running {
    fn answer(&mut self, patience: &Patience) -> Result<String, Trouble> {
        let since = rt::now();
        let mut heard_errors = true;
        loop {
            if let Some(end) = self.rest.iter().position(|&c| c == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if !self.rest.is_empty() {
                    let more = String::from_utf8_lossy(&self.rest).into_owned();
                    return Err(Trouble::Rubbish(more));
                }
                let line = String::from_utf8_lossy(&line[..end]);
                return Ok(line.trim_end_matches('\r').to_string());
            }
            if self.rest.len() > ANSWER_MAX {
                let rest = String::from_utf8_lossy(&self.rest).into_owned();
                return Err(Trouble::Rubbish(rest));
            }
            let output = PollFd::new(&self.output, PollFlags::IN);
            let errors = PollFd::new(&self.errors, PollFlags::IN);
            let mut fds = [output, errors];
            let fds = match heard_errors {
                true => &mut fds[..],
                false => &mut fds[..1],
            };
            match patience.wait(fds, since)? {
                Err(Over::Timeout) => return Err(Trouble::TooLong),
                Err(Over::Stopped) => return Err(Trouble::Stopped),
                Ok(()) => {}
            }
            heard_errors = heard_errors && take_words(&mut self.errors, &mut self.words)?;
            let mut buf = [0; 4096];
            match self.output.read(&mut buf) {
                Ok(0) => {
                    // Its last words may stand in the pipe.
                    take_words(&mut self.errors, &mut self.words)?;
                    return Err(Trouble::Ended);
                }
                Ok(n) => self.rest.extend_from_slice(&buf[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Check for ServerCheck {
    fn check(&mut self, folder: &TreeFolder, _: &Tree, _: &[&str]) -> Result<Answer, JudgeError> {
        let failed = std::mem::take(&mut self.failed);
        match self.ask(folder) {
            Ok(verdict) => Ok(verdict.into()),
            Err(Trouble::Stopped) => Err(stopped()),
            Err(trouble) if failed => Err(self.error(trouble)),
            Err(_) => {
                // Nothing of it runs any more when the tree is made anew.
                self.running = None;
                self.failed = true;
                Ok(Answer::Again)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Env, tree_of};
    use super::*;
    use base::Nanos;

    const ECHO: &str = "server=while IFS='\t' read dir acked; do \
        if test -s $dir/f; then echo ok; else echo bad f is empty, $(wc -l < $acked) acknowledged; fi; done";

    #[test]
    fn one_process_answers_for_each_state() {
        let env = Env::new();
        let mut judge = env.judge(ECHO);
        let (good, bad) = (tree_of(&[("f", b"x")]), tree_of(&[("f", b"")]));
        for _ in 0..3 {
            assert_eq!(judge.judge(&good, &[]).unwrap(), Verdict::Good);
            let why = Verdict::Bad("f is empty, 2 acknowledged".into());
            assert_eq!(judge.judge(&bad, &["a", "b"]).unwrap(), why);
        }
    }

    #[test]
    fn a_server_that_dies_now_and_then_is_started_again() {
        let env = Env::new();
        let mut judge = env.judge("server=read line; echo ok");
        for _ in 0..3 {
            assert_eq!(judge.judge(&Tree::default(), &[]).unwrap(), Verdict::Good);
        }
    }

    #[test]
    fn a_server_that_died_over_a_tree_is_asked_about_the_whole_tree() {
        let env = Env::new();
        let mark = tempfile::tempdir().unwrap();
        let mark = mark.path().join("mark");
        let mut judge = env.judge(&format!(
            "server=while IFS='\t' read dir acked; do \
             if test -e {0}; then if test -s $dir/f; then echo ok; else echo bad f is gone; fi; \
             else touch {0}; rm $dir/f; exit 1; fi; done",
            mark.display()
        ));
        let tree = tree_of(&[("f", b"x")]);
        assert_eq!(judge.judge(&tree, &[]).unwrap(), Verdict::Good);
        assert!(mark.exists(), "the first one has died");
        let verdict = judge.judge(&tree_of(&[("f", b"")]), &[]).unwrap();
        assert_eq!(verdict, Verdict::Bad("f is gone".into()));
    }

    #[test]
    fn a_server_that_gives_no_verdict_says_what_to_do() {
        let env = Env::with_timeout(Nanos(200_000_000));
        let why = |text: &str| {
            let mut judge = env.judge(&format!("server={text}"));
            judge.judge(&Tree::default(), &[]).unwrap_err().to_string()
        };
        let ended = why("read line; echo oops >&2; exit 1");
        assert!(ended.contains("without an answer") && ended.contains("oops"));
        let rubbish = why("read line; echo looks good");
        assert!(rubbish.contains("looks good") && rubbish.contains("`bad WHY`"));
        assert!(why("read line; printf 'ok\\nok\\n'; sleep 9").contains("one line for each"));
        assert!(why("yes | tr -d '\\n'").contains("one line for each"));
        assert!(why("sleep 100").contains("longer than 0.2 s"));
    }
}
