//! A workload of the explorer on a file system of the kernel: each sequence runs on a file system
//! as mkfs made it, its states are mounted and read in the guests, and the oracle of our own file
//! systems decides.
//!
//! - T1: equal contents of one trial are read by a guest once; the oracle judges what was seen
//!   against each number of operations that had ended.
//! - T2: a cut between two marks has all operations begun up to the next sync; the sync may be
//!   under way, nothing behind it.

use super::super::court::{Court, State, Verdict};
use super::super::{Explored, Recorded, Room, explore};
use super::bench::{Bench, Docket, Sighting};
use super::finder::{SeenFinder, ident};
use super::inside::{DECOY, MADE, WORK, is_sync, steps};
use super::promise;
use super::{BEGIN, Kernel, KernelPlan, host, judged_by_all, mount_options};
use crate::ops::Op;
use crate::program::read_log;
use crate::subject::FileScript;
use crate::{CrashError, FileOracle, Judgement, Progress, TaskLog};
use base::{Map, Time};
use blockdev::spec::Bound;
use std::fs::{self, File};
use std::sync::Arc;

/// What came of one sequence.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The counts, and the first bad state.
    pub explored: Explored,
    /// What each bad state violates, in the order of judging.
    pub broken: Vec<Broken>,
}

/// A state that breaks a promise.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The violations, each with the name of its rule.
    pub words: Vec<String>,
    /// The operations that had begun at the cut, as a workload: what came later had no part in it.
    pub prefix: FileScript,
}

impl Broken {
    /// The name of the first rule that is broken.
    pub fn rule(&self) -> &str {
        self.rules().next().unwrap_or("R1")
    }

    /// The names of the rules that are broken, one for each violation.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|words| rule_of(words))
    }
}

/// The name of the rule that a violation is of.
fn rule_of(words: &str) -> &str {
    let mut parts = words.split([' ', ':']);
    let is_name = |word: &&str| {
        let digits = word.get(1..).unwrap_or_default();
        word.len() == 2
            && digits.bytes().all(|b| b.is_ascii_digit())
            && word.starts_with(['O', 'R', 'P'])
    };
    parts.find(is_name).unwrap_or("R1")
}

