//! `varve campaign` as its users run it: parts on several workers, merged to the bytes of one
//! process; and all that may happen to a store and a plan.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod bad;
mod ends;
mod engines;
mod equal;
mod profiles;

use crate::program::{command, text, words};
use crate::store::pack::{self, Named};
use crate::store::{Run, Store};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SMALL: &str = "sqlite:insert=12,update=6,delete=4";

/// A folder with a plan and stores.
pub struct Camp {
    dir: tempfile::TempDir,
    /// A copy of the program, where the one that was built may be built anew.
    program: Option<PathBuf>,
}

/// What a plan of two small runs is made of.
const TWO: [&str; 7] = [
    "compare",
    "--schemes",
    "jbd2,emmc",
    "--size",
    "64",
    "--workload",
    SMALL,
];

impl Camp {
    pub fn new() -> Camp {
        let dir = tempfile::tempdir().unwrap();
        Camp { dir, program: None }
    }

    /// Runs a copy of the program from here on.
    pub fn keep_program(&mut self) {
        let program = self.path("varve");
        fs::copy(env!("CARGO_BIN_EXE_varve"), &program).unwrap();
        self.program = Some(program);
    }

    /// Runs the program that was built from here on.
    pub fn as_built(&mut self) {
        self.program = None;
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `varve` with these words, in the folder.
    pub fn varve(&self, words: &[&str]) -> Command {
        let mut varve = self.program.as_ref().map_or_else(command, Command::new);
        varve.args(words).current_dir(self.dir.path());
        varve
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.varve(words).output().unwrap()
    }

    /// Runs what has to succeed.
    pub fn good(&self, line: &[&str]) -> String {
        let out = self.run(line);
        assert!(out.status.success(), "{line:?}: {}", words(&out));
        text(&out.stdout)
    }

    /// Runs what has to end with this code: what it says.
    pub fn fails(&self, line: &[&str], code: i32) -> String {
        let out = self.run(line);
        assert_eq!(out.status.code(), Some(code), "{line:?}: {}", words(&out));
        words(&out)
    }

    /// Writes `plan.jsonl`, or another plan.
    pub fn plan_as(&self, name: &str, spec: &[&str]) {
        let out = self.run(&[&["campaign", "plan"][..], spec].concat());
        assert!(out.status.success(), "{spec:?}: {}", words(&out));
        fs::write(self.path(name), out.stdout).unwrap();
    }

    pub fn plan(&self, spec: &[&str]) {
        self.plan_as("plan.jsonl", spec);
    }

    /// The command line of a subcommand on the plan and a store.
    pub fn line<'a>(sub: &'a str, store: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let line = ["campaign", sub, "--plan", "plan.jsonl", "--store", store];
        [&line[..], more].concat()
    }

    /// The ids of the jobs of the plan.
    pub fn plan_ids(&self) -> Vec<String> {
        let plan = self.read("plan.jsonl");
        let id = |line: &str| Some(line.split_once("\"id\":\"")?.1[..32].to_string());
        plan.lines().filter_map(id).collect()
    }

    pub fn work(&self, store: &str, more: &[&str]) -> String {
        self.good(&Camp::line("work", store, more))
    }

    pub fn merge(&self, store: &str, out: &str) -> String {
        self.good(&Camp::line("merge", store, &["--out", out]))
    }

    pub fn status(&self, store: &str) -> Value {
        let out = self.run(&Camp::line("status", store, &["--json"]));
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", words(&out)))
    }

    /// The files of a kind in a store, in order.
    pub fn files(&self, store: &str, kind: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let Ok(groups) = fs::read_dir(self.path(store).join(kind)) else {
            return files;
        };
        for group in groups {
            let path = group.unwrap().path();
            match path.is_dir() {
                true => files.extend(fs::read_dir(path).unwrap().map(|f| f.unwrap().path())),
                false => files.push(path),
            }
        }
        // What begins with a dot is being written.
        files.retain(|f| !f.file_name().unwrap().as_encoded_bytes().starts_with(b"."));
        files.sort();
        files
    }

    /// Gives each result of a store that lies in a pack a file of its own.
    pub fn unpack(&self, store: &str) {
        let folder = Store::existing(&self.path(store)).unwrap();
        for path in self.files(store, pack::FOLDER) {
            for Named { id, kept } in pack::whole(&path).unwrap() {
                folder.put(&id, Run::First, &kept.by, &kept.text).unwrap();
            }
            fs::remove_file(path).unwrap();
        }
    }

    /// Who made each result of a first run.
    pub fn makers(&self, store: &str) -> Vec<String> {
        let packs = self.files(store, pack::FOLDER).into_iter();
        // One may be put aside meanwhile.
        let packed = packs.flat_map(|path| pack::whole(&path).unwrap_or_default());
        let mut makers: Vec<String> = packed.map(|result| result.kept.by.worker).collect();
        // One that is alone may not be there yet.
        for path in self.files(store, "results") {
            let text = fs::read_to_string(path).unwrap_or_default();
            let head: Option<Value> = serde_json::from_str(text.lines().next().unwrap_or("")).ok();
            let worker = head.and_then(|head| Some(head["worker"].as_str()?.to_string()));
            makers.extend(worker);
        }
        makers
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

/// Writes a result as the store does, with another text.
pub fn forge(path: &Path, change: impl Fn(&str) -> String) {
    let whole = fs::read_to_string(path).unwrap();
    let (head, text) = whole.split_once('\n').unwrap();
    let mut head: Value = serde_json::from_str(head).unwrap();
    let text = change(text);
    head["bytes"] = text.len().into();
    head["sum"] = blake3::hash(text.as_bytes()).to_hex().to_string().into();
    fs::write(path, format!("{head}\n{text}")).unwrap();
}

/// All files of one folder, as bytes, by name.
pub fn all(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap())
        .filter(|f| f.path().is_file())
        .map(|f| {
            (
                text(f.file_name().as_encoded_bytes()),
                fs::read(f.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}
