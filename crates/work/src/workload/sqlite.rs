//! Mobibench's SQLite test, with an oracle: the table that each prefix of its transactions leaves,
//! so that what a crash left can be judged row by row.

use super::{SqliteSpec, Synchronous};
use crate::RunError;
use base::{Nanos, Rng};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

/// Why the workload stopped.
#[derive(Debug, Error)]
pub enum SqliteFailure {
    /// SQLite refused a statement, or failed in it.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The journal mode could not be set.
    #[error("SQLite stays in journal mode `{got}`, `{wanted}` was asked for")]
    JournalMode {
        /// The journal mode of the workload.
        wanted: &'static str,
        /// The journal mode that SQLite uses instead.
        got: String,
    },
}

type SqliteResult<T> = Result<T, SqliteFailure>;

/// One transaction; the number is the id of its row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transaction {
    /// Inserts a row.
    Insert(i64, Row),
    /// Gives an existing row a new value and date.
    Update(i64, Row),
    /// Deletes a row.
    Delete(i64),
}

/// A row without its id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The value column: printable characters.
    pub value: String,
    /// Date and time as text.
    pub date: String,
}

impl Transaction {
    /// The kind of transaction in results.
    pub const fn kind(&self) -> &'static str {
        match self {
            Transaction::Insert(..) => "insert",
            Transaction::Update(..) => "update",
            Transaction::Delete(_) => "delete",
        }
    }
}

/// The content of the table, by id.
pub type Table = BTreeMap<i64, Row>;

impl Transaction {
    /// Applies the transaction to the oracle's table.
    pub fn apply(&self, table: &mut Table) {
        match self {
            Transaction::Insert(id, row) | Transaction::Update(id, row) => {
                table.insert(*id, row.clone());
            }
            Transaction::Delete(id) => {
                table.remove(id);
            }
        }
    }
}

/// All transactions of the workload. They are a function of `spec` and `seed` alone, so that every
/// scheme below gets the same.
pub fn transactions(spec: &SqliteSpec, seed: u64) -> Vec<Transaction> {
    let mut rng = Rng::named(seed, "workload/sqlite");
    let mut live: Vec<i64> = (1..=i64::from(spec.prefill)).collect();
    let mut all = Vec::new();
    for n in 0..spec.inserts {
        let id = i64::from(spec.prefill) + i64::from(n) + 1;
        live.push(id);
        all.push(Transaction::Insert(id, row(&mut rng, spec, n)));
    }
    for n in 0..spec.updates {
        if !live.is_empty() {
            let id = live[rng.below(live.len() as u64) as usize];
            all.push(Transaction::Update(id, row(&mut rng, spec, n)));
        }
    }
    for _ in 0..spec.deletes {
        if !live.is_empty() {
            let at = rng.below(live.len() as u64) as usize;
            all.push(Transaction::Delete(live.swap_remove(at)));
        }
    }
    all
}

/// The rows before the first transaction: a function of `spec` alone.
pub fn prefill(spec: &SqliteSpec) -> Table {
    let mut rng = Rng::named(0, "workload/sqlite prefill");
    let ids = 0..spec.prefill;
    ids.map(|n| (i64::from(n) + 1, row(&mut rng, spec, n)))
        .collect()
}

fn row(rng: &mut Rng, spec: &SqliteSpec, n: u32) -> Row {
    let value = (0..spec.value_chars)
        .map(|_| char::from(b'a' + rng.below(26) as u8))
        .collect();
    let date = format!(
        "2026-01-{:02} {:02}:{:02}:{:02}",
        n / 86400 % 28 + 1,
        n / 3600 % 24,
        n / 60 % 60,
        n % 60
    );
    Row { value, date }
}

/// The oracle's table after the first `count` transactions, from an empty one.
pub fn table_after(transactions: &[Transaction], count: usize) -> Table {
    let mut table = Table::new();
    transactions[..count]
        .iter()
        .for_each(|t| t.apply(&mut table));
    table
}

/// Opens a database in a file of the host, through SQLite's own file layer.
///
/// # Errors
/// SQLite cannot open it.
pub fn open_on_host(database: &Path) -> SqliteResult<Connection> {
    Ok(Connection::open(database)?)
}

/// Keeps SQLite's own file layer from using the atomic writes of F2FS, in the whole process.
///
/// # Errors
/// SQLite's own file layer does not let its system calls be replaced.
pub fn without_atomic_writes() -> Result<(), ::sqlite::SetupError> {
    ::sqlite::without_atomic_writes()
}

/// Sets journal mode and level, and makes the table with the rows that are there before.
///
/// # Errors
/// SQLite fails, or takes another journal mode.
pub fn prepare(db: &Connection, spec: &SqliteSpec) -> SqliteResult<()> {
    set_modes(db, spec)?;
    db.execute_batch(
        "CREATE TABLE tblMyList (id INTEGER PRIMARY KEY, Value TEXT, creation_date TEXT)",
    )?;
    if spec.prefill > 0 {
        db.execute_batch("BEGIN")?;
        let mut insert = db.prepare(INSERT)?;
        for (id, row) in prefill(spec) {
            insert.execute(params![id, row.value, row.date])?;
        }
        db.execute_batch("COMMIT")?;
    }
    Ok(())
}

const INSERT: &str = "INSERT INTO tblMyList (id, Value, creation_date) VALUES (?1, ?2, ?3)";

