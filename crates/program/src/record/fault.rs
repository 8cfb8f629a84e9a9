//! Calls that fail on purpose: `fsync=EIO@3`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use vfs::Errno;

base::words! {
    /// A call that can be made to fail.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub enum Word: "call" {
        /// `fsync`.
        Fsync => "fsync",
        /// `fdatasync`.
        Fdatasync => "fdatasync",
        /// `write`, `pwrite` and what else writes.
        Write => "write",
        /// `read`, `pread`: what the kernel does not answer from its cache.
        Read => "read",
        /// Making a file (`open` with `O_CREAT`, `mknod`).
        Create => "create",
        /// `mkdir`.
        Mkdir => "mkdir",
        /// `symlink`.
        Symlink => "symlink",
        /// `link`.
        Link => "link",
        /// `unlink`.
        Unlink => "unlink",
        /// `rmdir`.
        Rmdir => "rmdir",
        /// `rename`; its path is the old name.
        Rename => "rename",
        /// `truncate`, and `open` with `O_TRUNC`.
        Truncate => "truncate",
        /// `fallocate`.
        Fallocate => "fallocate",
        /// `chmod`, `chown`.
        Chmod => "chmod",
        /// `setxattr`, `removexattr`.
        Setxattr => "setxattr",
    }
}

/// Errors that a call can be made to fail with.
const ERRORS: [(&str, Errno); 14] = [
    ("EIO", Errno::Io),
    ("ENOSPC", Errno::NoSpc),
    ("EROFS", Errno::RoFs),
    ("EACCES", Errno::Access),
    ("EPERM", Errno::Perm),
    ("EFBIG", Errno::FBig),
    ("EBUSY", Errno::Busy),
    ("EAGAIN", Errno::Again),
    ("EMFILE", Errno::MFile),
    ("EMLINK", Errno::MLink),
    ("ENOENT", Errno::NoEnt),
    ("EEXIST", Errno::Exist),
    ("EOPNOTSUPP", Errno::NotSup),
    ("EINVAL", Errno::Inval),
];

/// The error of this name.
///
/// # Errors
/// There is none; which there are.
fn error(name: &str) -> Result<(&'static str, Errno), String> {
    let found = ERRORS.into_iter().find(|(known, _)| *known == name);
    found.ok_or_else(|| {
        let names = ERRORS.map(|(known, _)| known).join(", ");
        format!("error `{name}`; there are: {names}")
    })
}

/// The name of an error by its number of Linux, as `EIO`.
pub(crate) fn error_name(code: i32) -> String {
    let known = ERRORS.into_iter().find(|(_, errno)| errno.code() == code);
    known.map_or_else(|| format!("error {code}"), |(name, _)| name.into())
}

/// Calls that fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    call: Word,
    error: (&'static str, Errno),
    /// The first that fails, from 1, of the calls of this kind and path.
    first: u64,
    /// All later ones fail, too.
    on: bool,
    /// Only calls on this path count.
    path: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = if self.on { "+" } else { "" };
        write!(f, "{}={}@{}{on}", self.call, self.error.0, self.first)?;
        match &self.path {
            Some(path) => write!(f, ":{path}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let how = |why: &str| {
            format!("`{text}`: {why}; write CALL=ERROR[@N[+]][:PATH], for example fsync=EIO@3")
        };
        let (call, rest) = text.split_once('=').ok_or_else(|| how("has no `=`"))?;
        let (rest, path) = match rest.split_once(':') {
            Some((rest, path)) => (rest, Some(path.trim_start_matches("./").to_string())),
            None => (rest, None),
        };
        let (error, count) = rest.split_once('@').unwrap_or((rest, "1"));
        let (count, on) = match count.strip_suffix('+') {
            Some(count) => (count, true),
            None => (count, false),
        };
        let first = count.parse().ok().filter(|&n: &u64| n > 0);
        Ok(Fault {
            call: call
                .parse()
                .map_err(|e: base::UnknownWord| how(&e.to_string()))?,
            error: self::error(error).map_err(|e| how(&e))?,
            first: first.ok_or_else(|| how("N is a number from 1 on"))?,
            on,
            path,
        })
    }
}

/// The faults of a recording, with how often each was met.
#[derive(Default)]
pub(super) struct Faults(Vec<(Fault, u64)>);

impl Faults {
    pub fn new(faults: &[Fault]) -> Faults {
        Faults(faults.iter().map(|fault| (fault.clone(), 0)).collect())
    }

    /// Counts a call; the error that it fails with, if it does.
    pub fn meet(&mut self, call: Word, path: &str) -> Option<Errno> {
        let mut error = None;
        for (fault, met) in &mut self.0 {
            if fault.call != call || fault.path.as_ref().is_some_and(|only| only != path) {
                continue;
            }
            *met += 1;
            let fails = *met == fault.first || fault.on && *met > fault.first;
            if fails {
                error.get_or_insert(fault.error.1);
            }
        }
        error
    }

    /// Faults that no call has met.
    pub fn unmet(&self) -> Vec<String> {
        let unmet = self.0.iter().filter(|(fault, met)| *met < fault.first);
        unmet.map(|(fault, _)| fault.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> Faults {
        let parse = |text: &&str| text.parse().expect("a fault");
        Faults::new(&texts.iter().map(parse).collect::<Vec<_>>())
    }

    #[test]
    fn the_nth_call_or_all_from_it_on_fail() {
        let mut faults = faults(&["fsync=EIO@2", "write=ENOSPC@2+:db", "fsync=EROFS@9"]);
        let mut met = |call, path| faults.meet(call, path);
        let syncs: Vec<_> = (0..3).map(|_| met(Word::Fsync, "a")).collect();
        assert_eq!(syncs, [None, Some(Errno::Io), None]);
        assert_eq!(met(Word::Fdatasync, "a"), None);
        let paths = ["db", "other", "db", "db"];
        let writes: Vec<_> = paths.iter().map(|path| met(Word::Write, path)).collect();
        let full = Some(Errno::NoSpc);
        assert_eq!(writes, [None, None, full, full]);
        assert_eq!(faults.unmet(), ["fsync=EROFS@9"]);
    }

    #[test]
    fn what_cannot_be_is_named_with_what_there_is() {
        for (bad, words) in [
            ("fsink=EIO@1", "fdatasync"),
            ("fsync=EOI", "ENOSPC"),
            ("fsync", "has no `=`"),
            ("fsync=EIO@0", "from 1 on"),
            ("fsync=EIO@x", "from 1 on"),
        ] {
            let why = bad.parse::<Fault>().expect_err(bad);
            assert!(why.contains(words) && why.contains("fsync=EIO@3"), "{why}");
        }
        let text = "read=EIO@3+:a/b";
        let fault: Fault = text.parse().expect("a fault");
        assert_eq!(fault.to_string(), text);
    }
}
