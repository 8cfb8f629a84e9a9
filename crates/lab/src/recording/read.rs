//! Reads a recording from a file, whatever its format.

use super::Recording;
use crate::RunError;
use std::path::Path;

/// Reads a recording.
///
/// # Errors
/// The file cannot be read, or is in no format that is known here.
pub fn read(path: &Path) -> Result<Recording, RunError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Err(RunError::Recording(format!(
        "{name}: this is no format that is known here"
    )))
}
