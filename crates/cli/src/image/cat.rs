//! `varve cat`.

use super::copy::pour;
use super::{Place, look, no_image};
use crate::args::CatArgs;
use crate::failure::{Failure, failed};
use std::io::{ErrorKind, Write};

/// Runs it.
pub fn cat(args: &CatArgs) -> Result<(), Failure> {
    for word in &args.places {
        let place = Place::parse(word).ok_or_else(|| no_image(word))?;
        let volume = look(&place.image)?;
        let mut gone = false;
        pour(&volume, &place, &mut |_, bytes| {
            match std::io::stdout().write_all(bytes) {
                // A reader that has gone, as `head` does, has all it wants.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    gone = true;
                    Ok(false)
                }
                Err(e) => Err(failed(format!("standard output: {e}"))),
                Ok(()) => Ok(true),
            }
        })?;
        if gone {
            break;
        }
    }
    Ok(())
}
