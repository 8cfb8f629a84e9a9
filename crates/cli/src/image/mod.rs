//! Commands that look into images without mounting them: `varve ls`, `cat`, `cp`, `extract`,
//! `info`, `dump`.
//!
//! Recovery happens in memory, so these commands do not change the image; only `cp` into an image
//! does.

mod cat;
mod copy;
mod dress;
mod dump;
mod extract;
mod host;
mod info;
mod ls;
mod put;
mod tree;

pub use cat::cat;
pub use copy::copy;
pub use dump::dump;
pub use extract::extract;
pub use info::info;
pub use ls::ls;
pub use put::Putter;

use crate::failure::{Failure, failed, usage};
use crate::fsck::open;
use base::plain::shown;
use rig::Volume;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `IMAGE:/PATH`, or an image alone: its root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    image: PathBuf,
    path: Vec<u8>,
}

impl Place {
    /// `None` for a word that names a file of the host: no `:/` in it.
    fn parse(word: &OsStr) -> Option<Place> {
        let bytes = word.as_bytes();
        let at = bytes.windows(2).rposition(|pair| pair == b":/")?;
        Some(Place {
            image: PathBuf::from(OsStr::from_bytes(&bytes[..at])),
            path: bytes[at + 1..].to_vec(),
        })
    }

    /// The same, where a word without path means the root of an image.
    fn or_root(word: &OsStr) -> Place {
        Place::parse(word).unwrap_or_else(|| Place {
            image: PathBuf::from(word),
            path: b"/".to_vec(),
        })
    }

    /// How people write it.
    fn text(&self) -> String {
        let image = shown(self.image.as_os_str().as_bytes());
        format!("{image}:{}", shown(&self.path))
    }
}

/// Opens the image to look into it.
fn look(image: &Path) -> Result<Volume, Failure> {
    let file = open::open(image, false).map_err(failed)?;
    Volume::look(&file).map_err(|e| failed(format!("{}: {e}", image.display())))
}

/// Opens the image to change it.
fn change(image: &Path) -> Result<Volume, Failure> {
    let file = open::open(image, true).map_err(failed)?;
    Volume::change(&file).map_err(|e| failed(format!("{}: {e}", image.display())))
}

/// Errors of one place.
fn at(place: &Place) -> impl Fn(rig::FsError) -> Failure + '_ {
    move |e| failed(format!("{}: {e}", place.text()))
}

fn no_image(word: &OsStr) -> Failure {
    usage(format!(
        "`{}` names no file in an image; write IMAGE:/PATH",
        word.to_string_lossy()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_image_and_a_path() {
        let place = Place::parse(OsStr::new("a:b.img:/dir/f")).unwrap();
        assert_eq!(
            (place.image.to_str(), &place.path[..]),
            (Some("a:b.img"), &b"/dir/f"[..])
        );
        assert_eq!(Place::parse(OsStr::new("plain:file")), None);
        assert_eq!(Place::or_root(OsStr::new("x.img")).text(), "x.img:/");
    }
}
