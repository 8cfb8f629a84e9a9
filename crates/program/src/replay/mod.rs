//! Models `ext4` and `f2fs`: what the file systems of this project may leave of a recording, at the
//! level of blocks.
//!
//! ```text
//! Recording --steps--> Step --runs--> Run --carry--> Tape --cursor--> images --recover--> Tree --> State
//! ```
//!
//! What a cut leaves of a file system with commits is decided by three things: which commit is the
//! last durable one (`c`: names and attributes are those of the calls before it), which data had
//! been given its place before `c` (content that waited for its place is not there, and the size
//! that it gave the file neither), and which writes into places that existed already have come to
//! the medium, in any order. The syncs of the program settle a part of this. The rest is decided by
//! a timer and by the flusher, which know nothing of the program, so each moment is as good as any
//! other. For F2FS "commit" reads "checkpoint", with F2FSJ "commit of its journal".
//!
//! - B1: a run carries the calls out one by one through [`FileSystem`](vfs::FileSystem), on a
//!   volume that holds the tree of the begin and no open write. Between two steps happens what the
//!   run says and nothing else: the interval of the timer is longer than everything that calls wait
//!   for, so it elapses in pauses only. A write is carried out page by page (in at most
//!   `steps::PIECES_MAX` pieces), because commits and write-back fall between pages, too.
//! - B2: a commit is that of the timer: the run pauses for longer than its interval, in virtual
//!   time, while no flusher runs. So what waits for its place stays where it is, as in Linux. (The
//!   sync of a file would write it.) With `data=writeback` a commit does not wait for data that is
//!   on its way; so behind write-back it is asked for at once, by the sync of a directory, as
//!   another program on the volume may do it.
//! - B3: write-back is what the flusher does for want of memory, or to data that is old: it starts
//!   to write all that is dirty and waits neither for the device's cache nor for a commit.
//! - B4: the runs of a recording are these, where `w` stands behind each step of data, `m` behind
//!   each step that changes metadata:
//!
//! | run | commits | write-back | what it reaches |
//! |---|---|---|---|
//! | `quiet` | none | none | what the program's syncs leave alone |
//! | `commit` | each `m` | none | any `c`, data that was never written: empty files, old content |
//! | `both` | each `m`, `w` | each `m`, `w` | any `c` with all data before it |
//! | `write` | none | each `m`, `w` | new content in old places under old metadata |
//! | `write@i` | each `m`, and the `i`-th `w` | the `i`-th `w` | any `c` with the older part of the data |
//! | `commit@i+write` | the `i`-th of all | each `m`, `w` | content in old places newer than `c`, where what was there at `c` had been written |
//! | `commit@i>write` | the `i`-th `m` | each `m`, `w` from there on | the same, where nothing new had been written at `c` |
//!
//! - B5: `i` counts within an epoch: an epoch ends where nothing is dirty or uncommitted, and no
//!   choice before its end can show behind it. So one run makes a choice in each epoch, and there
//!   are as many runs as the longest epoch has steps, at most `runs::FAMILY_MAX` of a kind,
//!   spread evenly; those left out count as beyond the bound. Were an epoch taken to end too early,
//!   this would leave states out, and make none that is not legal.
//! - B6: each run is cut where its promises change: at the last moment before a command makes
//!   something durable (trace-T3), at each acknowledgement, and at the end. An acknowledgement has
//!   a moment of its own, behind the end of the call before it and before the begin of the next
//!   (call-C2), so a cut knows exactly how many had been given.
//! - B7: images of a run that differ only in what no recovery reads are recovered once (memo-M1),
//!   and equal trees with equal acknowledgements are handed on once.
//! - B8: a sync that failed (call-C3) did nothing, or it gave up the pages that it should have
//!   written: Linux takes them for clean, so no later sync writes them unless a later call changes
//!   the page. A recording with such a sync is explored in both ways, which share the bound; in the
//!   second one the file keeps the size that these writes gave it, and a later write into one of
//!   their pages writes all of that page.
//!
//! Not reached is data of a newer file without that of an older one where no sync asks for it.
//! Linux writes files in the order in which they became dirty, but reclaim of memory,
//! `auto_da_alloc` and `sync_file_range` need not. Model `posix` has these states.

pub mod words;

mod carry;
mod cost;
mod explore;
mod follow;
mod lost;
mod memo;
mod recover;
mod runs;
mod steps;

#[cfg(test)]
mod tests;

use crate::call::Recording;
use crate::state::{Bound, Counts, GoOn, Model, ModelError, State};
use blockdev::Caps;
use rig::{Config, MountOptions};

pub use cost::{Cost, cost};
pub use follow::{GivenUp, given_up};
pub use words::models;

/// A file system with its options, on a device with its promises.
#[derive(Clone)]
pub struct BlockModel {
    /// As `--model` takes it.
    name: String,
    /// What mkfs makes; the size grows with the recording.
    stack: Config,
    options: MountOptions,
    /// The promises of the device; the size grows with the recording.
    caps: Caps,
    /// Asked at each step and moment.
    go_on: Option<GoOn>,
}

impl std::fmt::Debug for BlockModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockModel({})", self.name)
    }
}

impl BlockModel {
    /// Why it ends, if it was asked to.
    fn ended(&self) -> Result<(), String> {
        match self.go_on.as_ref().is_none_or(|go_on| go_on()) {
            true => Ok(()),
            false => Err("it was asked to end".into()),
        }
    }

    /// Makes a state again from its line.
    ///
    /// # Errors
    /// The line is none of this model and recording, or the file system fails.
    pub fn again(&self, recording: &Recording, line: &str) -> Result<State, ModelError> {
        explore::again(self, recording, line)
    }
}

impl Model for BlockModel {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn while_asked(&mut self, go_on: &GoOn) {
        self.go_on = Some(go_on.clone());
    }

    fn explore(
        &self,
        recording: &Recording,
        bound: &Bound,
        visit: &mut dyn FnMut(State) -> bool,
    ) -> Result<Counts, ModelError> {
        explore::explore(self, recording, bound, visit)
    }
}
