//! `varve dump`: shows structures as they lie in an image, before any recovery.

use super::info::show;
use super::look;
use crate::args::{DumpArgs, DumpWhat};
use crate::failure::{Failure, failed, usage};
use crate::fsck::open;
use crate::out::say;
use base::plain::shown;
use paper::characterise::log_listing;
use rig::{Fs, inspect};
use std::os::unix::ffi::OsStrExt;

/// Runs `varve dump`.
pub fn dump(args: &DumpArgs) -> Result<(), Failure> {
    let name = args.image.display();
    if let (Some(word), true) = (&args.of, args.what != DumpWhat::Inode) {
        let word = shown(word.as_bytes());
        return Err(usage(format!(
            "`{word}`: only `dump inode` takes a number or a path"
        )));
    }
    if args.journal.is_some() && args.what != DumpWhat::Journal {
        return Err(usage("--journal belongs to `dump journal`"));
    }
    let file = open::open(&args.image, false).map_err(failed)?;
    let of_image = |e: rig::VolumeError| failed(format!("{name}: {e}"));
    match args.what {
        DumpWhat::Checkpoint => show(&inspect::checkpoints(&file).map_err(of_image)?, args.json),
        DumpWhat::Inode => {
            let ino = number(args)?;
            show(&inspect::inode(&file, ino).map_err(of_image)?, args.json)
        }
        DumpWhat::Journal => {
            let kind = rig::kind_of(&file).map_err(|e| failed(format!("{name}: {e}")))?;
            if args.json {
                return Err(usage("dump journal prints text only: leave --json out"));
            }
            if kind == Some(Fs::F2fs) {
                let done = inspect::journal(&file, &mut |text| say(text).map_err(Trouble::Output));
                return done.map_err(|trouble| match trouble {
                    Trouble::Image(e) => of_image(e),
                    Trouble::Output(e) => e,
                });
            }
            let journal = args.journal.as_ref().map(|path| open::open(path, false));
            let journal = journal.transpose().map_err(failed)?;
            let listing = log_listing(&file, journal.as_ref());
            say(&listing.map_err(|e| failed(format!("{name}: {e}")))?)
        }
    }
}

/// What may end a listing.
enum Trouble {
    Image(rig::VolumeError),
    Output(Failure),
}

impl From<rig::VolumeError> for Trouble {
    fn from(e: rig::VolumeError) -> Trouble {
        Trouble::Image(e)
    }
}

/// The inode number of `NUMBER` or `/PATH`.
fn number(args: &DumpArgs) -> Result<u32, Failure> {
    let word = (args.of.as_ref())
        .ok_or_else(|| usage("dump inode: which? Add its number or its /PATH"))?;
    if let Some(ino) = word.to_str().and_then(|text| text.parse().ok()) {
        return Ok(ino);
    }
    let path = word.as_bytes();
    if path.first() != Some(&b'/') {
        return Err(usage(format!(
            "`{}` is neither a number nor a /PATH",
            shown(path)
        )));
    }
    let volume = look(&args.image)?;
    let attr = volume.vfs.lstat(path);
    let attr =
        attr.map_err(|e| failed(format!("{}:{}: {e}", args.image.display(), shown(path))))?;
    Ok(attr.ino.0)
}