/// Sets journal mode and level on a connection.
///
/// # Errors
/// As [`prepare`].
pub fn set_modes(db: &Connection, spec: &SqliteSpec) -> SqliteResult<()> {
    let wanted = spec.journal.word();
    let got: String = db.query_row(&format!("PRAGMA journal_mode={wanted}"), [], |r| r.get(0))?;
    if got != wanted {
        return Err(SqliteFailure::JournalMode { wanted, got });
    }
    let level: Synchronous = spec.synchronous;
    Ok(db.execute_batch(&format!("PRAGMA synchronous={}", level.word()))?)
}

/// Runs the transactions one by one, with the program's own CPU time before each. `done` is told
/// the kind and the duration of each when it is acknowledged; the own time is not in that.
///
/// # Errors
/// SQLite's error at the first transaction that fails.
pub fn run(
    db: &Connection,
    transactions: &[Transaction],
    own: Nanos,
    mut done: impl FnMut(&'static str, Nanos),
) -> SqliteResult<()> {
    let mut insert = db.prepare(INSERT)?;
    let mut update =
        db.prepare("UPDATE tblMyList SET Value = ?2, creation_date = ?3 WHERE id = ?1")?;
    let mut delete = db.prepare("DELETE FROM tblMyList WHERE id = ?1")?;
    for transaction in transactions {
        rt::charge_each(own, 1);
        let start = rt::now();
        let changed = match transaction {
            Transaction::Insert(id, row) => insert.execute(params![id, row.value, row.date])?,
            Transaction::Update(id, row) => update.execute(params![id, row.value, row.date])?,
            Transaction::Delete(id) => delete.execute(params![id])?,
        };
        if changed != 1 {
            return Err(rusqlite::Error::StatementChangedRows(changed).into());
        }
        done(transaction.kind(), rt::now() - start);
    }
    Ok(())
}

/// Reads the whole table.
///
/// # Errors
/// SQLite's error, e.g. that the database is malformed or the table is missing.
pub fn read_table(db: &Connection) -> SqliteResult<Table> {
    let mut select = db.prepare("SELECT id, Value, creation_date FROM tblMyList")?;
    let rows = select.query_map([], |r| {
        Ok((
            r.get(0)?,
            Row {
                value: r.get(1)?,
                date: r.get(2)?,
            },
        ))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The findings of `PRAGMA integrity_check`; `None` if it says ok.
///
/// # Errors
/// SQLite's error.
pub fn integrity(db: &Connection) -> SqliteResult<Option<String>> {
    let mut check = db.prepare("PRAGMA integrity_check")?;
    let lines: Vec<String> = check
        .query_map([], |r| r.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok((lines != ["ok"]).then(|| lines.join("; ")))
}

/// Compares what is in the table with what the transactions leave, after `PRAGMA integrity_check`.
///
/// # Errors
/// The first difference, or SQLite fails.
pub(crate) fn check(
    db: &Connection,
    spec: &SqliteSpec,
    transactions: &[Transaction],
) -> Result<(), RunError> {
    if let Some(findings) = integrity(db)? {
        return Err(RunError::Check(format!(
            "PRAGMA integrity_check says: {findings}"
        )));
    }
    let mut wanted = prefill(spec);
    transactions.iter().for_each(|t| t.apply(&mut wanted));
    let found = read_table(db)?;
    if found != wanted {
        let what = format!(
            "the table has {} rows that differ from the {} written",
            found.len(),
            wanted.len()
        );
        return Err(RunError::Check(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::JournalMode;

    #[test]
    fn the_stream_depends_on_spec_and_seed_only_and_replays_in_sqlite() {
        let spec = SqliteSpec {
            inserts: 40,
            updates: 30,
            deletes: 20,
            journal: JournalMode::Memory,
            ..SqliteSpec::default()
        };
        let all = transactions(&spec, 3);
        assert_eq!(all.len(), 90);
        assert_eq!(all, transactions(&spec, 3));
        assert_ne!(all, transactions(&spec, 4));
        let db = Connection::open_in_memory().unwrap();
        prepare(&db, &spec).unwrap();
        let mut count = 0;
        run(&db, &all, Nanos(0), |_, _| count += 1).unwrap();
        assert_eq!(count, 90);
        assert_eq!(read_table(&db).unwrap(), table_after(&all, 90));
        assert_eq!(integrity(&db).unwrap(), None);
        assert_eq!(table_after(&all, 90).len(), 20);
    }

    #[test]
    fn updates_and_deletes_find_the_rows_that_were_there_before() {
        let spec = SqliteSpec {
            prefill: 30,
            inserts: 0,
            updates: 5,
            deletes: 10,
            journal: JournalMode::Memory,
            ..SqliteSpec::default()
        };
        let all = transactions(&spec, 1);
        assert_eq!(all.len(), 15);
        let db = Connection::open_in_memory().unwrap();
        prepare(&db, &spec).unwrap();
        let mut kinds = Vec::new();
        run(&db, &all, Nanos(0), |kind, _| kinds.push(kind)).unwrap();
        assert_eq!(kinds, [["update"; 5].as_slice(), &["delete"; 10]].concat());
        let mut table = prefill(&spec);
        all.iter().for_each(|t| t.apply(&mut table));
        assert_eq!((table.len(), read_table(&db).unwrap()), (20, table));
    }

    #[test]
    fn more_deletes_than_rows_end_with_an_empty_table() {
        let spec = SqliteSpec {
            inserts: 2,
            updates: 0,
            deletes: 5,
            ..SqliteSpec::default()
        };
        let all = transactions(&spec, 1);
        assert_eq!((all.len(), table_after(&all, all.len()).len()), (4, 0));
    }
}
