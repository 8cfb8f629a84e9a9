//! A file system of a Linux kernel in a guest: recorded there, and judged there.
//!
//! The guest boots once. Between its file system and its disk lies device mapper's `log-writes`,
//! which sees every request with its flush and FUA as the file system sent it, whatever the driver
//! of the disk makes of them. The log becomes a recording ([`read_log`]), and the states of its
//! cuts go back to the same guest, each on one of several other disks: mounted, checked, unmounted.
//!
//! - K1: what was acknowledged is owed: an acknowledgement is a mark in the same log, and the
//!   program goes on only when the mark is set.
//! - K2: no state is seen through a cache of another one. A disk gets its content while nothing has
//!   it open, and the kernel drops what it knows of a disk when the last one closes it.
//! - K3: the state that was judged is the one that the cut left: what a mount changed in the file
//!   of a disk is written anew.

use super::court::{Court, State, StateFile, Verdict, findings, write_acked};
use super::{Recorded, Room, load, read_log};
use crate::CrashError;
use guest::{Guest, Machine, Session};
use rig::Fs;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// States that are judged by one script of the guest.
const BENCH: usize = 8;
/// Most bytes that a log may take; a file with a hole.
const LOG_BYTES: u64 = 4 << 30;
/// The mark behind which the recording begins.
const BEGIN: &str = "varve-begin";

/// What the guest is to run.
#[derive(Clone, Debug)]
pub struct KernelPlan {
    /// What runs the kernel.
    pub machine: Machine,
    /// The kernel's name of the file system: `ext4`.
    pub fs: String,
    /// Options of the mount.
    pub options: String,
    /// An image with the file system.
    pub image: PathBuf,
    /// Words with which this program, called in the guest, calls [`guest::hook()`].
    pub words: Vec<String>,
    /// Shell command that runs before the recording begins.
    pub setup: Option<String>,
    /// Shell command that is recorded.
    pub run: String,
    /// Shell command that judges a mounted state.
    pub check: Option<String>,
    /// How long a script of the guest may take (User Mode Linux; others get as much more).
    pub patience: Duration,
}

/// A guest with the file system.
pub struct Kernel {
    session: Session,
    plan: KernelPlan,
    /// The files under the disks that take states.
    disks: Vec<StateFile>,
    /// The file under the disk that takes the log.
    log: PathBuf,
    bytes: u64,
}

fn host(doing: impl Into<String>) -> impl FnOnce(io::Error) -> CrashError {
    let doing = doing.into();
    move |source| CrashError::Host { doing, source }
}

impl Kernel {
    /// Boots the guest; `folder` takes the files under its disks.
    ///
    /// # Errors
    /// The host fails, or no kernel boots here.
    pub fn boot(plan: KernelPlan, folder: &Path) -> Result<Kernel, CrashError> {
        let boots = || host("booting a Linux kernel");
        let bytes = fs::metadata(&plan.image).map_err(host("looking at the image"))?;
        let bytes = bytes.len();
        let log = folder.join("log");
        let made = File::create(&log).and_then(|file| file.set_len(LOG_BYTES));
        made.map_err(host("making a file for the log"))?;
        // Btrfs knows a volume by its name, and refuses an older state on another disk.
        let bench = if plan.fs == "btrfs" { 1 } else { BENCH };
        let words: Vec<&str> = plan.words.iter().map(String::as_str).collect();
        let mut machine = Guest::new(&words).map_err(boots())?;
        machine = machine.machine(plan.machine).map_err(boots())?;
        machine = machine.limit(plan.patience).disk(&plan.image).disk(&log);
        let mut disks = Vec::new();
        for nr in 0..bench {
            let disk = StateFile::new(folder.join(format!("state{nr}.img")), bytes)?;
            machine = machine.disk(disk.path());
            disks.push(disk);
        }
        put_commands(machine.scratch(), &plan).map_err(host("writing the guest's commands"))?;
        Ok(Kernel {
            session: Session::start(machine).map_err(boots())?,
            plan,
            disks,
            log,
            bytes,
        })
    }

    /// Runs the command in the guest and reads what the file system sent to its disk. The content
    /// takes its size from `room`.
    ///
    /// # Errors
    /// The guest or a command in it fails; the recording does not fit into the room.
    pub fn record(&mut self, mut room: Room) -> Result<Recorded, CrashError> {
        let (start, _) = load(&self.plan.image, &mut room)?;
        let KernelPlan { fs, options, .. } = &self.plan;
        let options = mount_options(options);
        let script = format!(
            "guest load dm-log-writes
             guest load {fs} 2>/dev/null || :
             size=$(cat /sys/block/$BLOCK0/size)
             dmsetup create --noudevsync log --table \"0 $size log-writes $DISK0 $DISK1\"
             mount -t {fs} {options} /dev/dm-0 $MNT
             export VARVE_DIR=$MNT PATH=$DIR/bin:$PATH
             ( cd $MNT; sh $DIR/setup.sh )
             sync
             dmsetup message log 0 mark {BEGIN}
             ( cd $MNT; sh $DIR/run.sh )
             umount $MNT
             dmsetup remove log"
        );
        let (status, said) = self.session.run(&script).map_err(host("the guest"))?;
        if status != 0 {
            return Err(CrashError::Check(format!(
                "in the guest, the command or the mount ended with {status}: {said}"
            )));
        }
        read_log(&self.log, start, self.bytes, Some(BEGIN), room)
    }

