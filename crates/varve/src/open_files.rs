//! The open files of a volume.
//!
//! Ending an open file may free an inode, so it does I/O, which no `Drop` may do: a drop runs in
//! the midst of a panic, too, and tells nobody its error. So the volume keeps every open file, a
//! [`File`](crate::File) is a share of one, and what has no other owner any more is ended by the
//! next call that opens a file or unmounts.

use rt::Mutex;
use std::sync::Arc;
use vfs::{FsError, FsResult};

/// Fewer open files than this are not looked through at each open.
const FEW: usize = 16;

/// The open files, and the first error of one that was dropped.
pub(crate) struct OpenFiles {
    kept: Mutex<Kept>,
}

struct Kept {
    files: Vec<Arc<vfs::File>>,
    /// The count of files at which dropped ones are looked for: twice what was left the last time,
    /// so that an open costs a constant share of it.
    sweep_at: usize,
    first_error: Option<FsError>,
}

impl OpenFiles {
    pub fn new() -> OpenFiles {
        let kept = Kept {
            files: Vec::new(),
            sweep_at: FEW,
            first_error: None,
        };
        OpenFiles {
            kept: Mutex::named("open files", kept),
        }
    }

    /// Keeps a file that was just opened, and ends those that were dropped if there may be many.
    pub fn keep(&self, file: vfs::File) -> Arc<vfs::File> {
        let file = Arc::new(file);
        let mut kept = self.kept.lock();
        kept.files.push(file.clone());
        let due = kept.files.len() >= kept.sweep_at;
        drop(kept);
        if due {
            self.sweep();
        }
        file
    }

    /// Ends all files that were dropped.
    pub fn sweep(&self) {
        let dropped: Vec<_> = {
            let mut kept = self.kept.lock();
            let files = std::mem::take(&mut kept.files);
            let (dropped, held) = files.into_iter().partition(|f| Arc::strong_count(f) == 1);
            kept.files = held;
            kept.sweep_at = FEW.max(2 * kept.files.len());
            dropped
        };
        for file in dropped.into_iter().filter_map(Arc::into_inner) {
            if let Err(e) = file.close() {
                self.kept.lock().first_error.get_or_insert(e);
            }
        }
    }

    /// Ends this file and answers its error.
    pub fn close(&self, file: Arc<vfs::File>) -> FsResult<()> {
        self.kept
            .lock()
            .files
            .retain(|kept| !Arc::ptr_eq(kept, &file));
        // `None`: a clone is left, which stays usable; it is ended with the file system.
        Arc::into_inner(file).map_or(Ok(()), vfs::File::close)
    }

    /// The first error of a file that was dropped, once.
    pub fn take_error(&self) -> FsResult<()> {
        self.kept.lock().first_error.take().map_or(Ok(()), Err)
    }
}
