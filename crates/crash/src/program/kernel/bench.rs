//! A guest that judges states, and the files under its disks.
//!
//! The guest takes states for as long as it runs ([`guest::judge`]): while it mounts, checks and
//! unmounts one, the host writes the next ones to other disks, and runs the file system's own
//! checker on those that the guest is done with.
//!
//! - B1: a state under which the kernel of the guest dies is bad, and so is one with which it is
//!   not done in time, twice. Only the life of that guest ends, which is booted anew for the
//!   others.

use super::super::court::{State, StateFile, findings, write_acked};
use super::{KernelPlan, host};
use crate::CrashError;
use base::Nanos;
use guest::{Guest, Seen, Session, judge};
use rig::Fs;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Disks of a guest that take states.
const DISKS: usize = 8;
/// How often the host looks for a verdict.
const LOOK: Nanos = Nanos(1_000_000);

/// The guest.
pub(super) struct Bench {
    pub session: Session,
    plan: KernelPlan,
    /// The files under the disks that take states.
    disks: Vec<StateFile>,
    /// The number of the first of these disks in the guest.
    first: usize,
    /// The guest takes states.
    takes: bool,
    /// A script did not end in it: it has died or hangs.
    gone: bool,
}

/// What a guest that judges holds.
struct Hand {
    /// The state that each disk holds.
    held: Vec<Option<usize>>,
    /// What a guest that is gone had not begun with, or was not done with in time.
    again: Vec<usize>,
    /// With these a guest was not done in time.
    late: Vec<usize>,
    /// The last guest ended with no state under way, and none was judged since.
    idle_end: bool,
}

impl Hand {
    fn new(disks: usize) -> Hand {
        Hand {
            held: vec![None; disks],
            again: Vec::new(),
            late: Vec::new(),
            idle_end: false,
        }
    }

    fn next(&mut self, docket: &Docket<'_>) -> Option<usize> {
        self.again.pop().or_else(|| docket.take())
    }

    /// What the end of a guest says of the state that was under way; `None`: it has to be tried
    /// again, because a host that is busy makes a guest slow.
    fn end_of(&mut self, state: usize, end: &io::Error) -> Option<Sighting> {
        let late = end.kind() == io::ErrorKind::TimedOut;
        if late && !self.late.contains(&state) {
            self.late.push(state);
            self.again.push(state);
            return None;
        }
        let what = match late {
            true => "the kernel or the check hangs with it, twice",
            false => "the kernel dies with it",
        };
        let bad = Some(format!("{what}: {end}"));
        Some(Sighting { bad, seen: None })
    }
}

/// Whether a guest is of no more use: it has died, or hangs.
fn is_lost(end: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, TimedOut};
    matches!(end.kind(), ConnectionAborted | TimedOut)
}

/// What a guest and the file system's checker say of a state.
pub(super) struct Sighting {
    /// Why it is bad, if it is.
    pub bad: Option<String>,
    /// What the kernel shows of it, if that is wanted and could be read.
    pub seen: Option<Seen>,
}

/// The states that guests take from, and what came of each.
pub(super) struct Docket<'a> {
    states: &'a [State<'a>],
    next: AtomicUsize,
    sightings: rt::Mutex<Vec<Option<Sighting>>>,
}

impl<'a> Docket<'a> {
    pub fn new(states: &'a [State<'a>]) -> Docket<'a> {
        Docket {
            states,
            next: AtomicUsize::new(0),
            sightings: rt::Mutex::named("sightings", states.iter().map(|_| None).collect()),
        }
    }

    /// The number of a state that nobody has taken.
    fn take(&self) -> Option<usize> {
        let nr = self.next.fetch_add(1, Ordering::Relaxed);
        (nr < self.states.len()).then_some(nr)
    }

    /// What came of the states, in their order, when all guests are done.
    pub fn sightings(self) -> Vec<Sighting> {
        self.sightings.into_inner().into_iter().flatten().collect()
    }
}

impl Bench {
    /// Boots guest number `nr`, whose first disks are `others`; `folder` takes the files under its
    /// disks.
    pub fn boot(
        plan: &KernelPlan,
        nr: usize,
        (folder, bytes): (&Path, u64),
        others: &[&Path],
    ) -> Result<Bench, CrashError> {
        let boots = || host("booting a Linux kernel");
        // Btrfs knows a volume by its name, and refuses an older state on another disk.
        let states = if plan.fs == "btrfs" { 1 } else { DISKS };
        let words: Vec<&str> = plan.words.iter().map(String::as_str).collect();
        let mut machine = Guest::new(&words).map_err(boots())?;
        machine = machine.machine(plan.machine).map_err(boots())?;
        machine = machine.limit(plan.patience).stop_when(plan.stop);
        for other in others {
            machine = machine.disk(other);
        }
        let mut disks = Vec::new();
        for state in 0..states {
            let disk = StateFile::new(folder.join(format!("state{nr}.{state}.img")), bytes)?;
            machine = machine.disk(disk.path());
            disks.push(disk);
        }
        super::put_commands(machine.scratch(), plan)
            .map_err(host("writing the guest's commands"))?;
        Ok(Bench {
            session: Session::start(machine).map_err(boots())?,
            plan: plan.clone(),
            disks,
            first: others.len(),
            takes: false,
            gone: false,
        })
    }

