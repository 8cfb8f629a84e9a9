//! A judge for SQLite databases: they can be opened, `PRAGMA integrity_check` is content, and every
//! row that was acknowledged is there.
//!
//! SQLite runs in this process, on its own file layer, and recovers from journals as it would for
//! the program's user.

use super::folder::TreeFolder;
use super::glob::Paths;
use super::{Answer, Check};
use crate::state::{JudgeError, Verdict};
use crate::tree::Tree;
use base::plain::shown;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// First bytes of every database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Which databases are judged, and what acknowledgements mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Databases {
    /// All of a pattern, or all that there are. `row TABLE KEY` acknowledges a row of the table
    /// whose first column is the key.
    All(Option<Paths>),
    /// One database and a query: each acknowledgement stands in the first column of its result.
    Query(String, String),
}

/// The judge.
pub struct SqliteCheck(pub Databases);

impl Check for SqliteCheck {
    fn check(
        &mut self,
        folder: &TreeFolder,
        tree: &Tree,
        acknowledged: &[&str],
    ) -> Result<Answer, JudgeError> {
        let mut databases = Vec::new();
        for path in self.paths(tree) {
            match open(folder, &path) {
                Ok(database) => databases.push(database),
                Err(e) => return Ok(bad(&path, &e.to_string()).into()),
            }
        }
        let lost = match &self.0 {
            Databases::All(_) => lost_rows(&databases, acknowledged),
            Databases::Query(path, query) => lost_answers(&databases, path, query, acknowledged),
        };
        Ok(lost.map_or(Verdict::Good, Verdict::Bad).into())
    }
}

impl SqliteCheck {
    fn paths(&self, tree: &Tree) -> Vec<Vec<u8>> {
        match &self.0 {
            Databases::Query(path, _) => {
                let path = path.as_bytes();
                tree.find(path).map(|_| path.to_vec()).into_iter().collect()
            }
            Databases::All(Some(paths)) => paths.files(tree).into_keys().collect(),
            Databases::All(None) => databases(tree),
        }
    }
}

/// The databases of a tree: files that begin as one, or that have a journal.
pub(super) fn databases(tree: &Tree) -> Vec<Vec<u8>> {
    let files = super::files::all_files(tree);
    let is_one = |path: &[u8], id| {
        let head = tree.node(id).map(|node| node.read(0, MAGIC.len() as u64));
        let has = |end: &[u8]| files.contains_key(&[path, end].concat());
        head.is_some_and(|head| head == MAGIC) || has(b"-journal") || has(b"-wal")
    };
    let found = files.iter().filter(|&(path, &id)| is_one(path, id));
    found.map(|(path, _)| path.clone()).collect()
}

