//! Watchdog: one OS thread that looks at all running simulations. If the step counter of a
//! simulation stands still, it prints the running task. That finds an OS lock held over a wait, and
//! an endless loop without any `rt` call.

use crate::task::TaskId;
use parking_lot::Mutex as OsMutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(250);
static RUNNING: OsMutex<Vec<Arc<Beat>>> = OsMutex::new(Vec::new());

/// What a simulation shows to the watchdog.
pub(crate) struct Beat {
    pub(crate) steps: AtomicU64,
    pub(crate) current: AtomicU32,
    pub(crate) names: OsMutex<Vec<Option<Arc<str>>>>,
    patience: Duration,
    /// Steps at the last look, and since when.
    seen: OsMutex<(u64, Instant, bool)>,
    stalls: OsMutex<Vec<String>>,
}

impl Beat {
    fn look(&self, now: Instant) {
        let steps = self.steps.load(Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if seen.0 != steps {
            *seen = (steps, now, false);
        } else if !seen.2 && now.duration_since(seen.1) >= self.patience {
            seen.2 = true;
            let id = self.current.load(Ordering::Relaxed);
            let name = self.names.lock().get(id as usize).cloned().flatten();
            let name = name.unwrap_or_else(|| "(ended)".into());
            eprintln!(
                "note: one step of the simulation, by its task `{name}`, has taken {} s of real time so far. A machine that is short of memory or very busy shows this; \
                 on an idle one it is a defect of Varve (an endless loop, or a lock of the system that is held over a wait)",
                now.duration_since(seen.1).as_secs()
            );
            self.stalls.lock().push(name.to_string());
        }
    }
}

/// A simulation under watch until the value is dropped.
pub(crate) struct Watch(pub(crate) Arc<Beat>);

impl Watch {
    pub(crate) fn new(patience: Duration) -> Watch {
        let beat = Arc::new(Beat {
            steps: AtomicU64::new(0),
            current: AtomicU32::new(TaskId::MAX),
            names: OsMutex::new(Vec::new()),
            patience,
            seen: OsMutex::new((u64::MAX, Instant::now(), false)),
            stalls: OsMutex::new(Vec::new()),
        });
        RUNNING.lock().push(beat.clone());
        start_thread();
        Watch(beat)
    }
    /// Names of the tasks that stood still.
    pub(crate) fn stalls(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.stalls.lock())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        RUNNING.lock().retain(|b| !Arc::ptr_eq(b, &self.0));
    }
}

fn start_thread() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let run = || {
            loop {
                std::thread::sleep(POLL);
                let now = Instant::now();
                let beats = RUNNING.lock().clone();
                beats.iter().for_each(|b| b.look(now));
            }
        };
        // Without the thread only the warning is missing.
        let _ = std::thread::Builder::new()
            .name("rt-watchdog".into())
            .spawn(run);
    });
}
