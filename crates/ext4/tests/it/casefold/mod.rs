//! Directories without regard to case (feature `casefold`): what Varve makes is judged by e2fsck,
//! which computes folded hashes itself, and Varve reads what e2fsck has rebuilt.

mod damage;
mod folding;
mod names;

use crate::common::Image;

/// A volume with the feature; `flags` are those of the encoding, as `mke2fs -E` takes them.
fn image(flags: &str) -> Image {
    let encoding = match flags {
        "" => "encoding=utf8-12.1".to_string(),
        flags => format!("encoding=utf8-12.1,encoding_flags={flags}"),
    };
    Image::new(64, &["-O", "casefold", "-E", &encoding, "-N", "16384"])
}
