//! The server: answers the requests of a kernel, without knowing its protocol.

mod attrs;
mod ends;
mod files;
mod ioctl;
mod names;
mod nodes;
mod remount;
mod write;
mod xattrs;

pub use attrs::Change;
pub use files::{OpenMode, Opened};
pub use remount::{Again, REMOUNT_XATTR, Remount, Remounter};

use base::Ino;
use ends::Ends;
use nodes::Nodes;
use rt::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vfs::{AccessTimes, Errno, FsError, FsResult, FsStat, Vfs, WriteErrorCounts};

/// Longest name that `statfs` tells when the file system cannot be asked, bytes.
pub const STATFS_NAME_BYTES: u32 = 255;

/// The number that the FUSE protocol gives the root.
const PROTOCOL_ROOT: u64 = 1;

/// The caller of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits that its new files do not get; 0 if the kernel has seen to it.
    pub umask: u16,
}

/// The kernel's caches of files: it is told when something in them is out of date.
pub trait KernelCache: Send + Sync {
    /// Attributes of the inode that the protocol calls `number` have changed in a way that the
    /// answer to the request does not show. When this returns, the kernel asks for them anew.
    fn attributes_changed(&self, number: u64);

    /// Content from `offset` on has changed by a request that fails. The kernel drops its pages of
    /// it soon, and its attributes.
    fn content_changed(&self, number: u64, offset: u64);
}

/// A kernel that keeps nothing.
pub struct NoCache;

impl KernelCache for NoCache {
    fn attributes_changed(&self, _number: u64) {}
    fn content_changed(&self, _number: u64, _offset: u64) {}
}

/// Answers the requests of a kernel that checks permissions itself (`default_permissions`). Inode
/// numbers are those of the file system, except that 1 and the number of the root are exchanged:
/// the kernel's root is 1.
pub struct Server {
    /// The mount below; none after a remount that could not come back (fuse-U2).
    vfs: RwLock<Option<Arc<Vfs>>>,
    root: Ino,
    /// Held to read by each request, and to write while the mount below is exchanged.
    gate: RwLock<()>,
    nodes: Mutex<Nodes>,
    ends: Ends,
    /// Memory of reads that have been answered.
    buffers: Mutex<Vec<Vec<u8>>>,
    kernel: Arc<dyn KernelCache>,
    /// Requests that are taking set-user-ID away (fuse-U6).
    killing: AtomicUsize,
    killer: Mutex<()>,
    /// How the volume is mounted anew; without it a remount is refused.
    remounter: Mutex<Option<Remounter>>,
    /// When reading changes an access time; what the kernel reads from its cache does not.
    access_times: RwLock<AccessTimes>,
    /// Extended attributes are shown; if not, the kernel never asks for them again.
    xattrs: bool,
    /// A request has panicked (fuse-U2).
    panicked: AtomicBool,
    /// Damage refuses everything (`errors=panic`).
    strict: bool,
    /// What is told of a panic or of a failure that latched the mount.
    tell: Box<dyn Fn(&str) + Send + Sync>,
    told: AtomicBool,
}

