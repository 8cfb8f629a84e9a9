//! SQLite transactions as a workload of the explorer. A database shows what the promises of a file
//! system are worth to an application.
//!
//! What a cut leaves is judged by two rules of [`rules`](crate::rules):
//! - `S1`: the database opens, with SQLite's own recovery, and `PRAGMA integrity_check` says ok;
//! - `S2`: the table is that of a prefix of the transactions. With `synchronous=full` or `extra`
//!   the prefix holds at least those acknowledged before the cut, with `normal` it may have any
//!   length (<https://www.sqlite.org/pragma.html#pragma_synchronous>).
//!
//! `synchronous=off` promises less and is judged like `full` all the same; the journal modes `off`
//! and `memory` promise less, too, and are judged by their `synchronous` only. So these are
//! positive controls. `journal=delete` with `synchronous=full` loses the last transaction by
//! design, because the removal of the journal is not synced; that is found, too, and `extra` is the
//! remedy.

use crate::CrashError;
use crate::loss::Loss;
use crate::oracle::{Oracle, Subject};
use crate::rules::may_lose;
use crate::{CrashConfig, Judgement};
use ::sqlite::Registration;
use base::Time;
use rig::Mounted;
use rusqlite::Connection;
use std::sync::Arc;
use vfs::Vfs;
use work::RunError;
use work::run::DATABASE;
use work::workload::sqlite::{self, Table, Transaction};
use work::workload::{Batch, JournalMode, SqliteSpec, Synchronous};

/// A workload of SQLite transactions.
pub struct Transactions {
    /// Its parameters.
    pub spec: SqliteSpec,
}

/// When a step of the workload began, and when it was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Step {
    begun: Time,
    ended: Option<Time>,
}

impl Subject for Transactions {
    fn run(
        &self,
        config: &CrashConfig,
        mounted: &Mounted,
    ) -> (Box<dyn Oracle>, Result<(), CrashError>) {
        let transactions = sqlite::transactions(&self.spec, config.seed);
        let mut steps = Vec::new();
        let outcome = self.work(config.seed, &mounted.vfs, &transactions, &mut steps);
        let oracle = TableOracle {
            spec: self.spec.clone(),
            start: sqlite::prefill(&self.spec),
            transactions,
            steps,
            at: Time(0),
        };
        (Box::new(oracle), outcome)
    }
}

fn options(spec: &SqliteSpec) -> ::sqlite::Options {
    ::sqlite::Options {
        powersafe_overwrite: spec.powersafe_overwrite,
        batch_atomic: spec.batch == Batch::On,
        hold_journals: spec.batch == Batch::Held,
        extend_logs: spec.batch == Batch::Held,
        ..::sqlite::Options::default()
    }
}

impl Transactions {
    fn work(
        &self,
        seed: u64,
        vfs: &Arc<Vfs>,
        transactions: &[Transaction],
        steps: &mut Vec<Step>,
    ) -> Result<(), CrashError> {
        let registration = ::sqlite::register(vfs, options(&self.spec))?;
        let beside = self.spec.background.start(vfs, seed)?;
        let outcome = self.transact(&registration, transactions, steps);
        let outcome = outcome.map_err(|e| match registration.first_error() {
            Some(below) => CrashError::Run(RunError::Below {
                sqlite: e.to_string(),
                below,
            }),
            None => e,
        });
        let stopped = beside.stop().map_err(CrashError::from);
        let ended = registration.unregister().map_err(CrashError::from);
        outcome.and(stopped).and(ended)
    }

    fn transact(
        &self,
        registration: &Registration,
        transactions: &[Transaction],
        steps: &mut Vec<Step>,
    ) -> Result<(), CrashError> {
        let begin = |steps: &mut Vec<Step>| {
            steps.push(Step {
                begun: rt::now(),
                ended: None,
            });
        };
        let end = |steps: &mut Vec<Step>| {
            if let Some(step) = steps.last_mut() {
                step.ended = Some(rt::now());
            }
        };
        begin(steps);
        let db = registration.open(DATABASE)?;
        let mut work = || -> Result<(), CrashError> {
            sqlite::prepare(&db, &self.spec)?;
            end(steps);
            if !transactions.is_empty() {
                begin(steps);
            }
            sqlite::run(&db, transactions, self.spec.own_time(), |_, _| {
                end(steps);
                if steps.len() <= transactions.len() {
                    begin(steps);
                }
            })?;
            Ok(())
        };
        let outcome = work();
        let closed = db.close().map_err(|(_, e)| CrashError::from(e));
        outcome.and(closed)
    }
}

/// What the transactions of one run were promised.
struct TableOracle {
    spec: SqliteSpec,
    /// The rows that exist before the first transaction.
    start: Table,
    transactions: Vec<Transaction>,
    /// Times of making the table, then of the transactions.
    steps: Vec<Step>,
    at: Time,
}

/// What was recovered; there is no table if the database is empty or does not exist.
struct Recovered {
    integrity: Option<String>,
    table: Option<Table>,
}

impl TableOracle {
    /// Number of steps that had begun at the cut.
    fn begun(&self) -> usize {
        self.steps.partition_point(|s| s.begun <= self.at)
    }

    /// Number of steps that were acknowledged.
    fn ended(&self) -> usize {
        let ended = |s: &Step| s.ended.is_some_and(|t| t <= self.at);
        self.steps.partition_point(ended)
    }

