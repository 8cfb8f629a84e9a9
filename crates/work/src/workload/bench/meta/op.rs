//! The operations of `meta:`, with what each needs before and leaves behind.

use vfs::FileKind;

base::words! {
    /// An operation on one name.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum MetaOp: "operation" {
        /// Makes directories.
        Mkdir => "mkdir",
        /// Removes empty directories.
        Rmdir => "rmdir",
        /// Makes files and writes them whole.
        Create => "create",
        /// Removes files.
        Unlink => "unlink",
        /// Reads files whole and writes others with the same content.
        Copy => "copy",
        /// Asks for the attributes of files by their names.
        Stat => "stat",
        /// Lists the directory that a file is in.
        Readdir => "readdir",
    }
}

impl MetaOp {
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
