//! Stores of Rust, each as a program that saves and says so, and as its own judge server.
//!
//!     rust-stores setup NAME   makes the empty store in the working directory
//!     rust-stores save NAME    puts the keys 0 to 3, and prints `key N` when N is said to be saved
//!     rust-stores judge NAME   answers for each line `PATH <tab> FILE OF ACKNOWLEDGEMENTS`
//!     rust-stores check NAME   judges the working directory; acknowledgements on standard input
//!
//! A child looks at each state, because a store may crash on what it finds.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::process::{exit, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const KEYS: u32 = 4;
/// Longest time that a store may take to open.
const PATIENCE: Duration = Duration::from_secs(3);
const TABLE: redb::TableDefinition<u32, &str> = redb::TableDefinition::new("table");

type Answer<T> = Result<T, Box<dyn Error>>;

fn value(key: u32) -> String {
    format!("{key}-").repeat(3000)
}

enum Store {
    /// sled, which syncs twice a second, or when it is asked to.
    Sled(sled::Db, bool),
    Redb(redb::Database),
}

impl Store {
    fn open(name: &str) -> Answer<Store> {
        match name {
            "sled" => Ok(Store::Sled(sled::open("sled")?, false)),
            "sled-flush" => Ok(Store::Sled(sled::open("sled")?, true)),
            "redb" => Ok(Store::Redb(redb::Database::create("data.redb")?)),
            _ => Err(format!("there is no store {name}").into()),
        }
    }

    fn put(&self, key: u32) -> Answer<()> {
        match self {
            Store::Sled(db, flush) => {
                db.insert(key.to_be_bytes(), value(key).as_bytes())?;
                if *flush {
                    db.flush()?;
                }
            }
            Store::Redb(db) => {
                let transaction = db.begin_write()?;
                transaction.open_table(TABLE)?.insert(key, &*value(key))?;
                transaction.commit()?;
            }
        }
        Ok(())
    }

    fn all(&self) -> Answer<BTreeMap<u32, String>> {
        let mut found = BTreeMap::new();
        match self {
            Store::Sled(db, _) => {
                for row in db.iter() {
                    let (key, value) = row?;
                    let key = u32::from_be_bytes(key.as_ref().try_into()?);
                    found.insert(key, String::from_utf8(value.to_vec())?);
                }
            }
            Store::Redb(db) => {
                use redb::ReadableTable;
                let transaction = db.begin_read()?;
                match transaction.open_table(TABLE) {
                    Ok(table) => {
                        for row in table.iter()? {
                            let (key, value) = row?;
                            found.insert(key.value(), value.value().into());
                        }
                    }
                    Err(redb::TableError::TableDoesNotExist(_)) => (),
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(found)
    }
}

fn save(name: &str) -> Answer<()> {
    let store = Store::open(name)?;
    for key in 0..KEYS {
        store.put(key)?;
        println!("key {key}");
    }
    if name == "sled" {
        // What was put is in the memory of the process only.
        drop(store);
    }
    // Closing may sync what putting did not.
    exit(0)
}

fn check(name: &str) -> Answer<()> {
    let store = Store::open(name).map_err(|e| format!("it does not open: {e}"))?;
    let found = store.all().map_err(|e| format!("it cannot be read: {e}"))?;
    if let Some((key, _)) = found.iter().find(|(key, text)| **text != value(**key)) {
        return Err(format!("the value of key {key} is damaged").into());
    }
    for line in io::stdin().lock().lines() {
        let line = line?;
        let key = line.strip_prefix("key ").map(str::parse).transpose()?;
        if let Some(lost) = key.filter(|key| !found.contains_key(key)) {
            return Err(format!("key {lost} was acknowledged and is not there").into());
        }
    }
    // Nothing is to be learnt from how it closes.
    exit(0)
}

fn judged(name: &str, line: &str) -> Answer<String> {
    let (dir, acked) = line.split_once('\t').ok_or("no tab")?;
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["check", name]).current_dir(dir).stdin(File::open(acked)?);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let since = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if since.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                return Ok("bad it hangs".into());
            }
            None => sleep(Duration::from_millis(1)),
        }
    };
    if status.success() {
        return Ok("ok".into());
    }
    let mut said = String::new();
    child.stdout.take().ok_or("no output")?.read_to_string(&mut said)?;
    child.stderr.take().ok_or("no output")?.read_to_string(&mut said)?;
    let said: String = said.lines().collect::<Vec<_>>().join(" ").chars().take(300).collect();
    Ok(format!("bad {said}"))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, part, name] = &words[..] else {
        eprintln!("usage: rust-stores setup|save|judge|check NAME");
        exit(2)
    };
    let done = match part.as_str() {
        "setup" => Store::open(name).map(drop),
        "save" => save(name),
        "check" => check(name),
        "judge" => io::stdin().lock().lines().try_for_each(|line| {
            println!("{}", judged(name, &line?)?);
            Ok(())
        }),
        _ => Err(format!("there is no part {part}").into()),
    };
    if let Err(e) = done {
        println!("{e}");
        exit(1)
    }
}
