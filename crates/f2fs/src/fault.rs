//! Translates errors of the layers below into errors of a file system.

use block::{DevError, DevErrorKind};
use fscore::FsError;
use ondisk::Corrupt;

/// A failed device request.
pub(crate) fn device(during: &str) -> impl Fn(DevError) -> FsError + '_ {
    move |e| FsError::Io {
        power_lost: e.kind == DevErrorKind::PowerLost,
        what: format!("{during}: {e}"),
    }
}

/// Bytes that are not what the format demands.
pub(crate) fn corrupt(e: Corrupt) -> FsError {
    FsError::corrupt(e.to_string())
}
