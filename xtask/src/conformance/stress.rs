//! stress-ng's file-system class, dbench and bonnie++. These programs load a file system; they must
//! come to their end, and the checker must find nothing in what they leave.

use super::mounts::{By, Fs, Mount};
use crate::Result;
use crate::sh::sh;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
pub struct Args {
    /// Seconds for each stressor of stress-ng
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// Stressors, separated by commas [default: the class filesystem]
    #[arg(long, value_delimiter = ',')]
    stressors: Vec<String>,
    /// Mount options of Varve
    #[arg(long, default_value = "scheme=emmc")]
    options: String,
    /// No dbench and no bonnie++
    #[arg(long)]
    stressors_only: bool,
}

const IMAGE_MIB: u64 = 1024;
/// Seconds for setting up and cleaning up, beyond the time that a stressor is given.
const PATIENCE_S: u32 = 120;
/// Arguments of bonnie++: no single bytes, MiB of its large file and of the memory that it is to
/// assume, thousands of small files.
const BONNIE: [&str; 11] = [
    "-f", "-s", "256", "-r", "128", "-n", "4", "-u", "root", "-q", "-d",
];
/// Arguments of dbench: seconds, clients.
const DBENCH: [&str; 3] = ["-t", "20", "4"];

/// What a stressor ended with, by the exit code of stress-ng.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Passed,
    /// The stressor cannot run here: not implemented, no resources, or disabled.
    Skipped,
    Failed,
    /// The stressor did not end.
    Hung,
}

pub fn run(args: &Args, program: &Path) -> Result {
    let stressors = match args.stressors.is_empty() {
        true => class()?,
        false => args.stressors.clone(),
    };
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let on = |by| -> Result<BTreeMap<String, Verdict>> {
        let mount = Mount::new(folder.path(), Fs::Ext4, by, IMAGE_MIB)?;
        let verdicts = (stressors.iter())
            .map(|name| Ok((name.clone(), stress(name, args.seconds, &mount.dir)?)))
            .collect::<Result<_>>()?;
        mount.end()?;
        Ok(verdicts)
    };
    let kernel = on(By::Kernel)?;
    let varve = on(By::Varve(program, &args.options))?;
    let worse = compare(&kernel, &varve);
    if !args.stressors_only {
        benchmarks(folder.path(), By::Varve(program, &args.options))?;
    }
    match worse {
        // [`Mount::end`] has checked each volume.
        0 => {
            println!("no stressor ends worse than on the kernel's ext4; e2fsck -fn finds nothing");
            Ok(())
        }
        n => Err(format!("{n} stressors end worse than on the kernel's ext4")),
    }
}

/// The stressors of the class, as stress-ng names them.
fn class() -> Result<Vec<String>> {
    // The question mark asks for the list. stress-ng then ends with an exit code of its own.
    let output = Command::new("stress-ng")
        .args(["--class", "filesystem?"])
        .output();
    let output = output.map_err(|e| format!("stress-ng: {e}"))?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let names: Vec<String> = names_of(&text);
    match names.is_empty() {
        true => Err(format!("stress-ng names no stressors of its class: {text}")),
        false => Ok(names),
    }
}

fn names_of(text: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.contains("stressors:"));
    let names = line.and_then(|line| line.split_once("stressors:"));
    let names = names.map_or("", |(_, names)| names).split_whitespace();
    names.map(str::to_string).collect()
}

fn stress(name: &str, seconds: u32, dir: &Path) -> Result<Verdict> {
    let patience = (seconds + PATIENCE_S).to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &patience, "stress-ng"]);
    command.args([
        &format!("--{name}"),
        "1",
        "--timeout",
        &format!("{seconds}s"),
    ]);
    command.arg("--temp-path").arg(dir);
    // By default it wants as much room as the volume has.
    if name == "iomix" {
        command.args(["--iomix-bytes", "64m"]);
    }
    let output = command.output().map_err(|e| format!("stress-ng: {e}"))?;
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    let verdict = verdict(output.status.code(), &words);
    if matches!(verdict, Verdict::Failed | Verdict::Hung) {
        println!("{name} on {}: {}", dir.display(), output.status);
        for line in words.lines() {
            println!("    {line}");
        }
    }
    Ok(verdict)
}

