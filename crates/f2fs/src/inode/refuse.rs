//! Inodes whose content this implementation does not understand, and what may still be done with
//! them.
//!
//! | inode | attributes | names in it | content | change |
//! |---|---|---|---|---|
//! | encrypted | yes | no | no | no |
//! | compressed | yes | - | no | no |
//! | fs-verity | yes | - | yes | no |
//! | device alias | yes | - | no | no |

use super::Inode;
use fscore::{FsError, FsResult};
use ondisk::f2fs::{Advise, InodeFields, InodeFlags};

/// The use of an inode's content that a caller asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Read its data, its target, or names in it.
    Read,
    /// Change data or names. (Attributes may always be changed.)
    Change,
}

/// Why this use is refused, if it is.
fn reason(fields: &InodeFields, what: Use) -> Option<&'static str> {
    let change = what == Use::Change;
    if fields.advise.has(Advise::ENCRYPT) {
        Some("is encrypted")
    } else if fields.flags.has(InodeFlags::DEVICE_ALIAS) {
        Some("stands for a device")
    } else if fields.flags.has(InodeFlags::COMPRESS) && fields.is_regular() {
        Some("is compressed")
    } else if fields.advise.has(Advise::VERITY) && change {
        Some("is sealed by fs-verity")
    } else {
        None
    }
}

impl Inode {
    /// # Errors
    /// `Incompatible` if this inode's content cannot be used so.
    pub fn check_use(&self, what: Use) -> FsResult<()> {
        match reason(&self.core().fields, what) {
            None => Ok(()),
            Some(why) => Err(FsError::incompatible(format!("inode {} {why}", self.ino))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::{MODE_DIR, MODE_REGULAR};

    #[test]
    fn table() {
        let fields = |mode, advise, flags| InodeFields {
            mode,
            advise,
            flags,
            ..InodeFields::default()
        };
        let (none, flag) = (Advise::NONE, InodeFlags::NONE);
        for (fields, read, change) in [
            (fields(MODE_REGULAR, none, flag), true, true),
            (fields(MODE_REGULAR, Advise::ENCRYPT, flag), false, false),
            (fields(MODE_DIR, Advise::ENCRYPT, flag), false, false),
            (fields(MODE_REGULAR, Advise::VERITY, flag), true, false),
            (
                fields(MODE_REGULAR, none, InodeFlags::COMPRESS),
                false,
                false,
            ),
            // A directory hands the flag on to new files; its own blocks are plain.
            (fields(MODE_DIR, none, InodeFlags::COMPRESS), true, true),
            (fields(MODE_DIR, none, InodeFlags::CASEFOLD), true, true),
            (
                fields(MODE_REGULAR, none, InodeFlags::DEVICE_ALIAS),
                false,
                false,
            ),
        ] {
            assert_eq!(reason(&fields, Use::Read).is_none(), read, "{fields:?}");
            assert_eq!(reason(&fields, Use::Change).is_none(), change, "{fields:?}");
        }
    }
}
