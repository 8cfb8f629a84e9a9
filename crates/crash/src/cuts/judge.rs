//! Recovery of one remainder of a SQLite run, and whether it keeps the rules R1 to R3, S1 and S2.
//!
//! R3 is left out where e2fsck cannot read the log (coalition). S2 wants what the level of
//! `PRAGMA synchronous` promises ([`may_lose`]).

use super::{Cut, CutConfig, Tree, walk};
use crate::CrashError;
use crate::rules::may_lose;
use rig::AnyModel;
use rusqlite::Connection;
use std::path::Path;
use work::RunConfig;
use work::fsck::{self, Verdict};
use work::life::live;
use work::run::DATABASE;
use work::workload::sqlite::{self, Table, Transaction};
use work::workload::{SqliteSpec, Workload};

/// What was found of one cut.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Judgement {
    /// Violated rules, each with its name and what was found; empty: none.
    pub violations: Vec<String>,
    /// Acknowledged transactions that are missing from the table, if it can be read.
    pub lost: Option<usize>,
    /// An outside checker was asked that is not installed.
    pub unchecked: bool,
}

/// The findings of `PRAGMA integrity_check`, or why it could not run.
type Integrity = Result<Option<String>, String>;

/// What Varve's own recovery gives, the database included.
struct Recovered {
    tree: Tree,
    integrity: Integrity,
    table: Result<Table, String>,
    model: AnyModel,
}

/// Recovers the remainder of `cut` and judges it. `folder` takes image files for outside checkers.
///
/// # Errors
/// The host has failed, for example at writing an image file. What is wrong with the remainder is a
/// violation in the judgement.
pub fn judge(
    config: &CutConfig,
    transactions: &[Transaction],
    cut: &Cut,
    folder: &Path,
) -> Result<Judgement, CrashError> {
    let spec = config.run.workload.parse::<Workload>()?.into_sqlite()?;
    let model = config.run.stack.attach(cut.media.clone())?;
    let repaired = folder.join("repaired");
    rig::write_image(&model, &repaired)?;
    let mut judgement = Judgement::default();
    let recovered = match recover(config, &spec, model) {
        Ok(recovered) => recovered,
        Err(why) => {
            judgement
                .violations
                .push(format!("R1: recovery by Varve fails: {why}"));
            return Ok(judgement);
        }
    };
    let opinions = second_opinions(
        &config.run,
        &recovered.tree,
        &recovered.model,
        &repaired,
        folder,
    )?;
    judgement.violations.extend(opinions.violations);
    judgement.unchecked = opinions.unchecked;
    database(&recovered, &spec, transactions, cut, &mut judgement);
    Ok(judgement)
}

fn recover(
    config: &CutConfig,
    spec: &SqliteSpec,
    model: AnyModel,
) -> Result<Recovered, CrashError> {
    let life = live(&config.run, model, |stack, sqlite| {
        let tree = walk(&stack.vfs)?;
        let (integrity, table) = match sqlite.open(DATABASE) {
            Ok(db) => examine(&db, spec),
            Err(e) => (Err(e.to_string()), Err(e.to_string())),
        };
        Ok((tree, integrity, table))
    })?;
    let (tree, integrity, table) = life.value;
    let model = life.model;
    Ok(Recovered {
        tree,
        integrity,
        table,
        model,
    })
}

/// What SQLite finds in the database after its own recovery.
fn examine(db: &Connection, spec: &SqliteSpec) -> (Integrity, Result<Table, String>) {
    let modes = sqlite::set_modes(db, spec).map_err(|e| e.to_string());
    let integrity = modes.and_then(|()| sqlite::integrity(db).map_err(|e| e.to_string()));
    let table = sqlite::read_table(db).map_err(|e| e.to_string());
    (integrity, table)
}

/// What outside checkers say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opinions {
    /// Violations of R2 and R3.
    pub violations: Vec<String>,
    /// A checker is not installed.
    pub unchecked: bool,
}

