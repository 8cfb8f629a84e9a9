//! What a front door knows about the running task's reads and writes and a file system cannot see
//! in their arguments; and what a file system knows and a device cannot see in its requests.

use base::Ino;

/// Marks the running task's writes as accepted earlier.
///
/// A front door may have a cache of its own above the file system: under a mount, that of the
/// kernel. A write that this cache took was permitted at that time, and the program was told so. A
/// flag that has been set since, like `chattr +i`, forbids later writes and not this one; to refuse
/// it would lose the content silently.
#[derive(Clone, Copy, Debug)]
pub struct Accepted;

impl Accepted {
    /// Runs `f`; each write in it brings content that was accepted earlier.
    pub fn scope<T>(f: impl FnOnce() -> T) -> T {
        rt::with_local(Accepted, f)
    }

    /// Whether the running task's writes were accepted earlier.
    pub fn here() -> bool {
        rt::local::<Accepted>().is_some()
    }
}

/// Marks the running task's changes of extended attributes as part of a write, which takes
/// capabilities away with it (Linux `security_inode_killpriv`).
///
/// `chattr +a` forbids changes of attributes and allows appends, and an append takes capabilities
/// away as any write does. So flags refuse such a change only where they refuse the write. With
/// set-user-ID it is otherwise: Linux 6.18 refuses the append of whoever would take that away.
#[derive(Clone, Copy, Debug)]
pub struct OfWrite;

impl OfWrite {
    /// Runs `f`; each change of extended attributes in it is part of a write.
    pub fn scope<T>(f: impl FnOnce() -> T) -> T {
        rt::with_local(OfWrite, f)
    }

    /// Whether the running task's changes of extended attributes are part of a write.
    pub fn here() -> bool {
        rt::local::<OfWrite>().is_some()
    }
}

/// Marks the running task's reads as those of a file opened with `O_NOATIME`: they leave the access
/// time as it is.
#[derive(Clone, Copy, Debug)]
pub struct NoAccessTime;

impl NoAccessTime {
    /// Runs `f`; no read in it changes an access time.
    pub fn scope<T>(f: impl FnOnce() -> T) -> T {
        rt::with_local(NoAccessTime, f)
    }

    /// Whether the running task's reads leave access times as they are.
    pub fn here() -> bool {
        rt::local::<NoAccessTime>().is_some()
    }
}

/// Names the file whose content the running task is sending to the device, for a layer below that
/// counts by file. Content that waits to be sent by another task has no name there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sends(pub Ino);

impl Sends {
    /// Runs `f`; the requests in it carry content of this file.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        rt::with_local(self, f)
    }

    /// The file whose content the running task is sending.
    pub fn here() -> Option<Ino> {
        rt::local::<Sends>().map(|sends| sends.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inside_of_the_scope() {
        assert!(!Accepted::here() && !NoAccessTime::here());
        Accepted::scope(|| assert!(Accepted::here() && !NoAccessTime::here()));
        NoAccessTime::scope(|| assert!(!Accepted::here() && NoAccessTime::here()));
        OfWrite::scope(|| assert!(OfWrite::here() && !Accepted::here()));
        assert!(!Accepted::here() && !NoAccessTime::here() && !OfWrite::here());
        Sends(Ino(7)).scope(|| assert_eq!(Sends::here(), Some(Ino(7))));
        assert_eq!(Sends::here(), None);
    }
}
