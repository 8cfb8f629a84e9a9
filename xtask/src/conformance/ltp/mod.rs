//! LTP, the Linux Test Project: its tests of system calls on files and of file systems, run on the
//! kernel's ext4 and on a mount of Varve.
//!
//! ```text
//!  runtest/syscalls, runtest/fs --families.toml--> commands --TMPDIR on a mount--> exit codes, kernel's and Varve's
//! ```
//!
//! LTP is GPL and no part of this project: its built source tree is named with `--source` or
//! `VARVE_LTP`. What fails on Varve and not on the kernel's ext4 has to stand in `families.toml`
//! with the reason.

use super::mounts::{By, Fs, Mount};
use crate::Result;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that names the source tree.
pub const VARIABLE: &str = "VARVE_LTP";
/// Files that a built tree has.
const PARTS: [&str; 3] = [
    "runtest/syscalls",
    "testcases/kernel/syscalls/open/open01",
    "testcases/kernel/fs",
];
const IMAGE_MIB: u64 = 2048;
/// Seconds after which a test is ended.
const LIMIT_S: &str = "60";

#[derive(clap::Args)]
pub struct Args {
    /// Built source tree of LTP [default: what `VARVE_LTP` names]
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// File system of Varve; the kernel's is ext4.
    #[arg(long, value_enum, default_value_t = Fs::Ext4)]
    fs: Fs,
    /// Mount options of Varve.
    #[arg(long, default_value = "")]
    options: String,
    /// Only tests whose name begins so.
    filter: Option<String>,
}

/// The committed list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Beginnings of names in `runtest/syscalls`, which digits follow.
    syscalls: Vec<String>,
    /// Beginnings of names in `runtest/fs`.
    fs: Vec<String>,
    fails: Vec<Fails>,
}

/// A test that fails on Varve and not on the kernel's ext4.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fails {
    test: String,
    reason: String,
}

/// What a test ended with, by the bits of its exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Passed,
    /// The kernel or the file system lacks what the test is about.
    Skipped,
    Failed,
    /// It did not end in time.
    Hung,
}

fn list() -> Result<List> {
    let text = include_str!("families.toml");
    let list: List = toml::from_str(text).map_err(|e| format!("families.toml: {e}"))?;
    match list.fails.iter().any(|fails| fails.reason.len() < 10) {
        true => Err("families.toml: an entry has no reason".into()),
        false => Ok(list),
    }
}

/// Runs the suite.
pub fn run(args: &Args, varve: &Path) -> Result {
    let source = source(args.source.as_deref())?;
    let list = list()?;
    let mut tests = commands(&source, &list)?;
    if let Some(filter) = &args.filter {
        tests.retain(|name, _| name.starts_with(filter.as_str()));
    }
    let path = programs(&source)?;
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let on = |fs, by| -> Result<BTreeMap<String, Verdict>> {
        let mount = Mount::new(folder.path(), fs, by, IMAGE_MIB)?;
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        fs::set_permissions(&mount.dir, open).map_err(|e| e.to_string())?;
        let verdicts = tests
            .iter()
            .map(|(name, command)| {
                let found = one(command, &path, &source, &mount.dir)?;
                println!("{name}: {found:?}");
                Ok((name.clone(), found))
            })
            .collect::<Result<_>>()?;
        mount.end()?;
        Ok(verdicts)
    };
    let kernel = on(Fs::Ext4, By::Kernel)?;
    let varve = on(args.fs, By::Varve(varve, &args.options))?;
    let wrong = compared(&list, &kernel, &varve);
    let count = |all: &BTreeMap<String, Verdict>, verdict| {
        all.values().filter(|found| **found == verdict).count()
    };
    for (name, all) in [("kernel", &kernel), ("varve", &varve)] {
        let [ok, skipped, failed, hung] = [
            Verdict::Passed,
            Verdict::Skipped,
            Verdict::Failed,
            Verdict::Hung,
        ]
        .map(|verdict| count(all, verdict));
        println!("{name:>8}: {ok} passed, {skipped} skipped, {failed} failed, {hung} hung");
    }
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} tests are not as expected")),
    }
}

/// Prints where the two differ; answers how many differences the list lacks or wrongly has.
fn compared(
    list: &List,
    kernel: &BTreeMap<String, Verdict>,
    varve: &BTreeMap<String, Verdict>,
) -> usize {
    let bad = |verdict: &Verdict| matches!(verdict, Verdict::Failed | Verdict::Hung);
    let mut wrong = 0;
    for (name, of_varve) in varve {
        let of_kernel = &kernel[name];
        let listed = list.fails.iter().find(|fails| fails.test == *name);
        let worse = bad(of_varve) && !bad(of_kernel);
        let said = match (worse, listed) {
            (true, Some(fails)) => format!("as listed: {}", fails.reason),
            (true, None) => "WRONG".into(),
            (false, Some(_)) if !bad(of_kernel) => "WRONG: passes, and is listed as failing".into(),
            (false, _) if of_varve != of_kernel => "not worse".into(),
            (false, _) => continue,
        };
        wrong += usize::from(said.starts_with("WRONG"));
        println!("{name}: kernel {of_kernel:?}, varve {of_varve:?}: {said}");
    }
    wrong
}

