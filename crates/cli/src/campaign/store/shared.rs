//! Results that share files: they wait for others, and are found while they wait and in packs.

use super::pack::{self, Damaged, Named, Packs};
use super::{By, Kept, Run, Store, StoreError, at, locked, written};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// How long a result waits for others.
const WAIT: Duration = Duration::from_secs(1);
/// Bytes of waiting results after which they are written at once.
pub(super) const WAITING_MAX: usize = 4 << 20;

/// The packs, as they were seen at some time.
#[derive(Default)]
pub(super) struct Known {
    pub packs: Packs,
    looked: Option<Instant>,
    damaged: Vec<Damaged>,
}

/// Results that are not written yet.
#[derive(Default)]
pub(super) struct Waiting {
    results: Vec<Named>,
    pub bytes: usize,
    written: Option<Instant>,
}

impl Store {
    pub(super) fn waiting_or_packed(&self, id: &str) -> Result<Option<Kept>, StoreError> {
        let waits = |result: &Named| (result.id == id).then(|| result.kept.clone());
        if let Some(kept) = locked(&self.waiting).results.iter().find_map(waits) {
            return Ok(Some(kept));
        }
        let mut known = locked(&self.packs);
        match known.packs.get(id) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            // Another worker put that pack aside; what was whole of it is in a new one.
            Err(StoreError::Host { error, .. }) if error.kind() == ErrorKind::NotFound => {
                *known = Known::default();
            }
            Err(e) => return Err(e),
        }
        // Others write packs, too; to list the folder takes time.
        if known.looked.is_some_and(|at| at.elapsed() < WAIT) {
            return Ok(None);
        }
        self.look(&mut known)?;
        known.packs.get(id)
    }

    /// Every copy in packs; none where one pack alone has the result and no file beside has it.
    pub(super) fn packed_copies(
        &self,
        id: &str,
        beside: bool,
    ) -> Result<Vec<(Kept, PathBuf)>, StoreError> {
        let mut known = locked(&self.packs);
        let found = |known: &mut Known| match known.packs.count(id) {
            // Most results lie in one place alone, and nothing of them is read for this.
            (false, _) => Ok(Vec::new()),
            (true, false) if !beside => Ok(Vec::new()),
            (true, _) => known.packs.copies(id),
        };
        match found(&mut known) {
            // Another worker put one of the packs aside; what was whole of it is in a new one.
            Err(StoreError::Host { error, .. }) if error.kind() == ErrorKind::NotFound => {
                *known = Known::default();
                self.look(&mut known)?;
                found(&mut known)
            }
            found => found,
        }
    }

    /// The pack that has the result of a job.
    pub(super) fn pack_of(&self, id: &str) -> Option<PathBuf> {
        locked(&self.packs).packs.path(id).map(PathBuf::from)
    }

    pub(super) fn look(&self, known: &mut Known) -> Result<(), StoreError> {
        known.damaged = known.packs.refresh(&self.dir)?;
        known.looked = Some(Instant::now());
        Ok(())
    }

    /// The packs that cannot be read, each in a sentence; the results in them are missing.
    ///
    /// # Errors
    /// The host refuses.
    pub fn damaged_packs(&self) -> Result<Vec<(PathBuf, String)>, StoreError> {
        let mut known = locked(&self.packs);
        self.look(&mut known)?;
        let said = known.damaged.iter().map(|pack| {
            let why = format!(
                "store: {} is no whole pack: {}",
                pack.path.display(),
                pack.why
            );
            (pack.path.clone(), why)
        });
        Ok(said.collect())
    }

    /// Keeps the result of a first run, which is durable after [`settle`](Self::settle) at the
    /// latest: it waits for others to share a file and a sync with.
    ///
    /// # Errors
    /// The host refuses, as on a full disk.
    pub fn put_soon(&self, id: &str, by: &By, text: &str) -> Result<(), StoreError> {
        let kept = Kept {
            by: by.clone(),
            text: text.into(),
        };
        {
            let mut waiting = locked(&self.waiting);
            waiting.bytes += text.len();
            waiting.results.push(Named {
                id: id.into(),
                kept,
            });
        }
        self.write_due()
    }

    /// Writes what has waited long enough, or is much.
    ///
    /// # Errors
    /// The host refuses, as on a full disk.
    pub fn write_due(&self) -> Result<(), StoreError> {
        let waiting = locked(&self.waiting);
        let waited = waiting.written.is_none_or(|at| at.elapsed() >= WAIT);
        match !waiting.results.is_empty() && (waited || waiting.bytes >= WAITING_MAX) {
            true => self.write(waiting),
            false => Ok(()),
        }
    }

    /// Writes all that waits. The lock is held until it is written, so that whoever asks for a
    /// result finds it there or here.
    fn write(&self, mut waiting: MutexGuard<'_, Waiting>) -> Result<(), StoreError> {
        match &waiting.results[..] {
            [] => return Ok(()),
            [Named { id, kept }] => {
                let bytes = written(id, &kept.by, &kept.text);
                self.put_bytes(&self.path(id, Run::First), &bytes)?;
            }
            results => self.put_pack(results).map(drop)?,
        }
        *waiting = Waiting {
            written: Some(Instant::now()),
            ..Waiting::default()
        };
        Ok(())
    }

    fn put_pack(&self, results: &[Named]) -> Result<PathBuf, StoreError> {
        let bytes = pack::packed(results);
        let path = self.dir.join(pack::FOLDER).join(pack::name_of(&bytes));
        self.put_bytes(&path, &bytes)?;
        self.look(&mut locked(&self.packs))?;
        Ok(path)
    }

    /// Writes what waits, and makes the names durable of all that was put.
    ///
    /// # Errors
    /// The host refuses.
    pub fn settle(&self) -> Result<(), StoreError> {
        self.write(locked(&self.waiting))?;
        let folders = std::mem::take(&mut *locked(&self.unsettled));
        for folder in folders {
            let synced = File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(at(&folder))?;
        }
        Ok(())
    }

    /// Puts aside a pack that is damaged, or has a result that is; what is whole of it is packed
    /// anew before.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put_pack_aside(&self, path: &Path) -> Result<(), StoreError> {
        let whole = match pack::whole(path) {
            Ok(whole) => whole,
            // Another worker was first.
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(at(path)(e)),
        };
        // A pack of which nothing is lost has the name of the damaged one, and is in its place now.
        let mended = match whole.is_empty() {
            true => None,
            false => Some(self.put_pack(&whole)?),
        };
        if mended.as_deref() != Some(path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.rename_aside(path, &name)?;
        }
        // A result may have been seen in the old pack first: all are looked at anew.
        let mut known = locked(&self.packs);
        *known = Known::default();
        self.look(&mut known)
    }
}
