//! What an enumeration covers: names, operations, their variants, and where it syncs.

/// A core operation, in the words of ACE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Core {
    /// A new file.
    Creat,
    /// A new directory.
    Mkdir,
    /// write(2).
    Write,
    /// Whole pages inside of a file, as a mapping of it writes them: through the page cache, and
    /// the size stays.
    Mmapwrite,
    /// A further name of a file.
    Link,
    /// A symbolic link.
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
    /// A new extended attribute of a file or directory: small, then one that needs a block.
    Setxattr,
    /// Removes one.
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
    /// None at all.
    pub none: bool,
    /// sync.
    pub sync: bool,
    /// fsync of each file or directory that an operation names.
    pub fsync: bool,
    /// fdatasync of each file that an operation names.
    pub fdatasync: bool,
    /// fsync of the directory that holds it.
    pub parent: bool,
    /// fsync of another file in the same directory.
    pub sibling: bool,
    /// Names of all operations so far, not only of the last one.
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
    /// Its name in texts.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Files that operations may name.
    pub files: &'static [&'static str],
    /// Directories that operations may name.
    pub dirs: &'static [&'static str],
    /// Core operations.
    pub core: &'static [Core],
    /// All variants of write, truncate and rename; else the first of each.
    pub variants: bool,
    /// What may follow each operation but the last.
    pub between: Points,
    /// What may follow the last one.
    pub end: Points,
    /// Also with what the first operation needs synced before it.
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

    /// The bound of that name.
    pub fn named(name: &str) -> Option<AceBound> {
        Self::ALL.into_iter().find(|bound| bound.name == name)
    }

    /// The bound that goes with sequences of so many operations if none is named.
    pub fn for_length(length: usize) -> AceBound {
        let [complete, pairs, few, _] = Self::ALL;
        match length {
            0 | 1 => complete,
            2 => pairs,
            _ => few,
        }
    }
}
