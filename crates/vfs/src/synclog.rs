//! How long each fsync and fdatasync took: a record for those who measure.

use base::{Nanos, Time};
use rt::Mutex;

/// One fsync or fdatasync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncRecord {
    /// When it was called.
    pub at: Time,
    /// How long it took.
    pub took: Nanos,
    /// It was an fdatasync.
    pub data_only: bool,
}

/// The log of syncs. It is off until a caller asks for it, so that a mount that lives long does not
/// gather records that nobody reads.
pub(crate) struct SyncLog(Mutex<Option<Vec<SyncRecord>>>);

impl SyncLog {
    pub fn off() -> SyncLog {
        SyncLog(Mutex::named("sync log", None))
    }
    /// Forgets what was recorded and records from now on.
    pub fn start(&self) {
        *self.0.lock() = Some(Vec::new());
    }
    /// Stops recording and answers the records.
    pub fn take(&self) -> Vec<SyncRecord> {
        self.0.lock().take().unwrap_or_default()
    }
    /// Runs one sync and records it.
    pub fn timed<R>(&self, data_only: bool, sync: impl FnOnce() -> R) -> R {
        let at = rt::now();
        let result = sync();
        let took = rt::now() - at;
        if let Some(records) = self.0.lock().as_mut() {
            records.push(SyncRecord {
                at,
                took,
                data_only,
            });
        }
        result
    }
}
