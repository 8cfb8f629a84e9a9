//! The two forms of a POSIX ACL: system calls have version 2 with entries of 8 bytes, the volume has version 1, in which only
//! entries for a named user or group carry an id.
//!
//! | entry | size | field | present |
//! |---|---|---|---|
//! | 0 | le16 | tag | always |
//! | 2 | le16 | permissions | always |
//! | 4 | le32 | id | in system calls; on the volume with tags 2 (user) and 8 (group) |

use crate::Errno;
use base::bytes::{get_le16, get_le32};

const VERSION_CALL: u32 = 2;
const VERSION_DISK: u32 = 1;
const HEADER_BYTES: usize = 4;
const CALL_ENTRY_BYTES: usize = 8;
const DISK_SHORT_BYTES: usize = 4;
const TAG_USER: u16 = 2;
const TAG_GROUP: u16 = 8;
/// Owner, owning group, mask, others.
const TAGS_WITHOUT_ID: [u16; 4] = [1, 4, 0x10, 0x20];
/// The id of entries without one.
const NO_ID: u32 = u32::MAX;

fn has_id(tag: u16) -> Result<bool, Errno> {
    match tag {
        TAG_USER | TAG_GROUP => Ok(true),
        tag if TAGS_WITHOUT_ID.contains(&tag) => Ok(false),
        _ => Err(Errno::Inval),
    }
}

/// From the form of system calls to that of the volume.
///
/// # Errors
/// EINVAL for a wrong length, tag or permission; EOPNOTSUPP for another version.
pub fn to_disk(value: &[u8]) -> Result<Vec<u8>, Errno> {
    if value.len() <= HEADER_BYTES || !(value.len() - HEADER_BYTES).is_multiple_of(CALL_ENTRY_BYTES)
    {
        return Err(Errno::Inval);
    }
    if get_le32(value, 0) != VERSION_CALL {
        return Err(Errno::NotSup);
    }
    let mut out = VERSION_DISK.to_le_bytes().to_vec();
    for entry in value[HEADER_BYTES..].chunks_exact(CALL_ENTRY_BYTES) {
        if get_le16(entry, 2) > 7 {
            return Err(Errno::Inval);
        }
        let bytes = match has_id(get_le16(entry, 0))? {
            true => CALL_ENTRY_BYTES,
            false => DISK_SHORT_BYTES,
        };
        out.extend(&entry[..bytes]);
    }
    Ok(out)
}

/// From the form of the volume to that of system calls.
///
/// # Errors
/// EINVAL if it is none (as Linux).
pub fn from_disk(value: &[u8]) -> Result<Vec<u8>, Errno> {
    if value.len() < HEADER_BYTES || get_le32(value, 0) != VERSION_DISK {
        return Err(Errno::Inval);
    }
    let mut out = VERSION_CALL.to_le_bytes().to_vec();
    let mut rest = &value[HEADER_BYTES..];
    // Each turn takes at least 4 bytes off `rest`.
    while !rest.is_empty() {
        let short = rest.get(..DISK_SHORT_BYTES).ok_or(Errno::Inval)?;
        out.extend(short);
        let bytes = match has_id(get_le16(short, 0))? {
            true => CALL_ENTRY_BYTES,
            false => DISK_SHORT_BYTES,
        };
        let entry = rest.get(..bytes).ok_or(Errno::Inval)?;
        match &entry[DISK_SHORT_BYTES..] {
            [] => out.extend(NO_ID.to_le_bytes()),
            id => out.extend(id),
        }
        rest = &rest[bytes..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut out = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            out.extend(tag.to_le_bytes());
            out.extend(perm.to_le_bytes());
            out.extend(id.to_le_bytes());
        }
        out
    }

    #[test]
    fn both_forms() {
        let value = call(&[(1, 6, NO_ID), (2, 4, 1000), (4, 4, NO_ID), (0x10, 4, NO_ID)]);
        let disk = to_disk(&value).expect("valid");
        assert_eq!(disk.len(), 4 + 4 + 8 + 4 + 4);
        assert_eq!(from_disk(&disk), Ok(value));
        for bad in [call(&[(3, 0, 0)]), call(&[(1, 8, NO_ID)]), call(&[])] {
            assert_eq!(to_disk(&bad), Err(Errno::Inval));
        }
        assert_eq!(to_disk(&[1; 12]), Err(Errno::NotSup));
        assert_eq!(from_disk(&disk[..13]), Err(Errno::Inval));
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(0u8..20, 0..60), version in 1u8..3) {
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[version, 0, 0, 0]);
            }
            let _ = to_disk(&bytes);
            if let Ok(call) = from_disk(&bytes) {
                prop_assert!(call.len() <= 2 * bytes.len() + 4);
            }
        }
    }
}
