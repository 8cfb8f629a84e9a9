//! Describes in words what the superblocks, checkpoints and inodes of an image say: for `varve
//! info` and `varve dump`. Nothing is recovered: the descriptions are of the bytes as they lie
//! there.

mod date;
mod ext;
mod f2fs;
mod ring;
mod section;

pub use date::date;
pub use section::{Datum, Row, Section};

use crate::{Fs, VolumeError, kind_of};
use base::BLOCK_BYTES;
use blockdev::HostFile;
use ondisk::Corrupt;
use vfs::FsError;

/// Describes what an image holds: the superblock, and for F2FS the checkpoint in force.
///
/// # Errors
/// No superblock that is known here; damage; the host refuses to read.
pub fn info(file: &HostFile, journal: Option<&HostFile>) -> Result<Vec<Section>, VolumeError> {
    match kind_of(file)?.ok_or(VolumeError::Unknown)? {
        Fs::Ext4 | Fs::Ext3 => ext::info(file, journal),
        Fs::F2fs => f2fs::info(file),
    }
}

/// Describes both checkpoint packs of an F2FS.
///
/// # Errors
/// As [`info`]; no F2FS.
pub fn checkpoints(file: &HostFile) -> Result<Vec<Section>, VolumeError> {
    match kind_of(file)?.ok_or(VolumeError::Unknown)? {
        Fs::Ext4 | Fs::Ext3 => Err(FsError::incompatible(
            "ext4 and ext3 have no checkpoint packs; `dump journal` shows their log",
        )
        .into()),
        Fs::F2fs => f2fs::checkpoints(file),
    }
}

/// Describes the journal of an F2FS: its superblocks and all that its ring holds, piece by piece.
/// Damage is described too, and the description goes on behind it.
///
/// # Errors
/// As [`info`]; no F2FS, or one without a journal; what `say` gives.
pub fn journal<E: From<VolumeError>>(
    file: &HostFile,
    say: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    match kind_of(file).map_err(VolumeError::Host)? {
        Some(Fs::F2fs) => ring::list(file, say),
        Some(Fs::Ext4 | Fs::Ext3) => Err(VolumeError::from(FsError::incompatible(
            "ext4 and ext3 keep their journal in a log of JBD2",
        ))
        .into()),
        None => Err(VolumeError::Unknown.into()),
    }
}

/// Describes an inode by number, as its inode table or node block has it.
///
/// # Errors
/// As [`info`]; no such inode.
pub fn inode(file: &HostFile, ino: u32) -> Result<Vec<Section>, VolumeError> {
    match kind_of(file)?.ok_or(VolumeError::Unknown)? {
        Fs::Ext4 | Fs::Ext3 => ext::inode(file, ino),
        Fs::F2fs => f2fs::inode(file, ino),
    }
}

/// A block of 4 KiB.
fn block(file: &HostFile, n: u64) -> Result<Vec<u8>, VolumeError> {
    let mut bytes = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut bytes, n * BLOCK_BYTES as u64)?;
    Ok(bytes)
}

fn corrupt(e: Corrupt) -> VolumeError {
    FsError::corrupt(e.to_string()).into()
}

fn uuid(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_dashes() {
        assert_eq!(uuid([0xAB; 16]), "abababab-abab-abab-abab-abababababab");
    }
}