impl Kernel {
    /// Runs one sequence in the guest on a fresh file system, and judges its states. With `decoy`
    /// the sync of a file that no task knows comes before that of each file. False from `progress`
    /// ends it early.
    ///
    /// # Errors
    /// The guest fails, or an operation in it; the recording does not fit into the room; there are
    /// no rules for the file system.
    pub fn try_script(
        &mut self,
        script: &FileScript,
        decoy: bool,
        (bound, room): (&Bound, Room),
        progress: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Tried, CrashError> {
        let recorded = self.record_script(script, decoy, room)?;
        let done = steps(script);
        let logs = self.logs(script, &done)?;
        let KernelPlan { fs, options, .. } = &self.plan;
        let terms = promise::terms(fs, options, &self.start);
        let terms = terms.ok_or_else(|| CrashError::Check(format!("no rules for {fs}")))?;
        let mut trial = Trial {
            oracle: FileOracle::new(logs, terms),
            links_dirs: promise::links_dirs(fs),
            guests: &mut self.guests,
            script,
            steps: done,
            seen: Map::default(),
            broken: Vec::new(),
        };
        let explored = explore(&recorded, bound, &mut trial, progress)?;
        Ok(Tried {
            explored,
            broken: trial.broken,
        })
    }

    /// Gives the recording guest the disk as mkfs made it, and runs the sequence.
    fn record_script(
        &mut self,
        script: &FileScript,
        decoy: bool,
        room: Room,
    ) -> Result<Recorded, CrashError> {
        self.guests[0].pause()?;
        self.disk.forget();
        self.disk.set(&self.start)?;
        File::create(&self.log)
            .and_then(|file| file.set_len(super::LOG_BYTES))
            .map_err(host("emptying the log"))?;
        let file = self.guests[0].session.scratch().join("work.script");
        fs::write(file, script.to_string()).map_err(host("writing the workload"))?;
        let KernelPlan { fs, options, .. } = &self.plan;
        let options = mount_options(options);
        let decoy = if decoy { DECOY } else { "-" };
        let text = format!(
            "guest load dm-log-writes
             guest load {fs} 2>/dev/null || :
             size=$(cat /sys/block/$BLOCK0/size)
             dmsetup create --noudevsync log --table \"0 $size log-writes $DISK0 $DISK1\"
             status=0
             mount -i -t {fs} {options} /dev/dm-0 $MNT
             dmsetup message log 0 mark {BEGIN}
             guest {WORK} $DIR/work.script $MNT $DIR/{MADE} {decoy} || status=$?
             umount $MNT
             dmsetup remove log
             exit $status"
        );
        let (status, said) = self.guests[0].run(&text)?;
        if status != 0 {
            let why = format!("in the guest, the workload ended with {status}: {said}");
            return Err(CrashError::Check(why));
        }
        read_log(&self.log, self.start.clone(), self.bytes, Some(BEGIN), room)
    }

    /// What the tasks did. Step N, from 0, takes the time from 2N + 1 to 2N + 2.
    fn logs(&self, script: &FileScript, steps: &[(usize, Op)]) -> Result<Vec<TaskLog>, CrashError> {
        let mut logs = vec![TaskLog::default(); script.tasks().len()];
        let made = self.guests[0].session.scratch().join(MADE);
        let made = fs::read_to_string(made).map_err(host("reading what was made"))?;
        let mut inodes: Map<usize, u64> = Map::default();
        for line in made.lines() {
            let numbers = line.split_once(' ').and_then(|(step, ino)| {
                Some((step.parse::<usize>().ok()?, ino.parse::<u64>().ok()?))
            });
            let (step, ino) = numbers.ok_or_else(|| CrashError::Check(format!("made: {line}")))?;
            inodes.insert(step, ino);
        }
        let tasks = 0..script.tasks().len();
        let mut states: Vec<_> = tasks.map(crate::model::State::new).collect();
        for (nr, (task, op)) in steps.iter().enumerate() {
            let log = &mut logs[*task];
            let id = states[*task].apply(op);
            log.made
                .extend(id.zip(inodes.get(&nr).map(|ino| ident(*ino))));
            log.ops.push(op.clone());
            log.ended += 1;
            log.times.begun.push(Time(2 * nr as u64 + 1));
            log.times.ended.push(Time(2 * nr as u64 + 2));
        }
        Ok(logs)
    }
}

/// One sequence while its states are judged.
struct Trial<'a> {
    guests: &'a mut [Bench],
    oracle: FileOracle,
    links_dirs: bool,
    script: &'a FileScript,
    steps: Vec<(usize, Op)>,
    /// What guests have seen, by the content of the state (T1).
    seen: Map<u64, Arc<Sighting>>,
    broken: Vec<Broken>,
}

impl Court for Trial<'_> {
    fn bench(&self) -> usize {
        super::BENCH * self.guests.len()
    }

    fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError> {
        self.look_at(states)?;
        states.iter().map(|state| self.decide(state)).collect()
    }
}

