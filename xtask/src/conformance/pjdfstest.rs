//! pjdfstest: hundreds of small cases of what POSIX demands, beside the kernel's file system.

use super::mounts::{By, Fs, Mount};
use super::tools;
use crate::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const VERSION: &str = "0.2.2";
const IMAGE_MIB: u64 = 256;
/// The features that Linux has, and pauses that are longer than a tick of its clock.
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

/// Name of a case -> `ok`, `skipped` or `FAILED`.
type Cases = BTreeMap<String, String>;

#[derive(clap::Args)]
pub struct Args {
    /// File system. One that the running kernel has not is tested alone.
    #[arg(long, value_enum, default_value_t = Fs::Ext4)]
    fs: Fs,
    /// Mount options of Varve.
    #[arg(long, default_value = "")]
    options: String,
}

pub fn run(args: &Args, varve: &Path) -> Result {
    let program = tools::find("pjdfstest", VERSION)?;
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let config = folder.path().join("pjdfstest.toml");
    std::fs::write(&config, CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let on = |name, by| -> Result<Cases> {
        let mount = Mount::new(folder.path(), args.fs, by, IMAGE_MIB)?;
        let cases = run_on(&program, &config, &mount.dir)?;
        mount.end()?;
        let count = |verdict| cases.values().filter(|v| *v == verdict).count();
        let (ok, failed, skipped) = (count("ok"), count("FAILED"), count("skipped"));
        println!("{name:>8}: {ok} ok, {failed} failed, {skipped} skipped");
        match cases.len() {
            0 => Err("pjdfstest ran no case".into()),
            _ => Ok(cases),
        }
    };
    let kernel = match args.fs.in_kernel() {
        true => Some(on("kernel", By::Kernel)?),
        false => {
            println!("  kernel: has no such file system");
            None
        }
    };
    let varve = on("varve", By::Varve(varve, &args.options))?;
    let worse = match kernel {
        Some(kernel) => compared(&kernel, &varve),
        None => alone(&varve),
    };
    match worse {
        0 => Ok(()),
        n => Err(format!("{n} cases fail that the kernel passes or skips")),
    }
}

/// Prints the cases with two verdicts. Answers how many are worse on Varve.
fn compared(kernel: &Cases, varve: &Cases) -> usize {
    let verdict = |name: &str| varve.get(name).map_or("missing", String::as_str);
    let differ = (kernel.iter()).filter(|(name, v)| verdict(name) != v.as_str());
    let mut worse = 0;
    for (name, of_kernel) in differ {
        let of_varve = verdict(name);
        println!("{name}: kernel {of_kernel}, varve {of_varve}");
        worse += usize::from(["missing", "FAILED"].contains(&of_varve));
    }
    worse
}

/// Prints the cases that fail, and answers their number.
fn alone(varve: &Cases) -> usize {
    let failed = varve.iter().filter(|(_, verdict)| *verdict == "FAILED");
    failed
        .inspect(|(name, _)| println!("{name}: failed"))
        .count()
}

fn run_on(program: &str, config: &Path, dir: &Path) -> Result<Cases> {
    let mut command = Command::new(program);
    command.arg("-c").arg(config).arg("-p").arg(dir);
    // A case that fails is seen in the output, so the exit code is not asked.
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    Ok(cases_of(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the lines `name::of::case    verdict`; indented lines below explain and are left out.
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
