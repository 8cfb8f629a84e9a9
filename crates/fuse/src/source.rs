//! The queue of requests that the kernel keeps for a mount.

use rt::RwLock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;

/// Where requests come from; nowhere before the mount is served.
pub(crate) struct Source(RwLock<Option<OwnedFd>>);

impl Source {
    pub fn new() -> Source {
        Source(RwLock::named("fuse source", None))
    }

    /// From here.
    pub fn set(&self, device: Option<OwnedFd>) {
        *self.0.write() = device;
    }

    /// True if a request waits to be read. That it cannot be found out counts as none.
    pub fn has_more(&self) -> bool {
        let device = self.0.read();
        let Some(device) = &*device else { return false };
        let mut asked = [PollFd::new(device, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}
