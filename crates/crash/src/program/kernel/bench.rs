//! A guest that judges states, and the files under its disks.
//!
//! The guest takes states for as long as it runs ([`guest::judge`]): while it mounts, checks and
//! unmounts one, the host writes the next ones to other disks, and runs the file system's own
//! checker on those that the guest is done with.

use super::super::court::{State, StateFile, findings, write_acked};
use super::{KernelPlan, host};
use crate::CrashError;
use base::Nanos;
use guest::{Guest, Seen, Session, judge};
use rig::Fs;
use std::fs;
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
        })
    }

    /// Judges states until none is left. Where the guest's judging ends, what it has not taken goes
    /// with the next beginning.
    pub fn judge(&mut self, docket: &Docket<'_>) -> Result<(), CrashError> {
        self.begin()?;
        // The state that each disk holds.
        let mut held: Vec<Option<usize>> = self.disks.iter().map(|_| None).collect();
        loop {
            let mut idle = true;
            for (disk, held) in held.iter_mut().enumerate() {
                if let Some(state) = *held {
                    let Some(sighting) = self.sighting(disk)? else {
                        continue;
                    };
                    docket.sightings.lock()[state] = Some(sighting);
                    self.session.extend();
                }
                *held = docket.take();
                if let Some(state) = *held {
                    self.put(disk, &docket.states[state])?;
                    idle = false;
                }
            }
            if held.iter().all(Option::is_none) {
                return Ok(());
            }
            if let Some((status, said)) = self.session.ended().map_err(host("the guest"))? {
                let why = format!("judging in the guest ended with {status}: {said}");
                self.takes = false;
                return Err(CrashError::Check(why));
            }
            if idle {
                rt::sleep(LOOK);
            }
        }
    }

    /// Lets the guest take states.
    fn begin(&mut self) -> Result<(), CrashError> {
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

    /// Ends the judging, so that scripts run again.
    pub fn pause(&mut self) -> Result<(), CrashError> {
        if !std::mem::replace(&mut self.takes, false) {
            return Ok(());
        }
        let stop = self.session.scratch().join(judge::STOP);
        fs::write(stop, "").map_err(host("telling the guest to stop"))?;
        self.session.extend();
        loop {
            if let Some((status, said)) = self.session.ended().map_err(host("the guest"))? {
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
