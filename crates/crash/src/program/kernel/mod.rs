//! A file system of a Linux kernel in a guest: recorded there, and judged there.
//!
//! The guest boots once. Between its file system and its disk lies device mapper's `log-writes`,
//! which sees every request with its flush and FUA as the file system sent it, whatever the driver
//! of the disk makes of them. The log becomes a recording ([`read_log`]), and the states of its
//! cuts go back to the same guest and to others like it, each on one of several other disks:
//! mounted, checked, unmounted ([`Bench`]).
//!
//! - K1: what was acknowledged is owed: an acknowledgement is a mark in the same log, and the
//!   program goes on only when the mark is set.
//! - K2: no state is seen through a cache of another one. A disk gets its content while nothing has
//!   it open, and the kernel drops what it knows of a disk when the last one closes it.
//! - K3: the state that was judged is the one that the cut left: what a mount changed in the file
//!   of a disk is written anew.
//!
//! A program of a user is judged by a check of theirs ([`Kernel::record`]); a workload of the
//! explorer by our oracle, which is told what the kernel shows ([`Kernel::try_script`]).

mod bench;
mod finder;
mod inside;
mod promise;
mod trial;

pub use inside::in_guest;
pub use promise::knows;
pub use trial::{Broken, Tried};

use super::court::{Court, State, StateFile, Verdict};
use super::{Recorded, Room, load, read_log};
use crate::CrashError;
use bench::{Bench, Docket};
use blockdev::Image;
use guest::Machine;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// States that are handed to the guests together, for each guest.
const BENCH: usize = 32;
/// Most bytes that a log may take; a file with a hole.
const LOG_BYTES: u64 = 4 << 30;
/// The mark behind which the recording begins.
const BEGIN: &str = "varve-begin";

/// Most bytes of an acknowledgement: an entry of the log is a sector, and the kernel cuts what is
/// longer.
const ACK_MAX: usize = 479;
/// Holds what is wrong with an acknowledgement.
const FAILED: &str = "ack-failed";

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
    /// What the kernel shows of each state is wanted, for [`Kernel::try_script`].
    pub look: bool,
    /// How long a script of the guest may take (User Mode Linux; others get as much more).
    pub patience: Duration,
    /// Guests that judge at the same time, at least 1.
    pub guests: usize,
    /// Whether the user wants all to end.
    pub stop: fn() -> bool,
}

/// Guests with the file system; the first one records.
pub struct Kernel {
    guests: Vec<Bench>,
    plan: KernelPlan,
    /// What the image held at first.
    start: Image,
    /// The image, under the disk of the guest that records.
    disk: StateFile,
    /// The file under the disk that takes the log.
    log: PathBuf,
    bytes: u64,
}

fn host(doing: impl Into<String>) -> impl FnOnce(io::Error) -> CrashError {
    let doing = doing.into();
    move |source| CrashError::Host { doing, source }
}

impl Kernel {
    /// Boots the guests; `folder` takes the files under their disks. The content of the image takes
    /// its size from `room`.
    ///
    /// # Errors
    /// The host fails, no kernel boots here, or the image does not fit into the room.
    pub fn boot(plan: KernelPlan, folder: &Path, room: &mut Room) -> Result<Kernel, CrashError> {
        let (start, bytes) = load(&plan.image, room)?;
        let mut disk = StateFile::new(plan.image.clone(), bytes)?;
        disk.set(&start)?;
        let log = folder.join("log");
        let made = File::create(&log).and_then(|file| file.set_len(LOG_BYTES));
        made.map_err(host("making a file for the log"))?;
        let recorder = [plan.image.as_path(), &log];
        let guests = (0..plan.guests.max(1)).map(|nr| {
            let others: &[&Path] = if nr == 0 { &recorder } else { &[] };
            Bench::boot(&plan, nr, (folder, bytes), others)
        });
        Ok(Kernel {
            guests: guests.collect::<Result<_, _>>()?,
            plan,
            start,
            disk,
            log,
            bytes,
        })
    }

    /// What the kernel in the guests says of itself: release and build.
    ///
    /// # Errors
    /// The guest fails.
    pub fn version(&mut self) -> Result<String, CrashError> {
        let (_, said) = self.guests[0].run("uname -srv")?;
        Ok(said.trim().into())
    }

