//! The error of a damaged structure (ondisk-I1): what is wrong, in which structure, at which place.

use base::{BlockNo, Ino, Tid};
use std::fmt;

/// Bytes that are not what the format demands.
///
/// The parser knows the structure and the field; the caller adds the place with
/// [`at_block`](Corrupt::at_block), [`at_inode`](Corrupt::at_inode),
/// [`at_group`](Corrupt::at_group) and [`at_tid`](Corrupt::at_tid).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The structure, as a person would call it: `"ext4 superblock"`, `"journal descriptor"`.
    pub structure: &'static str,
    /// What is wrong with it.
    pub kind: CorruptKind,
    /// The block it was read from (for journal structures: the block of the journal), if known.
    pub block: Option<BlockNo>,
    /// The inode it belongs to, if known.
    pub ino: Option<Ino>,
    /// The block group it belongs to, if known.
    pub group: Option<u32>,
    /// The journal transaction it belongs to, if known.
    pub tid: Option<Tid>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorruptKind {
    /// Fewer bytes than the structure has.
    TooShort {
        /// Bytes the structure needs.
        need: usize,
        /// Bytes there were.
        have: usize,
    },
    /// The magic number is another one.
    BadMagic {
        /// What the bytes say.
        found: u32,
        /// What the format demands.
        expected: u32,
    },
    /// The stored checksum does not fit the bytes.
    BadChecksum {
        /// What is stored.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A field holds a value that the format does not allow.
    BadField {
        /// The field, under its name in the kernel's headers.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is wrong with that value.
        reason: &'static str,
    },
}

impl Corrupt {
    pub(crate) fn new(structure: &'static str, kind: CorruptKind) -> Corrupt {
        Corrupt {
            structure,
            kind,
            block: None,
            ino: None,
            group: None,
            tid: None,
        }
    }
    pub(crate) fn magic(structure: &'static str, found: u32, expected: u32) -> Corrupt {
        Self::new(structure, CorruptKind::BadMagic { found, expected })
    }
    pub(crate) fn field(
        structure: &'static str,
        field: &'static str,
        value: u64,
        reason: &'static str,
    ) -> Corrupt {
        Self::new(
            structure,
            CorruptKind::BadField {
                field,
                value,
                reason,
            },
        )
    }
    /// `Ok` if the two checksums are equal.
    pub(crate) fn check(
        structure: &'static str,
        stored: u32,
        computed: u32,
    ) -> Result<(), Corrupt> {
        if stored == computed {
            return Ok(());
        }
        Err(Self::new(
            structure,
            CorruptKind::BadChecksum { stored, computed },
        ))
    }
    /// The first `need` bytes of `buf`, or the error.
    pub(crate) fn need<'a>(
        structure: &'static str,
        buf: &'a [u8],
        need: usize,
    ) -> Result<&'a [u8], Corrupt> {
        buf.get(..need).ok_or_else(|| {
            Self::new(
                structure,
                CorruptKind::TooShort {
                    need,
                    have: buf.len(),
                },
            )
        })
    }

    /// Adds the block.
    pub fn at_block(mut self, block: BlockNo) -> Corrupt {
        self.block = Some(block);
        self
    }
    /// Adds the inode.
    pub fn at_inode(mut self, ino: Ino) -> Corrupt {
        self.ino = Some(ino);
        self
    }
    /// Adds the block group.
    pub fn at_group(mut self, group: u32) -> Corrupt {
        self.group = Some(group);
        self
    }
    /// Adds the transaction.
    pub fn at_tid(mut self, tid: Tid) -> Corrupt {
        self.tid = Some(tid);
        self
    }
    /// True if only the checksum is wrong: the caller may want to read on (JBD2 recovery decides at
    /// the commit block).
    pub fn is_checksum(&self) -> bool {
        matches!(self.kind, CorruptKind::BadChecksum { .. })
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.structure)?;
        if let Some(ino) = self.ino {
            write!(f, " of inode {ino}")?;
        }
        if let Some(group) = self.group {
            write!(f, " of group {group}")?;
        }
        if let Some(block) = self.block {
            write!(f, " at block {block}")?;
        }
        if let Some(tid) = self.tid {
            write!(f, " in transaction {tid}")?;
        }
        match &self.kind {
            CorruptKind::TooShort { need, have } => {
                write!(f, ": needs {need} bytes, has {have}")
            }
            CorruptKind::BadMagic { found, expected } => {
                write!(f, ": magic number {found:#x}, expected {expected:#x}")
            }
            CorruptKind::BadChecksum { stored, computed } => {
                write!(
                    f,
                    ": checksum {stored:#010x} stored, {computed:#010x} computed"
                )
            }
            CorruptKind::BadField {
                field,
                value,
                reason,
            } => {
                write!(f, ": {field} = {value} ({value:#x}): {reason}")
            }
        }
    }
}

impl std::error::Error for Corrupt {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_place_and_fault() {
        let e = Corrupt::check("extent node", 1, 2).expect_err("differ");
        let e = e.at_inode(Ino(12)).at_block(BlockNo(34));
        assert!(e.is_checksum());
        assert_eq!(
            e.to_string(),
            "extent node of inode 12 at block 34: checksum 0x00000001 stored, 0x00000002 computed"
        );
        let e = Corrupt::field(
            "journal superblock",
            "s_first",
            0,
            "must lie in the journal",
        );
        assert_eq!(
            e.at_tid(Tid(7)).at_group(2).to_string(),
            "journal superblock of group 2 in transaction 7: s_first = 0 (0x0): must lie in the journal"
        );
    }
}
