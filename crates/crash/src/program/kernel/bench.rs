//! A guest that judges states, and the files under its disks.
//!
//! One script of the guest mounts, checks and unmounts a state on each of its disks. As soon as a
//! state is unmounted, its verdict is a file, and the host runs the file system's own checker on
//! that disk while the guest goes on with the next one.

use super::super::court::{State, StateFile, Verdict, findings, write_acked};
use super::{KernelPlan, host, mount_options};
use crate::CrashError;
use base::Nanos;
use guest::{Guest, Session};
use rig::Fs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// States that are judged by one script of a guest.
const STATES: usize = 8;
/// How often the host looks for a verdict.
const LOOK: Nanos = Nanos(2_000_000);

/// The guest.
pub(super) struct Bench {
    pub session: Session,
    plan: KernelPlan,
    /// The files under the disks that take states.
    disks: Vec<StateFile>,
    /// The number of the first of these disks in the guest.
    first: usize,
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
        let states = if plan.fs == "btrfs" { 1 } else { STATES };
        let words: Vec<&str> = plan.words.iter().map(String::as_str).collect();
        let mut machine = Guest::new(&words).map_err(boots())?;
        machine = machine.machine(plan.machine).map_err(boots())?;
        machine = machine.limit(plan.patience);
        for other in others {
            machine = machine.disk(other);
        }
        let mut disks = Vec::new();
        for state in 0..states {
            let disk = StateFile::new(folder.join(format!("state{nr}.{state}.img")), bytes)?;
            machine = machine.disk(disk.path());
            disks.push(disk);
        }
        super::put_commands(machine.scratch(), plan).map_err(host("writing the guest's commands"))?;
        Ok(Bench {
            session: Session::start(machine).map_err(boots())?,
            plan: plan.clone(),
            disks,
            first: others.len(),
        })
    }

    /// How many states it takes at a time.
    pub fn len(&self) -> usize {
        self.disks.len()
    }

    /// Judges the states; a verdict for each, in their order.
    pub fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError> {
        for (nr, (disk, state)) in self.disks.iter_mut().zip(states).enumerate() {
            disk.set(state.image)?;
            // K2: nothing has the disk open. K3: the mount changes it.
            disk.forget();
            let scratch = self.session.scratch();
            write_acked(state.acked, &scratch.join(format!("acked.{nr}")))?;
        }
        let script = self.script(states.len());
        self.session.begin(&script).map_err(host("the guest"))?;
        let mut verdicts = Vec::new();
        loop {
            let ended = self.session.ended().map_err(host("the guest"))?;
            // Looked for behind the end, so that a script that has ended has left all of them.
            while let Some(verdict) = self.verdict(verdicts.len(), states.len())? {
                verdicts.push(verdict);
            }
            if let Some((status, said)) = ended {
                return match status == 0 && verdicts.len() == states.len() {
                    true => Ok(verdicts),
                    false => Err(CrashError::Check(format!(
                        "judging in the guest ended with {status}: {said}"
                    ))),
                };
            }
            rt::sleep(LOOK);
        }
    }

    /// The script that judges so many states, and leaves for each a file with what came of it.
    fn script(&self, states: usize) -> String {
        let KernelPlan { fs, options, .. } = &self.plan;
        let options = mount_options(options);
        // The mount of util-linux loads a dozen libraries, and an emulated processor is slow.
        let mut script = format!(
            "guest load {fs} 2>/dev/null || :
             if command -v busybox >/dev/null; then
                 mount() {{ busybox mount \"$@\"; }}
                 umount() {{ busybox umount \"$@\"; }}
             fi
             judge() {{
                 if ! mount -t {fs} {options} $1 $MNT 2>words.$2; then echo mount >verdict.$2; return; fi
                 status=0
                 ( cd $MNT; set +eu; export VARVE_DIR=$MNT VARVE_ACKED=$DIR/acked.$2; . $DIR/check.sh ) >words.$2 2>&1 || status=$?
                 umount $MNT
                 echo $status >verdict.$2
             }}\n"
        );
        for nr in 0..states {
            script += &format!("judge $DISK{} {nr}\n", nr + self.first);
        }
        script
    }

    fn file(&self, name: &str, nr: usize) -> PathBuf {
        self.session.scratch().join(format!("{name}.{nr}"))
    }

    /// The verdict on state `nr` of `states`, if the guest is done with it.
    fn verdict(&self, nr: usize, states: usize) -> Result<Option<Verdict>, CrashError> {
        let path = self.file("verdict", nr);
        let text = fs::read_to_string(&path).unwrap_or_default();
        // The guest may be in the middle of writing it.
        let Some(line) = text.strip_suffix('\n').filter(|_| nr < states) else {
            return Ok(None);
        };
        fs::remove_file(&path).map_err(host("removing a verdict"))?;
        let said = || {
            let words = fs::read(self.file("words", nr)).unwrap_or_default();
            String::from_utf8_lossy(&words).into_owned()
        };
        let bad = match line {
            "0" => checked(&self.plan.fs, self.disks[nr].path())?,
            "mount" => Some(format!("the kernel does not mount it: {}", said())),
            status => Some(format!("the check ended with {status}: {}", said())),
        };
        Ok(Some(Verdict {
            recovered: true,
            bad,
        }))
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
