//! Where the volume is mounted: a temporary folder, or a directory of the user's.

use super::family;
use crate::failure::{Failure, failed, tell, usage};
use crate::mount::{let_go, let_go_unused};
use fuse::{Mounted, Options};
use rig::Vfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LOOK: Duration = Duration::from_millis(20);
/// How long a process that has just ended may hold the mount.
const MOMENT: Duration = Duration::from_secs(2);

/// A mounted volume.
pub struct Place {
    /// Holds the mount, and what else a run needs beside it; goes with the run.
    folder: TempDir,
    dir: PathBuf,
    /// The directory was made for the mount.
    made: bool,
    device: String,
    session: JoinHandle<Result<(), String>>,
}

impl Place {
    /// Mounts `vfs` on `wanted`, or in a temporary folder.
    pub fn mount(vfs: &Arc<Vfs>, wanted: Option<&Path>) -> Result<Place, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("varve-crash-")
            .tempdir()
            .map_err(|e| failed(format!("a temporary folder: {e}")))?;
        let (dir, made) = match wanted {
            Some(dir) => prepare(dir)?,
            None => prepare(&folder.path().join("dir"))?,
        };
        let mounted = Mounted::new(
            vfs,
            &dir,
            "varve-crash",
            rustix::process::geteuid().is_root(),
            &Options::default(),
            Box::new(|what: &str| tell(what)),
            None,
        );
        let refused = |why: &dyn std::fmt::Display| {
            if made {
                // Nothing is in it; what failed first is what to tell.
                let _ = fs::remove_dir(&dir);
            }
            failed(format!("mounting on {}: {why}", dir.display()))
        };
        let mounted = mounted.map_err(|e| refused(&e))?;
        let device = mounted.device().unwrap_or_default();
        let session = std::thread::Builder::new().spawn(move || mounted.serve(|| ()));
        let session = session.map_err(|e| refused(&format!("no thread for it: {e}")))?;
        Ok(Place {
            folder,
            made,
            device,
            session,
            dir,
        })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The temporary folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path beside the mount, in the temporary folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets the kernel write what it holds back of shared mappings.
    pub fn settle(&self) -> Result<(), Failure> {
        let synced = fs::File::open(&self.dir).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
        synced.map_err(|e| failed(format!("{}: {e}", self.dir.display())))
    }

    /// Takes the mount away. Where a process of others uses it, it goes out of sight, and the
    /// process is named.
    pub fn end(self) -> Result<(), Failure> {
        let since = Instant::now();
        let mut gone = let_go_unused(&self.dir);
        while gone.is_err() && since.elapsed() < MOMENT {
            sleep(LOOK);
            gone = let_go_unused(&self.dir);
        }
        let ended = match gone {
            Ok(()) => {
                let served = self.session.join();
                let served = served.unwrap_or_else(|_| Err("the session panicked".into()));
                served.map_err(|e| failed(format!("the volume: {e}")))
            }
            Err(why) => {
                let users = family::users(&self.dir.to_string_lossy());
                tell(format!(
                    "{}: is still in use by {}: {why}",
                    self.dir.display(),
                    family::told(&users)
                ));
                let_go(&self.device).map_err(failed)
            }
        };
        if self.made {
            // One that is not empty is not ours to remove.
            let _ = fs::remove_dir(&self.dir);
        }
        ended
    }
}

/// The directory to mount on, with its absolute path, and whether it was made.
fn prepare(dir: &Path) -> Result<(PathBuf, bool), Failure> {
    let name = dir.display();
    let made = match fs::create_dir(dir) {
        Ok(()) => true,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(e) => return Err(failed(format!("{name}: {e}"))),
    };
    let mut entries = fs::read_dir(dir).map_err(|e| failed(format!("{name}: {e}")))?;
    if entries.next().is_some() {
        return Err(usage(format!(
            "{name}: is not empty; --dir says where the volume appears, and --from FOLDER what is in it at the begin"
        )));
    }
    let whole = dir.canonicalize();
    Ok((whole.map_err(|e| failed(format!("{name}: {e}")))?, made))
}
