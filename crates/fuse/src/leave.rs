//! Leaves a session of the protocol library without the unmount that its end brings: it unmounts
//! by path, where another file system may have been mounted by now (place-L1).
//!
//! A session that is forgotten keeps its device open, because nobody closes what is forgotten. A
//! process that serves one mount after the other would run out of descriptors. So the device is
//! closed here, when nothing uses it any more.

use crate::adapter::Adapter;
use fuser::{BackgroundSession, Session};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Leaves a session whose requests nobody has begun to read.
pub(crate) fn unserved(session: Session<Adapter>) {
    let device = session.as_fd().as_raw_fd();
    // What reads no requests is known to this one alone.
    std::mem::forget(session);
    close(device);
}

/// Leaves a session whose connection has gone: waits for its threads. `device` is its device.
pub(crate) fn served(running: BackgroundSession, device: RawFd) {
    let running = ManuallyDrop::new(running);
    // SAFETY: it is taken out once, and is not dropped where it was.
    let guard = unsafe { std::ptr::read(&raw const running.guard) };
    // A connection that has gone has nothing more to tell.
    let _ = guard.join();
    close(device);
}

/// Closes the device of a session that was forgotten, when no thread and no notifier has it.
fn close(device: RawFd) {
    // SAFETY: the forgotten session owned it, and neither uses nor closes it any more.
    drop(unsafe { OwnedFd::from_raw_fd(device) });
}