    /// Runs the command in the guest and reads what the file system sent to its disk, which takes
    /// its size from `room`.
    ///
    /// # Errors
    /// The guest or a command in it fails; the recording does not fit into the room.
    pub fn record(&mut self, room: Room) -> Result<Recorded, CrashError> {
        let KernelPlan { fs, options, .. } = &self.plan;
        let options = mount_options(options);
        let script = format!(
            "guest load dm-log-writes
             guest load {fs} 2>/dev/null || :
             size=$(cat /sys/block/$BLOCK0/size)
             dmsetup create --noudevsync log --table \"0 $size log-writes $DISK0 $DISK1\"
             mount -i -t {fs} {options} /dev/dm-0 $MNT
             export VARVE_DIR=$MNT PATH=$DIR/bin:$PATH
             ( cd $MNT; sh $DIR/setup.sh )
             sync
             dmsetup message log 0 mark {BEGIN}
             ( cd $MNT; sh $DIR/run.sh )
             if [ -e $DIR/{FAILED} ]; then cat $DIR/{FAILED}; exit 1; fi
             umount $MNT
             dmsetup remove log"
        );
        let (status, said) = self.guests[0].run(&script)?;
        if status != 0 {
            return Err(CrashError::Check(format!(
                "in the guest, the command or the mount ended with {status}: {said}"
            )));
        }
        read_log(&self.log, self.start.clone(), self.bytes, Some(BEGIN), room)
    }
}

impl Court for Kernel {
    fn bench(&self) -> usize {
        BENCH * self.guests.len()
    }

