//! The store as the commands on one machine use it: what is there is taken, what is made is kept,
//! so a command that was stopped goes on where it was.

use super::build::build;
use super::store::{By, Run, Store, StoreError};
use super::task::Task;
use crate::failure::{Failure, failed, tell};
use std::path::Path;
use std::time::Instant;

/// A store, and who uses it.
pub struct Shelf {
    /// The store.
    pub store: Store,
    /// The identity of the program.
    pub build: String,
    /// Host and process.
    pub worker: String,
}

impl Shelf {
    /// The store in this folder, made where there is none.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn open(dir: &Path) -> Result<Shelf, Failure> {
        let shelf = Shelf {
            store: Store::open(dir).map_err(failed)?,
            build: build()?,
            worker: worker(),
        };
        shelf.mend_packs()?;
        Ok(shelf)
    }

    /// The result that is there, if it is whole; what is damaged is put aside, and told.
    ///
    /// # Errors
    /// The host refuses.
    pub fn get(&self, id: &str, run: Run) -> Result<Option<String>, Failure> {
        match self.store.get(id, run) {
            Ok(kept) => Ok(kept.map(|kept| kept.text)),
            Err(e @ StoreError::Damaged { .. }) => {
                tell(format!("{e}; it is put aside, and the job runs again"));
                self.store.put_aside(id, run).map_err(failed)?;
                Ok(None)
            }
            Err(e) => Err(failed(e)),
        }
    }

    /// Keeps a result that took so long to make.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put(&self, id: &str, run: Run, began: Instant, text: &str) -> Result<(), Failure> {
        let by = self.by(began);
        self.store.put(id, run, &by, text).map_err(failed)
    }

    /// Keeps the result of a first run, soon: it may share a file with others.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put_soon(&self, id: &str, began: Instant, text: &str) -> Result<(), Failure> {
        let by = self.by(began);
        self.store.put_soon(id, &by, text).map_err(failed)
    }

    /// Puts damaged packs aside, and tells; the whole results in them are kept.
    ///
    /// # Errors
    /// The host refuses.
    pub fn mend_packs(&self) -> Result<(), Failure> {
        for (path, why) in self.store.damaged_packs().map_err(failed)? {
            tell(format!(
                "{why}; it is put aside, and what is not whole of it runs again"
            ));
            self.store.put_pack_aside(&path).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes the names durable of all that was put.
    ///
    /// # Errors
    /// The host refuses.
    pub fn settle(&self) -> Result<(), Failure> {
        self.store.settle().map_err(failed)
    }

    /// Who made something since then.
    pub fn by(&self, began: Instant) -> By {
        By {
            worker: self.worker.clone(),
            // Milliseconds, so that the line is short.
            seconds: (began.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        }
    }

    /// The result of a job: the one that is there, or the one that `make` makes, which is kept if
    /// any host would get it.
    ///
    /// # Errors
    /// Those of `make`; the host refuses.
    pub fn result(
        shelf: Option<&Shelf>,
        task: &Task,
        make: impl FnOnce() -> Result<String, Failure>,
    ) -> Result<String, Failure> {
        let Some(shelf) = shelf else {
            return make();
        };
        let id = task.id(&shelf.build, &task.inputs()?)?;
        if let Some(text) = shelf.get(&id, Run::First)? {
            return Ok(text);
        }
        let began = Instant::now();
        let text = make()?;
        match task.whole(&text) {
            Ok(()) => {
                shelf.put_soon(&id, began, &text)?;
                shelf.settle()?;
            }
            Err(why) => tell(why),
        }
        Ok(text)
    }
}

/// Host and process.
fn worker() -> String {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{host}/{}", std::process::id())
}
