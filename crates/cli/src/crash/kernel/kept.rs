//! What came of sequences on a file system of a kernel, kept in a store: a run of hours that was
//! stopped goes on where it was.
//!
//! A result belongs to this program, the guest's kernel, all options that decide what is looked
//! at, and the sequence. A sequence that did not run is tried again.

use super::trials::FIRST_FSYNC;
use crate::campaign::shelf::Shelf;
use crate::campaign::store::{Run, sum};
use crate::failure::{Failure, failed};
use crash::program::{Broken, Explored, Tried};
use crash::subject::FileScript;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// A folder of results, and what they are results of.
pub struct Keeping {
    shelf: Shelf,
    of: String,
}

/// What is kept of a sequence.
#[derive(Serialize, Deserialize)]
struct Kept {
    writes: u64,
    flushes: u64,
    acks: u64,
    cuts: u64,
    states: u64,
    bad: u64,
    beyond: u64,
    /// Of each bad state the violations, and the operations that had begun.
    broken: Vec<(Vec<String>, String)>,
    /// Whether [`FIRST_FSYNC`] explains it.
    known: bool,
}

impl Keeping {
    /// Results of runs under these options on this kernel.
    pub fn new(shelf: Shelf, kernel: &str, options: &str) -> Keeping {
        let of = format!("{}\n{kernel}\n{options}", shelf.build);
        Keeping { shelf, of }
    }

    fn id(&self, script: &FileScript) -> String {
        sum(format!("{}\n{script}", self.of).as_bytes())[..32].into()
    }

    /// What came of a sequence before; `None` where nobody has tried it.
    ///
    /// # Errors
    /// The host refuses; what is kept is of another form.
    pub fn get(
        &self,
        script: &FileScript,
    ) -> Result<Option<(Tried, Option<&'static str>)>, Failure> {
        let Some(text) = self.shelf.get(&self.id(script), Run::First)? else {
            return Ok(None);
        };
        let kept: Kept = serde_json::from_str(&text).map_err(failed)?;
        let broken = kept.broken.into_iter().map(|(words, prefix)| {
            let prefix = FileScript::parse(&prefix).map_err(failed)?;
            Ok(Broken { words, prefix })
        });
        let tried = Tried {
            explored: Explored {
                writes: kept.writes,
                flushes: kept.flushes,
                acks: kept.acks,
                cuts: kept.cuts,
                cuts_all: kept.cuts,
                states: kept.states,
                recovered: kept.states,
                bad: kept.bad,
                beyond: kept.beyond,
                ..Explored::default()
            },
            broken: broken.collect::<Result<_, Failure>>()?,
        };
        Ok(Some((tried, kept.known.then_some(FIRST_FSYNC))))
    }

    /// Keeps what came of a sequence that was begun at `began`.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put(
        &self,
        script: &FileScript,
        tried: &Tried,
        known: bool,
        began: Instant,
    ) -> Result<(), Failure> {
        let Tried { explored, broken } = tried;
        let broken = broken
            .iter()
            .map(|broken| (broken.words.clone(), broken.prefix.to_string()));
        let kept = Kept {
            writes: explored.writes,
            flushes: explored.flushes,
            acks: explored.acks,
            cuts: explored.cuts,
            states: explored.states,
            bad: explored.bad,
            beyond: explored.beyond,
            broken: broken.collect(),
            known,
        };
        let text = serde_json::to_string(&kept).map_err(failed)?;
        self.shelf.put_soon(&self.id(script), began, &text)
    }

    /// Makes durable what was put.
    ///
    /// # Errors
    /// The host refuses.
    pub fn settle(&self) -> Result<(), Failure> {
        self.shelf.settle()
    }
}
