//! Files that a command writes outside of the volume: what a cut leaves of those is not looked at.
//!
//! They are seen among the open files of the command's processes, at which is looked again and
//! again while it runs. One that is open for less than the time between two looks may escape.

use super::family::Family;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, sleep};
use std::time::{Duration, Instant};

/// Shortest time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Looks take at most one part in so many of a core.
const SHARE: u32 = 10;
/// Files that are named.
const NAMED: usize = 5;
/// Bits of `open` that say how a file is opened, and the value that is no writing.
const ACCESS_MODE: u32 = 3;
const READ_ONLY: u32 = 0;
/// Places that hold nothing over a cut.
const NO_FILES: [&str; 3] = ["/dev/", "/proc/", "/sys/"];

/// What was seen.
pub struct Outside<'a> {
    mount: &'a Path,
    /// Files that this process has open, too: the command was given them.
    given: BTreeSet<PathBuf>,
    seen: BTreeSet<PathBuf>,
}

impl<'a> Outside<'a> {
    fn new(mount: &'a Path) -> Outside<'a> {
        Outside {
            mount,
            given: open_files("self").into_iter().map(|file| file.0).collect(),
            seen: BTreeSet::new(),
        }
    }

    /// Looks while `work` goes on; its answer, and which files were seen, in words.
    pub fn while_working<T>(
        mount: &'a Path,
        family: &Family,
        work: impl FnOnce() -> T,
    ) -> (T, Option<String>) {
        let ended = AtomicBool::new(false);
        let looked = Outside::new(mount);
        std::thread::scope(|scope| {
            // A host without room for another thread is not looked at: only the warning is missing.
            let looking = looked.start(scope, family, &ended).ok();
            let done = then_raise(&ended, work);
            let looked = looking.and_then(|looking| looking.join().ok());
            (done, looked.and_then(|looked| looked.words()))
        })
    }

    fn start<'scope>(
        mut self,
        scope: &'scope Scope<'scope, '_>,
        family: &'scope Family,
        ended: &'scope AtomicBool,
    ) -> std::io::Result<std::thread::ScopedJoinHandle<'scope, Outside<'a>>>
    where
        'a: 'scope,
    {
        let look = move || {
            while !ended.load(Ordering::Relaxed) {
                let since = Instant::now();
                for id in family.ids() {
                    self.take(open_files(&id.to_string()));
                }
                sleep(LOOK.max(since.elapsed() * SHARE));
            }
            self
        };
        std::thread::Builder::new().spawn_scoped(scope, look)
    }

    fn take(&mut self, files: Vec<(PathBuf, bool)>) {
        let is_outside = |path: &Path| {
            let has_name = path.is_absolute() && !path.to_string_lossy().ends_with(" (deleted)");
            let holds = !NO_FILES.iter().any(|place| path.starts_with(place));
            has_name && holds && !path.starts_with(self.mount) && !self.given.contains(path)
        };
        let written = files
            .into_iter()
            .filter(|(path, writes)| *writes && is_outside(path));
        self.seen.extend(written.map(|(path, _)| path));
    }

    fn words(&self) -> Option<String> {
        let named: Vec<String> = (self.seen.iter().take(NAMED))
            .map(|path| path.display().to_string())
            .collect();
        let more = match self.seen.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| {
            format!(
                "the command had files open for writing outside of $VARVE_DIR, and what a cut leaves of those is not looked at: {}{more}; a file that is open for a moment only may escape this look",
                named.join(", ")
            )
        })
    }
}

/// Does the work and raises the flag behind it, also if it panics, as printing into a closed pipe
/// does: whoever looks for the flag would wait for ever.
fn then_raise<T>(flag: &AtomicBool, work: impl FnOnce() -> T) -> T {
    struct Raise<'a>(&'a AtomicBool);
    impl Drop for Raise<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let _raise = Raise(flag);
    work()
}

/// Paths of the files that a process has open, and whether it may write to them. A process that
/// has ended has none.
fn open_files(process: &str) -> Vec<(PathBuf, bool)> {
    let own = format!("/proc/{process}");
    let entries = fs::read_dir(format!("{own}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let file = |entry: fs::DirEntry| {
        let at = fs::read_link(entry.path()).ok()?;
        let number = entry.file_name();
        let info = fs::read_to_string(format!("{own}/fdinfo/{}", number.to_str()?)).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        Some((at, flags & ACCESS_MODE != READ_ONLY))
    };
    entries.filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn looking_ends_with_a_work_that_panics() {
        let ended = AtomicBool::new(false);
        let work = || then_raise(&ended, || panic!("nobody reads what is printed"));
        let done: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        assert!(done.is_err() && ended.load(Ordering::Relaxed));
    }

    #[test]
    fn what_is_open_for_writing_elsewhere_is_named() {
        let here = tempfile::tempdir().expect("a folder");
        let file = |name: &str| here.path().join(name);
        let mut seen = Outside::new(Path::new("/mount"));
        let mut written = fs::File::create(file("written")).expect("room");
        written.write_all(b"x").expect("room");
        fs::write(file("read"), "x").expect("room");
        let read = fs::File::open(file("read")).expect("it is there");
        let gone = fs::File::create(file("gone")).expect("room");
        fs::remove_file(file("gone")).expect("it is there");
        seen.take(open_files("self"));
        drop((written, read, gone));
        let words = seen.words().expect("a file");
        assert!(
            words.contains(&file("written").display().to_string()),
            "{words}"
        );
        assert!(
            !words.contains("/read") && !words.contains("/gone"),
            "{words}"
        );
        assert!(!words.contains("/dev/"), "{words}");
        let mut inside = Outside::new(here.path());
        let written = fs::File::create(file("written")).expect("room");
        inside.take(
            open_files("self")
                .into_iter()
                .filter(|f| f.0.starts_with(here.path()))
                .collect(),
        );
        drop(written);
        assert_eq!(inside.words(), None, "files of the mount are recorded");
    }
}