    fn judge(&mut self, states: &[State<'_>]) -> Result<Vec<Verdict>, CrashError> {
        let docket = Docket::new(states);
        judged_by_all(&mut self.guests, &docket)?;
        let verdicts = docket.sightings().into_iter().map(|sighting| Verdict {
            recovered: true,
            bad: sighting.bad,
        });
        Ok(verdicts.collect())
    }
}

/// Has the guests judge all states.
fn judged_by_all(guests: &mut [Bench], docket: &Docket<'_>) -> Result<(), CrashError> {
    rt::scope(|scope| {
        let judging: Vec<_> = guests
            .iter_mut()
            .map(|guest| scope.spawn("judge", move || guest.judge(docket)))
            .collect();
        judging.into_iter().try_for_each(|task| {
            let ended = task.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// The commands of the user, and `ack` and `varve ack` for them.
fn put_commands(dir: &Path, plan: &KernelPlan) -> io::Result<()> {
    let text = |command: &Option<String>| command.clone().unwrap_or_else(|| ":".into());
    fs::write(dir.join("setup.sh"), text(&plan.setup))?;
    fs::write(dir.join("run.sh"), &plan.run)?;
    if let Some(check) = &plan.check {
        fs::write(dir.join(guest::judge::CHECK), check)?;
    }
    if plan.look {
        fs::write(dir.join(guest::judge::LOOK_AT), "")?;
    }
    let bin = dir.join("bin");
    fs::create_dir(&bin)?;
    // K1. Device mapper splits a message at spaces, and takes what stands behind a backslash as it
    // is. An acknowledgement that fails ends the run, whatever the program does about it: it would
    // be missing in the log.
    let ack = format!(
        "#!/bin/sh\n\
        fail() {{ echo \"ack: $1\" | tee -a \"${{0%/*}}/../{FAILED}\" >&2; exit 2; }}\n\
        text=$(printf %s \"$*\" | tr '\\n' ' ')\n\
        [ -n \"$text\" ] || fail 'a text is missing'\n\
        [ \"$text\" != dm-log-writes-end ] || fail 'this text is a mark of the kernel'\n\
        [ $(printf %s \"$text\" | wc -c) -le {ACK_MAX} ] || fail 'more than {ACK_MAX} bytes'\n\
        sent=$(printf %s \"$text\" | sed 's/[\\\\ ]/\\\\&/g')\n\
        said=$(dmsetup message -- log 0 mark \"$sent\" 2>&1) || fail \"$said\"\n"
    );
    let varve = "#!/bin/sh\n\
        if [ \"$1\" = ack ]; then shift; exec ack \"$@\"; fi\n\
        echo 'in the guest there is only `varve ack`' >&2; exit 2\n";
    for (name, text) in [("ack", &ack[..]), ("varve", varve)] {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A folder as a guest has it, with a `dmsetup` that notes what it is told, and ends with
    /// `status`.
    struct Room(tempfile::TempDir);

    impl Room {
        fn new(status: u8) -> Room {
            let room = Room(tempfile::tempdir().unwrap());
            let plan = KernelPlan {
                machine: Machine::Any,
                fs: "ext4".into(),
                options: String::new(),
                image: PathBuf::new(),
                words: Vec::new(),
                setup: None,
                run: String::new(),
                check: None,
                look: false,
                patience: Duration::from_secs(1),
                guests: 1,
                stop: || false,
            };
            put_commands(room.0.path(), &plan).unwrap();
            let dmsetup = format!(
                "#!/bin/sh\nfor word; do last=$word; done\n\
                 printf '%s' \"$last\" >\"${{0%/*}}/told\"\necho no such mark\nexit {status}\n"
            );
            let path = room.bin("dmsetup");
            fs::write(&path, dmsetup).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
            room
        }

        fn bin(&self, name: &str) -> PathBuf {
            self.0.path().join("bin").join(name)
        }

        /// Runs a command; its code, what device mapper was told, and what ends the run.
        fn run(&self, name: &str, words: &[&str]) -> (Option<i32>, String, String) {
            let path = format!("{}:/usr/bin:/bin", self.0.path().join("bin").display());
            let mut command = Command::new(self.bin(name));
            let output = command.args(words).env("PATH", path).output().unwrap();
            let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
            let failed = text(self.0.path().join(FAILED));
            (output.status.code(), text(self.bin("told")), failed)
        }

        /// An acknowledgement is refused for this reason, told to nobody, and ends the run.
        fn refuses(&self, words: &[&str], why: &str) {
            let (code, told, failed) = self.run("ack", words);
            assert_eq!((code, told.as_str()), (Some(2), ""), "{words:?}");
            assert!(
                failed.starts_with("ack: ") && failed.contains(why),
                "{failed}"
            );
        }
    }

    #[test]
    fn an_acknowledgement_without_a_text_is_refused() {
        Room::new(0).refuses(&[], "a text is missing");
        Room::new(0).refuses(&[""], "a text is missing");
    }

    #[test]
    fn the_mark_of_the_kernel_is_no_acknowledgement() {
        Room::new(0).refuses(&["dm-log-writes-end"], "a mark of the kernel");
    }

    /// The kernel would cut it, and another text be owed.
    #[test]
    fn an_acknowledgement_is_as_long_as_an_entry_of_the_log() {
        let long = "x".repeat(ACK_MAX);
        let (code, told, failed) = Room::new(0).run("ack", &[&long]);
        assert_eq!((code, told, failed), (Some(0), long.clone(), String::new()));
        Room::new(0).refuses(&[&(long.clone() + "y")], "more than 479 bytes");
        // Bytes and not letters count.
        let wide = long[..ACK_MAX - 1].to_string() + "\u{e4}";
        Room::new(0).refuses(&[&wide], "more than 479 bytes");
    }

    /// kernel-K1: a mark that is not set ends the run.
    #[test]
    fn k1_a_mark_that_fails_ends_the_run() {
        let (code, _, failed) = Room::new(1).run("ack", &["done"]);
        assert_eq!(code, Some(2));
        assert_eq!(failed, "ack: no such mark\n");
    }

    #[test]
    fn the_text_comes_to_the_log_as_it_is() {
        let room = Room::new(0);
        let told = |name: &str, words: &[&str]| {
            let (code, told, failed) = room.run(name, words);
            assert_eq!((code, failed.as_str()), (Some(0), ""));
            told
        };
        assert_eq!(told("ack", &["file", "a"]), "file\\ a");
        assert_eq!(told("ack", &["a\\b\nc"]), "a\\\\b\\ c");
        assert_eq!(told("varve", &["ack", "x"]), "x");
        assert_eq!(room.run("varve", &["fsck"]).0, Some(2));
    }
}
