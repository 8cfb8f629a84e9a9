//! The processes that a command leaves: all that descend from this one.
//!
//! - P1: a process whose parent has gone becomes a child of this process, so whatever a command
//!   starts, a daemon too, stays a descendant.
//! - P2: [`end`] returns when no descendant is left, except one that the kernel does not let go.

use crate::failure::{Failure, failed};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(20);
/// How long processes may take to end that are killed.
const DYING: Duration = Duration::from_secs(5);

/// A process.
pub struct Process {
    pub id: i32,
    pub name: String,
}

/// Makes this process the parent of those whose parent goes (P1).
pub fn adopt() -> Result<(), Failure> {
    set_child_subreaper(Some(getpid()))
        .map_err(|e| failed(format!("adopting processes of the command: {e}")))
}

/// The descendants that run. Those that have ended are buried.
pub fn descendants() -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<(i32, String, bool)>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for id in ids {
        let Some((name, dead, parent)) = status(id) else {
            continue;
        };
        children.entry(parent).or_default().push((id, name, dead));
    }
    let own = getpid().as_raw_pid();
    let mut found = Vec::new();
    let mut parents = vec![own];
    while let Some(parent) = parents.pop() {
        for (id, name, dead) in children.remove(&parent).unwrap_or_default() {
            parents.push(id);
            match dead {
                true if parent == own => bury(id),
                true => {}
                false => found.push(Process { id, name }),
            }
        }
    }
    found
}

fn bury(id: i32) {
    if let Some(pid) = Pid::from_raw(id) {
        // Whoever started it may have waited for it meanwhile.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Name, whether it has ended, and parent of a process: `ID (NAME) STATE PARENT ...`.
fn status(id: i32) -> Option<(String, bool, i32)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_string();
    let mut words = tail.split_whitespace();
    let dead = matches!(words.next()?, "Z" | "X");
    Some((name, dead, words.next()?.parse().ok()?))
}

/// Waits until no descendant is left, at most for `patience` and while `go_on` says so; those that
/// are left then.
pub fn wait(patience: Duration, go_on: &dyn Fn() -> bool) -> Vec<Process> {
    let since = Instant::now();
    loop {
        let left = descendants();
        if left.is_empty() || since.elapsed() >= patience || !go_on() {
            return left;
        }
        sleep(LOOK);
    }
}

/// Ends all descendants (P2).
pub fn end() {
    let since = Instant::now();
    loop {
        let left = descendants();
        if left.is_empty() || since.elapsed() >= DYING {
            return;
        }
        for process in &left {
            if let Some(pid) = Pid::from_raw(process.id) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        sleep(LOOK);
    }
}

/// Processes of this user that use what is mounted at `dir`: their directory or an open file is
/// there.
pub fn users(dir: &str) -> Vec<Process> {
    let is_there = |link: &std::path::Path| {
        let at = fs::read_link(link).unwrap_or_default();
        at.starts_with(dir)
    };
    let uses = |id: i32| {
        let own = format!("/proc/{id}");
        let files = fs::read_dir(format!("{own}/fd")).into_iter().flatten();
        is_there(format!("{own}/cwd").as_ref())
            || files.flatten().any(|file| is_there(&file.path()))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = getpid().as_raw_pid();
    let using = ids.filter(|&id| id != own && uses(id));
    let named = using.filter_map(|id| {
        Some(Process {
            id,
            name: status(id)?.0,
        })
    });
    named.collect()
}

/// Processes as a list for people.
pub fn told(processes: &[Process]) -> String {
    let told = |process: &Process| format!("{} ({})", process.name, process.id);
    processes.iter().map(told).collect::<Vec<_>>().join(", ")
}
