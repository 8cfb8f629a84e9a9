//! A judge that is a command: a process for each state, whose exit status is the verdict.

use super::folder::TreeFolder;
use super::process::{Patience, hear};
use super::{Answer, Check, env};
use crate::state::{JudgeError, Verdict};
use crate::tree::Tree;
use base::Nanos;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// A shell command. It ends with 0 if all is well; otherwise what it prints is the reason.
pub struct CommandCheck {
    /// The text for the shell.
    pub text: String,
    /// How long it may take.
    pub patience: Patience,
}

impl Check for CommandCheck {
    fn check(
        &mut self,
        folder: &TreeFolder,
        _: &Tree,
        acknowledged: &[&str],
    ) -> Result<Answer, JudgeError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.text]);
        env(&mut shell, folder, acknowledged.len());
        let heard = hear(&mut shell, &self.patience)?;
        let Some(status) = heard.status else {
            return Err(too_long("the check", self.patience.timeout));
        };
        Ok(verdict(status, heard.words)?.into())
    }
}

/// What an exit status says. A shell tells with 126 and 127 that there is no such command, and with
/// 128 and more by which signal it ended.
fn verdict(status: ExitStatus, words: String) -> Result<Verdict, JudgeError> {
    let code = status.code();
    let signal = (status.signal()).or(code.filter(|code| *code > 128).map(|code| code - 128));
    if let Some(signal) = signal {
        let advice = "catch that, or end the command with `|| exit 1` if it shall count as bad";
        return Err(JudgeError(format!(
            "the check crashed (signal {signal}): {advice}\n{words}"
        )));
    }
    match code {
        Some(0) => Ok(Verdict::Good),
        Some(126 | 127) => Err(JudgeError(format!(
            "the check cannot be run; its path counts from the folder that varve was started in\n{words}"
        ))),
        _ if words.is_empty() => Ok(Verdict::Bad(status.to_string())),
        _ => Ok(Verdict::Bad(words)),
    }
}

/// The error for a judge that took too long.
pub fn too_long(who: &str, timeout: Nanos) -> JudgeError {
    let seconds = timeout.0 as f64 / 1e9;
    JudgeError(format!(
        "{who} took longer than {seconds} s for one state: give it more with --timeout, or let it give up by itself if that shall count as bad"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Env, tree_of};
    use super::*;

    fn judged(text: &str, acknowledged: &[&str]) -> Result<Verdict, JudgeError> {
        let env = Env::new();
        let mut judge = env.judge(&format!("command={text}"));
        judge.judge(&tree_of(&[("f", b"content")]), acknowledged)
    }

    #[test]
    fn what_it_says_does_not_tell_where_it_looked() {
        let said = judged("cat $VARVE_DIR/none $VARVE_ACKED", &["a"]).expect("a verdict");
        let Verdict::Bad(words) = said else {
            panic!("{said:?}");
        };
        assert!(words.contains("$VARVE_DIR/none"), "{words}");
        assert!(!words.contains("varve-judge-"), "{words}");
    }

    #[test]
    fn it_finds_the_tree_and_what_was_acknowledged() {
        let text = "test $(cat $VARVE_DIR/f) = content && test $VARVE_ACKED_COUNT = 2 \
                    && test \"$(tail -n 1 $VARVE_ACKED)\" = 'b c'";
        assert_eq!(judged(text, &["a", "b c"]).unwrap(), Verdict::Good);
        let bad = |words: &str| Verdict::Bad(words.into());
        assert_eq!(judged(text, &["a"]).unwrap(), bad("exit status: 1"));
        let spoken = judged("echo gone; echo why >&2; exit 7", &[]).unwrap();
        assert_eq!(spoken, bad("gone\nwhy"));
    }

    #[test]
    fn a_check_that_fails_itself_says_what_to_do() {
        let why = |text: &str| judged(text, &[]).unwrap_err().to_string();
        assert!(why("no-such-command-here").contains("cannot be run"));
        let crashed = why("kill -SEGV $$");
        assert!(crashed.contains("signal 11") && crashed.contains("|| exit 1"));
        assert!(why("sh -c 'kill -ABRT $$'; exit $?").contains("signal 6"));
        let env = Env::with_timeout(Nanos(50_000_000));
        let mut judge = env.judge("command=sleep 10");
        let why = judge.judge(&Tree::default(), &[]).unwrap_err().to_string();
        assert!(why.contains("longer than 0.05 s") && why.contains("--timeout"));
    }

    #[test]
    fn a_tree_that_the_check_changes_is_whole_for_the_next_one() {
        let env = Env::new();
        let text = "command=test -s $VARVE_DIR/f || exit 1; : > $VARVE_DIR/f; : > $VARVE_DIR/g";
        let mut judge = env.judge(text);
        let tree = tree_of(&[("f", b"content")]);
        for _ in 0..3 {
            assert_eq!(judge.judge(&tree, &[]).unwrap(), Verdict::Good);
        }
    }
}