    /// Judges states until none is left (B1).
    pub fn judge(&mut self, docket: &Docket<'_>) -> Result<(), CrashError> {
        let mut hand = Hand::new(self.disks.len());
        while let Some(end) = self.judge_in_one_life(docket, &mut hand)? {
            let under_way = self.given_back(&mut hand);
            match under_way {
                Some(state) => {
                    if let Some(sighting) = hand.end_of(state, &end) {
                        docket.sightings.lock()[state] = Some(sighting);
                    }
                }
                // It ended between two states, or at the boot.
                None if std::mem::replace(&mut hand.idle_end, true) => {
                    return Err(host("the guest")(end));
                }
                None => {}
            }
            self.takes = false;
            self.session.restart().map_err(host("the guest"))?;
        }
        Ok(())
    }

    /// Judges states until none is left, or until the guest dies or hangs; then how.
    fn judge_in_one_life(
        &mut self,
        docket: &Docket<'_>,
        hand: &mut Hand,
    ) -> Result<Option<io::Error>, CrashError> {
        self.begin()?;
        loop {
            let ended = self.session.ended();
            let mut idle = true;
            for disk in 0..self.disks.len() {
                if let Some(state) = hand.held[disk] {
                    let Some(sighting) = self.sighting(disk)? else {
                        continue;
                    };
                    docket.sightings.lock()[state] = Some(sighting);
                    hand.held[disk] = None;
                    hand.idle_end = false;
                    self.session.extend();
                }
                if ended.is_err() {
                    continue;
                }
                hand.held[disk] = hand.next(docket);
                if let Some(state) = hand.held[disk] {
                    self.put(disk, &docket.states[state])?;
                    idle = false;
                }
            }
            if hand.held.iter().all(Option::is_none) {
                return Ok(None);
            }
            match ended {
                Ok(None) => {}
                Ok(Some((status, said))) => {
                    self.takes = false;
                    let why = format!("judging in the guest ended with {status}: {said}");
                    return Err(CrashError::Check(why));
                }
                Err(end) if is_lost(&end) => return Ok(Some(end)),
                Err(e) => return Err(host("the guest")(e)),
            }
            if idle {
                rt::sleep(LOOK);
            }
        }
    }

    /// Takes back from a guest that is gone what it held; answers the state that was under way.
    fn given_back(&self, hand: &mut Hand) -> Option<usize> {
        let mut under_way = None;
        for disk in 0..self.disks.len() {
            let Some(state) = hand.held[disk].take() else {
                continue;
            };
            // The guest takes one at a time, and begins by removing this file.
            match self.file(judge::STATE, disk).exists() {
                true => hand.again.push(state),
                false => under_way = Some(state),
            }
        }
        under_way
    }

    /// Runs a script, behind the judging. A guest in which one failed to end is booted anew before
    /// the next.
    pub fn run(&mut self, script: &str) -> Result<(i32, String), CrashError> {
        self.pause()?;
        let ended = self.session.run(script);
        self.gone = ended.as_ref().is_err_and(is_lost);
        ended.map_err(host("the guest"))
    }

    /// Lets the guest take states.
    fn begin(&mut self) -> Result<(), CrashError> {
        self.revive()?;
        if std::mem::replace(&mut self.takes, true) {
            // The time since the last states is not the guest's.
            self.session.extend();
            return Ok(());
        }
        self.clear();
        let KernelPlan { fs, options, .. } = &self.plan;
        let options = if options.is_empty() { "-" } else { options };
        let disks = self.first..self.first + self.disks.len();
        let disks: String = disks.map(|nr| format!(" $DISK{nr}")).collect();
        let script = format!(
            "guest load {fs} 2>/dev/null || :
             guest judge {fs} {options}{disks}"
        );
        self.session.begin(&script).map_err(host("the guest"))
    }

    /// Gives a state to the guest.
    fn put(&mut self, disk: usize, state: &State<'_>) -> Result<(), CrashError> {
        self.disks[disk].set(state.image)?;
        // kernel-K2: nothing has the disk open. kernel-K3: the mount changes it.
        self.disks[disk].forget();
        write_acked(state.acked, &self.file(judge::ACKED, disk))?;
        fs::write(self.file(judge::STATE, disk), "").map_err(host("telling the guest of a state"))
    }

