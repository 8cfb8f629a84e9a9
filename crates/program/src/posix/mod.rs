//! The model `posix`: what any file system may leave that keeps POSIX and the documented fsync, and
//! no more. Who is safe here relies on nothing that nobody has promised.
//!
//! ```text
//! Recording --parts, track--> Cut: parts that may be lost --families--> sets of lost parts --> State
//! ```
//!
//! - P1: of each object (a grain of content, a size, a name in a directory, an attribute) a cut
//!   leaves the value after some first ones of the parts that change it.
//! - P2: a cut leaves every part that a completed sync covers, and with each part all that it
//!   needs. Every set of parts with that is legal: nothing else orders them.
//!
//! What a sync covers and a part needs are the rules of `rules`, which `track` and `parts` ask.
//! `allows` decides whether a tree is legal by P1 and P2 alone, without looking at sets.

mod allows;
mod bits;
mod cut;
mod families;
mod page;
mod parts;
mod places;
mod rules;
mod track;
mod words;

pub use bits::Bits;
pub use cut::Cut;
pub use page::page;
pub use parts::Class;
pub use rules::{Belief, RULES, Row, Rule, Rules};

use crate::call::{Recording, What};
use crate::state::{Bound, Counts, Model, ModelError, State};
use crate::tree::PAGE;
use base::{SECTOR_BYTES, Set};
use parts::Split;
use std::fmt;
use std::str::FromStr;
use track::Track;

/// How much content of a file comes as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// Pages of 4096 bytes.
    Page,
    /// Sectors of 512 bytes.
    Sector,
}

/// The model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Posix {
    beliefs: Vec<Belief>,
    rules: Rules,
    grain: Grain,
}

impl Default for Posix {
    fn default() -> Posix {
        Posix::new(&[], Grain::Page)
    }
}

impl Posix {
    /// The book with these beliefs.
    pub fn new(beliefs: &[Belief], grain: Grain) -> Posix {
        let beliefs = Belief::ALL.into_iter().filter(|b| beliefs.contains(b));
        let beliefs: Vec<Belief> = beliefs.collect();
        let rules = beliefs.iter().fold(Rules::book(), |r, &b| r.with(b));
        Posix {
            beliefs,
            rules,
            grain,
        }
    }

    /// Without a rule, to show what the rule forbids.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Posix {
        self.rules = self.rules.without(rule);
        self
    }

    fn track<'a>(&self, recording: &'a Recording) -> Track<'a> {
        let grain = match self.grain {
            Grain::Page => PAGE,
            Grain::Sector => SECTOR_BYTES as u64,
        };
        let split = Split {
            rules: self.rules,
            grain,
        };
        Track::new(recording, split)
    }

    /// The cut when `calls` calls have ended.
    ///
    /// # Errors
    /// The recording names a node that it never made.
    pub fn cut<'a>(&self, recording: &'a Recording, calls: usize) -> Result<Cut<'a>, ModelError> {
        Ok(Cut::new(self.followed(recording, calls)?))
    }

    fn followed<'a>(
        &self,
        recording: &'a Recording,
        calls: usize,
    ) -> Result<Track<'a>, ModelError> {
        let mut track = self.track(recording);
        for _ in 0..calls.min(recording.calls.len()) {
            track.step()?;
        }
        Ok(track)
    }

    /// Makes the state of a line again.
    ///
    /// # Errors
    /// The line is none of this recording under these rules.
    pub fn again(&self, recording: &Recording, line: &str) -> Result<State, ModelError> {
        let (mut cut, lost) = self.read(recording, line)?;
        Ok(cut.state(&lost))
    }

    /// The cut and the lost parts that a line names.
    ///
    /// # Errors
    /// As [`again`](Posix::again).
    pub fn read<'a>(
        &self,
        recording: &'a Recording,
        line: &str,
    ) -> Result<(Cut<'a>, Bits), ModelError> {
        let wrong = |why: String| ModelError::Simulation(format!("`{line}`: {why}"));
        let at = line.find(['-', '+']);
        let at = at.ok_or_else(|| wrong("a line is like 17-3.0,4.1 or 17+3.0".into()))?;
        let calls = line[..at].parse::<usize>();
        let calls = calls.map_err(|e| wrong(e.to_string()))?;
        if calls > recording.calls.len() {
            let len = recording.calls.len();
            return Err(wrong(format!("the recording has {len} calls")));
        }
        let cut = self.cut(recording, calls)?;
        let sign = if line[at..].starts_with('-') {
            '-'
        } else {
            '+'
        };
        let lost = cut.read_line(sign, &line[at + 1..]).map_err(wrong)?;
        Ok((cut, lost))
    }
}

