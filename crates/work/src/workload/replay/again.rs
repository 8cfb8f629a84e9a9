//! A recording that is run again where it ended: what was there before its first call is made anew
//! from what is there after its last one.

use super::{Calls, Content, Plan, Replay, close};
use crate::RunError;
use crate::recording::Recording;
use crate::workload::Pacing;
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};

impl<'a> Replay<'a> {
    /// The recording on a volume on which it has run to its end.
    ///
    /// # Errors
    /// The recording contradicts itself.
    pub(crate) fn ended(
        recording: &'a Recording,
        pacing: Pacing,
        vfs: &Arc<Vfs>,
    ) -> Result<Replay<'a>, RunError> {
        Ok(Replay {
            recording,
            pacing,
            plan: Plan::of(recording, &pacing)?,
            vfs: vfs.clone(),
            content: Content::new(),
            calls: Calls::new(),
            open: Mutex::named("replay handles", BTreeMap::new()),
        })
    }

    /// Writes out what the calls have left dirty, and closes what they left open.
    ///
    /// # Errors
    /// The file system fails.
    pub(crate) fn settle(&mut self) -> Result<(), RunError> {
        let open = std::mem::take(&mut *self.open.lock());
        open.into_values().try_for_each(close)?;
        self.calls = Calls::new();
        Ok(self.vfs.sync()?)
    }

    /// Makes names and sizes those before the first call, and syncs. Files that are there stay
    /// where they lie.
    ///
    /// # Errors
    /// The file system fails.
    pub(crate) fn begin_again(&self) -> Result<(), RunError> {
        let first: BTreeMap<&str, u64> = (self.recording.files.iter())
            .map(|(path, bytes)| (&path[..], *bytes))
            .collect();
        let folders: BTreeSet<&str> = self.recording.folders.iter().map(|f| &f[..]).collect();
        for path in self
            .plan
            .sizes
            .keys()
            .filter(|path| !first.contains_key(&path[..]))
        {
            self.vfs.unlink(path)?;
        }
        // Those inside of others come later in the order, so they go first.
        for folder in self.plan.entries.keys().rev() {
            if !folders.contains(&folder[..]) {
                self.vfs.rmdir(folder)?;
            }
        }
        for folder in self.recording.folders.iter().filter(|f| *f != "/") {
            if !self.plan.entries.contains_key(folder) {
                self.vfs.mkdir(folder, 0o755)?;
            }
        }
        for (n, (path, bytes)) in self.recording.files.iter().enumerate() {
            if self.plan.sizes.get(path) != Some(bytes) {
                self.resize(n, path, *bytes)?;
            }
        }
        Ok(self.vfs.sync()?)
    }

    /// Gives a file its size, and makes it if it is not there.
    fn resize(&self, n: usize, path: &str, bytes: u64) -> Result<(), RunError> {
        let file = self
            .vfs
            .open(path, OpenFlags::READ_WRITE | OpenFlags::CREATE, 0o644)?;
        let has = self.plan.sizes.get(path).copied().unwrap_or(0);
        let done = match has > bytes {
            true => file.truncate(bytes).map_err(Into::into),
            false => self.content.write(&file, n, has, bytes - has),
        };
        file.close()?;
        done
    }
}