/// Asks e2fsck of the image `repaired` that a cut has left (R3), and of `tree` and `model`, which
/// Varve's recovery has made of it (R2). `folder` must have room for image files.
///
/// # Errors
/// An image cannot be written, or a checker cannot be run.
pub fn second_opinions(
    config: &RunConfig,
    tree: &Tree,
    model: &AnyModel,
    repaired: &Path,
    folder: &Path,
) -> Result<Opinions, CrashError> {
    let mut opinions = Opinions::default();
    let host = |source| CrashError::Host {
        doing: "running e2fsck".into(),
        source,
    };
    let ours = folder.join("recovered");
    rig::write_image(model, &ours)?;
    match fsck::e2fsck_check(&ours).map_err(host)? {
        Verdict::Clean => {}
        Verdict::NotInstalled => opinions.unchecked = true,
        Verdict::Repaired(words) | Verdict::Findings(words) => {
            opinions
                .violations
                .push(format!("R2: e2fsck -fn after Varve's recovery: {words}"));
        }
    }
    if config
        .stack
        .scheme
        .journal()
        .is_some_and(|s| s.is_coalition() || s.is_fast())
    {
        // The log has a feature that e2fsck refuses, or fast commits, before which e2fsck loses
        // what a full commit holds (docs/results/fast-commit.md, "What it risks").
        return Ok(opinions);
    }
    match fsck::e2fsck_repair(repaired).map_err(host)? {
        Verdict::NotInstalled => opinions.unchecked = true,
        Verdict::Findings(words) => opinions
            .violations
            .push(format!("R3: e2fsck -fy gives up: {words}")),
        Verdict::Clean | Verdict::Repaired(_) => {
            let theirs = rig::load_image(repaired, &config.stack).map_err(CrashError::from);
            let theirs =
                theirs.and_then(|model| Ok(live(config, model, |s, _| Ok(walk(&s.vfs)?))?));
            match theirs {
                Ok(life) => opinions.violations.extend(differences(tree, &life.value)),
                Err(why) => opinions
                    .violations
                    .push(format!("R3: what e2fsck leaves cannot be read: {why}")),
            }
        }
    }
    Ok(opinions)
}

/// What differs between the tree of Varve's recovery and that of `e2fsck -fy`, in words.
pub(crate) fn differences(ours: &Tree, theirs: &Tree) -> Option<String> {
    let paths: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differing = paths
        .into_iter()
        .filter(|path| ours.get(*path) != theirs.get(*path));
    let lines: Vec<String> = differing
        .map(|p| format!("{p}: Varve {:?}, e2fsck {:?}", ours.get(p), theirs.get(p)))
        .collect();
    (!lines.is_empty()).then(|| format!("R3: trees differ: {}", lines.join("; ")))
}

/// Judges the database by the rules S1 and S2.
fn database(
    recovered: &Recovered,
    spec: &SqliteSpec,
    transactions: &[Transaction],
    cut: &Cut,
    judgement: &mut Judgement,
) {
    match &recovered.integrity {
        Ok(None) => {}
        Ok(Some(findings)) => judgement
            .violations
            .push(format!("S1: integrity_check: {findings}")),
        Err(why) => judgement
            .violations
            .push(format!("S1: integrity_check fails: {why}")),
    }
    let table = match &recovered.table {
        Ok(table) => table,
        // Where commits are not synced, the making of the table may go with them.
        Err(why)
            if may_lose(spec.synchronous, spec.journal) >= cut.acknowledged
                && why.to_string().contains("no such table") =>
        {
            judgement.lost = Some(cut.acknowledged);
            return;
        }
        Err(why) => {
            judgement
                .violations
                .push(format!("S2: the table cannot be read: {why}"));
            return;
        }
    };
    let matching = |count: usize| sqlite::table_after(transactions, count) == *table;
    let acknowledged = cut.acknowledged;
    let newest = (acknowledged + 1).min(transactions.len());
    if let Some(count) = (0..=newest).rev().find(|&count| matching(count)) {
        let lost = acknowledged.saturating_sub(count);
        judgement.lost = Some(lost);
        if lost > may_lose(spec.synchronous, spec.journal) {
            judgement.violations.push(format!(
                "S2: {lost} of {acknowledged} acknowledged transactions are lost"
            ));
        }
    } else {
        judgement
            .violations
            .push("S2: the table is that of no prefix of the transactions".into());
    }
}