impl Server {
    /// Serves `vfs` to `kernel`. `tell` gets a sentence when a request panics, and when the file
    /// system fails for good; with `strict` nothing is answered after that.
    pub fn new(
        vfs: Arc<Vfs>,
        kernel: Arc<dyn KernelCache>,
        access_times: AccessTimes,
        strict: bool,
        tell: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Server {
        Server {
            root: vfs.fs().root(),
            vfs: RwLock::named("fuse volume", Some(vfs)),
            gate: RwLock::named("fuse gate", ()),
            kernel,
            remounter: Mutex::named("fuse remounter", None),
            access_times: RwLock::named("fuse access times", access_times),
            killing: AtomicUsize::new(0),
            killer: Mutex::named("fuse killer", ()),
            nodes: Mutex::named("fuse nodes", Nodes::default()),
            ends: Ends::new(),
            buffers: Mutex::named("fuse buffers", Vec::new()),
            xattrs: true,
            panicked: AtomicBool::new(false),
            strict,
            tell,
            told: AtomicBool::new(false),
        }
    }

    /// The server, which shows extended attributes and ACLs only if `shown` (`noxattr`). Without
    /// them a write still takes a file's capabilities away.
    #[must_use]
    pub fn show_xattrs(self, shown: bool) -> Server {
        Server {
            xattrs: shown,
            ..self
        }
    }

    /// The mount below.
    pub fn vfs(&self) -> Arc<Vfs> {
        let vfs = self.vfs.read().clone();
        vfs.expect("fuse-U2: without a mount below, no request gets this far")
    }

    /// Runs one request: no panic leaves it (fuse-U2).
    fn run<T>(&self, request: impl FnOnce() -> FsResult<T>) -> Result<T, Errno> {
        let _gate = self.gate.read();
        if self.panicked.load(Ordering::Acquire) {
            return Err(Errno::Io);
        }
        if self.vfs.read().is_none() {
            return Err(Errno::Shutdown);
        }
        let answer = self.caught(request).map_err(|_| Errno::Io)?;
        answer.map_err(|e| self.number_of(&e))
    }

    /// Runs `work`; if it panics, nothing is answered any more (fuse-U2), and the error says so.
    fn caught<T>(&self, work: impl FnOnce() -> T) -> Result<T, String> {
        rt::foreign(work).map_err(|payload| {
            self.panicked.store(true, Ordering::Release);
            let what = (payload.downcast_ref::<String>().map(String::as_str))
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let told = format!(
                "a request panicked ({what}); every request fails from now on, the volume is left for recovery"
            );
            (self.tell)(&told);
            told
        })
    }

    /// Failures of write-back of a file, with those of the mounts before this one (remount-E3).
    fn write_errors(&self, ino: Ino) -> WriteErrorCounts {
        let since = self.vfs().fs().write_errors(ino);
        self.nodes.lock().errors_before(ino).and_later(since)
    }

    fn number_of(&self, e: &FsError) -> Errno {
        let for_good = match e {
            FsError::Corrupt { .. } | FsError::Aborted { .. } => true,
            FsError::Io { power_lost, .. } => *power_lost,
            FsError::Posix(_)
            | FsError::Options { .. }
            | FsError::Incompatible { .. }
            | FsError::NoThread { .. } => false,
        };
        if for_good && !self.told.swap(true, Ordering::AcqRel) {
            (self.tell)(&e.to_string());
            if self.strict {
                self.panicked.store(true, Ordering::Release);
            }
        }
        e.errno()
    }

    /// The file system's number of an inode that the protocol calls `number`; 0, which no inode
    /// has, for a number that was never given to the kernel.
    fn ino(&self, number: u64) -> Ino {
        Ino(u32::try_from(self.swapped(number)).unwrap_or(0))
    }

    /// The protocol's number of an inode: the inverse of `ino`, which is its own inverse.
    pub fn number(&self, ino: Ino) -> u64 {
        self.swapped(ino.0.into())
    }

    fn swapped(&self, number: u64) -> u64 {
        let root = u64::from(self.root.0);
        match number {
            PROTOCOL_ROOT => root,
            n if n == root => PROTOCOL_ROOT,
            n => n,
        }
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// Of the file system.
    pub fn statfs(&self) -> Result<FsStat, Errno> {
        self.run(|| self.vfs().statfs())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// Of the file system.
    pub fn sync(&self) -> Result<(), Errno> {
        self.run(|| self.vfs().sync())
    }

    /// Gives every pin back, writes everything and marks the volume clean. After a panic nothing of
    /// that happens.
    ///
    /// # Errors
    /// Why the volume could not be marked clean; it will be recovered by the next mount then.
    pub fn shut_down(&self) -> Result<(), String> {
        if self.panicked.load(Ordering::Acquire) {
            return Err("a request has failed for good: the volume is left for recovery".into());
        }
        // Requests that still come are refused, and no open file keeps the device open after this.
        let Some(vfs) = self.vfs.write().take() else {
            return Err("there is no volume any more".into());
        };
        let pins = self.nodes.lock().take_all();
        let ended = rt::foreign(|| {
            for ino in pins {
                // The file system latches its own failures, and tells them below.
                let _ = vfs.fs().release(ino);
            }
            vfs.unmount()
        });
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("the unmount panicked: the volume is left for recovery".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::model::ModelFs;

    #[test]
    fn after_a_panic_every_request_fails_and_the_volume_is_left() {
        let words = Arc::new(Mutex::named("words", Vec::new()));
        let told = Arc::clone(&words);
        let tell = Box::new(move |what: &str| told.lock().push(what.to_string()));
        let server = Server::new(
            Vfs::new(ModelFs::new()),
            Arc::new(NoCache),
            AccessTimes::Relative,
            false,
            tell,
        );
        assert!(server.getattr(PROTOCOL_ROOT).is_ok());
        let answer = server.run(|| -> FsResult<()> { panic!("planted") });
        assert_eq!(answer, Err(Errno::Io));
        assert_eq!(server.getattr(PROTOCOL_ROOT), Err(Errno::Io));
        assert!(server.shut_down().is_err());
        let words = words.lock();
        assert!(
            words.len() == 1 && words[0].contains("planted"),
            "{words:?}"
        );
        assert!(server.vfs().statfs().is_ok(), "not unmounted");
    }

    #[test]
    fn damage_is_told_once_and_stops_everything_if_asked_to() {
        for strict in [false, true] {
            let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let counter = Arc::clone(&count);
            let tell = Box::new(move |_: &str| {
                counter.fetch_add(1, Ordering::Relaxed);
            });
            let server = Server::new(
                Vfs::new(ModelFs::new()),
                Arc::new(NoCache),
                AccessTimes::Relative,
                strict,
                tell,
            );
            for _ in 0..2 {
                let answer = server.run(|| -> FsResult<()> { Err(FsError::corrupt("planted")) });
                assert!(answer.is_err());
            }
            assert_eq!(count.load(Ordering::Relaxed), 1);
            assert_eq!(server.getattr(PROTOCOL_ROOT).is_err(), strict);
        }
    }
}