/// The built tree, or what is missing.
pub fn source(named: Option<&Path>) -> Result<PathBuf> {
    let variable = std::env::var_os(VARIABLE).map(PathBuf::from);
    let Some(tree) = named.map(Path::to_path_buf).or(variable) else {
        return Err(format!(
            "no source tree of LTP: {VARIABLE} or --source names one (linux-test-project/ltp, after `make autotools`, `./configure` and `make` in lib, \
             testcases/lib, testcases/kernel/syscalls and testcases/kernel/fs)"
        ));
    };
    match PARTS.iter().find(|part| !tree.join(part).exists()) {
        Some(part) => Err(format!(
            "{}: has no {part}: it is no built source tree of LTP",
            tree.display()
        )),
        None => tree
            .canonicalize()
            .map_err(|e| format!("{}: {e}", tree.display())),
    }
}

/// The commands of the tests in the list, by name.
fn commands(source: &Path, list: &List) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for (file, families) in [("syscalls", &list.syscalls), ("fs", &list.fs)] {
        let path = source.join("runtest").join(file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, command)) = line.trim().split_once(char::is_whitespace)
                && families.iter().any(|family| is_of(name, family))
            {
                all.insert(name.to_string(), command.trim().to_string());
            }
        }
    }
    match all.is_empty() {
        true => Err(format!("{}: no test of the list", source.display())),
        false => Ok(all),
    }
}

/// Whether a test belongs to a family: `open01` belongs to `open`, and `openat01` does not.
fn is_of(name: &str, family: &str) -> bool {
    let rest = name.strip_prefix(family);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A search path with each folder of the tree that holds programs.
fn programs(source: &Path) -> Result<String> {
    let mut folders = vec![source.join("testcases/lib")];
    let mut todo = ["syscalls", "fs"]
        .map(|part| source.join("testcases/kernel").join(part))
        .to_vec();
    while let Some(folder) = todo.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        todo.extend(entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()));
        folders.push(folder);
    }
    let own = std::env::var("PATH").unwrap_or_default();
    let all = std::env::join_paths(folders).map_err(|e| e.to_string())?;
    Ok(format!("{}:{own}", all.to_string_lossy()))
}

/// Runs a test in name spaces of its own, so that no process that it starts outlives it.
fn one(command: &str, path: &str, source: &Path, dir: &Path) -> Result<Verdict> {
    let status = Command::new("timeout")
        .args([
            "-k",
            "5",
            LIMIT_S,
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .args([
            "--mount-proc",
            "--propagation",
            "slave",
            "sh",
            "-c",
            command,
        ])
        .current_dir(dir)
        .env("PATH", path)
        .env("LTPROOT", source)
        .env("TMPDIR", dir)
        .env("LTP_TIMEOUT_MUL", "1")
        // Tests for races, which try for 150 s, then take 30.
        .env("LTP_RUNTIME_MUL", "0.2")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|e| format!("timeout: {e}"))?;
    Ok(verdict(status.code()))
}

/// The verdict of an exit code of LTP: 1 failed, 2 broken, 4 a warning, 32 not for this machine.
fn verdict(code: Option<i32>) -> Verdict {
    match code {
        Some(0 | 4) => Verdict::Passed,
        Some(124 | 137) | None => Verdict::Hung,
        Some(code) if code & 3 != 0 => Verdict::Failed,
        Some(code) if code & 32 != 0 => Verdict::Skipped,
        Some(_) => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_to_their_family_only() {
        assert!(is_of("open01", "open") && is_of("open01A", "open") && is_of("lftest", "lftest"));
        assert!(!is_of("openat01", "open") && !is_of("fopen01", "open"));
        list().expect("the committed list");
    }

    #[test]
    fn only_what_is_listed_may_be_worse_than_the_kernel() {
        let list = List {
            syscalls: Vec::new(),
            fs: Vec::new(),
            fails: vec![Fails {
                test: "b01".into(),
                reason: "a limit of FUSE".into(),
            }],
        };
        let of = |a, b| BTreeMap::from([("a01".to_string(), a), ("b01".to_string(), b)]);
        use Verdict::{Failed, Hung, Passed, Skipped};
        let kernel = of(Passed, Passed);
        assert_eq!(compared(&list, &kernel, &of(Passed, Failed)), 0);
        assert_eq!(compared(&list, &kernel, &of(Skipped, Hung)), 0);
        assert_eq!(compared(&list, &kernel, &of(Failed, Failed)), 1);
        assert_eq!(compared(&list, &kernel, &of(Hung, Passed)), 2);
        assert_eq!(compared(&list, &of(Failed, Failed), &of(Failed, Passed)), 0);
        assert_eq!(
            [Some(0), Some(3), Some(32), Some(33), Some(124), None].map(verdict),
            [Passed, Failed, Skipped, Failed, Hung, Hung]
        );
    }
}
