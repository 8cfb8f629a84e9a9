//! Directories without regard to case (feature `casefold`): what Varve makes is judged by e2fsck,
//! which computes folded hashes itself, and Varve reads what e2fsck has rebuilt.

mod damage;
mod folding;
mod names;

use crate::common::Image;
use base::Rng;
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

/// A name of several scripts, with marks in any order, ignorable characters, and bytes that are
/// no UTF-8.
fn wild_name(rng: &mut Rng) -> Vec<u8> {
    let mut name = Vec::new();
    for _ in 0..1 + rng.below(9) {
        let code = match rng.below(12) {
            0..=3 => 0x41 + rng.below(58) as u32,
            4 | 5 => 0xC0 + rng.below(0x180) as u32,
            6 => 0x300 + rng.below(0x70) as u32,
            7 => 0x370 + rng.below(0x200) as u32,
            8 => 0xAC00 + rng.below(0x2BA4) as u32,
            9 => 0x1E00 + rng.below(0x200) as u32,
            10 => [0x200D, 0xFE0F, 0xAD, 0x34F, 0xFFF0][rng.below(5) as usize],
            _ => {
                name.push(0x80 | rng.next_u64() as u8);
                continue;
            }
        };
        if let Some(c) = char::from_u32(code) {
            name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    name.retain(|&b| b != 0 && b != b'/');
    if name.is_empty() || name == b"." || name == b".." {
        name = b"x".to_vec();
    }
    name
}
