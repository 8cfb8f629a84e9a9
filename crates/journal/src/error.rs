//! Errors of the journal, and what its latch keeps of the first failure.

use block::{DevError, DevErrorKind};
use ondisk::Corrupt;
use std::sync::Arc;

/// e2fsck refuses a log with coalition blocks, so it is no help before the log is given up.
const COALITION_ADVICE: &str = "nothing was written. Work on a copy; e2fsck takes the file system only when the log is given \
     up: debugfs -w `feature -needs_recovery -has_journal`, `ssv journal_inum 0`, `clri <8>`, then e2fsck -fy, tune2fs -j";

/// The failure that ended a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed, in words.
    pub why: String,
    /// The power was cut; nothing on the medium is wrong.
    pub power_lost: bool,
}

/// The reason why a journal refuses an operation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// A device request failed.
    #[error("journal: {0}")]
    Device(#[from] DevError),
    /// The caller asked for something that the interface forbids.
    #[error("journal: {0}")]
    Misuse(String),
    /// The log uses something that this code does not know; the message says what and what to do.
    #[error("journal: {0}")]
    Incompatible(String),
    /// The bytes of the log are damaged; nothing was written home.
    #[error("journal is damaged: {0}; run e2fsck -f on the file system")]
    Corrupt(String),
    /// A log with coalition transactions is damaged, or home is not what they were made against;
    /// nothing was written home.
    #[error("journal is damaged: {0}; {COALITION_ADVICE}")]
    Coalition(String),
    /// The host starts no thread for a task of the journal; nothing was written.
    #[error("journal: no thread for its task {task} ({why})")]
    NoThread {
        /// The name of the task.
        task: &'static str,
        /// What the host says.
        why: String,
    },
    /// The journal was ended by an earlier failure.
    #[error("journal is aborted: {}", first.why)]
    Aborted {
        /// That failure.
        first: Arc<Failure>,
    },
}

impl JournalError {
    /// True if the reason is a power cut.
    pub fn is_power_lost(&self) -> bool {
        match self {
            JournalError::Device(e) => e.kind == DevErrorKind::PowerLost,
            JournalError::Aborted { first } => first.power_lost,
            _ => false,
        }
    }

    pub(crate) fn misuse(why: impl Into<String>) -> JournalError {
        JournalError::Misuse(why.into())
    }

    /// What the latch keeps of this error.
    pub(crate) fn to_failure(&self, during: &str) -> Failure {
        Failure {
            why: format!("{during}: {self}"),
            power_lost: self.is_power_lost(),
        }
    }
}

impl From<Corrupt> for JournalError {
    fn from(e: Corrupt) -> JournalError {
        JournalError::Corrupt(e.to_string())
    }
}
