//! What the model `posix` takes for granted, as one table. The model asks the table at each place
//! where it orders two parts or lets a sync cover one, and `docs/use/posix-model.md` is made from
//! it, so that what a user reads is what is explored. Each rule can be taken out
//! ([`Rules::without`]), and a test shows for each that a tree appears then which it forbids.

use std::fmt;
use std::str::FromStr;

/// One promise. Taking it out, or adding it, changes what a cut may leave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// Values of one object come in the order of the calls.
    InOrder,
    /// A rename is one part.
    RenameWhole,
    /// What is renamed can be reached by its new name.
    RenameReaches,
    /// What truncation frees goes with the size.
    TruncateWhole,
    /// A directory is removed empty.
    RemovedEmpty,
    /// `fsync` covers content.
    FsyncContent,
    /// `fsync` covers the size.
    FsyncSize,
    /// `fsync` covers attributes.
    FsyncAttributes,
    /// `fdatasync` covers content.
    FdatasyncContent,
    /// `fdatasync` covers the size.
    FdatasyncSize,
    /// `fsync` of a directory covers its names.
    FsyncNames,
    /// `sync` covers all.
    SyncAll,
    /// Belief: data before the metadata that shows it.
    OrderedData,
    /// Belief: an append is one part.
    AtomicAppend,
    /// Belief: `fsync` of a file covers its name.
    NameWithFile,
    /// Belief: names and attributes come in order.
    OrderedNames,
    /// Belief: a sync after a failed one covers what that did not.
    RetriedSync,
}

/// A knob: what a user may believe of file systems beyond the book.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Belief {
    /// Data before metadata.
    OrderedData,
    /// Appends are atomic.
    AtomicAppend,
    /// No fsync of directories is needed.
    DirFsyncNotNeeded,
    /// Metadata in order.
    OrderedNames,
    /// A failed fsync may be tried again.
    RetriedFsync,
}

impl Belief {
    /// All beliefs, in the order in which a name of a model gives them.
    pub const ALL: [Belief; 5] = [
        Belief::OrderedData,
        Belief::AtomicAppend,
        Belief::DirFsyncNotNeeded,
        Belief::OrderedNames,
        Belief::RetriedFsync,
    ];