    /// Removes what an earlier judging may have left: a state that nobody took, a verdict that is
    /// of none of the next states, the word to stop.
    fn clear(&self) {
        let names = [judge::STATE, judge::VERDICT, judge::SEEN, judge::WORDS];
        let files = (0..self.disks.len()).flat_map(|disk| names.map(|name| self.file(name, disk)));
        for file in files.chain([self.session.scratch().join(judge::STOP)]) {
            // Mostly there is none.
            let _ = fs::remove_file(file);
        }
    }

    fn file(&self, name: &str, disk: usize) -> PathBuf {
        self.session.scratch().join(format!("{name}.{disk}"))
    }

    /// Boots the guest anew if a script has made it die or hang.
    fn revive(&mut self) -> Result<(), CrashError> {
        if std::mem::replace(&mut self.gone, false) {
            self.takes = false;
            self.session.restart().map_err(host("the guest"))?;
        }
        Ok(())
    }

    /// Ends the judging, so that scripts run again.
    pub fn pause(&mut self) -> Result<(), CrashError> {
        self.revive()?;
        if !std::mem::replace(&mut self.takes, false) {
            return Ok(());
        }
        let stop = self.session.scratch().join(judge::STOP);
        fs::write(stop, "").map_err(host("telling the guest to stop"))?;
        self.session.extend();
        loop {
            let ended = self.session.ended();
            self.gone = ended.as_ref().is_err_and(is_lost);
            if let Some((status, said)) = ended.map_err(host("the guest"))? {
                return match status {
                    0 => Ok(()),
                    _ => Err(CrashError::Check(format!(
                        "judging in the guest ended with {status}: {said}"
                    ))),
                };
            }
            rt::sleep(LOOK);
        }
    }

    /// What came of the state of a disk, if the guest is done with it.
    fn sighting(&self, disk: usize) -> Result<Option<Sighting>, CrashError> {
        let path = self.file(judge::VERDICT, disk);
        let Ok(line) = fs::read_to_string(&path) else {
            return Ok(None);
        };
        fs::remove_file(&path).map_err(host("removing a verdict"))?;
        let said = || {
            let words = fs::read(self.file(judge::WORDS, disk)).unwrap_or_default();
            String::from_utf8_lossy(&words).into_owned()
        };
        let mut seen = None;
        let bad = match line.trim() {
            "0" => {
                if self.plan.look {
                    let file = self.file(judge::SEEN, disk);
                    seen = Some(Seen::load(&file).map_err(host("reading what a guest has seen"))?);
                }
                checked(&self.plan.fs, self.disks[disk].path())?
            }
            judge::NOT_MOUNTED => Some(format!("the kernel does not mount it: {}", said())),
            judge::NOT_READ => Some(format!("behind a mount that went well, {}", said())),
            status => Some(format!("the check ended with {status}: {}", said())),
        };
        Ok(Some(Sighting { bad, seen }))
    }
}

/// What the file system's own checker finds in an image that was unmounted, where it has one that
/// changes nothing.
fn checked(fs: &str, image: &Path) -> Result<Option<String>, CrashError> {
    let words: &[&str] = match fs {
        "ext4" | "ext3" | "ext2" => return findings(Fs::Ext4, image),
        "f2fs" => return findings(Fs::F2fs, image),
        "xfs" => &["xfs_repair", "-n", "-f"],
        "btrfs" => &["btrfs", "check"],
        "jfs" => &["jfs_fsck", "-n", "-f"],
        _ => return Ok(None),
    };
    let output = Command::new(words[0])
        .args(&words[1..])
        .arg(image)
        .output()
        .map_err(host(format!("running {}", words[0])))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((!output.status.success()).then(|| format!("{}: {said}", words.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_bench_b1_a_death_is_a_finding_and_lateness_one_the_second_time() {
        let mut hand = Hand::new(1);
        let end = |kind| io::Error::new(kind, "console");
        let died = hand.end_of(3, &end(io::ErrorKind::ConnectionAborted));
        let died = died.and_then(|sighting| sighting.bad).expect("a finding");
        assert_eq!(died, "the kernel dies with it: console");
        let late = end(io::ErrorKind::TimedOut);
        assert!(hand.end_of(4, &late).is_none());
        assert_eq!(hand.again, [4]);
        let late = hand.end_of(4, &late).and_then(|sighting| sighting.bad);
        assert!(late.is_some_and(|why| why.contains("hangs")));
        assert!(is_lost(&end(io::ErrorKind::TimedOut)));
        assert!(!is_lost(&end(io::ErrorKind::Interrupted)));
    }
}
