//! FUSE over io_uring: the host's switch for it, turned on for as long as something is tried.

use crate::Result;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Held by whoever has turned the switch: two at once would leave it on.
const LOCK: &str = "varve-enable-uring.lock";
/// Waits until its input ends, which it does with the process that holds the other end, however
/// that one ends. No signal of the terminal ends it before.
const KEEPER: &str = r#"trap '' INT TERM HUP QUIT; cat > /dev/null; echo "$1" > "$2""#;

/// Why the switch cannot be turned here; `None` if it can.
pub fn lacks() -> Option<String> {
    lacks_at(Path::new(SWITCH))
}

fn lacks_at(switch: &Path) -> Option<String> {
    let shown = switch.display();
    match File::options().write(true).open(switch) {
        Ok(_) => None,
        Err(e) => Some(format!(
            "{shown}: {e}; FUSE over io_uring is there from Linux 6.14 on, and root switches it on"
        )),
    }
}

/// FUSE over io_uring is on. What the switch was before comes back when this is dropped, and when
/// this process ends in any other way.
pub struct Switched {
    keeper: Child,
    /// Free when the switch is back.
    _lock: File,
}

impl Switched {
    /// Turns it on.
    ///
    /// # Errors
    /// The host has no such switch, or refuses.
    pub fn on() -> Result<Switched> {
        Switched::at(Path::new(SWITCH), &std::env::temp_dir().join(LOCK))
    }

    /// Waits for another one that has turned it, and for the keeper of one that was killed.
    fn at(switch: &Path, lock: &Path) -> Result<Switched> {
        let of_lock = |e: std::io::Error| format!("{}: {e}", lock.display());
        let held = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock);
        let held = held.map_err(of_lock)?;
        held.lock().map_err(of_lock)?;
        let of_switch = |e: std::io::Error| format!("{}: {e}", switch.display());
        let before = fs::read_to_string(switch).map_err(of_switch)?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh", before.trim()])
            .arg(switch)
            .stdin(Stdio::piped())
            // It holds the lock, too, for as long as it has not turned the switch back.
            .stdout(held.try_clone().map_err(of_lock)?)
            .spawn()
            .map_err(|e| format!("sh, which turns the switch back: {e}"))?;
        let switched = Switched {
            keeper,
            _lock: held,
        };
        fs::write(switch, "Y\n").map_err(of_switch)?;
        Ok(switched)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_turned_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let switch = folder.path().join("enable_uring");
        assert!(lacks_at(&switch).is_some_and(|why| why.contains("6.14")));
        fs::write(&switch, "N\n").expect("a file");
        assert_eq!(lacks_at(&switch), None);
        let read = || fs::read_to_string(&switch).expect("a file");
        let lock = folder.path().join("lock");
        let on = Switched::at(&switch, &lock).expect("a switch");
        assert_eq!(read(), "Y\n");
        // Another one waits, and finds it as it was.
        let places = (switch.clone(), lock.clone());
        let other =
            std::thread::spawn(move || Switched::at(&places.0, &places.1).expect("a switch"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!other.is_finished());
        drop(on);
        let other = other.join().expect("a switch");
        assert_eq!(read(), "Y\n");
        drop(other);
        assert_eq!(read(), "N\n");
    }
}
