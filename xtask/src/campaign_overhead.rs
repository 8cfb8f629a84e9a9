//! `cargo xtask campaign-overhead`: an exploration as a campaign, stopped, gone on with elsewhere,
//! merged and compared with one process; and the share of the CPU that the campaign itself takes.
//!
//! The workers of a campaign are processes of their own, so the CPU of the process that deals the
//! jobs and keeps the results is what the campaign costs.

use crate::sh::sh;
use crate::{Result, workspace};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most of the CPU that the campaign itself may take, percent.
const SHARE_MAX: f64 = 3.0;
/// Schemes of the exploration.
const SCHEMES: &str = "jbd2,emmc,none";
/// Seconds for which every script of three operations is enough work, on two cores.
const WHOLE: u64 = 600;
/// Files that have to be equal to those of one process.
const FILES: [&str; 3] = ["results.json", "junit.xml", "index.html"];

/// Options of `cargo xtask campaign-overhead`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds until the campaign is stopped
    #[arg(long, default_value_t = WHOLE, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,
    /// Only every so many scripts of ACE 3 [default: what fits the seconds]
    #[arg(long, value_name = "N")]
    every: Option<u64>,
    /// The program, instead of one built for this
    #[arg(long)]
    varve: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &Args) -> Result {
    let program = match &args.varve {
        Some(program) => program.clone(),
        None => workspace::build_varve(&[])?,
    };
    let folder = tempfile::tempdir().map_err(|e| format!("a folder: {e}"))?;
    let place = folder.path();
    // What another build puts in the place of the program would refuse the plan.
    let varve = place.join("varve");
    std::fs::copy(&program, &varve).map_err(|e| format!("{}: {e}", program.display()))?;
    let every = args.every.unwrap_or(WHOLE.div_ceil(args.seconds));
    let workload = format!("ace:3,every={every}");
    let camp = Camp {
        varve,
        place: place.into(),
        line: vec![
            "--schemes".into(),
            SCHEMES.into(),
            "--workload".into(),
            workload,
        ],
    };
    let plan = camp.plan()?;
    println!("{plan}");
    let first = camp.work("store", Some(Duration::from_secs(args.seconds)))?;
    println!("stopped: {}", first.told());
    println!(
        "{}",
        camp.varve(&[
            "campaign",
            "status",
            "--plan",
            "plan.jsonl",
            "--store",
            "store"
        ])?
    );
    let (from, to) = (place.join("store"), place.join("elsewhere"));
    sh(
        "cp",
        &["-r", &from.to_string_lossy(), &to.to_string_lossy()],
    )?;
    let second = camp.work("elsewhere", None)?;
    println!("gone on with elsewhere: {}", second.told());
    camp.merged_as_one_process()?;
    println!("merged: {} are those of one process", FILES.join(", "));
    let share = first.and(&second).share();
    match share <= SHARE_MAX {
        true => Ok(()),
        false => Err(format!(
            "the campaign itself took {share:.2} % of the CPU, {SHARE_MAX} % are allowed"
        )),
    }
}

/// CPU seconds of a `work`: its own, and those of its workers.
#[derive(Clone, Copy, Default)]
struct Cpu {
    own: f64,
    workers: f64,
}

impl Cpu {
    fn and(&self, other: &Cpu) -> Cpu {
        Cpu {
            own: self.own + other.own,
            workers: self.workers + other.workers,
        }
    }

    fn share(&self) -> f64 {
        100.0 * self.own / (self.own + self.workers).max(1e-9)
    }

    fn told(&self) -> String {
        format!("the campaign itself took {:.2} % of the CPU", self.share())
    }
}

/// A folder with a plan and stores.
struct Camp {
    varve: PathBuf,
    place: PathBuf,
    line: Vec<String>,
}

