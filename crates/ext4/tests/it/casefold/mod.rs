//! Directories without regard to case (feature `casefold`): what Varve makes is judged by e2fsck,
//! which computes folded hashes itself, and Varve reads what e2fsck has rebuilt.

mod damage;
mod folding;
mod names;

use crate::common::Image;
use fscore::{FileFlags, FileSystem, FsResult};
use testkit::Brief;
use varve_ext4::Ext4;

/// A volume with the feature; `flags` are those of the encoding, as `mke2fs -E` takes them.
fn image(flags: &str) -> Image {
    let encoding = match flags {
        "" => "encoding=utf8-12.1".to_string(),
        flags => format!("encoding=utf8-12.1,encoding_flags={flags}"),
    };
    Image::new(64, &["-O", "casefold", "-E", &encoding, "-N", "16384"])
}

/// `chattr +F`, or `-F`.
fn fold(fs: &Ext4, dir: base::Ino, on: bool) -> FsResult<()> {
    let old = fs.file_flags(dir)?;
    let bit = FileFlags::CASEFOLD.0;
    let new = if on { old.0 | bit } else { old.0 & !bit };
    fs.set_file_flags(dir, FileFlags(new))
}

/// A new directory in the root in which case does not count.
fn folded_dir(fs: &Ext4, name: &str) -> base::Ino {
    let dir = fs.dir(name);
    fold(fs, dir, true).expect("an empty directory");
    dir
}
