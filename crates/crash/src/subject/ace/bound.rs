//! What an enumeration covers: names, operations, their variants, and the points at which it syncs.

/// A core operation, in the words of ACE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Core {
    /// Makes a file.
    Creat,
    /// Makes a directory.
    Mkdir,
    /// write(2).
    Write,
    /// Writes whole pages inside a file, as a mapping does: through the page cache, with the size
    /// unchanged.
    Mmapwrite,
    /// Gives a file one more name.
    Link,
    /// Makes a symbolic link.
    Symlink,
    /// rename(2) of a file to a free name or over another file, and of a directory.
    Rename,
    /// Removes a name of a file.
    Unlink,
    /// Removes a directory.
    Rmdir,
    /// truncate(2).
    Truncate,
    /// fallocate(2): beyond the end with the size kept, beyond the end, and into a hole.
    Falloc,
    /// Sets an extended attribute of a file or directory: a small one, then one that needs a block.
    Setxattr,
    /// Removes an extended attribute.
    Removexattr,
}

/// All core operations.
pub const ALL_CORE: &[Core] = &[
    Core::Creat,
    Core::Mkdir,
    Core::Write,
    Core::Mmapwrite,
    Core::Link,
    Core::Symlink,
    Core::Rename,
    Core::Unlink,
    Core::Rmdir,
    Core::Truncate,
    Core::Falloc,
    Core::Setxattr,
    Core::Removexattr,
];

/// Which persistence operations may stand at a point of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Points {
    /// No persistence operation.
    pub none: bool,
    /// sync.
    pub sync: bool,
    /// fsync of each file or directory that an operation names.
    pub fsync: bool,
    /// fdatasync of each file that an operation names.
    pub fdatasync: bool,
    /// fsync of the directory that holds such a file.
    pub parent: bool,
    /// fsync of another file in the same directory.
    pub sibling: bool,
    /// The names of all operations so far count, and not only those of the last one.
    pub earlier: bool,
}

const ALL_POINTS: Points = Points {
    none: true,
    sync: true,
    fsync: true,
    fdatasync: true,
    parent: true,
    sibling: true,
    earlier: true,
};

/// What an enumeration covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AceBound {
    /// Its name in texts of workloads.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Files that operations may name.
    pub files: &'static [&'static str],
    /// Directories that operations may name.
    pub dirs: &'static [&'static str],
    /// Core operations.
    pub core: &'static [Core],
    /// All variants of an operation are made; otherwise the first one.
    pub variants: bool,
    /// The persistence operations that may follow each operation but the last.
    pub between: Points,
    /// The persistence operations that may follow the last one.
    pub end: Points,
    /// Each sequence is also made with a sync of what its first operation needs.
    pub settled: bool,
}

const FILES: &[&str] = &["/foo", "/bar", "/A/foo", "/A/bar", "/B/foo", "/B/bar"];
const DIRS: &[&str] = &["/A", "/B"];

impl AceBound {
    /// All bounds that have a name.
    pub const ALL: [AceBound; 4] = [
        AceBound {
            name: "complete",
            about: "all operations, variants, names and persistence operations",
            files: FILES,
            dirs: DIRS,
            core: ALL_CORE,
            variants: true,
            between: ALL_POINTS,
            end: Points {
                none: false,
                ..ALL_POINTS
            },
            settled: true,
        },
        AceBound {
            name: "pairs",
            about: "all operations, the first variant of each, names foo, bar, A/foo and A; nothing, fsync or sync between",
            files: &["/foo", "/bar", "/A/foo"],
            dirs: &["/A"],
            core: ALL_CORE,
            variants: false,
            between: Points {
                fdatasync: false,
                parent: false,
                sibling: false,
                ..ALL_POINTS
            },
            end: Points {
                none: false,
                sync: false,
                fdatasync: false,
                sibling: false,
                earlier: false,
                ..ALL_POINTS
            },
            settled: false,
        },
        AceBound {
            name: "few",
            about: "operations that differ most, names foo and A/foo; nothing or sync between",
            files: &["/foo", "/A/foo"],
            dirs: &["/A"],
            core: &[
                Core::Creat,
                Core::Write,
                Core::Link,
                Core::Rename,
                Core::Unlink,
                Core::Truncate,
            ],
            variants: false,
            between: Points {
                fsync: false,
                fdatasync: false,
                parent: false,
                sibling: false,
                earlier: false,
                ..ALL_POINTS
            },
            end: Points {
                none: false,
                sync: false,
                fdatasync: false,
                sibling: false,
                earlier: false,
                ..ALL_POINTS
            },
            settled: false,
        },
        AceBound {
            name: "names",
            about: "operations on names and one write, all names; nothing or sync between",
            files: FILES,
            dirs: DIRS,
            core: &[
                Core::Creat,
                Core::Write,
                Core::Link,
                Core::Rename,
                Core::Unlink,
                Core::Truncate,
            ],
            variants: false,
            between: Points {
                fsync: false,
                fdatasync: false,
                parent: false,
                sibling: false,
                ..ALL_POINTS
            },
            end: Points {
                none: false,
                sync: false,
                fdatasync: false,
                sibling: false,
                earlier: false,
                ..ALL_POINTS
            },
            settled: false,
        },
    ];

    /// The bound with this name.
    pub fn named(name: &str) -> Option<AceBound> {
        Self::ALL.into_iter().find(|bound| bound.name == name)
    }

    /// The bound that is taken for sequences of this length if none is named.
    pub fn for_length(length: usize) -> AceBound {
        let [complete, pairs, few, _] = Self::ALL;
        match length {
            0 | 1 => complete,
            2 => pairs,
            _ => few,
        }
    }
}