    /// Its name behind a `+`.
    pub fn word(self) -> &'static str {
        match self {
            Belief::OrderedData => "ordered-data",
            Belief::AtomicAppend => "atomic-append",
            Belief::DirFsyncNotNeeded => "dir-fsync-not-needed",
            Belief::OrderedNames => "ordered-names",
            Belief::RetriedFsync => "retried-fsync",
        }
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Belief {
    type Err = String;

    fn from_str(word: &str) -> Result<Belief, String> {
        let found = Belief::ALL.into_iter().find(|b| b.word() == word);
        found.ok_or_else(|| {
            let words: Vec<&str> = Belief::ALL.iter().map(|b| b.word()).collect();
            format!(
                "`{word}` is no belief; there are {}, and `sectors`",
                words.join(", ")
            )
        })
    }
}

/// A line of the table.
pub struct Row {
    /// Which promise.
    pub rule: Rule,
    /// Its name in results and docs.
    pub name: &'static str,
    /// What it demands.
    pub demands: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// The knob that adds it; `None`: it always holds.
    pub belief: Option<Belief>,
}

const fn row(
    rule: Rule,
    name: &'static str,
    demands: &'static str,
    source: &'static str,
    belief: Option<Belief>,
) -> Row {
    Row {
        rule,
        name,
        demands,
        source,
        belief,
    }
}

/// All rules: those of the book first, then those that beliefs add.
pub static RULES: &[Row] = &[
    row(
        Rule::InOrder,
        "in-order",
        "an object (a page of content, a size, a name in a directory, an attribute) has a value that it had after some \
         call: the old one, one in between, or the newest. A later value never comes without the calls that the object saw before",
        "causality: a file system keeps one current value of an object and writes that",
        None,
    ),
    row(
        Rule::RenameWhole,
        "rename-whole",
        "a rename takes the old name and gives the new one in one step; what had the new name is replaced in the same step",
        "POSIX.1-2024 rename(); rename(2): \"atomically replaced, so that there is no point at which another process attempting \
         to access newpath will find it missing\"",
        None,
    ),
    row(
        Rule::RenameReaches,
        "rename-reaches",
        "a rename is not there without the names of the directories above the new name: what had a name keeps one, and no directory ends \
         up inside of itself",
        "rename(2), read for a directory that is new itself",
        None,
    ),
    row(
        Rule::TruncateWhole,
        "truncate-whole",
        "pages that a truncation frees are gone together with the size; the rest of the page in which it ends may read as zeros \
         earlier or later",
        "truncate(2): \"the extra data is lost\"; block maps and size are one inode's metadata",
        None,
    ),
    row(
        Rule::RemovedEmpty,
        "removed-empty",
        "the removal of a directory is not there without the calls that emptied the directory",
        "rmdir(2): \"which must be empty\"",
        None,
    ),
    row(
        Rule::FsyncContent,
        "fsync-content",
        "after fsync of a file all that was written to it is there",
        "fsync(2): \"transfers all modified in-core data\"",
        None,
    ),
    row(
        Rule::FsyncSize,
        "fsync-size",
        "after fsync of a file its size is there",
        "fsync(2): \"flushes the metadata information associated with the file\"",
        None,
    ),
    row(
        Rule::FsyncAttributes,
        "fsync-attributes",
        "after fsync of a file or directory its permissions, owner and extended attributes are there",
        "fsync(2): \"flushes the metadata information associated with the file\"",
        None,
    ),
    row(
        Rule::FdatasyncContent,
        "fdatasync-content",
        "after fdatasync all that was written to the file is there; permissions, owner and extended attributes may be old",
        "fdatasync(2); POSIX: synchronized I/O data integrity completion",
        None,
    ),
    row(
        Rule::FdatasyncSize,
        "fdatasync-size",
        "after fdatasync the size of the file is there",
        "fdatasync(2): \"a change to the file size [...] would require a metadata flush\"",
        None,
    ),
    row(
        Rule::FsyncNames,
        "fsync-names",
        "after fsync of a directory the names in it are there, also that one was removed or moved away. Fsync of a file covers no name",
        "fsync(2): \"does not necessarily ensure that the entry in the directory containing the file has also reached disk. For \
         that an explicit fsync() on a file descriptor for the directory is also needed\"",
        None,
    ),
    row(
        Rule::SyncAll,
        "sync-all",
        "after sync and syncfs everything is there",
        "sync(2): Linux waits for the writing, POSIX does not ask for it",
        None,
    ),
    row(
        Rule::OrderedData,
        "ordered-data",
        "a size or name is not there without what was written to the file before; a name not without the size either",
        "ext3 with data=ordered; not so in ext4, XFS and F2FS, which allocate late",
        Some(Belief::OrderedData),
    ),
    row(
        Rule::AtomicAppend,
        "atomic-append",
        "one write that grows a file comes whole, data and size, or not at all",
        "file systems that log data or write out of place (ALICE, OSDI '14, table 1)",
        Some(Belief::AtomicAppend),
    ),
    row(
        Rule::NameWithFile,
        "name-with-file",
        "fsync of a file also covers its names and those of the directories above it; fdatasync covers the name with which it was made",
        "ext4, XFS and F2FS, which log or find again the name of a file that is synced",
        Some(Belief::DirFsyncNotNeeded),
    ),
    row(
        Rule::OrderedNames,
        "ordered-names",
        "names and attributes come in the order of the calls, everywhere on the volume",
        "file systems with a journal or checkpoints",
        Some(Belief::OrderedNames),
    ),
    row(
        Rule::RetriedSync,
        "retried-fsync",
        "what a failed fsync did not write a later one writes; without this belief no later fsync covers it, because pages are \
         marked clean when their writing fails",
        "fsync(2), ERRORS; PostgreSQL's \"fsyncgate\" (2018): not so in Linux",
        Some(Belief::RetriedFsync),
    ),
];

/// Which promises a model makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules(u32);

impl Rules {
    /// Those of the book.
    pub fn book() -> Rules {
        let book = RULES.iter().filter(|row| row.belief.is_none());
        Rules(book.map(|row| 1 << row.rule as u32).sum())
    }

    /// With those that a belief adds.
    pub fn with(self, belief: Belief) -> Rules {
        let added = RULES.iter().filter(|row| row.belief == Some(belief));
        Rules(added.fold(self.0, |bits, row| bits | 1 << row.rule as u32))
    }

    /// With one taken out.
    pub fn without(self, rule: Rule) -> Rules {
        Rules(self.0 & !(1 << rule as u32))
    }

    /// Whether it is promised.
    pub fn has(self, rule: Rule) -> bool {
        self.0 & 1 << rule as u32 != 0
    }
}
