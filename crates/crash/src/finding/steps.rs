//! The steps around a cut: the commands of the run in the words of the field, what became of each,
//! and what the workload was doing.
//!
//! What became of a write is seen in the crash state itself: each of its sectors is compared with
//! the new content, with what stood there before, and with what later writes brought. So the code
//! does not need to know how the state was chosen.
//!
//! | fate | meaning |
//! |---|---|
//! | durable | it is there, and had to be: covered by a completed flush that started after its end, or complete and non-volatile |
//! | kept | not durable, and it is there |
//! | lost | not durable, and what stood there before is there |
//! | torn | not durable, and part of it is there |
//! | garbage | not durable, and what is there was never written |
//! | replaced | not durable, and a later write to the same place is there |
//! | damaged | durable, and yet not there: damage by a neighbour (devices without WR_REL_SET) |
//! | interrupted | an operation of the chips that the cut fell into: page or block is left as the fault table says |
//! | never | begins at the cut or after it |

use crate::oracle::Told;
use base::{SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use blockdev::spec::{Kind, Write};
use blockdev::trace::{RemapDone, Step, What};
use blockdev::{Class, Image, RemapMode, Trace};
use ondisk::jbd2::{BlockKind, Header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

mod fates;

use fates::Fates;

/// Lines of commands before the cut that are shown; earlier ones are counted.
const BEFORE_MAX: usize = 60;
/// Lines of commands after the cut that are shown.
const AFTER_MAX: usize = 8;
/// Durable commands that are shown before the first one that is not durable, which builds on them.
const LEAD: usize = 6;

/// What became of a command.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// `durable` in the table at the head of this file.
    Durable,
    /// `kept` in that table.
    Kept,
    /// `lost` in that table.
    Lost,
    /// Sectors that are new, old, and garbage.
    Torn {
        /// Sectors with the new content.
        new: u64,
        /// Sectors with an older content.
        old: u64,
        /// Sectors with neither.
        garbage: u64,
    },
    /// `garbage` in that table.
    Garbage,
    /// `replaced` in that table.
    Replaced,
    /// `damaged` in that table.
    Damaged,
    /// `interrupted` in that table.
    Interrupted,
    /// `never` in that table.
    Never,
}

impl Fate {
    /// Whether the cut took something of it.
    pub fn is_loss(self) -> bool {
        use Fate::{Damaged, Garbage, Interrupted, Lost, Torn};
        matches!(self, Lost | Torn { .. } | Garbage | Damaged | Interrupted)
    }

    /// One word for a class of a style sheet.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Durable => "durable",
            Fate::Kept => "kept",
            Fate::Lost => "lost",
            Fate::Torn { .. } => "torn",
            Fate::Garbage => "garbage",
            Fate::Replaced => "replaced",
            Fate::Damaged => "damaged",
            Fate::Interrupted => "torn",
            Fate::Never => "never",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Lost => f.write_str("LOST"),
            Fate::Garbage => f.write_str("GARBAGE"),
            Fate::Damaged => f.write_str("DAMAGED"),
            Fate::Interrupted => f.write_str("INTERRUPTED"),
            Fate::Torn { new, old, garbage } => {
                write!(f, "TORN: {new} new, {old} old")?;
                match garbage {
                    0 => Ok(()),
                    n => write!(f, ", {n} garbage"),
                }
            }
            fate => f.write_str(fate.word()),
        }
    }
}

/// One line: an operation of the workload, a command of the device, or one of its chips.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// When it began, virtual ns.
    pub from_ns: u64,
    /// When it ended, if it did before the cut.
    pub to_ns: Option<u64>,
    /// A command of the device, by its number in the run from 0; absent for what the workload did.
    pub command: Option<usize>,
    /// An operation of the chips, as ids of cuts name it: `n17`, or `m3` in the device's own
    /// recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// What it was, in words.
    pub what: String,
    /// Its transaction, if the journal block or an earlier one in the log says so.
    pub tid: Option<u32>,
    /// What became of it; absent for flushes, barriers, and what the workload did.
    pub fate: Option<Fate>,
}