/// Opens a database, which rolls back or replays what a journal holds, and checks it.
fn open(folder: &TreeFolder, path: &[u8]) -> rusqlite::Result<Connection> {
    let host = folder.path().join(OsStr::from_bytes(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags_and_vfs(host, flags, c"unix")?;
    // What the judge itself writes needs to survive nothing.
    database.execute_batch("PRAGMA synchronous=OFF")?;
    let found: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    match found.as_str() {
        "ok" => Ok(database),
        _ => Err(rusqlite::Error::InvalidParameterName(format!(
            "integrity_check: {found}"
        ))),
    }
}

fn bad(path: &[u8], why: &str) -> Verdict {
    let why = why.trim_start_matches("Invalid parameter name: ");
    Verdict::Bad(format!("{}: {why}", shown(path)))
}

/// The first column of a query, as text. A table that is not there has no rows.
fn column(database: &Connection, query: &str) -> BTreeSet<String> {
    let read = || -> rusqlite::Result<BTreeSet<String>> {
        let mut statement = database.prepare(query)?;
        let mut rows = statement.query([])?;
        let mut keys = BTreeSet::new();
        while let Some(row) = rows.next()? {
            keys.insert(match row.get_ref(0)? {
                ValueRef::Null => "NULL".into(),
                ValueRef::Integer(n) => n.to_string(),
                ValueRef::Real(x) => x.to_string(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            });
        }
        Ok(keys)
    };
    read().unwrap_or_default()
}

/// What to say of acknowledged rows that no database has.
fn lost_rows(databases: &[Connection], acknowledged: &[&str]) -> Option<String> {
    let mut tables: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let rows = acknowledged.iter().filter_map(|ack| {
        let (table, key) = ack.strip_prefix("row ")?.split_once(' ')?;
        Some((table, key))
    });
    let mut lost = Vec::new();
    for (table, key) in rows {
        let keys = tables.entry(table).or_insert_with(|| {
            let query = format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""));
            let all = databases.iter().map(|database| column(database, &query));
            all.flatten().collect()
        });
        if !keys.contains(key) {
            lost.push(format!("row {key} of {table}"));
        }
    }
    told(&lost)
}

fn lost_answers(
    databases: &[Connection],
    path: &str,
    query: &str,
    acknowledged: &[&str],
) -> Option<String> {
    let keys: BTreeSet<String> = databases.iter().flat_map(|db| column(db, query)).collect();
    let lost: Vec<String> = (acknowledged.iter())
        .filter(|ack| !keys.contains(**ack))
        .map(|ack| format!("{ack:?}"))
        .collect();
    told(&lost).map(|words| format!("{path}: {words}"))
}

fn told(lost: &[String]) -> Option<String> {
    let first = lost.first()?;
    Some(match lost.len() {
        1 => format!("{first} was acknowledged and is not there"),
        n => format!(
            "{first} and {} more were acknowledged and are not there",
            n - 1
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Env, tree_of};
    use super::*;
    use std::fs;

    /// The files of a database with three rows, before its last transaction ended.
    fn files(mode: &str) -> Vec<(String, Vec<u8>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        let set = format!("PRAGMA journal_mode={mode}; CREATE TABLE t(k INTEGER PRIMARY KEY, v)");
        database.execute_batch(&set).unwrap();
        for key in 1..=3 {
            let blob = vec![key as u8; 3000];
            database
                .execute("INSERT INTO t VALUES (?, ?)", (key, blob))
                .unwrap();
        }
        let names = ["a.db", "a.db-wal", "a.db-shm", "a.db-journal"];
        let read = |name: &str| Some((name.to_string(), fs::read(folder.path().join(name)).ok()?));
        names.into_iter().filter_map(read).collect()
    }

    fn tree(files: &[(String, Vec<u8>)]) -> Tree {
        let files: Vec<_> = files.iter().map(|(n, c)| (n.as_str(), &c[..])).collect();
        tree_of(&files)
    }

    const ACKED: [&str; 4] = ["row t 1", "something else", "row t 2", "row t 3"];

    #[test]
    fn whole_databases_with_all_rows_are_good_and_stay_so() {
        for mode in ["DELETE", "WAL"] {
            let env = Env::new();
            let mut judge = env.judge("sqlite");
            let whole = tree(&files(mode));
            for _ in 0..3 {
                assert_eq!(
                    judge.judge(&whole, &ACKED).unwrap(),
                    Verdict::Good,
                    "{mode}"
                );
            }
            let verdict = judge.judge(&whole, &["row t 4", "row t 5"]).unwrap();
            let Verdict::Bad(why) = verdict else {
                panic!("{verdict:?}")
            };
            assert_eq!(
                why,
                "row 4 of t and 1 more were acknowledged and are not there"
            );
            let gone = judge.judge(&Tree::default(), &["row t 1"]).unwrap();
            assert_ne!(gone, Verdict::Good);
            assert_eq!(judge.judge(&Tree::default(), &[]).unwrap(), Verdict::Good);
        }
    }

    #[test]
    fn damage_and_lost_logs_are_found() {
        let env = Env::new();
        let mut judge = env.judge("sqlite=**/*.db");
        let mut broken = files("DELETE");
        broken[0].1[5000..9000].fill(0xaa);
        let verdict = judge.judge(&tree(&broken), &[]).unwrap();
        assert!(
            matches!(&verdict, Verdict::Bad(why) if why.starts_with("a.db: ")),
            "{verdict:?}"
        );
        let without_log: Vec<_> = files("WAL").into_iter().filter(|f| f.0 == "a.db").collect();
        assert_ne!(
            judge.judge(&tree(&without_log), &ACKED).unwrap(),
            Verdict::Good
        );
    }

    #[test]
    fn a_query_says_what_acknowledgements_mean() {
        let env = Env::new();
        let mut judge = env.judge("sqlite=a.db:SELECT 'key ' || k FROM t");
        let whole = tree(&files("DELETE"));
        assert_eq!(
            judge.judge(&whole, &["key 1", "key 3"]).unwrap(),
            Verdict::Good
        );
        let verdict = judge.judge(&whole, &["key 9"]).unwrap();
        assert!(
            matches!(&verdict, Verdict::Bad(why) if why.contains("\"key 9\"")),
            "{verdict:?}"
        );
    }
}
