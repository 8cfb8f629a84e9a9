//! What each system call does, out of its name, arguments and result.

use super::lines::Raw;
use super::text::{descriptor, field, has_flag, number, split, string, working_directory};

/// Largest offset: what follows it must still be a legal one.
const OFFSET_MAX: i64 = i64::MAX >> 1;

/// A path as the call has it: the folder that a relative one begins at, and its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct At {
    pub from: From,
    pub path: String,
}

/// Where a relative path begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum From {
    /// The working directory, whose path `-y` tells.
    Here(Option<String>),
    Descriptor(Fd),
}

/// A descriptor, with the path that `-y` tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fd {
    pub number: u32,
    pub path: Option<String>,
}

/// How the writes of an open file are synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Synced {
    No,
    Data,
    All,
}

/// What a call does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Does {
    Open {
        at: At,
        fd: u32,
        flags: Flags,
    },
    /// The new descriptor stands for the same open file.
    Duplicate {
        from: u32,
        to: u32,
        close_on_exec: bool,
    },
    CloseOnExec(u32, bool),
    Close(Fd),
    CloseRange(u32, u32),
    /// Descriptor, offset (`None`: the position), bytes moved.
    Read(Fd, Option<u64>, u64),
    Write(Fd, Option<u64>, u64, Synced),
    /// The position after a seek; the file's end where it sought from there.
    Seek(Fd, u64, Option<u64>),
    /// Bytes go from one open file to another, each at its offset (`None`: its position).
    Copy {
        from: (Fd, Option<u64>),
        to: (Fd, Option<u64>),
        bytes: u64,
    },
    /// All of a file comes to share its content with another one.
    Share {
        from: Fd,
        to: Fd,
    },
    Sync(Fd, bool),
    SyncAll,
    Size(Fd, u64),
    /// fallocate to this end.
    Extend(Fd, u64),
    /// The size of an open file was asked for.
    Looked(Fd, Option<u64>),
    /// A name was asked for: found, and a regular file's size.
    Probe(At, bool, Option<u64>),
    Listed(Fd),
    SizeOf(At, u64),
    Unlink(At),
    Rename(At, At),
    Link(At, At),
    Mkdir(At),
    Rmdir(At),
    Enter(At),
    EnterOpen(Fd),
    Here(String),
    Clone {
        child: u32,
        table: bool,
        folder: bool,
    },
    Exec,
    /// Does nothing that counts, for this reason.
    Nothing(&'static str),
}

/// Flags of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flags {
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub append: bool,
    pub read_only: bool,
    pub directory: bool,
    pub close_on_exec: bool,
    pub synced: Synced,
}

const OTHER: &str = "calls that change no file";
const FAILED: &str = "failed or empty";
const STRANGE: &str = "calls whose arguments cannot be read";
const UNSEEN: &str = "requests through io_uring and Linux AIO, which strace does not show";

/// What the call does.
pub(super) fn does(raw: &Raw) -> Does {
    let args = split(&raw.args);
    let Some(result) = number(raw.result.split('<').next().unwrap_or("")) else {
        return Does::Nothing(FAILED);
    };
    let call = Call {
        name: &raw.name,
        args: &args,
        result,
    };
    if result < 0 {
        return match raw.result.contains("ENOENT").then(|| call.path()).flatten() {
            Some(at) => Does::Probe(at, false, None),
            None => Does::Nothing(FAILED),
        };
    }
    call.does().unwrap_or(Does::Nothing(STRANGE))
}

struct Call<'a> {
    name: &'a str,
    args: &'a [&'a str],
    result: i64,
}

