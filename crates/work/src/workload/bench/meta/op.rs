//! The operations of `meta:`, with what each needs before and leaves behind.

use crate::workload::spec::SpecError;
use std::str::FromStr;
use vfs::FileKind;

/// An operation on one name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MetaOp {
    /// Makes directories.
    Mkdir,
    /// Removes empty directories.
    Rmdir,
    /// Makes files and writes them whole.
    Create,
    /// Removes files.
    Unlink,
    /// Reads files whole and writes others with the same content.
    Copy,
    /// Asks for the attributes of files by their names.
    Stat,
    /// Lists the directory that a file is in.
    Readdir,
}

impl MetaOp {
    /// Every operation.
    pub const ALL: [MetaOp; 7] = [
        MetaOp::Mkdir,
        MetaOp::Rmdir,
        MetaOp::Create,
        MetaOp::Unlink,
        MetaOp::Copy,
        MetaOp::Stat,
        MetaOp::Readdir,
    ];
    /// The operation's name in specs and results.
    pub const fn name(self) -> &'static str {
        match self {
            MetaOp::Mkdir => "mkdir",
            MetaOp::Rmdir => "rmdir",
            MetaOp::Create => "create",
            MetaOp::Unlink => "unlink",
            MetaOp::Copy => "copy",
            MetaOp::Stat => "stat",
            MetaOp::Readdir => "readdir",
        }
    }

    /// The operation that undoes it so that it can be done once more; `None`: it needs none.
    pub(super) const fn undo(self) -> Option<MetaOp> {
        match self {
            MetaOp::Mkdir => Some(MetaOp::Rmdir),
            MetaOp::Rmdir => Some(MetaOp::Mkdir),
            MetaOp::Create | MetaOp::Copy => Some(MetaOp::Unlink),
            MetaOp::Unlink => Some(MetaOp::Create),
            MetaOp::Stat | MetaOp::Readdir => None,
        }
    }

    /// The operation that has to be done with all objects before; `None`: it needs none.
    pub(super) const fn before(self) -> Option<MetaOp> {
        match self {
            MetaOp::Rmdir => Some(MetaOp::Mkdir),
            MetaOp::Unlink | MetaOp::Stat | MetaOp::Readdir => Some(MetaOp::Create),
            MetaOp::Mkdir | MetaOp::Create | MetaOp::Copy => None,
        }
    }

    /// What has each name when the operation is done; `None`: nothing has.
    pub(super) const fn leaves(self) -> Option<FileKind> {
        match self {
            MetaOp::Mkdir => Some(FileKind::Dir),
            MetaOp::Create | MetaOp::Copy | MetaOp::Stat | MetaOp::Readdir => Some(FileKind::File),
            MetaOp::Rmdir | MetaOp::Unlink => None,
        }
    }

    /// True if the operation writes a file of the given size.
    pub(super) const fn writes(self) -> bool {
        matches!(self, MetaOp::Create | MetaOp::Copy)
    }
}

impl FromStr for MetaOp {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<MetaOp, SpecError> {
        let found = MetaOp::ALL.into_iter().find(|op| op.name() == text);
        found.ok_or_else(|| SpecError::Value {
            given: text.into(),
            valid: MetaOp::ALL.map(MetaOp::name).join(", "),
        })
    }
}