impl Trial<'_> {
    /// Has the guests read the contents that were not read before.
    fn look_at(&mut self, states: &[State<'_>]) -> Result<(), CrashError> {
        let mut open: Vec<State<'_>> = Vec::new();
        let mut hashes = Vec::new();
        for state in states {
            let hash = state.image.content_hash();
            if !self.seen.contains_key(&hash) && !hashes.contains(&hash) {
                hashes.push(hash);
                open.push(*state);
            }
        }
        let docket = Docket::new(&open);
        judged_by_all(self.guests, &docket)?;
        let seen = docket.sightings().into_iter().map(Arc::new);
        self.seen.extend(hashes.into_iter().zip(seen));
        Ok(())
    }

    /// Judges what was seen of a state.
    fn decide(&mut self, state: &State<'_>) -> Result<Verdict, CrashError> {
        let ended = match state.acked.last() {
            None => 0,
            Some(ack) => ack.text.parse().map_err(|_| {
                CrashError::Check(format!("the log has a mark of another: {}", ack.text))
            })?,
        };
        let begun = begun(&self.steps, ended);
        let hash = state.image.content_hash();
        let sighting = self.seen[&hash].clone();
        let mut judgement = Judgement::default();
        self.oracle.advance_to(&progress(
            &self.steps,
            self.script.tasks().len(),
            begun,
            ended,
        ));
        match (&sighting.seen, &sighting.bad) {
            (None, why) => {
                let why = why.clone().unwrap_or_default();
                judgement.violations.push(format!("R1: {why}"));
            }
            (Some(seen), bad) => {
                let links_dirs = self.links_dirs;
                let found = SeenFinder { seen, links_dirs };
                self.oracle.judge_found(&found, &mut judgement);
                let findings = bad.iter().map(|why| format!("R2: {why}"));
                judgement.violations.extend(findings);
            }
        }
        let words = judgement.violations;
        let bad = (!words.is_empty()).then(|| words.join("\n"));
        if bad.is_some() {
            let prefix = self.prefix(begun);
            self.broken.push(Broken { words, prefix });
        }
        Ok(Verdict {
            recovered: true,
            bad,
        })
    }

    /// The operations of the first steps.
    fn prefix(&self, begun: usize) -> FileScript {
        let mut left = vec![0; self.script.tasks().len()];
        for (task, _) in &self.steps[..begun] {
            left[*task] += 1;
        }
        let drop = self.script.places().into_iter();
        // The first step of a task makes its directory, which is no operation of the script.
        let drop: Vec<_> = drop.filter(|(task, at)| at + 1 >= left[*task]).collect();
        self.script.repaired(&drop)
    }
}

/// How many steps may have begun when so many have ended (T2).
fn begun(steps: &[(usize, Op)], ended: usize) -> usize {
    let next = steps[ended..].iter().position(|(_, op)| is_sync(op));
    next.map_or(steps.len(), |at| ended + at + 1)
}

/// How far each task had come. What no sync is, promises nothing by its end, so all that had begun
/// counts as ended but the sync that is under way.
fn progress(steps: &[(usize, Op)], tasks: usize, begun: usize, ended: usize) -> Vec<Progress> {
    let under_way = match steps[..begun].last() {
        Some((task, op)) if begun > ended && is_sync(op) => Some(*task),
        _ => None,
    };
    let all = (0..tasks).map(|task| {
        let begun = steps[..begun].iter().filter(|(t, _)| *t == task).count();
        let open = usize::from(under_way == Some(task));
        Progress {
            begun,
            ended: begun - open,
        }
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_t2_a_mark_says_what_had_ended_and_what_may_be_under_way() {
        let script = "create /a; fsync /a; write /a 0+9 | create /b; sync; unlink /b; create /c";
        let steps = steps(&FileScript::parse(script).unwrap());
        // mkdir, mkdir, create a, create b, fsync a, sync, write a, unlink b, create c
        let at = |ended: usize| {
            let begun = begun(&steps, ended);
            let all = progress(&steps, 2, begun, ended);
            let all: Vec<_> = all.iter().map(|p| (p.begun, p.ended)).collect();
            (begun, all)
        };
        assert_eq!(at(0), (5, vec![(3, 2), (2, 2)]));
        assert_eq!(at(5), (6, vec![(3, 3), (3, 2)]));
        assert_eq!(at(6), (9, vec![(4, 4), (5, 5)]));
        assert_eq!(at(9), (9, vec![(4, 4), (5, 5)]));
    }

    #[test]
    fn the_rule_is_named_by_the_first_violation() {
        let rule = |words: &str| {
            let prefix = FileScript::parse("sync").unwrap();
            let words = vec![words.to_string()];
            Broken { words, prefix }.rule().to_string()
        };
        assert_eq!(rule("task 0 at P: /t0/f: O4: size 3"), "O4");
        assert_eq!(rule("R2: e2fsck: O7"), "R2");
    }
}
