//! Parameters of the SQLite workload, with the words of SQLite's pragmas.

use super::background::Background;
use super::values::{SpecError, key, number, switch};
use base::Nanos;
use std::fmt;

/// Mobibench's SQLite test (`-d 0|1|2 -n .. -j .. -s ..`): a table of (id, 100 characters, date)
/// that each transaction changes in one row: first come the inserts, then updates of random rows,
/// then deletes of random rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteSpec {
    /// Rows that are there before the measured part begins.
    pub prefill: u32,
    /// Transactions that insert one row each.
    pub inserts: u32,
    /// Transactions that update one random row each.
    pub updates: u32,
    /// Transactions that delete one random row each.
    pub deletes: u32,
    /// Characters of the value column.
    pub value_chars: u32,
    /// `PRAGMA journal_mode`.
    pub journal: JournalMode,
    /// `PRAGMA synchronous`.
    pub synchronous: Synchronous,
    /// SQLite may assume that a write changes nothing beside it, whenever the power goes
    /// ("powersafe overwrite"), which is its default on Linux. It is false on a device that can
    /// leave a sector as garbage; SQLite then pads its log to whole sectors.
    pub powersafe_overwrite: bool,
    /// Whether a transaction is one atomic write of the file system.
    pub batch: Batch,
    /// The program's own CPU time before each transaction, microseconds on the core of a PC.
    pub cpu_us: u64,
    /// What runs beside it.
    pub background: Background,
}

impl Default for SqliteSpec {
    fn default() -> Self {
        SqliteSpec {
            prefill: 0,
            inserts: 1000,
            updates: 1000,
            deletes: 1000,
            value_chars: 100,
            journal: JournalMode::Truncate,
            synchronous: Synchronous::Full,
            powersafe_overwrite: true,
            batch: Batch::Off,
            cpu_us: 0,
            background: Background::default(),
        }
    }
}

base::words! {
    /// Whether a transaction of SQLite is one atomic write of the file system.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Batch: "kind of batch" {
        /// It has a journal file.
        Off => "off",
        /// SQLite hands its pages over as a batch, and makes no journal file.
        On => "on",
        /// SQLite knows of no batches, and its journal is held in memory; the file of a write-ahead
        /// log is longer than the log. So does the extension for other programs.
        Held => "held",
    }
}

base::words! {
    /// SQLite's journal modes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum JournalMode: "journal mode" {
        /// The rollback journal is deleted at commit.
        Delete => "delete",
        /// The rollback journal is truncated to nothing.
        Truncate => "truncate",
        /// The header of the rollback journal is overwritten with zeros.
        Persist => "persist",
        /// There is a write-ahead log in place of the rollback journal.
        Wal => "wal",
        /// The rollback journal is in memory: a crash may damage the database.
        Memory => "memory",
        /// There is no rollback journal: a crash may damage the database.
        Off => "off",
    }
}

base::words! {
    /// SQLite's `synchronous` levels.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Synchronous: "level" {
        /// Never syncs.
        Off => "off",
        /// Syncs at the most critical moments, less often than `full`.
        Normal => "normal",
        /// Syncs at every critical moment.
        Full => "full",
        /// As full, and syncs the directory after deleting a rollback journal.
        Extra => "extra",
    }
}

/// Largest number of transactions: a run with more would not end in a day.
const TRANSACTIONS_MAX: u64 = 10_000_000;
/// Longest value, far below SQLite's own limit.
const VALUE_CHARS_MAX: u64 = 16_000_000;
/// A minute a transaction.
const CPU_US_MAX: u64 = 60_000_000;

impl SqliteSpec {
    pub(super) const KEYS: &'static str = "prefill, insert, update, delete, value, journal, synchronous, psow, batch, cpu, writer, beside, aged, overwrites";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "prefill" => self.prefill = number(value, 0..=TRANSACTIONS_MAX)? as u32,
            "insert" => self.inserts = number(value, 0..=TRANSACTIONS_MAX)? as u32,
            "update" => self.updates = number(value, 0..=TRANSACTIONS_MAX)? as u32,
            "delete" => self.deletes = number(value, 0..=TRANSACTIONS_MAX)? as u32,
            "value" => self.value_chars = number(value, 0..=VALUE_CHARS_MAX)? as u32,
            "journal" => self.journal = value.parse()?,
            "synchronous" => self.synchronous = value.parse()?,
            "psow" => self.powersafe_overwrite = switch(value)?,
            "cpu" => self.cpu_us = number(value, 0..=CPU_US_MAX)?,
            "batch" => self.batch = value.parse()?,
            _ if self.background.set(name, value)? => {}
            _ => return Err(key("sqlite", name, Self::KEYS)),
        }
        Ok(())
    }

    /// The program's own CPU time before each transaction.
    pub fn own_time(&self) -> Nanos {
        Nanos::from_micros(self.cpu_us)
    }

    /// Number of all transactions.
    pub fn transactions(&self) -> u64 {
        u64::from(self.inserts) + u64::from(self.updates) + u64::from(self.deletes)
    }
}

impl fmt::Display for SqliteSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (journal, synchronous) = (self.journal.word(), self.synchronous.word());
        let psow = if self.powersafe_overwrite {
            "on"
        } else {
            "off"
        };
        write!(
            f,
            "sqlite:prefill={},insert={},update={},",
            self.prefill, self.inserts, self.updates
        )?;
        write!(
            f,
            "delete={},value={},journal={journal},",
            self.deletes, self.value_chars
        )?;
        // Named only where it is on, so that a text is the same with and without this parameter.
        let batch = match self.batch {
            Batch::Off => "",
            Batch::On => "batch=on,",
            Batch::Held => "batch=held,",
        };
        let cpu = match self.cpu_us {
            0 => String::new(),
            us => format!("cpu={us},"),
        };
        write!(
            f,
            "synchronous={synchronous},psow={psow},{batch}{cpu}{}",
            self.background
        )
    }
}
