//! POSIX ACLs: their two forms, and how they change together with the mode of a file.
//!
//! The two forms: system calls have version 2 with entries of 8 bytes, the volume has version 1, in
//! which only entries for a named user or group carry an id.
//!
//! | entry | size | field | present |
//! |---|---|---|---|
//! | 0 | le16 | tag | always |
//! | 2 | le16 | permissions | always |
//! | 4 | le32 | id | in system calls; on the volume with tags 2 (user) and 8 (group) |

use crate::{Creds, Errno, FileKind, FsError, FsResult, XattrName};
use base::Ino;
use base::bytes::{get_le16, get_le32};

const VERSION_CALL: u32 = 2;
const VERSION_DISK: u32 = 1;
const HEADER_BYTES: usize = 4;
const CALL_ENTRY_BYTES: usize = 8;
const DISK_SHORT_BYTES: usize = 4;
const TAG_USER: u16 = 2;
const TAG_GROUP: u16 = 8;
const TAG_OWNER: u16 = 1;
const TAG_OWNING_GROUP: u16 = 4;
const TAG_MASK: u16 = 0x10;
const TAG_OTHERS: u16 = 0x20;
const TAGS_WITHOUT_ID: [u16; 4] = [TAG_OWNER, TAG_OWNING_GROUP, TAG_MASK, TAG_OTHERS];
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

/// The name of the access ACL.
pub const ACCESS: XattrName<'static> = XattrName {
    index: 2,
    rest: b"",
};
/// The name of the ACL that new inodes take over.
pub const DEFAULT: XattrName<'static> = XattrName {
    index: 3,
    rest: b"",
};

/// The ACLs of an inode that is about to be made.
#[derive(Clone, Default, Debug)]
pub struct NewAcls {
    access: Option<Acl>,
    default: Option<Acl>,
}

impl NewAcls {
    /// The permission bits of a new inode, and its ACLs (Linux `posix_acl_create`): by the default
    /// ACL of its directory, and without one by the umask of the creator.
    pub fn inherit(
        default: Option<Acl>,
        kind: FileKind,
        perm: u16,
        creds: &Creds,
    ) -> (u16, NewAcls) {
        match (kind, default) {
            (FileKind::Symlink, _) => (perm, NewAcls::default()),
            (_, None) => (creds.masked(perm), NewAcls::default()),
            (_, Some(default)) => {
                let (access, perm) = default.inherited(perm);
                let default = (kind == FileKind::Dir).then_some(default);
                (perm, NewAcls { access, default })
            }
        }
    }

    /// True if there is none to store.
    pub fn is_empty(&self) -> bool {
        self.access.is_none() && self.default.is_none()
    }

    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (XattrName<'static>, &Acl)> {
        let default = self.default.iter().map(|acl| (DEFAULT, acl));
        default.chain(self.access.iter().map(|acl| (ACCESS, acl)))
    }
}

/// Permission classes of a file that has no further entries: owner, group, others.
const MODE_BITS: u16 = 0o777;

