//! `varve cat`: prints files of an image.

use super::copy::pour;
use super::{Place, look, no_image};
use crate::args::CatArgs;
use crate::failure::{Failure, failed, tell};
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};

/// Runs `varve cat`. As with cat, a file that cannot be read does not keep the others from being
/// printed.
pub fn cat(args: &CatArgs) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for word in &args.places {
        match print(word) {
            Ok(true) => {}
            // A reader that has gone, as `head` does, has all it wants.
            Ok(false) => break,
            Err(failure) => {
                if let Err(before) = std::mem::replace(&mut outcome, Err(failure)) {
                    tell(before);
                }
            }
        }
    }
    outcome
}

/// Prints one file; false: the reader of the output is gone.
fn print(word: &OsStr) -> Result<bool, Failure> {
    let place = Place::parse(word).ok_or_else(|| no_image(word))?;
    let volume = look(&place.image)?;
    let mut gone = false;
    pour(
        &volume,
        &place,
        &mut |_, bytes| match std::io::stdout().write_all(bytes) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                gone = true;
                Ok(false)
            }
            Err(e) => Err(failed(format!("standard output: {e}"))),
            Ok(()) => Ok(true),
        },
    )?;
    Ok(!gone)
}
