//! The device as a file in a folder: mounted, and taken away again when the server ends.
//!
//! What has the file open, as a loop device with a mounted file system has, may still hold back
//! writes. So the file works until nobody uses it, and only a user who asks twice cuts it off.

use super::names::shown;
use crate::failure::{Failure, failed, no_thread, tell, usage};
use crate::mount::{let_go, let_go_unused};
use fuse::{Mounted, Options};
use nix::errno::Errno;
use rig::signals;
use serve::Served;
use serve::file::{NAME, OneFile};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often is tried whether the folder can be taken away.
const RETRY: Duration = Duration::from_millis(100);
/// How long a file that was cut off is waited for.
const GRACE: Duration = Duration::from_secs(1);

/// How the device is shown as a file.
#[derive(Clone, Copy)]
pub struct How {
    /// It cannot be written.
    pub read_only: bool,
    /// Others write to the device past the file, so the kernel keeps none of its pages.
    pub shared: bool,
}

/// The folder, and the thread that answers the kernel.
pub struct Folder {
    path: PathBuf,
    device: Option<String>,
    session: JoinHandle<Result<(), Failure>>,
}

impl Folder {
    /// Mounts the device in a folder that [`check`] let pass.
    ///
    /// # Errors
    /// The host refuses.
    pub fn mount(path: &Path, served: &Arc<Served>, how: How) -> Result<Folder, Failure> {
        // The kernel's tables, in which it is looked for at the end, have no relative paths.
        let path = (path.canonicalize()).map_err(|e| failed(format!("{}: {e}", shown(path))))?;
        let mounted = mounted(&path, served, how)?;
        let device = mounted.device();
        let served = served.clone();
        let session = thread::Builder::new().spawn(move || {
            let done = mounted.serve(|| ());
            served.end();
            done.map_err(failed)
        });
        let session = session.map_err(no_thread("the mount"))?;
        Ok(Folder {
            path,
            device,
            session,
        })
    }

    /// Takes the folder away as soon as nobody uses the file, or cuts it off when another signal
    /// comes; `signals_seen` came before. Afterwards no command comes from there.
    ///
    /// # Errors
    /// The connection to the kernel failed.
    pub fn take_away(self, signals_seen: usize) -> Result<(), Failure> {
        let mut told = false;
        // One that was taken away by hand has ended the session.
        while !self.session.is_finished() {
            let Err(why) = let_go_unused(&self.path) else {
                break;
            };
            if !std::mem::replace(&mut told, true) {
                tell(self.in_use(&why));
            }
            if signals_so_far() > signals_seen {
                return self.cut_off();
            }
            thread::sleep(RETRY);
        }
        self.join()
    }

    /// Takes the folder away although it is in use: for who uses it, it is a disk that was pulled.
    fn cut_off(self) -> Result<(), Failure> {
        let gone = let_go(self.device.as_deref().unwrap_or_default());
        if let Err(why) = gone {
            tell(format!("{}: {why}", shown(&self.path)));
        }
        let since = Instant::now();
        while !self.session.is_finished() && since.elapsed() < GRACE {
            thread::sleep(RETRY);
        }
        match self.session.is_finished() {
            true => self.join(),
            // The connection ends with this process.
            false => Ok(()),
        }
    }

    fn join(self) -> Result<(), Failure> {
        let ended = self.session.join();
        ended.map_err(|_| failed("the server of the file panicked"))?
    }

    /// Why the end has to wait, and what to do.
    fn in_use(&self, why: &str) -> String {
        let file = self.path.join(NAME);
        let name = shown(&file);
        let users = loops(&file);
        let todo = match users.is_empty() {
            true => "close it".to_string(),
            false => {
                let list = users.join(" ");
                format!("unmount what lies on it and detach it (`losetup -d {list}`)")
            }
        };
        format!(
            "{name} is in use ({why}): {todo}, then the server ends; a second signal cuts it off at once, with the loss of what has not been written"
        )
    }
}

/// Signals to end that came, two at most.
pub fn signals_so_far() -> usize {
    usize::from(signals::noted().is_some()) + usize::from(signals::noted_again())
}

/// The loop devices on a file.
fn loops(file: &Path) -> Vec<String> {
    let all = std::fs::read_dir("/sys/block");
    let mut names: Vec<String> = (all.into_iter().flatten().flatten())
        .filter(|entry| {
            let behind = std::fs::read(entry.path().join("loop/backing_file"));
            behind.is_ok_and(|name| name.trim_ascii_end() == file.as_os_str().as_bytes())
        })
        .map(|entry| format!("/dev/{}", entry.file_name().display()))
        .collect();
    names.sort();
    names
}

/// Refuses what is no folder, and one with content, which would be out of sight.
///
/// # Errors
/// That, or the host does not let us see.
pub fn check(path: &Path) -> Result<(), Failure> {
    let name = shown(path);
    if let Err(e) = path.metadata()
        && e.raw_os_error() == Some(Errno::ENOTCONN as i32)
    {
        return Err(usage(format!(
            "--file {name}: a server that was killed left it mounted; `umount` it"
        )));
    }
    if !path.is_dir() {
        return Err(usage(format!(
            "--file {name}: it is no folder; make an empty one, in which the device is the file `{NAME}`"
        )));
    }
    let first = std::fs::read_dir(path).map_err(|e| failed(format!("--file {name}: {e}")))?;
    match first.flatten().next() {
        None => Ok(()),
        Some(entry) => Err(usage(format!(
            "--file {name}: it has `{}` in it, which the device would hide; name an empty folder",
            shown(entry.file_name().as_ref())
        ))),
    }
}

fn mounted(folder: &Path, served: &Arc<Served>, how: How) -> Result<Mounted, Failure> {
    let options = Options {
        // One at a time: a sync that is carried out after a write began after that write was
        // answered, and a write of a part of a sector is alone.
        threads: 1,
        cached: !how.shared,
        ..Options::default()
    };
    let superuser = rustix::process::geteuid().is_root();
    let of_volume = Box::new(|what: &str| tell(what));
    let file = OneFile::new(served.clone());
    let vfs = match how.read_only {
        true => file.read_only().mounted(),
        false => file.mounted(),
    };
    Mounted::new(
        &vfs,
        folder,
        "varve-serve",
        superuser,
        &options,
        of_volume,
        None,
    )
    .map_err(|e| failed(format!("{}: {e}", shown(folder))))
}