/// One entry of an ACL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A POSIX ACL, taken apart (acl(5)): what file systems need to keep it in step with the mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// Reads the form of system calls; the entries must be those of acl(5), in its order.
    ///
    /// # Errors
    /// EINVAL; EOPNOTSUPP for another version.
    pub fn parse(value: &[u8]) -> Result<Acl, Errno> {
        to_disk(value)?;
        let entry = |bytes: &[u8]| Entry {
            tag: get_le16(bytes, 0),
            perm: get_le16(bytes, 2),
            id: get_le32(bytes, 4),
        };
        let entries: Vec<Entry> = value[HEADER_BYTES..]
            .chunks_exact(CALL_ENTRY_BYTES)
            .map(entry)
            .collect();
        let acl = Acl { entries };
        match acl.is_valid() {
            true => Ok(acl),
            false => Err(Errno::Inval),
        }
    }

    /// Reads the form of the volume.
    ///
    /// # Errors
    /// EINVAL.
    pub fn parse_disk(value: &[u8]) -> Result<Acl, Errno> {
        Acl::parse(&from_disk(value)?)
    }

    /// Reads what an inode has stored as its ACL.
    ///
    /// # Errors
    /// Corrupt.
    pub fn of_inode(ino: Ino, value: &[u8]) -> FsResult<Acl> {
        let bytes = value.len();
        let bad = |_| FsError::corrupt(format!("inode {ino}: its ACL ({bytes} bytes) is none"));
        Acl::parse_disk(value).map_err(bad)
    }

    /// The form of the volume.
    pub fn to_disk(&self) -> Vec<u8> {
        let mut out = VERSION_DISK.to_le_bytes().to_vec();
        for entry in &self.entries {
            out.extend(entry.tag.to_le_bytes());
            out.extend(entry.perm.to_le_bytes());
            if matches!(entry.tag, TAG_USER | TAG_GROUP) {
                out.extend(entry.id.to_le_bytes());
            }
        }
        out
    }

    /// Owner first, named users, the group, named groups, a mask if any user or group is named,
    /// others last; owner, group, mask and others once each.
    fn is_valid(&self) -> bool {
        let tags: Vec<u16> = self.entries.iter().map(|e| e.tag).collect();
        let ordered = tags.windows(2).all(|pair| match pair[0] == pair[1] {
            true => matches!(pair[0], TAG_USER | TAG_GROUP),
            false => pair[0] < pair[1],
        });
        let has = |tag| tags.contains(&tag);
        let named = has(TAG_USER) || has(TAG_GROUP);
        ordered
            && has(TAG_OWNER)
            && has(TAG_OWNING_GROUP)
            && has(TAG_OTHERS)
            && (!named || has(TAG_MASK))
    }

    /// The permission bits that a file with this access ACL has: the group's are those of the mask,
    /// if there is one.
    pub fn mode(&self) -> u16 {
        let perm = |tag| self.entries.iter().find(|e| e.tag == tag).map(|e| e.perm);
        let group = perm(TAG_MASK).or_else(|| perm(TAG_OWNING_GROUP));
        perm(TAG_OWNER).unwrap_or(0) << 6 | group.unwrap_or(0) << 3 | perm(TAG_OTHERS).unwrap_or(0)
    }

    /// True if the permission bits say all of it.
    pub fn is_mode(&self) -> bool {
        let plain = [TAG_OWNER, TAG_OWNING_GROUP, TAG_OTHERS];
        self.entries.iter().all(|e| plain.contains(&e.tag))
    }

    /// The access ACL after `chmod`: owner, others, and the mask or else the group, are those of
    /// `perm`.
    #[must_use]
    pub fn with_mode(mut self, perm: u16) -> Acl {
        for shift in [6, 3, 0] {
            let bits = perm >> shift & 7;
            self.class(shift).into_iter().for_each(|e| e.perm = bits);
        }
        self
    }

    /// The access ACL of a new file whose directory has this default ACL, if the bits of its mode
    /// are not all of it; and these bits: what both the ACL and `perm` allow.
    pub fn inherited(&self, perm: u16) -> (Option<Acl>, u16) {
        let mut acl = self.clone();
        for shift in [6, 3, 0] {
            let bits = perm >> shift & 7;
            acl.class(shift).into_iter().for_each(|e| e.perm &= bits);
        }
        let mode = perm & !MODE_BITS | acl.mode();
        ((!acl.is_mode()).then_some(acl), mode)
    }

    /// The entry that stands for the class whose bits begin at `shift` of the mode.
    fn class(&mut self, shift: u16) -> Option<&mut Entry> {
        let masked = self.entries.iter().any(|e| e.tag == TAG_MASK);
        let tag = match (shift, masked) {
            (6, _) => TAG_OWNER,
            (3, true) => TAG_MASK,
            (3, false) => TAG_OWNING_GROUP,
            _ => TAG_OTHERS,
        };
        self.entries.iter_mut().find(|e| e.tag == tag)
    }
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

    #[test]
    fn acls_and_modes() {
        let parse = |entries: &[(u16, u16, u32)]| Acl::parse(&call(entries));
        let plain = [(1, 6, NO_ID), (4, 5, NO_ID), (0x20, 4, NO_ID)];
        let acl = parse(&plain).expect("valid");
        assert!(acl.is_mode());
        assert_eq!(acl.mode(), 0o654);
        let named = [plain[0], (2, 7, 9), plain[1], (0x10, 7, NO_ID), plain[2]];
        let acl = parse(&named).expect("valid");
        assert_eq!((acl.is_mode(), acl.mode()), (false, 0o674));
        assert_eq!(Acl::parse_disk(&acl.to_disk()), Ok(acl.clone()));
        // chmod changes the mask, not the group.
        let after = acl.clone().with_mode(0o640);
        assert_eq!(after.mode(), 0o640);
        assert_eq!(after.entries[2].perm, 5);
        // posix_acl_create_masq of Linux: what both allow.
        let (access, mode) = acl.inherited(0o1666);
        assert_eq!(mode, 0o1664);
        assert_eq!(access.map(|a| a.mode()), Some(0o664));
        let (access, mode) = parse(&plain).expect("valid").inherited(0o777);
        assert_eq!((access, mode), (None, 0o654));
        let bad: [&[(u16, u16, u32)]; 4] = [
            &[(1, 6, NO_ID), (4, 5, NO_ID)],
            &[plain[0], (2, 7, 9), plain[1], plain[2]],
            &[plain[1], plain[0], plain[2]],
            &[plain[0], plain[0], plain[1], plain[2]],
        ];
        assert!(
            bad.iter()
                .all(|entries| parse(entries) == Err(Errno::Inval))
        );
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
