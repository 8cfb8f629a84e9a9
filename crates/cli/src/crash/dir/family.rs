//! The processes that a command leaves: all that descend from this one.
//!
//! - P1: while a command is recorded, a process whose parent has gone becomes a child of this
//!   process, so whatever a command starts, a daemon too, stays a descendant.
//! - P2: [`Family::end`] returns when no descendant is left, except one that the kernel does not
//!   let go.
//! - P3: processes that descended from this one before, because a shell has started them and then
//!   become this program by `exec`, are not the command's and are left alone, with all below them.

use crate::failure::{Failure, failed};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use std::collections::{BTreeMap, BTreeSet};
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

/// What the host tells of a process.
struct Status {
    id: i32,
    name: String,
    dead: bool,
    parent: i32,
    /// When it was started, in ticks since the host was: with the id it names one process for ever.
    start: u64,
}

/// The processes of commands. They are adopted until this is dropped: what judges leave behind
/// later is for the host to bury.
pub struct Family {
    /// Id and start of those that are not the commands' (P3).
    others: BTreeSet<(i32, u64)>,
}

impl Drop for Family {
    fn drop(&mut self) {
        // It was possible to begin, so it is to end.
        let _ = set_child_subreaper(None);
    }
}

impl Family {
    /// Makes this process the parent of those whose parent goes (P1).
    pub fn adopt() -> Result<Family, Failure> {
        let mut family = Family {
            others: BTreeSet::new(),
        };
        let before = family.descendants();
        family.others = before.iter().map(|child| (child.id, child.start)).collect();
        set_child_subreaper(Some(getpid()))
            .map_err(|e| failed(format!("adopting processes of the command: {e}")))?;
        Ok(family)
    }

    /// The descendants that run. Those that have ended are buried.
    fn descendants(&self) -> Vec<Status> {
        let (found, dead) = self.all();
        dead.into_iter().for_each(bury);
        found
    }

    /// The numbers of the descendants that run. Those that have ended are left to whoever waits for
    /// them.
    pub fn ids(&self) -> Vec<i32> {
        self.all().0.into_iter().map(|child| child.id).collect()
    }

    /// The descendants that run, and the numbers of children of this process that have ended.
    fn all(&self) -> (Vec<Status>, Vec<i32>) {
        let mut children: BTreeMap<i32, Vec<Status>> = BTreeMap::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for process in ids.filter_map(status) {
            children.entry(process.parent).or_default().push(process);
        }
        let own = getpid().as_raw_pid();
        let (mut found, mut ended) = (Vec::new(), Vec::new());
        let mut parents = vec![own];
        while let Some(parent) = parents.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                if self.others.contains(&(child.id, child.start)) {
                    continue;
                }
                parents.push(child.id);
                match child.dead {
                    true if parent == own => ended.push(child.id),
                    true => {}
                    false => found.push(child),
                }
            }
        }
        (found, ended)
    }

    /// Waits until no descendant is left, at most for `patience` and while `go_on` says so; those
    /// that are left then.
    pub fn wait(&self, patience: Duration, go_on: &dyn Fn() -> bool) -> Vec<Process> {
        let since = Instant::now();
        loop {
            let left = self.descendants();
            if left.is_empty() || since.elapsed() >= patience || !go_on() {
                return left.into_iter().map(Process::from).collect();
            }
            sleep(LOOK);
        }
    }

    /// Ends all descendants (P2).
    pub fn end(&self) {
        let since = Instant::now();
        loop {
            let left = self.descendants();
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
}

impl From<Status> for Process {
    fn from(status: Status) -> Process {
        Process {
            id: status.id,
            name: status.name,
        }
    }
}

fn bury(id: i32) {
    if let Some(pid) = Pid::from_raw(id) {
        // Whoever started it may have waited for it meanwhile.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Of the line `ID (NAME) STATE PARENT ...`, in which the start is the 22nd word.
fn status(id: i32) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let words: Vec<&str> = tail.split_whitespace().collect();
    Some(Status {
        id,
        name: head.split_once('(')?.1.to_string(),
        dead: matches!(*words.first()?, "Z" | "X"),
        parent: words.get(1)?.parse().ok()?,
        start: words.get(19)?.parse().ok()?,
    })
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
    using.filter_map(status).map(Process::from).collect()
}

/// Processes as a list for people.
pub fn told(processes: &[Process]) -> String {
    let told = |process: &Process| format!("{} ({})", process.name, process.id);
    processes.iter().map(told).collect::<Vec<_>>().join(", ")
}
