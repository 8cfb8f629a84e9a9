//! The queue of requests that the kernel keeps for a mount: whether one waits, and whether the
//! mount is gone.

use rt::RwLock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;

/// The device of requests; none before the mount is served.
pub(crate) struct Source(RwLock<Option<OwnedFd>>);

impl Source {
    pub fn new() -> Source {
        Source(RwLock::named("fuse source", None))
    }

    /// Sets the device that requests come from.
    pub fn set(&self, device: Option<OwnedFd>) {
        *self.0.write() = device;
    }

    /// True if a request waits to be read. False if that cannot be found out.
    pub fn has_more(&self) -> bool {
        self.shows(PollFlags::IN)
    }

    /// True if nothing of the mount is left in the kernel.
    pub fn is_gone(&self) -> bool {
        self.shows(PollFlags::ERR)
    }

    fn shows(&self, what: PollFlags) -> bool {
        let device = self.0.read();
        device.as_ref().is_some_and(|device| shows(device, what))
    }
}

/// True if the connection of this device has ended. False if that cannot be found out.
pub(crate) fn is_gone(device: &OwnedFd) -> bool {
    shows(device, PollFlags::ERR)
}

fn shows(device: &OwnedFd, what: PollFlags) -> bool {
    let mut asked = [PollFd::new(device, what)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let ready = poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0);
    ready && asked[0].revents().intersects(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn more_is_there_from_its_arrival_on_until_it_is_read() {
        let source = Source::new();
        assert!(!source.has_more(), "from nowhere");
        let (mut kernel, device) = UnixStream::pair().expect("a pair");
        let reader = device.try_clone().expect("a descriptor");
        source.set(Some(device.into()));
        assert!(!source.has_more());
        kernel.write_all(&[1]).expect("it is taken");
        assert!(source.has_more());
        std::io::Read::read_exact(&mut &reader, &mut [0]).expect("it is there");
        assert!(!source.has_more());
        kernel.write_all(&[1]).expect("it is taken");
        source.set(None);
        assert!(!source.has_more(), "from nowhere any more");
    }
}
