//! pjdfstest: what POSIX says of file systems, as hundreds of small cases.

use super::mounts::{By, Mount, build_varve};
use super::tools;
use crate::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const VERSION: &str = "0.2.2";
const IMAGE_MIB: u64 = 256;
/// The features that Linux has, and pauses longer than a tick of its clock.
const CONFIG: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Case -> `ok`, `skipped` or `FAILED`.
type Cases = BTreeMap<String, String>;

pub fn run() -> Result {
    build_varve()?;
    let program = tools::find("pjdfstest", VERSION)?;
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let config = folder.path().join("pjdfstest.toml");
    std::fs::write(&config, CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let on = |by| -> Result<Cases> {
        let mount = Mount::new(folder.path(), by, IMAGE_MIB)?;
        let cases = run_on(&program, &config, &mount.dir)?;
        mount.end()?;
        Ok(cases)
    };
    let (kernel, varve) = (on(By::Kernel)?, on(By::Varve(""))?);
    for (name, cases) in [("kernel", &kernel), ("varve", &varve)] {
        let count = |verdict| cases.values().filter(|v| *v == verdict).count();
        let (ok, failed, skipped) = (count("ok"), count("FAILED"), count("skipped"));
        println!("{name:>8}: {ok} ok, {failed} failed, {skipped} skipped");
    }
    let differ: Vec<&String> = (kernel.iter())
        .filter(|(name, verdict)| varve.get(*name) != Some(*verdict))
        .map(|(name, _)| name)
        .collect();
    for name in &differ {
        let of_varve = varve.get(*name).map_or("missing", String::as_str);
        println!("{name}: kernel {}, varve {of_varve}", kernel[*name]);
    }
    let worse = |name: &&&String| varve.get(**name).is_none_or(|v| v == "FAILED");
    match (differ.iter().filter(worse).count(), kernel.len()) {
        (_, 0) => Err("pjdfstest ran no case".into()),
        (0, _) => Ok(()),
        (n, _) => Err(format!("{n} cases fail that the kernel passes or skips")),
    }
}

fn run_on(program: &Path, config: &Path, dir: &Path) -> Result<Cases> {
    let mut command = Command::new(program);
    command.arg("-c").arg(config).arg("-p").arg(dir);
    // A case that fails is in the output.
    let output = command
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    Ok(cases_of(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines `name::of::case    verdict`; those below that explain are indented.
fn cases_of(text: &str) -> Cases {
    let case = |line: &str| {
        let (name, verdict) = line.split_once(char::is_whitespace)?;
        let verdict = verdict.trim();
        let known = ["ok", "skipped", "FAILED"].contains(&verdict);
        (known && name.contains("::")).then(|| (name.to_string(), verdict.to_string()))
    };
    text.lines().filter_map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_verdict_are_cases() {
        let text = "a::b    ok\na::c::fifo   skipped\n\tRemounts are not allowed\nb::d  FAILED\nBacktrace: ok\nSummary: 1 failed";
        let cases = cases_of(text);
        let verdicts: Vec<_> = cases.values().map(String::as_str).collect();
        assert_eq!(verdicts, ["ok", "skipped", "FAILED"]);
    }
}