impl Camp {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.varve);
        command.args(words).current_dir(&self.place);
        command
    }

    fn varve(&self, words: &[&str]) -> Result<String> {
        let out = self.command(words).output().map_err(|e| e.to_string())?;
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        match out.status.success() {
            true => Ok(said.trim().into()),
            false => Err(format!("varve {}: {said}", words.join(" "))),
        }
    }

    fn plan(&self) -> Result<String> {
        let file = std::fs::File::create(self.place.join("plan.jsonl"));
        let file = file.map_err(|e| format!("the plan: {e}"))?;
        let mut plan = self.command(&["campaign", "plan", "crash"]);
        let out = plan
            .args(&self.line)
            .stdout(file)
            .stderr(Stdio::piped())
            .output();
        let out = out.map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&out.stderr).trim().to_string();
        match out.status.success() {
            true => Ok(said),
            false => Err(format!("campaign plan: {said}")),
        }
    }

    /// Works on the plan, until the end or until it is stopped after a while.
    fn work(&self, store: &str, stop: Option<Duration>) -> Result<Cpu> {
        let words = ["campaign", "work", "--plan", "plan.jsonl", "--store", store];
        let mut child = self.command(&words);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|e| e.to_string())?;
        let pid = Pid::from_child(&child);
        let since = Instant::now();
        let mut stopped = false;
        loop {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            match waitid(WaitId::Pid(pid), ended) {
                Ok(Some(_)) => break,
                Ok(None) => std::thread::sleep(Duration::from_millis(50)),
                Err(e) => return Err(format!("waiting for varve: {e}")),
            }
            if !stopped && stop.is_some_and(|after| since.elapsed() >= after) {
                kill_process(pid, Signal::INT).map_err(|e| format!("stopping varve: {e}"))?;
                stopped = true;
            }
        }
        // It has ended and is still known to the kernel.
        let cpu = cpu_of(pid)?;
        let status = child.wait().map_err(|e| e.to_string())?;
        match (stopped, status.code()) {
            (true, Some(130)) | (false, Some(0)) => Ok(cpu),
            _ => Err(format!("varve campaign work ended with {status}")),
        }
    }

    fn merged_as_one_process(&self) -> Result {
        let merge = [
            "campaign",
            "merge",
            "--plan",
            "plan.jsonl",
            "--store",
            "elsewhere",
        ];
        self.varve(&[&merge[..], &["--out", "merged"]].concat())?;
        let line: Vec<&str> = self.line.iter().map(String::as_str).collect();
        self.varve(&[&["crash"][..], &line, &["--out", "own"]].concat())?;
        for name in FILES {
            let read = |folder: &str| {
                let path = self.place.join(folder).join(name);
                std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
            };
            if read("merged")? != read("own")? {
                return Err(format!("{name}: the merged one is not that of one process"));
            }
        }
        Ok(())
    }
}

/// CPU of a process and of its children that it has waited for, as the kernel counts it.
fn cpu_of(pid: Pid) -> Result<Cpu> {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(Path::new(&path)).map_err(|e| format!("{path}: {e}"))?;
    cpu_in(&text).ok_or_else(|| format!("{path}: it has no CPU times: {text}"))
}

/// The times of a line of `/proc/PID/stat`: fields 14 to 17, in hundredths of a second.
fn cpu_in(text: &str) -> Option<Cpu> {
    // The name of the program may hold anything, and ends with the last bracket.
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<f64> = fields
        .split(' ')
        .skip(11)
        .take(4)
        .map_while(|field| field.trim().parse().ok())
        .collect();
    let [user, system, of_user, of_system] = fields[..] else {
        return None;
    };
    Some(Cpu {
        own: (user + system) / 100.0,
        workers: (of_user + of_system) / 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_process_are_read() {
        let line = "7 (a ) b) Z 1 7 7 0 -1 4 0 0 0 0 200 50 9000 750 20 0 1";
        let cpu = cpu_in(line).expect("times");
        assert_eq!((cpu.own, cpu.workers), (2.5, 97.5));
        assert!((cpu.share() - 2.5).abs() < 1e-9);
        assert!(cpu_in("7 (a) Z 1 2").is_none());
    }
}
