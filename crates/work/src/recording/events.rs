//! What a reader of any format concludes from its lines: events on files, in the order of time.
//! [`repair`](super::repair) makes a recording of them that does not contradict itself.

/// A path, or a file whose path may become known later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Path(String),
    File(usize),
}

/// What an event does. Sessions are given by number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum What {
    Open(usize),
    Read(usize, u64, u32),
    Write(usize, u64, u32),
    Sync(usize, bool),
    SyncAll,
    Truncate(usize, u64),
    Close(usize),
    Unlink(Name),
    Rename(String, String),
    Mkdir(String),
    Rmdir(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub us: u64,
    pub thread: u32,
    pub what: What,
}

/// What a session has open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    File {
        name: Name,
        create: bool,
        truncate: bool,
    },
    Dir(String),
    /// Nothing that counts: it is left out, for this reason.
    None(&'static str),
}

/// What is known of a file at the end of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FileSeen {
    /// Its path, if known.
    pub path: Option<String>,
    /// Its directory, if its path is not known.
    pub dir: String,
    /// It was there before the recording.
    pub there: bool,
    /// Its size before the recording in bytes, as far as calls show.
    pub bytes: u64,
}

/// The events, with the sessions and files that they refer to.
pub(super) struct Rebuilt {
    pub events: Vec<Event>,
    pub targets: Vec<Target>,
    pub files: Vec<FileSeen>,
    /// Time of the first line, microseconds.
    pub start: u64,
    /// The rule that counts what contradicts itself.
    pub bent: &'static str,
}

/// True for a path that is no file of a disk.
pub(super) fn is_device(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("dev" | "proc" | "sys" | "acct"))
}
