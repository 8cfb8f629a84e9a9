//! Acknowledgements.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// Says that the code has promised something to its user, in one line of text. What was promised
/// before the power goes is told to the check. Outside of a recording it does nothing.
///
/// # Panics
/// The text has a line break, or the recording takes no acknowledgement.
pub fn ack(text: &str) {
    #[allow(
        clippy::disallowed_methods,
        reason = "the recording is outside of this process and says where it is"
    )]
    let Some(file) = env::var_os("VARVE_ACKS") else {
        return;
    };
    assert!(
        !text.contains('\n'),
        "an acknowledgement is one line: {text:?}"
    );
    let acks = OpenOptions::new().append(true).open(&file);
    // In one piece: several threads may acknowledge at once.
    let line = format!("{text}\n");
    let written = acks.and_then(|mut acks| acks.write_all(line.as_bytes()));
    written.unwrap_or_else(|e| panic!("acknowledging {text:?}: {}: {e}", file.display()));
}
