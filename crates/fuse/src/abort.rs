//! Ends the connection of a mount whose requests would wait for ever (turns-T2): the kernel then
//! answers all of them (ECONNABORTED), and every later one (ENOTCONN), and the volume is unmounted
//! as at any other end.

use crate::place::Place;
use rt::Mutex;

/// What ends the connection of one mount.
pub(crate) struct Abort {
    place: Place,
    /// Why it was ended.
    why: Mutex<Option<String>>,
}

impl Abort {
    /// For what is mounted on `place`.
    pub fn new(place: Place) -> Abort {
        Abort {
            place,
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
        let (ended, switch) = (self.place.end_connection(), self.place.switch());
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