impl Call<'_> {
    fn arg(&self, n: usize) -> Option<&str> {
        self.args.get(n).copied()
    }

    fn fd(&self, n: usize) -> Option<Fd> {
        let (number, path) = descriptor(self.arg(n)?)?;
        Some(Fd { number, path })
    }

    fn unsigned(&self, n: usize) -> Option<u64> {
        number(self.arg(n)?)
            .filter(|n| (0..=OFFSET_MAX).contains(n))
            .map(|n| n as u64)
    }

    fn result(&self) -> Option<u64> {
        (0..=OFFSET_MAX)
            .contains(&self.result)
            .then_some(self.result as u64)
    }

    /// A path at argument `n`, relative to the working directory.
    fn here(&self, n: usize) -> Option<At> {
        let path = string(self.arg(n)?)?;
        let from = From::Here(None);
        Some(At { from, path })
    }

    /// A path at argument `n + 1`, relative to the folder at `n`.
    fn at(&self, n: usize) -> Option<At> {
        let path = string(self.arg(n + 1)?)?;
        let from = match working_directory(self.arg(n)?) {
            Some(here) => From::Here(here),
            None => From::Descriptor(self.fd(n)?),
        };
        Some(At { from, path })
    }

    /// The path that a call is about, for calls that look for one.
    fn path(&self) -> Option<At> {
        match self.name {
            "open" | "creat" | "access" | "stat" | "stat64" | "lstat" | "lstat64" | "unlink"
            | "readlink" | "chdir" | "rename" | "truncate" => self.here(0),
            "openat" | "openat2" | "faccessat" | "faccessat2" | "newfstatat" | "fstatat64"
            | "statx" | "unlinkat" | "readlinkat" | "renameat" | "renameat2" => self.at(0),
            _ => None,
        }
    }

    fn does(&self) -> Option<Does> {
        match self.name {
            "open" => self.open(self.here(0)?, self.arg(1)?),
            "openat" => self.open(self.at(0)?, self.arg(2)?),
            "openat2" => self.open(self.at(0)?, field(self.arg(2)?, "flags")?),
            "creat" => self.open(self.here(0)?, "O_WRONLY|O_CREAT|O_TRUNC"),
            "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" => self.descriptors(),
            "close" => Some(Does::Close(self.fd(0)?)),
            "close_range" => self.close_range(),
            "read" | "readv" | "write" | "writev" | "pread64" | "pread" | "pwrite64" | "pwrite"
            | "preadv" | "preadv2" | "pwritev" | "pwritev2" => self.moves(),
            "lseek" => Some(self.seek(self.result()?, self.arg(2)?)?),
            "_llseek" | "llseek" => {
                let place = self.arg(2)?.trim_matches(['[', ']']);
                Some(self.seek(number(place)?.try_into().ok()?, self.arg(3)?)?)
            }
            "fsync" => Some(Does::Sync(self.fd(0)?, false)),
            "fdatasync" => Some(Does::Sync(self.fd(0)?, true)),
            "ftruncate" | "ftruncate64" => {
                Some(Does::Size(self.fd(0)?, self.unsigned(self.args.len() - 1)?))
            }
            "truncate" | "truncate64" => Some(Does::SizeOf(
                self.here(0)?,
                self.unsigned(self.args.len() - 1)?,
            )),
            "fallocate" => self.fallocate(),
            "fstat" | "fstat64" => Some(Does::Looked(self.fd(0)?, self.size(1))),
            "newfstatat" | "fstatat64" if self.arg(1) == Some("\"\"") => {
                Some(Does::Looked(self.fd(0)?, self.size(2)))
            }
            "stat" | "stat64" | "lstat" | "lstat64" => self.probe(self.here(0), 1),
            "newfstatat" | "fstatat64" => self.probe(self.at(0), 2),
            "statx" if self.arg(1) == Some("\"\"") => Some(Does::Looked(self.fd(0)?, self.size(4))),
            "statx" => self.probe(self.at(0), 4),
            "access" => self.probe(self.here(0), usize::MAX),
            "faccessat" | "faccessat2" => self.probe(self.at(0), usize::MAX),
            "getdents" | "getdents64" => Some(Does::Listed(self.fd(0)?)),
            _ => self.names(),
        }
    }

    /// Calls on names, processes and what else there is.
    fn names(&self) -> Option<Does> {
        match self.name {
            "unlink" => Some(Does::Unlink(self.here(0)?)),
            "unlinkat" => {
                let at = self.at(0)?;
                let folder = has_flag(self.arg(2)?, "AT_REMOVEDIR");
                Some(if folder {
                    Does::Rmdir(at)
                } else {
                    Does::Unlink(at)
                })
            }
            "rename" => Some(Does::Rename(self.here(0)?, self.here(1)?)),
            "renameat2" if has_flag(self.arg(4)?, "RENAME_EXCHANGE") => {
                Some(Does::Nothing("exchanges of two names"))
            }
            "renameat" | "renameat2" => Some(Does::Rename(self.at(0)?, self.at(2)?)),
            "link" => Some(Does::Link(self.here(0)?, self.here(1)?)),
            "linkat" => Some(Does::Link(self.at(0)?, self.at(2)?)),
            "mkdir" => Some(Does::Mkdir(self.here(0)?)),
            "mkdirat" => Some(Does::Mkdir(self.at(0)?)),
            "rmdir" => Some(Does::Rmdir(self.here(0)?)),
            "chdir" => Some(Does::Enter(self.here(0)?)),
            "fchdir" => Some(Does::EnterOpen(self.fd(0)?)),
            "getcwd" => Some(Does::Here(string(self.arg(0)?)?)),
            "clone" | "clone3" | "fork" | "vfork" => self.cloned(),
            "execve" | "execveat" => Some(Does::Exec),
            "symlink" | "symlinkat" => Some(Does::Nothing("symbolic links")),
            "sync" | "syncfs" => Some(Does::SyncAll),
            "io_uring_enter" | "io_submit" => Some(Does::Nothing(UNSEEN)),
            "mmap" | "mmap2" => Some(Does::Nothing(self.mapping())),
            "copy_file_range" | "splice" => self.copy((0, 1), (2, 3)),
            // The file that is written has no offset of its own.
            "sendfile" | "sendfile64" => self.copy((1, 2), (0, usize::MAX)),
            "ioctl" => self.control(),
            _ => Some(Does::Nothing(OTHER)),
        }
    }

    fn open(&self, at: At, flags: &str) -> Option<Does> {
        let has = |flag| has_flag(flags, flag);
        let flags = Flags {
            create: has("O_CREAT"),
            exclusive: has("O_EXCL"),
            truncate: has("O_TRUNC"),
            append: has("O_APPEND"),
            read_only: !has("O_WRONLY") && !has("O_RDWR"),
            directory: has("O_DIRECTORY"),
            close_on_exec: has("O_CLOEXEC"),
            synced: match (has("O_SYNC"), has("O_DSYNC")) {
                (true, _) => Synced::All,
                (_, true) => Synced::Data,
                _ => Synced::No,
            },
        };
        let fd = u32::try_from(self.result).ok()?;
        match has("O_PATH") || has("O_TMPFILE") {
            true => Some(Does::Nothing("opens with O_PATH and O_TMPFILE")),
            false => Some(Does::Open { at, fd, flags }),
        }
    }

    fn descriptors(&self) -> Option<Does> {
        let from = self.fd(0)?.number;
        let to = u32::try_from(self.result).ok()?;
        let duplicate = |close_on_exec| {
            Some(Does::Duplicate {
                from,
                to,
                close_on_exec,
            })
        };
        match (self.name, self.arg(1)) {
            ("dup" | "dup2", _) => duplicate(false),
            ("dup3", _) => duplicate(has_flag(self.arg(2)?, "O_CLOEXEC")),
            (_, Some("F_DUPFD")) => duplicate(false),
            (_, Some("F_DUPFD_CLOEXEC")) => duplicate(true),
            (_, Some("F_SETFD")) => Some(Does::CloseOnExec(
                from,
                has_flag(self.arg(2)?, "FD_CLOEXEC"),
            )),
            _ => Some(Does::Nothing(OTHER)),
        }
    }

    fn close_range(&self) -> Option<Does> {
        if self
            .arg(2)
            .is_some_and(|f| f.contains("CLOSE_RANGE_CLOEXEC"))
        {
            return Some(Does::Nothing(OTHER));
        }
        let first = u32::try_from(self.unsigned(0)?).ok()?;
        let last = self.unsigned(1).and_then(|n| u32::try_from(n).ok());
        Some(Does::CloseRange(first, last.unwrap_or(u32::MAX)))
    }

    fn moves(&self) -> Option<Does> {
        let fd = self.fd(0)?;
        let bytes = self.result()?;
        if bytes == 0 {
            return Some(Does::Nothing(FAILED));
        }
        let place = self.name.starts_with('p').then(|| self.unsigned(3));
        let offset = match place {
            // An offset of -1 of pwritev2 stands for the position.
            Some(None) if self.name.ends_with("v2") => None,
            Some(place) => Some(place?),
            None => None,
        };
        if self.name.contains("read") {
            return Some(Does::Read(fd, offset, bytes));
        }
        let flags = self.arg(4).unwrap_or("");
        let synced = match (has_flag(flags, "RWF_SYNC"), has_flag(flags, "RWF_DSYNC")) {
            (true, _) => Synced::All,
            (_, true) => Synced::Data,
            _ => Synced::No,
        };
        Some(Does::Write(fd, offset, bytes, synced))
    }

    /// A copy within the kernel, from and to the descriptor and the offset at these arguments.
    fn copy(&self, from: (usize, usize), to: (usize, usize)) -> Option<Does> {
        let bytes = self.result()?;
        if bytes == 0 {
            return Some(Does::Nothing(FAILED));
        }
        let end = |(fd, offset)| Some((self.fd(fd)?, self.place(offset)?));
        Some(Does::Copy {
            from: end(from)?,
            to: end(to)?,
            bytes,
        })
    }

    /// An offset that the kernel reads and moves on, as `[0]`, `[0] => [9]` or `[0 => 9]`; within:
    /// `None` for `NULL`, which stands for the position.
    fn place(&self, n: usize) -> Option<Option<u64>> {
        let Some(inner) = self.arg(n).and_then(|arg| arg.strip_prefix('[')) else {
            return Some(None);
        };
        let first = inner.split([']', ' ']).next()?;
        let offset = number(first).filter(|n| (0..=OFFSET_MAX).contains(n))?;
        Some(Some(offset as u64))
    }

    fn control(&self) -> Option<Does> {
        match self.arg(1) {
            Some(what) if what.split(" or ").any(|name| name == "FICLONE") => Some(Does::Share {
                from: self.fd(2)?,
                to: self.fd(0)?,
            }),
            Some(what) if what.contains("FICLONERANGE") => Some(Does::Nothing(
                "parts of files that come to share their content",
            )),
            _ => Some(Does::Nothing(OTHER)),
        }
    }

    fn seek(&self, place: u64, whence: &str) -> Option<Does> {
        let from_end = whence == "SEEK_END" && self.arg(1)? == "0";
        Some(Does::Seek(self.fd(0)?, place, from_end.then_some(place)))
    }

    fn fallocate(&self) -> Option<Does> {
        let mode = self.arg(1)?;
        let end = self.unsigned(2)?.checked_add(self.unsigned(3)?)?;
        match mode == "0" && end <= OFFSET_MAX as u64 {
            true => Some(Does::Extend(self.fd(0)?, end)),
            false => Some(Does::Nothing("fallocate that leaves the size")),
        }
    }

    /// The size that the structure at argument `n` tells of a regular file.
    fn size(&self, n: usize) -> Option<u64> {
        let text = self.arg(n)?;
        let name = if text.contains("stx_mode") {
            "stx_size"
        } else {
            "st_size"
        };
        let size = text.contains("S_IFREG").then(|| field(text, name))??;
        number(size)
            .filter(|n| (0..=OFFSET_MAX).contains(n))
            .map(|n| n as u64)
    }

    fn probe(&self, at: Option<At>, n: usize) -> Option<Does> {
        Some(Does::Probe(at?, true, self.size(n)))
    }

    fn cloned(&self) -> Option<Does> {
        let flags = self.args.join(",");
        let child = u32::try_from(self.result).ok()?;
        Some(Does::Clone {
            child,
            table: flags.contains("CLONE_FILES"),
            folder: flags.contains("CLONE_FS"),
        })
    }

    fn mapping(&self) -> &'static str {
        let has = |n, flag| self.arg(n).is_some_and(|arg| has_flag(arg, flag));
        let shared = has(3, "MAP_SHARED") || has(3, "MAP_SHARED_VALIDATE");
        match has(2, "PROT_WRITE") && shared && !has(3, "MAP_ANONYMOUS") {
            true => "shared mappings to write to, whose stores strace does not show",
            false => OTHER,
        }
    }
}
