//! The volume behind a mount, and how it is remounted with other options while the FUSE mount
//! stays.

use super::{Plan, options, table};
use crate::failure::{Failure, failed, tell, usage};
use fuse::{Again, Options, Remount};
use rig::{HostError, HostFile, HostOptions, Volume};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a mount that is being taken away is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// A process that ends has no name any more for a moment, and its files are still open.
const MOMENT: Duration = Duration::from_millis(500);

/// An open volume. Its image stays locked as long as this value exists.
pub struct Held {
    /// How it is mounted; a write-protected image is read-only.
    pub options: Options,
    volume: Volume,
    _file: HostFile,
    _journal: Option<HostFile>,
}

impl Held {
    /// Opens the image and mounts the volume in it.
    pub fn open(plan: &Plan, wanted: &Options) -> Result<Held, Failure> {
        let (mut host, mut rest) = options::of_host(wanted).map_err(usage)?;
        let mut options = wanted.clone();
        let file = open_image(plan, &mut host, &mut options)?;
        let journal = match options::take_journal(&mut rest) {
            Some(path) => {
                let host = HostOptions {
                    offset: 0,
                    size: None,
                    ..host.clone()
                };
                Some(HostFile::open(&path, &host).map_err(failed)?)
            }
            None => None,
        };
        let of_image = |e: &dyn std::fmt::Display| failed(format!("{}: {e}", plan.image.display()));
        let chosen = options::of_volume(&file, &options, rest).map_err(|e| of_image(&e))?;
        let volume = Volume::mount(&file, journal.as_ref(), chosen, options.read_only)
            .map_err(|e| of_image(&e))?;
        if let Some(remark) = volume.fs.remark() {
            tell(format!("{}: {remark}", plan.image.display()));
        }
        Ok(Held {
            options,
            volume,
            _file: file,
            _journal: journal,
        })
    }

    /// Paths and open files.
    pub fn vfs(&self) -> &Arc<rig::Vfs> {
        &self.volume.vfs
    }
}

/// Opens the image; one that takes no writes is used read-only, as by mount(8). One whose mount has
/// been taken away just now is waited for, as the kernel does it.
fn open_image(
    plan: &Plan,
    host: &mut HostOptions,
    options: &mut Options,
) -> Result<HostFile, Failure> {
    let since = Instant::now();
    let mut opened = HostFile::open(&plan.image, host);
    while matches!(opened, Err(HostError::InUse { .. }))
        && since.elapsed() < PATIENCE
        && (since.elapsed() < MOMENT || table::is_ending(&plan.image))
    {
        std::thread::sleep(PAUSE);
        opened = HostFile::open(&plan.image, host);
    }
    match opened {
        Err(HostError::WriteProtected { path }) => {
            tell(format!("{path}: is write-protected, mounting read-only"));
            (options.read_only, host.write) = (true, false);
            HostFile::open(&plan.image, host).map_err(failed)
        }
        opened => opened.map_err(failed),
    }
}

/// Remounts the volume with other options.
pub struct Remounter {
    plan: Plan,
    /// Nothing while it is mounted anew, and after that has failed.
    held: Mutex<Option<Held>>,
}

impl Remounter {
    pub fn new(plan: Plan, held: Held) -> Arc<Remounter> {
        Arc::new(Remounter {
            plan,
            held: Mutex::new(Some(held)),
        })
    }

    /// Parses the options of a remount. Nothing changes until the returned function is called.
    pub fn prepare(self: Arc<Self>, words: &str) -> Result<Remount, String> {
        let old = self.current().ok_or("there is no volume any more")?;
        let new = old.with(words).map_err(|e| e.to_string())?;
        if let Some(what) = old.fixed_difference(&new) {
            return Err(format!(
                "{what} cannot be changed while it is mounted; unmount it first"
            ));
        }
        if options::of_host_and_journal(&old)? != options::of_host_and_journal(&new)? {
            return Err("how the image is opened, and its journal, cannot be changed while it is mounted; unmount it first".into());
        }
        let access_times = new.access_times_kept();
        let again = move || self.again(&old, &new);
        Ok(Remount {
            access_times,
            again: Box::new(again),
        })
    }

    /// Closes the image: the volume is unmounted.
    pub fn close(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn current(&self) -> Option<Options> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|held| held.options.clone())
    }

    /// Mounts with the new options or, if that is refused, with the old ones.
    fn again(&self, old: &Options, new: &Options) -> Again {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Its lock on the image would be in the way.
        *held = None;
        let open = |options: &Options| match Held::open(&self.plan, options) {
            Ok(held) if held.options.read_only != options.read_only => {
                Err(format!("{}: is write-protected", self.plan.image.display()))
            }
            Ok(held) => Ok(held),
            Err(e) => Err(e.to_string()),
        };
        let (next, done) = match open(new) {
            Ok(next) => (Ok(next), Ok(())),
            Err(e) => (open(old), Err(e)),
        };
        match next {
            Ok(next) => {
                let vfs = Arc::clone(next.vfs());
                *held = Some(next);
                (Some(vfs), done)
            }
            Err(e) => (None, Err(e)),
        }
    }
}