fn verdict(code: Option<i32>, words: &str) -> Verdict {
    match code {
        Some(0) => Verdict::Passed,
        Some(3 | 4) => Verdict::Skipped,
        // stress-ng by itself leaves out stressors that may take the machine down (bind-mount).
        Some(1) if words.contains("No stress workers invoked") => Verdict::Skipped,
        // `timeout` ended it.
        Some(124 | 137) | None => Verdict::Hung,
        Some(_) => Verdict::Failed,
    }
}

/// Prints the counts and the differences. Answers how many stressors end worse on Varve.
fn compare(kernel: &BTreeMap<String, Verdict>, varve: &BTreeMap<String, Verdict>) -> usize {
    for (who, verdicts) in [("kernel", kernel), ("varve", varve)] {
        let count = |verdict| verdicts.values().filter(|v| **v == verdict).count();
        println!(
            "{who:>8}: {} passed, {} skipped, {} failed, {} hung",
            count(Verdict::Passed),
            count(Verdict::Skipped),
            count(Verdict::Failed),
            count(Verdict::Hung)
        );
    }
    let bad = |v: Verdict| matches!(v, Verdict::Failed | Verdict::Hung);
    let mut worse = 0;
    for (name, &of_varve) in varve {
        let of_kernel = kernel[name];
        if (of_kernel, of_varve) == (Verdict::Skipped, Verdict::Skipped) {
            println!("{name}: skipped on both");
        }
        if of_kernel != of_varve {
            println!("{name}: kernel {of_kernel:?}, varve {of_varve:?}");
        }
        worse += usize::from(bad(of_varve) && !bad(of_kernel));
    }
    worse
}

/// Runs dbench and bonnie++ to their end, each on a fresh volume.
fn benchmarks(folder: &Path, by: By<'_>) -> Result {
    let mount = Mount::new(folder, Fs::Ext4, by, IMAGE_MIB)?;
    let dir = mount.dir.to_string_lossy().into_owned();
    let load = "/usr/share/dbench/client.txt";
    let said = sh("dbench", &[&["-D", &dir, "-c", load][..], &DBENCH].concat())?;
    let last = said.lines().rfind(|line| line.starts_with("Throughput"));
    println!("  dbench: {}", last.unwrap_or("no throughput line"));
    mount.end()?;
    let mount = Mount::new(folder, Fs::Ext4, by, IMAGE_MIB)?;
    let said = sh("bonnie++", &[&BONNIE[..], &[&dir]].concat())?;
    println!("bonnie++: {}", said.lines().last().unwrap_or_default());
    mount.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_class_is_read() {
        let text = "class 'filesystem' stressors: access chdir\n";
        assert_eq!(names_of(text), ["access", "chdir"]);
        assert!(names_of("no such class").is_empty());
    }

    #[test]
    fn a_stressor_that_is_disabled_is_skipped() {
        let words = "info: disabled 'bind-mount' as it may hang\nerror: No stress workers invoked";
        assert_eq!(verdict(Some(1), words), Verdict::Skipped);
        assert_eq!(verdict(Some(1), "out of luck"), Verdict::Failed);
    }

    #[test]
    fn only_a_stressor_that_the_kernel_passes_counts() {
        let verdicts = |list: [Verdict; 3]| {
            let names = ["a", "b", "c"].map(str::to_string);
            names.into_iter().zip(list).collect::<BTreeMap<_, _>>()
        };
        let [passed, skipped] = [0, 4].map(|code| verdict(Some(code), ""));
        let [failed, hung] = [2, 124].map(|code| verdict(Some(code), ""));
        let kernel = verdicts([passed, skipped, failed]);
        assert_eq!(compare(&kernel, &verdicts([passed, failed, failed])), 1);
        assert_eq!(compare(&kernel, &verdicts([hung, skipped, hung])), 1);
        assert_eq!(compare(&kernel, &verdicts([passed, passed, passed])), 0);
    }
}