    /// The table after so many steps; `None` before it is made.
    fn table(&self, steps: usize) -> Option<Table> {
        let transactions = steps.checked_sub(1)?;
        let mut table = self.start.clone();
        self.transactions[..transactions]
            .iter()
            .for_each(|t| t.apply(&mut table));
        Some(table)
    }

    /// The newest prefix of the steps that had begun after which the table was as found.
    fn prefix(&self, found: Option<&Table>) -> Option<usize> {
        let fits = |steps: &usize| self.table(*steps).as_ref() == found;
        let whole = (0..=self.begun()).rev().find(fits);
        // The table is made in one transaction and filled in the next, so it may be found empty.
        let filling = self.ended() == 0 && self.begun() > 0 && !self.start.is_empty();
        whole.or_else(|| (filling && found.is_some_and(Table::is_empty)).then_some(0))
    }

    /// Acknowledged transactions that may be lost.
    fn may_lose(&self) -> usize {
        may_lose(self.spec.synchronous, self.spec.journal)
    }

    fn recovered(&self, vfs: &Arc<Vfs>) -> Result<Recovered, String> {
        let registration =
            ::sqlite::register(vfs, options(&self.spec)).map_err(|e| e.to_string())?;
        let recovered = registration
            .open(DATABASE)
            .map_err(|e| format!("opening the database: {e}"))
            .and_then(|db| {
                let recovered = examine(&db);
                let closed = db.close().map_err(|(_, e)| format!("closing: {e}"));
                recovered.and_then(|r| closed.map(|()| r))
            });
        let below = registration.first_error();
        let panicked = registration.take_panic().is_some();
        let ended = registration.unregister().map_err(|e| e.to_string());
        if panicked {
            return Err("the file system below SQLite panicked".into());
        }
        let recovered = recovered.map_err(|e| match below {
            Some(below) => format!("{e}; the file system said: {below}"),
            None => e,
        });
        recovered.and_then(|r| ended.map(|()| r))
    }

    /// Judges the table by rule S2.
    fn judge_table(&self, found: Option<&Table>, judgement: &mut Judgement) {
        let ended = self.ended();
        let Some(steps) = self.prefix(found) else {
            let rows = found.map_or("no table".into(), |t| format!("{} rows", t.len()));
            judgement.violations.push(format!(
                "S2: the table ({rows}) is that of no prefix of the {} transactions that had begun",
                self.begun().saturating_sub(1)
            ));
            return;
        };
        let lost = ended.saturating_sub(steps);
        if lost > 0 {
            let newest = steps.checked_sub(1).and_then(|n| self.steps[n].ended);
            judgement.loss.add(&Loss {
                acked_ops: lost.saturating_sub(self.may_lose()),
                ops: lost,
                age: self.at - newest.unwrap_or(self.steps[0].begun),
                ..Loss::default()
            });
        }
        if lost > self.may_lose() {
            let why = match (self.spec.journal, self.spec.synchronous) {
                (JournalMode::Delete, Synchronous::Full) => {
                    " (by design: the removal of the journal is not synced; synchronous=extra does)"
                }
                _ => "",
            };
            judgement.violations.push(format!(
                "S2: {lost} of {ended} acknowledged transactions are lost{why}"
            ));
        }
    }
}

fn examine(db: &Connection) -> Result<Recovered, String> {
    let integrity = sqlite::integrity(db).map_err(|e| format!("integrity_check: {e}"))?;
    let there = "SELECT count(*) FROM sqlite_master WHERE name = 'tblMyList'";
    let tables: i64 = db
        .query_row(there, [], |row| row.get(0))
        .map_err(|e| format!("reading the schema: {e}"))?;
    let table = match tables {
        0 => None,
        _ => Some(sqlite::read_table(db).map_err(|e| format!("reading the table: {e}"))?),
    };
    Ok(Recovered { integrity, table })
}

impl Oracle for TableOracle {
    fn advance(&mut self, at: Time) {
        self.at = at;
    }

    fn epoch(&self) -> u64 {
        (self.begun() + self.ended()) as u64
    }

    /// Looking at a database writes: a hot journal is rolled back, and a WAL is copied home.
    fn writes(&self) -> bool {
        true
    }

    fn position(&self) -> usize {
        self.begun()
    }

    fn moments(&self) -> Vec<Time> {
        let steps = self.steps.iter();
        let mut moments: Vec<Time> = steps
            .flat_map(|s| std::iter::once(s.begun).chain(s.ended))
            .collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    fn judge(&self, vfs: &Arc<Vfs>, judgement: &mut Judgement) {
        match self.recovered(vfs) {
            Err(why) => judgement.violations.push(format!("S1: {why}")),
            Ok(recovered) => {
                if let Some(findings) = recovered.integrity {
                    judgement
                        .violations
                        .push(format!("S1: integrity_check: {findings}"));
                }
                self.judge_table(recovered.table.as_ref(), judgement);
            }
        }
    }

    fn story(&self) -> Vec<String> {
        let ended = self.ended();
        let line = |n: usize| {
            let what = match n.checked_sub(1) {
                None => "create table".to_string(),
                Some(n) => match &self.transactions[n] {
                    Transaction::Insert(id, _) => format!("insert row {id}"),
                    Transaction::Update(id, _) => format!("update row {id}"),
                    Transaction::Delete(id) => format!("delete row {id}"),
                },
            };
            let state = if n < ended { "done" } else { "under way" };
            format!("transaction {n}: {what} ({state})")
        };
        (0..self.begun()).map(line).collect()
    }
}
