//! Ends the connection of a mount whose requests would wait for ever (turns-T2): the kernel then
//! answers all of them (ECONNABORTED), and every later one (ENOTCONN), and the volume is unmounted
//! as at any other end.

use rt::Mutex;
use rustix::mount::{UnmountFlags, unmount};
use std::path::PathBuf;

/// Where the kernel shows its connections, if that is mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// What ends the connection of one mount.
pub(crate) struct Abort {
    dir: PathBuf,
    /// `MAJOR:MINOR` of the mount.
    device: Option<String>,
    /// Why it was ended.
    why: Mutex<Option<String>>,
}

impl Abort {
    /// For what is mounted on `dir` as `device`.
    pub fn new(dir: PathBuf, device: Option<String>) -> Abort {
        Abort {
            dir,
            device,
            why: Mutex::named("fuse abort", None),
        }
    }

    /// Ends the connection, unless that has been done. The sentence is for whoever has mounted.
    pub fn end(&self, why: &str) -> Option<String> {
        {
            let mut kept = self.why.lock();
            if kept.is_some() {
                return None;
            }
            *kept = Some(why.to_string());
        }
        let minor = self.device.as_deref().and_then(|d| d.split(':').nth(1));
        let switch = format!("{CONNECTIONS}/{}/abort", minor.unwrap_or("?"));
        // Who has mounted may write there. Without it only the superuser can: forcing an unmount
        // ends the connection, whether the mount is in use or not.
        let written = std::fs::write(&switch, "1");
        let forced = || unmount(&self.dir, UnmountFlags::FORCE);
        let ended = written.is_ok() || matches!(forced(), Ok(()) | Err(rustix::io::Errno::BUSY));
        Some(match ended {
            true => format!("{why}; the mount ends"),
            false => format!(
                "{why}; requests may wait for ever, `echo 1 > {switch}` (as root, with fusectl mounted there) ends them"
            ),
        })
    }

    /// Why the connection was ended here, if it was.
    pub fn why(&self) -> Option<String> {
        self.why.lock().clone()
    }
}