/// One cut: that of the run, or of a recovery.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// `run`, `recovery`, `recovery of the recovery` ...
    pub of: String,
    /// Number of the moment; 0 for a modelled device.
    pub point: usize,
    /// The id of the cut on a modelled device; empty for a disk in memory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The moment of the cut, virtual ns.
    pub cut_ns: u64,
    /// Earlier lines that are not shown.
    pub earlier: usize,
    /// The lines in order of time.
    pub lines: Vec<Line>,
    /// Later lines that are not shown.
    pub later: usize,
}

/// A cut whose steps are wanted.
pub struct Site<'a> {
    /// See [`Level::of`].
    pub of: String,
    /// Number of the moment.
    pub point: usize,
    /// The moment of the cut.
    pub at: Time,
    /// The commands of the run or recovery that is cut.
    pub trace: &'a Trace,
    /// What the cut left.
    pub image: &'a Image,
    /// What the workload did, also after the cut; empty for a recovery.
    pub told: Vec<Told>,
}

/// What a cut took of the commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Toll {
    /// Runs of blocks of which a part is new, or that are garbage.
    pub torn: usize,
    /// Runs of blocks that are lost.
    pub lost: usize,
}

impl Site<'_> {
    /// How much the cut took of the commands.
    pub fn toll(&self) -> Toll {
        let mut toll = Toll::default();
        for line in self.commands() {
            match line.fate {
                Some(Fate::Lost) => toll.lost += 1,
                Some(fate) if fate.is_loss() => toll.torn += 1,
                _ => {}
            }
        }
        toll
    }

    /// The lines around the cut, shortened to what a reader needs.
    pub fn level(&self) -> Level {
        let mut commands = self.commands();
        let begun = commands.partition_point(|line| line.from_ns < self.at.0);
        let open = |line: &Line| {
            line.fate
                .is_some_and(|f| !matches!(f, Fate::Durable | Fate::Replaced))
        };
        let first = commands.iter().take(begun).position(open).unwrap_or(begun);
        let from = first
            .saturating_sub(LEAD)
            .max(begun.saturating_sub(BEFORE_MAX));
        let to = commands.len().min(begun + AFTER_MAX);
        let later = commands.len() - to;
        commands.truncate(to);
        let mut lines = commands.split_off(from);
        let since = lines.first().map_or(0, |line| line.from_ns);
        let until = lines
            .last()
            .map_or(self.at.0, |line| line.from_ns.max(self.at.0));
        let shown =
            |told: &&Told| told.begun.0 <= until && told.ended.is_none_or(|end| end.0 >= since);
        lines.extend(
            self.told
                .iter()
                .filter(shown)
                .map(|told| self.operation(told)),
        );
        // At equal times an operation of the workload comes before the commands it caused.
        lines.sort_by_key(|line| (line.from_ns, line.command.is_some(), line.command));
        Level {
            of: self.of.clone(),
            point: self.point,
            id: String::new(),
            cut_ns: self.at.0,
            earlier: from,
            lines,
            later,
        }
    }

    fn operation(&self, told: &Told) -> Line {
        Line {
            from_ns: told.begun.0,
            to_ns: told.ended.filter(|end| *end <= self.at).map(|end| end.0),
            command: None,
            chip: None,
            what: told.what.clone(),
            tid: None,
            fate: (told.begun > self.at).then_some(Fate::Never),
        }
    }

    fn commands(&self) -> Vec<Line> {
        let mut scribe = Scribe {
            at: self.at,
            fates: Fates::new(self),
            tid: None,
            lines: Vec::new(),
        };
        for (number, step) in self.trace.steps.iter().enumerate() {
            match &step.what {
                What::Write(write) => scribe.write(number, "", write, &step.classes),
                What::Pack(writes) => scribe.pack(number, writes, &step.classes),
                What::Remap(done) => scribe.remap(number, step, done),
                What::Flush => scribe.plain(number, step, "flush"),
                What::Barrier => scribe.plain(number, step, "cache barrier"),
            }
        }
        scribe.lines
    }
}

/// Writes the lines of the commands.
struct Scribe<'a> {
    at: Time,
    fates: Fates<'a>,
    /// The transaction that the last control block of the log named.
    tid: Option<u32>,
    lines: Vec<Line>,
}

