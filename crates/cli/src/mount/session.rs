//! The two threads of a mount: one serves it, one waits for signals. Both are started before there
//! is a mount, so that a host without room for them refuses it, and get what they work on when it
//! is there. A mount that failed drops the other end, and they end.

use super::umount;
use super::verdict::Verdict;
use crate::failure::{Failure, no_thread, tell};
use fuse::Mounted;
use nix::sys::signal::SigSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// What the main thread waits for.
pub enum Event {
    /// The kernel has ended the session.
    Ended,
    /// A signal has come, and the mount has been removed as far as that is possible.
    LetGo,
}

/// A thread that waits for the mount that it is to serve.
pub struct Session {
    give: Sender<(Mounted, Arc<Verdict>)>,
    thread: JoinHandle<Result<(), String>>,
}

impl Session {
    /// Starts it; it tells `ended` when the session is over.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn wait(ended: Sender<Event>) -> Result<Session, Failure> {
        let (give, take) = channel::<(Mounted, Arc<Verdict>)>();
        let serve = move || {
            let Ok((mounted, asked)) = take.recv() else {
                return Ok(());
            };
            let result = mounted.serve(|| asked.close());
            let _ = ended.send(Event::Ended);
            result
        };
        let thread = Builder::new().name("session".into()).spawn(serve);
        let thread = thread.map_err(no_thread("the mount"))?;
        Ok(Session { give, thread })
    }

    /// Serves a mount; `verdict` hears when it has gone. Answers what ends with the session.
    pub fn begin(self, mounted: Mounted, verdict: Arc<Verdict>) -> JoinHandle<Result<(), String>> {
        // The thread waits for nothing else.
        let _ = self.give.send((mounted, verdict));
        self.thread
    }
}

/// A thread that waits for signals, and lets the mount go when one comes.
pub struct Watch(Sender<(String, String)>);

impl Watch {
    /// Starts it. Signals that come before there is a mount wait until then.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn wait(signals: SigSet, ended: Sender<Event>) -> Result<Watch, Failure> {
        let (give, take) = channel::<(String, String)>();
        let watch = move || {
            if let Ok((name, device)) = take.recv() {
                take_signals(&signals, &name, &device, &ended);
            }
        };
        let thread = Builder::new().name("signals".into()).spawn(watch);
        thread.map(|_| Watch(give)).map_err(no_thread("the mount"))
    }

    /// There is a mount: its place, and its device in the table of mounts.
    pub fn begin(self, name: String, device: String) {
        // The thread waits for nothing else.
        let _ = self.0.send((name, device));
    }
}

/// Each signal takes the mount away, as `umount` does. Where it has gone already (`umount -l`), or
/// cannot be taken away, what is still open keeps this process for no longer than otherwise.
fn take_signals(signals: &SigSet, name: &str, device: &str, ended: &Sender<Event>) {
    while signals.wait().is_ok() {
        if let Err(why) = umount::let_go(device) {
            tell(format!("{name}: {why}"));
        }
        if ended.send(Event::LetGo).is_err() {
            return;
        }
    }
}