    /// The script that judges so many states, and prints for each its number and what came of it.
    fn script(&self, states: usize) -> String {
        let KernelPlan { fs, options, .. } = &self.plan;
        let options = mount_options(options);
        // The mount of util-linux loads a dozen libraries, and an emulated processor is slow.
        let mut script = format!(
            "if command -v busybox >/dev/null; then
                 mount() {{ busybox mount \"$@\"; }}
                 umount() {{ busybox umount \"$@\"; }}
             fi
             judge() {{
                 if ! mount -t {fs} {options} $1 $MNT 2>words.$2; then echo $2 mount; return; fi
                 status=0
                 ( cd $MNT; set +eu; export VARVE_DIR=$MNT VARVE_ACKED=$DIR/acked.$2; . $DIR/check.sh ) >words.$2 2>&1 || status=$?
                 umount $MNT
                 echo $2 $status
             }}\n"
        );
        for nr in 0..states {
            // The first two disks are those of the recording.
            script += &format!("judge $DISK{} {nr}\n", nr + 2);
        }
        script
    }

    /// What the guest says of state `nr`: its line of the script's output.
    fn verdict(&mut self, nr: usize, line: &str) -> Result<Verdict, CrashError> {
        let words = self.session.scratch().join(format!("words.{nr}"));
        let said = || String::from_utf8_lossy(&fs::read(&words).unwrap_or_default()).into_owned();
        let bad = match line.strip_prefix(&format!("{nr} ")) {
            Some("0") => checked(&self.plan.fs, self.disks[nr].path())?,
            Some("mount") => Some(format!("the kernel does not mount it: {}", said())),
            Some(status) => Some(format!("the check ended with {status}: {}", said())),
            None => {
                let why = format!("the guest says `{line}` of state {nr}");
                return Err(CrashError::Check(why));
            }
        };
        Ok(Verdict {
            recovered: true,
            bad,
        })
    }
}

impl Court for Kernel {
    fn bench(&self) -> usize {
        self.disks.len()
    }

    fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError> {
        for (nr, (disk, state)) in self.disks.iter_mut().zip(states).enumerate() {
            disk.set(state.image)?;
            // K2: nothing has the disk open. K3: the mount changes it.
            disk.forget();
            let acked = self.session.scratch().join(format!("acked.{nr}"));
            write_acked(state.acked, &acked)?;
        }
        let script = self.script(states.len());
        let (status, said) = self.session.run(&script).map_err(host("the guest"))?;
        let lines: Vec<&str> = said.lines().collect();
        if status != 0 || lines.len() != states.len() {
            let why = format!("judging in the guest ended with {status}: {said}");
            return Err(CrashError::Check(why));
        }
        let lines = lines.into_iter().enumerate();
        lines.map(|(nr, line)| self.verdict(nr, line)).collect()
    }
}

/// The commands of the user, and `ack` and `varve ack` for them.
fn put_commands(dir: &Path, plan: &KernelPlan) -> io::Result<()> {
    let text = |command: &Option<String>| command.clone().unwrap_or_else(|| ":".into());
    fs::write(dir.join("setup.sh"), text(&plan.setup))?;
    fs::write(dir.join("run.sh"), &plan.run)?;
    fs::write(dir.join("check.sh"), text(&plan.check))?;
    let bin = dir.join("bin");
    fs::create_dir(&bin)?;
    // K1. Device mapper splits a message at spaces, and takes what stands behind a backslash as it
    // is.
    let ack = "#!/bin/sh\n\
        exec dmsetup message log 0 mark \"$(printf %s \"$*\" | sed 's/[\\\\ ]/\\\\&/g')\"\n";
    let varve = "#!/bin/sh\n\
        if [ \"$1\" = ack ]; then shift; exec ack \"$@\"; fi\n\
        echo 'in the guest there is only `varve ack`' >&2; exit 2\n";
    for (name, text) in [("ack", ack), ("varve", varve)] {
        fs::write(bin.join(name), text)?;
        fs::set_permissions(bin.join(name), Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn mount_options(options: &str) -> String {
    match options {
        "" => String::new(),
        _ => format!("-o {options}"),
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
