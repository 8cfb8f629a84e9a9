//! The text form of a workload: `sqlite:insert=1000,journal=truncate`.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A workload and its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Mobibench's SQLite test.
    Sqlite(SqliteSpec),
}

/// Mobibench's SQLite test (`-d 0|1|2 -n .. -j .. -s ..`): a table of (id, 100 characters, date), one row per
/// transaction; first the inserts, then the updates of random rows, then the deletes of random rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteSpec {
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
    /// SQLite may assume that a write changes nothing beside it, whenever the power goes ("powersafe overwrite"): its default
    /// on Linux. False on a device that can leave a sector as garbage; SQLite then pads its log to whole sectors.
    pub powersafe_overwrite: bool,
}

impl Default for SqliteSpec {
    fn default() -> Self {
        SqliteSpec {
            inserts: 1000,
            updates: 1000,
            deletes: 1000,
            value_chars: 100,
            journal: JournalMode::Truncate,
            synchronous: Synchronous::Full,
            powersafe_overwrite: true,
        }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl $name {
            /// All of them, in the order of SQLite's documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The word for it, in workload texts and pragmas alike.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
            fn parse(word: &str) -> Result<$name, SpecError> {
                let found = Self::ALL.iter().find(|v| v.word() == word);
                found.copied().ok_or_else(|| SpecError::Value {
                    given: word.into(),
                    valid: Self::ALL.iter().map(|v| v.word()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

words! {
    /// SQLite's journal modes.
    JournalMode {
        /// The rollback journal is deleted at commit.
        Delete = "delete",
        /// It is truncated to nothing.
        Truncate = "truncate",
        /// Its header is overwritten with zeros.
        Persist = "persist",
        /// Write-ahead log.
        Wal = "wal",
        /// The rollback journal is in memory: a crash may damage the database.
        Memory = "memory",
        /// No rollback journal: likewise.
        Off = "off",
    }
}

words! {
    /// SQLite's `synchronous` levels.
    Synchronous {
        /// Never syncs.
        Off = "off",
        /// Syncs at the critical moments less one.
        Normal = "normal",
        /// Syncs at every critical moment.
        Full = "full",
        /// As full, and syncs the directory after deleting a rollback journal.
        Extra = "extra",
    }
}

/// Why a workload text is not valid.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// No workload of that name.
    #[error("unknown workload `{given}`; there is: {valid}")]
    Name {
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// No parameter of that name.
    #[error("workload `sqlite` has no parameter `{given}`; it has: {valid}")]
    Key {
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// Not a value of that parameter.
    #[error("`{given}` is not a valid value here; valid: {valid}")]
    Value {
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
}

const KEYS: &str = "insert, update, delete, value, journal, synchronous, psow";
/// Above this the run would not end in a day.
const TRANSACTIONS_MAX: u32 = 10_000_000;
/// A value must fit SQLite's own limit by far.
const VALUE_CHARS_MAX: u32 = 1_000_000;

impl FromStr for Workload {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Workload, SpecError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        if name != "sqlite" {
            return Err(SpecError::Name {
                given: name.into(),
                valid: "sqlite".into(),
            });
        }
        let mut spec = SqliteSpec::default();
        for part in parameters.split(',').filter(|p| !p.is_empty()) {
            spec.set(part)?;
        }
        Ok(Workload::Sqlite(spec))
    }
}

impl SqliteSpec {
    fn set(&mut self, part: &str) -> Result<(), SpecError> {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key {
            "insert" => self.inserts = number(value, TRANSACTIONS_MAX)?,
            "update" => self.updates = number(value, TRANSACTIONS_MAX)?,
            "delete" => self.deletes = number(value, TRANSACTIONS_MAX)?,
            "value" => self.value_chars = number(value, VALUE_CHARS_MAX)?,
            "journal" => self.journal = JournalMode::parse(value)?,
            "synchronous" => self.synchronous = Synchronous::parse(value)?,
            "psow" => self.powersafe_overwrite = switch(value)?,
            _ => {
                return Err(SpecError::Key {
                    given: key.into(),
                    valid: KEYS.into(),
                });
            }
        }
        Ok(())
    }

    /// Transactions in all.
    pub fn transactions(&self) -> u64 {
        u64::from(self.inserts) + u64::from(self.updates) + u64::from(self.deletes)
    }
}

fn switch(text: &str) -> Result<bool, SpecError> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(SpecError::Value {
            given: text.into(),
            valid: "on, off".into(),
        }),
    }
}

fn number(text: &str, max: u32) -> Result<u32, SpecError> {
    let parsed = text.parse().ok().filter(|n| *n <= max);
    parsed.ok_or_else(|| SpecError::Value {
        given: text.into(),
        valid: format!("a whole number from 0 to {max}"),
    })
}

impl fmt::Display for Workload {
    /// The full text, every parameter named: two workloads are the same if their texts are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload::Sqlite(s) = self;
        write!(
            f,
            "sqlite:insert={},update={},delete={},",
            s.inserts, s.updates, s.deletes
        )?;
        let (journal, synchronous) = (s.journal.word(), s.synchronous.word());
        let psow = if s.powersafe_overwrite { "on" } else { "off" };
        write!(f, "value={},journal={journal},", s.value_chars)?;
        write!(f, "synchronous={synchronous},psow={psow}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in [
            "sqlite",
            "sqlite:",
            "sqlite:insert=5,journal=wal,synchronous=normal,value=9,psow=off",
        ] {
            let parsed: Workload = text.parse().unwrap();
            assert_eq!(parsed.to_string().parse::<Workload>().unwrap(), parsed);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        let fail = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        assert!(fail("fio").contains("`fio`") && fail("fio").contains("sqlite"));
        assert!(
            fail("sqlite:rows=3").contains("`rows`") && fail("sqlite:rows=3").contains("insert")
        );
        assert!(fail("sqlite:journal=none").contains("truncate"));
        assert!(fail("sqlite:insert=-1").contains("whole number"));
        assert!(fail("sqlite:insert").contains("whole number"));
    }
}