impl Scribe<'_> {
    fn plain(&mut self, number: usize, step: &Step, what: &str) {
        self.lines.push(Line {
            from_ns: step.start.0,
            to_ns: self.ended(step.end),
            command: Some(number),
            chip: None,
            what: what.into(),
            tid: None,
            fate: (step.start >= self.at).then_some(Fate::Never),
        });
    }

    fn ended(&self, end: Time) -> Option<u64> {
        (end <= self.at).then_some(end.0)
    }

    fn pack(&mut self, number: usize, writes: &[Arc<Write>], classes: &[Class]) {
        let mut classes = classes;
        for (entry, write) in writes.iter().enumerate() {
            let (mine, rest) = classes.split_at(write.new.len().min(classes.len()));
            classes = rest;
            let place = format!("pack {} of {}: ", entry + 1, writes.len());
            self.write(number, &place, write, mine);
        }
    }

    /// A REMAP is one line, because it is there as a whole or not at all.
    fn remap(&mut self, number: usize, step: &Step, done: &RemapDone) {
        self.lines.push(Line {
            from_ns: step.start.0,
            to_ns: self.ended(step.end),
            command: Some(number),
            chip: None,
            what: remap_words(done),
            tid: None,
            fate: Some(self.fates.of_all(number, &done.writes)),
        });
    }

    /// Adds a line for each run of blocks of one class and one transaction.
    fn write(&mut self, number: usize, pack: &str, write: &Write, classes: &[Class]) {
        for part in parts(write, classes, &mut self.tid) {
            let words = [
                how(write.kind),
                part.name(),
                &place(part.first, part.sectors),
            ];
            let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
            let sectors = part.first..part.first + part.sectors;
            self.lines.push(Line {
                from_ns: write.start.0,
                to_ns: self.ended(write.end),
                command: Some(number),
                chip: None,
                what: format!("{pack}{}", words.join(" ")),
                tid: part.tid,
                fate: Some(self.fates.of(number, write, sectors)),
            });
        }
    }
}

/// A run of blocks of one class in a write.
struct Part {
    class: Option<Class>,
    tid: Option<u32>,
    /// First sector on the device.
    first: u64,
    sectors: u64,
}

impl Part {
    fn name(&self) -> &'static str {
        match self.class {
            Some(Class::Data) => "data",
            Some(Class::JournalData) => "journal data",
            Some(Class::JournalDescriptor) => "journal descriptor",
            Some(Class::JournalMetadata) => "journal metadata",
            Some(Class::JournalRevoke) => "revoke block",
            Some(Class::JournalCommit) => "commit block",
            Some(Class::JournalSuperblock) => "journal superblock",
            Some(Class::Coalition) => "coalition block",
            Some(Class::FastCommit) => "fast commit",
            Some(Class::Home) => "home write",
            _ => "",
        }
    }
}

fn how(kind: Kind) -> &'static str {
    match kind {
        Kind::Normal => "write",
        Kind::Fua => "FUA write",
        Kind::Through => "write through",
        Kind::Discard => "discard",
        Kind::Remap { durable: true } => "FUA REMAP",
        Kind::Remap { durable: false } => "REMAP",
    }
}

/// Most runs of pairs that a line of a REMAP shows; others are counted.
const REMAP_RUNS: usize = 4;

/// The words of a REMAP, like `REMAP at 12..15 from 70..73, at 20 from 74`.
fn remap_words(done: &RemapDone) -> String {
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    for pair in &done.pairs {
        let (home, src, sectors) = (pair.home.0, pair.src.0, pair.sectors);
        match runs.last_mut() {
            Some(last) if last.0 + last.2 == home && last.1 + last.2 == src => last.2 += sectors,
            _ => runs.push((home, src, sectors)),
        }
    }
    let words = |run: &(u64, u64, u64)| {
        let (to, from) = (place(run.0, run.2), place(run.1, run.2));
        format!("{to} from {}", from.trim_start_matches("at "))
    };
    let shown: Vec<String> = runs.iter().take(REMAP_RUNS).map(words).collect();
    let kind = done.writes.first().map_or("REMAP", |part| how(part.kind));
    let mode = match done.mode {
        RemapMode::Share => "",
        RemapMode::Move => " (move)",
    };
    let more = match runs.len().saturating_sub(REMAP_RUNS) {
        0 => String::new(),
        n => format!(" and {n} more runs"),
    };
    format!("{kind}{mode} {}{more}", shown.join(", "))
}

