//! xfstests, generic group, on mounts of Varve. The tests see them as the kernel's ext4 or F2FS on
//! two loop devices.
//!
//! ```text
//!  check --mount, umount, df, findmnt--> scripts here --> varve mount ...      (devices under test)
//!                                           +-----------> the host's programs  (all else)
//! ```
//!
//! xfstests is GPL and no part of this project: its built source tree is named with `--source` or
//! `VARVE_XFSTESTS`. Tests that need what FUSE does not have, and tests that fail, stand in
//! `expected.toml` with the reason; any other failure fails the suite.

mod expected;
mod stand;

use super::mounts::Fs;
use crate::Result;
use crate::workspace;
use expected::{Expected, Outcome};
use stand::{By, Stand};
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that names the source tree.
pub const VARIABLE: &str = "VARVE_XFSTESTS";
/// Files that a built tree has.
const PARTS: [&str; 4] = ["check", "ltp/fsstress", "src/godown", "tests/generic"];

#[derive(clap::Args)]
pub struct Args {
    /// Built source tree of xfstests [default: what `VARVE_XFSTESTS` names]
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// File system.
    #[arg(long, value_enum, default_value_t = Fs::Ext4)]
    fs: Fs,
    /// Mount options of Varve.
    #[arg(long, default_value = "")]
    options: String,
    /// The short list instead of the whole group `quick`.
    #[arg(long)]
    short: bool,
    /// Part I of N of the list, as `I/N`.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: String,
    /// The kernel's file system instead of Varve: to see what this machine can do at all.
    #[arg(long)]
    kernel: bool,
    /// These tests only.
    tests: Vec<String>,
}

/// Runs the suite.
pub fn run(args: &Args, varve: &Path) -> Result {
    let source = source(args.source.as_deref())?;
    let list = Expected::read()?;
    let tests = chosen(args, &source, &list)?;
    let by = match args.kernel {
        true => By::Kernel,
        false => By::Varve(varve, &args.options),
    };
    let name = args.fs.name();
    let folder = workspace::root().join("target/xfstests").join(name);
    let stand = Stand::new(&source, &folder, args.fs, by)?;
    let (mut passed, mut not_run, mut wrong) = (0, 0, Vec::new());
    for test in &tests {
        let outcome = stand.run(test)?;
        let shown = match &outcome {
            Outcome::Passed => "ok".to_string(),
            Outcome::NotRun(why) => format!("not run: {why}"),
            Outcome::Failed(why) => format!("fails: {why}"),
        };
        passed += usize::from(outcome == Outcome::Passed);
        not_run += usize::from(matches!(outcome, Outcome::NotRun(_)));
        match list.judge(test, name, &outcome) {
            None => println!("{test}: {shown}"),
            Some(why) => {
                println!("{test}: WRONG: {why} ({})", stand.output(test).display());
                wrong.push(test.clone());
            }
        }
    }
    let failed = tests.len() - passed - not_run;
    println!("{name}: {passed} passed, {failed} failed, {not_run} not run");
    match wrong.len() {
        0 => Ok(()),
        n => Err(format!("{n} not as expected: {}", wrong.join(" "))),
    }
}

/// The built tree, or what is missing.
pub fn source(named: Option<&Path>) -> Result<PathBuf> {
    let variable = std::env::var_os(VARIABLE).map(PathBuf::from);
    let Some(tree) = named.map(Path::to_path_buf).or(variable) else {
        return Err(format!(
            "no source tree of xfstests: {VARIABLE} or --source names one (xfstests-dev of git.kernel.org, built with `make`; it needs the Debian packages acl \
             attr bc fio libacl1-dev libaio-dev libattr1-dev libcap-dev libtool-bin libuuid1 quota uuid-dev xfslibs-dev xfsprogs)"
        ));
    };
    match PARTS.iter().find(|part| !tree.join(part).exists()) {
        Some(part) => Err(format!(
            "{}: has no {part}: it is no built source tree of xfstests",
            tree.display()
        )),
        None => tree
            .canonicalize()
            .map_err(|e| format!("{}: {e}", tree.display())),
    }
}

fn chosen(args: &Args, source: &Path, list: &Expected) -> Result<Vec<String>> {
    let all = match (args.tests.is_empty(), args.short) {
        (false, _) => args.tests.clone(),
        (true, true) => list.short.clone(),
        (true, false) => quick(source, list)?,
    };
    let bad = || format!("--shard {}: say I/N", args.shard);
    let (part, parts) = args.shard.split_once('/').ok_or_else(bad)?;
    let (part, parts): (usize, usize) = (
        part.parse().map_err(|_| bad())?,
        parts.parse().map_err(|_| bad())?,
    );
    if part == 0 || part > parts {
        return Err(bad());
    }
    Ok(all.into_iter().skip(part - 1).step_by(parts).collect())
}

/// Tests of the group `quick`, without the groups that are left out.
fn quick(source: &Path, list: &Expected) -> Result<Vec<String>> {
    let folder = source.join("tests/generic");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let is_chosen = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("_begin_fstest"));
        let groups: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        groups.contains(&"quick") && list.runs(&groups)
    };
    let mut tests: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none() && is_chosen(path))
        .filter_map(|path| Some(format!("generic/{}", path.file_name()?.to_str()?)))
        .collect();
    tests.sort();
    Ok(tests)
}
