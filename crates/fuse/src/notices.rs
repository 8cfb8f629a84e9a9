//! Notices to the kernel that its cached attributes or pages are out of date.
//!
//! Pages (fuse-U8). Before the kernel sends a direct write it drops its pages of the range, and it
//! does so again after a write that it waits for. It does not wait for a write that a program has
//! handed over asynchronously (`FUSE_ASYNC_DIO`), so a read in between would leave a page with the
//! old content for good. Therefore pages of the range are dropped here, after the content has
//! changed and before the write is answered:
//!
//! - P1 the kernel may hold pages of an inode from its first request for pages on. The request is
//!   noted before the content is read, so a write that looks afterwards knows of every reader of
//!   old content;
//! - P2 dropping waits for pages that are being read, which needs a thread to answer. So it happens
//!   in a thread of its own, which answers the write afterwards, and never in one that answers
//!   requests;
//! - P3 a file that is only read and written directly has no pages, and its writes are answered at
//!   once;
//! - P4 pages whose write-back found no room (write-W5) are dropped after the write was answered:
//!   until then they are under write-back, and dropping would wait for that. Dropping writes pages
//!   that are dirty again, and that write may be refused in turn: it too is answered at once, and
//!   its pages are queued only then.

use crate::server::KernelCache;
use fuser::{INodeNo, Notifier, ReplyWrite};
use rt::{JoinHandle, Mutex, RwLock, SendError, Sender, channel_named, try_spawn};
use std::io;

/// Writes whose pages are to be dropped. A full queue would stop the threads that P2 needs; the
/// kernel bounds what is under way.
const WAITING_MAX: usize = usize::MAX;
/// As the offset of a range: attributes only, no pages.
const ATTRIBUTES: i64 = -1;
/// As the length of a range: all that lies behind its begin.
const TO_THE_END: usize = 0;

/// Pages to be dropped: those of a direct write whose content has changed, with its answer, or
/// those that found no room.
struct Written {
    ino: INodeNo,
    offset: u64,
    len: usize,
    reply: Option<ReplyWrite>,
}

impl Written {
    fn answer(self) {
        if let Some(reply) = self.reply {
            reply.written(self.len as u32);
        }
    }
}

/// The way to the kernel; there is none before the mount and after its end.
pub(crate) struct Notices {
    kernel: RwLock<Option<Notifier>>,
    dropper: Mutex<Option<Dropper>>,
}

struct Dropper {
    written: Sender<Written>,
    thread: JoinHandle<()>,
}

impl Notices {
    pub fn new() -> Notices {
        Notices {
            kernel: RwLock::named("fuse notices", None),
            dropper: Mutex::named("fuse dropper", None),
        }
    }

    /// Tells this kernel from now on.
    ///
    /// # Errors
    /// The host starts no thread (P2).
    pub fn begin(&self, kernel: Notifier) -> io::Result<()> {
        let (written, waiting) = channel_named::<Written>("fuse written", WAITING_MAX);
        let notifier = kernel.clone();
        let thread = try_spawn("fuse-pages", move || {
            while let Ok(one) = waiting.recv() {
                drop_pages(&notifier, one);
            }
        })?;
        *self.kernel.write() = Some(kernel);
        *self.dropper.lock() = Some(Dropper { written, thread });
        Ok(())
    }

    /// Ends all notices to the kernel; every write that was waiting has been answered when this
    /// returns.
    pub fn end(&self) {
        *self.kernel.write() = None;
        if let Some(Dropper { written, thread }) = self.dropper.lock().take() {
            drop(written);
            let _ = thread.join();
        }
    }

    /// Answers a direct write of `len` bytes when the kernel keeps no page of its range any more
    /// (P2).
    pub fn answer_without_pages(&self, ino: INodeNo, offset: u64, len: usize, reply: ReplyWrite) {
        self.drop_soon(Written {
            ino,
            offset,
            len,
            reply: Some(reply),
        });
    }

    /// Has the kernel drop its pages of the range soon, because they differ from what the file
    /// holds (P4). The request that was refused has been answered, or is by a thread that does not
    /// wait for this.
    pub fn drop_refused(&self, number: u64, offset: u64, len: usize) {
        self.drop_soon(Written {
            ino: INodeNo(number),
            offset,
            len,
            reply: None,
        });
    }

    fn drop_soon(&self, one: Written) {
        let queue = (self.dropper.lock().as_ref()).map(|dropper| dropper.written.clone());
        let left = match queue {
            Some(queue) => queue.send(one),
            None => Err(SendError::Disconnected(one)),
        };
        if let Err(SendError::Disconnected(one) | SendError::PowerLost(one)) = left {
            one.answer();
        }
    }
}

fn drop_pages(kernel: &Notifier, written: Written) {
    let Written {
        ino, offset, len, ..
    } = written;
    // A kernel that has forgotten the inode has no pages of it; one that is going away reads
    // nothing any more.
    let _ = kernel.inval_inode(ino, offset as i64, len as i64);
    written.answer();
}

impl KernelCache for Notices {
    fn attributes_changed(&self, number: u64) {
        if let Some(kernel) = &*self.kernel.read() {
            // As above.
            let _ = kernel.inval_inode(INodeNo(number), ATTRIBUTES, 0);
        }
    }

    fn content_changed(&self, number: u64, offset: u64) {
        self.drop_refused(number, offset, TO_THE_END);
    }
}
