//! Translates errors of the layers below into errors of a file system.

use block::{DevError, DevErrorKind};
use fscore::FsError;
use journal::JournalError;
use ondisk::Corrupt;

/// A failed device request.
pub(crate) fn device(during: &str) -> impl Fn(DevError) -> FsError + '_ {
    move |e| FsError::Io {
        power_lost: e.kind == DevErrorKind::PowerLost,
        what: format!("{during}: {e}"),
    }
}

/// A refusal of the journal.
pub(crate) fn journal(e: JournalError) -> FsError {
    let power_lost = e.is_power_lost();
    let what = e.to_string();
    match e {
        JournalError::Device(_) => FsError::Io { what, power_lost },
        JournalError::Aborted { .. } if power_lost => FsError::Io { what, power_lost },
        JournalError::Aborted { first } => FsError::Aborted {
            first: first.why.clone(),
        },
        JournalError::Incompatible(_) => FsError::Incompatible { what },
        JournalError::Corrupt(_) | JournalError::Coalition(_) => FsError::Corrupt { what },
        JournalError::NoThread { .. } => FsError::NoThread { what },
        JournalError::Misuse(_) => FsError::Aborted { first: what },
    }
}

/// Translates a parser's finding that bytes are not what the format demands.
pub(crate) fn corrupt(e: Corrupt) -> FsError {
    FsError::corrupt(e.to_string())
}