/// A place like `at 12` or `at 12..15`, in blocks of 4 KiB with both ends included, or in sectors
/// if the blocks are not whole.
fn place(first: u64, sectors: u64) -> String {
    let whole =
        first.is_multiple_of(SECTORS_PER_BLOCK) && sectors.is_multiple_of(SECTORS_PER_BLOCK);
    let (unit, first, n) = match whole {
        true => ("", first / SECTORS_PER_BLOCK, sectors / SECTORS_PER_BLOCK),
        false => ("sector ", first, sectors),
    };
    match n {
        1 => format!("at {unit}{first}"),
        n => format!("at {unit}{first}..{}", first + n - 1),
    }
}

/// The transaction of a block of the log. Control blocks name theirs, and logged images belong to
/// the control block before them.
fn tid_of(class: Class, bytes: &[u8], last: &mut Option<u32>) -> Option<u32> {
    match class {
        Class::JournalDescriptor
        | Class::JournalRevoke
        | Class::JournalCommit
        | Class::Coalition => {
            let header = Header::parse(bytes).ok()?;
            let superblock = matches!(
                header.kind,
                BlockKind::SuperblockV1 | BlockKind::SuperblockV2
            );
            if !superblock {
                *last = Some(header.tid.0);
                return *last;
            }
            None
        }
        Class::JournalMetadata | Class::JournalData => *last,
        _ => None,
    }
}

fn parts(write: &Write, classes: &[Class], tid: &mut Option<u32>) -> Vec<Part> {
    if write.new.is_empty() {
        return vec![Part {
            class: None,
            tid: None,
            first: write.lba.0,
            sectors: write.sectors,
        }];
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut first = write.lba.0;
    for (bytes, class) in write.new.iter().zip(classes) {
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        let tid = tid_of(*class, bytes, tid);
        match parts.last_mut() {
            Some(last) if last.class == Some(*class) && last.tid == tid => last.sectors += sectors,
            _ => parts.push(Part {
                class: Some(*class),
                tid,
                first,
                sectors,
            }),
        }
        first += sectors;
    }
    parts
}

impl Level {
    /// The moment of the cut, in words.
    pub fn moment(&self) -> String {
        match self.id.as_str() {
            "" => format!("moment {}", self.point),
            id => format!("cut {id}"),
        }
    }
}

impl Line {
    /// The number of a command, or of an operation of the chips; empty for what the workload did.
    pub fn number(&self) -> String {
        match (&self.chip, self.command) {
            (Some(chip), _) => chip.clone(),
            (None, Some(n)) => format!("#{n}"),
            (None, None) => String::new(),
        }
    }
}

impl fmt::Display for Level {
    /// Prints a table for the terminal, in which `!` marks what the cut took.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "cut of the {} at {} us ({}); times in us, addresses in 4 KiB blocks",
            self.of,
            micros(self.cut_ns),
            self.moment()
        )?;
        if self.earlier > 0 {
            writeln!(f, "  ... {} earlier commands", self.earlier)?;
        }
        let mut cut = false;
        for line in &self.lines {
            if !cut && line.fate == Some(Fate::Never) {
                cut = true;
                writeln!(f, "  ---- power cut at {} us ----", micros(self.cut_ns))?;
            }
            writeln!(f, "{line}")?;
        }
        if !cut {
            writeln!(f, "  ---- power cut at {} us ----", micros(self.cut_ns))?;
        }
        if self.later > 0 {
            writeln!(f, "  ... {} later commands", self.later)?;
        }
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loss = self.fate.is_some_and(Fate::is_loss);
        let mark = if loss { '!' } else { ' ' };
        let span = match self.to_ns {
            Some(to) => format!("{}..{}", micros(self.from_ns), micros(to)),
            None => format!("{}..", micros(self.from_ns)),
        };
        let number = self.number();
        let tid = self
            .tid
            .map_or(String::new(), |tid| format!(" (tid {tid})"));
        write!(f, "{mark} {span:<22} {number:>6}  {}{tid}", self.what)?;
        match self.fate {
            Some(fate) => write!(f, ": {fate}"),
            None if self.to_ns.is_none() => f.write_str(": under way"),
            None => Ok(()),
        }
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests;