impl fmt::Display for Posix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("posix")?;
        self.beliefs.iter().try_for_each(|b| write!(f, "+{b}"))?;
        match self.grain {
            Grain::Page => Ok(()),
            Grain::Sector => f.write_str("+sectors"),
        }
    }
}

impl FromStr for Posix {
    type Err = String;

    fn from_str(name: &str) -> Result<Posix, String> {
        let mut words = name.split('+');
        if words.next() != Some("posix") {
            return Err(format!("`{name}` does not begin with `posix`"));
        }
        let mut grain = Grain::Page;
        let mut beliefs = Vec::new();
        for word in words {
            match word {
                "sectors" => grain = Grain::Sector,
                word => beliefs.push(word.parse()?),
            }
        }
        Ok(Posix::new(&beliefs, grain))
    }
}

impl Model for Posix {
    fn name(&self) -> String {
        self.to_string()
    }

    fn explore(
        &self,
        recording: &Recording,
        bound: &Bound,
        visit: &mut dyn FnMut(State) -> bool,
    ) -> Result<Counts, ModelError> {
        let mut exploration = Exploration {
            cut: Cut::new(self.track(recording)),
            bound,
            seen: Set::default(),
            counts: Counts::default(),
            states_max: bound.of_each(cuts(recording)),
            visit,
        };
        let mut on = exploration.states(None);
        for call in &recording.calls {
            if !on {
                break;
            }
            let before = exploration.cut.track.parts.len();
            exploration.cut.track.step()?;
            exploration.cut.refresh();
            on = match call.what {
                What::Sync { .. } | What::SyncAll | What::Failed { .. } => exploration.no_states(),
                What::Acknowledge(_) => exploration.states(None),
                _ => exploration.states(Some(before)),
            };
        }
        Ok(exploration.counts)
    }
}

/// How many cuts have states of their own.
fn cuts(recording: &Recording) -> usize {
    let changes = |what: &What| {
        !matches!(
            what,
            What::Sync { .. } | What::SyncAll | What::Failed { .. }
        )
    };
    1 + recording.calls.iter().filter(|c| changes(&c.what)).count()
}

struct Exploration<'a, 'b> {
    cut: Cut<'a>,
    bound: &'b Bound,
    /// Most states of each cut.
    states_max: u64,
    /// Trees with the number of acknowledgements, by which equal states are told.
    seen: Set<(u64, usize)>,
    counts: Counts,
    visit: &'b mut dyn FnMut(State) -> bool,
}

impl Exploration<'_, '_> {
    /// A cut that leaves nothing new (families-V1).
    fn no_states(&mut self) -> bool {
        self.counts.cuts += 1;
        true
    }

    /// Visits the states of this cut: all, or those with a part from `new` on. False: it is over.
    fn states(&mut self, new: Option<usize>) -> bool {
        self.counts.cuts += 1;
        let dirty = &self.cut.track.dirty;
        let new = new.map(|new| dirty.partition_point(|&part| part < new));
        if new == Some(dirty.len()) {
            return true;
        }
        let mut sets: Set<Bits> = Set::default();
        let mut named = Vec::new();
        let beyond = families::each(&self.cut, new, self.bound, &mut |lost| {
            if sets.insert(lost.clone()) {
                named.push(lost);
            }
            (named.len() as u64) < self.states_max
        });
        self.counts.beyond += beyond;
        named.iter().all(|lost| self.visit(lost))
    }

    fn visit(&mut self, lost: &Bits) -> bool {
        let tree = self.cut.tree(lost);
        if !self.seen.insert((tree.hash(), self.cut.track.acknowledged)) {
            return true;
        }
        self.counts.states += 1;
        let state = self.cut.state_of(tree, lost);
        (self.visit)(state)
    }
}
