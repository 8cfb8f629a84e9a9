//! Judges states in a guest, one after the other, without starting a program for what a system call
//! does: in User Mode Linux and on an emulated processor to start one takes longer than a mount.
//!
//! It runs until the guest is killed or the host makes the file `stop`, and talks with the host
//! through files of the scratch directory. For disk N the host writes `acked.N`, then makes
//! `state.N`, when the disk holds a state. The guest removes `state.N`, mounts the disk, runs
//! `sh check.sh` in its root if there is such a file, unmounts, and makes `verdict.N`: the exit
//! code of the check or `mount`, a line. What was said on the way is in `words.N`. If there is a
//! file `look`, what the kernel shows of the state goes to `seen.N` ([`Seen`]), and a file is made,
//! written and removed; the verdict is `read` if one of these fails.

use crate::Seen;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The file that says that a disk holds a state.
pub const STATE: &str = "state";
/// The file of what the check or the mount said.
pub const WORDS: &str = "words";
/// The file of what came of a state.
pub const VERDICT: &str = "verdict";
/// The file of what had been acknowledged.
pub const ACKED: &str = "acked";
/// The check, if there is one.
pub const CHECK: &str = "check.sh";
/// The verdict on a state that the kernel does not mount.
pub const NOT_MOUNTED: &str = "mount";

/// The verdict on a state that cannot be read or written.
pub const NOT_READ: &str = "read";
/// The file that says that what is seen of each state is wanted.
pub const LOOK_AT: &str = "look";
/// The file of what is seen of a state.
pub const SEEN: &str = "seen";
/// The file that ends the judging.
pub const STOP: &str = "stop";

/// How long the guest waits before it looks for a state again.
const LOOK: Duration = Duration::from_millis(1);
/// How long processes that were killed may take to leave the volume.
const LEAVING: Duration = Duration::from_secs(5);

/// Judges states on `disks`, which are devices, until it is told to stop.
pub(crate) fn judge(
    scratch: &Path,
    (fs, options): (&str, &str),
    disks: &[String],
) -> io::Result<()> {
    let (flags, data) = parse(options);
    let data = CString::new(data).map_err(io::Error::other)?;
    let root = scratch.join("mnt");
    let file = |name: &str, nr: usize| scratch.join(format!("{name}.{nr}"));
    loop {
        let mut found = false;
        for (nr, disk) in disks.iter().enumerate() {
            if fs::remove_file(file(STATE, nr)).is_err() {
                continue;
            }
            found = true;
            let verdict = match mount(disk, &root, fs, flags, data.as_c_str()) {
                Err(e) => {
                    fs::write(file(WORDS, nr), e.to_string())?;
                    NOT_MOUNTED.to_string()
                }
                Ok(()) => {
                    let verdict = match look(scratch, &root, &file(SEEN, nr)) {
                        Ok(()) => {
                            let files = (file(WORDS, nr), file(ACKED, nr));
                            check(scratch, &root, (&files.0, &files.1))?.to_string()
                        }
                        Err(e) => {
                            fs::write(file(WORDS, nr), e.to_string())?;
                            NOT_READ.to_string()
                        }
                    };
                    unmounted(&root)?;
                    verdict
                }
            };
            let part = file("part", nr);
            fs::write(&part, format!("{verdict}\n"))?;
            fs::rename(&part, file(VERDICT, nr))?;
        }
        if !found {
            if fs::remove_file(scratch.join(STOP)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Writes what is seen of a mounted state, if that is wanted, and uses the file system once more.
fn look(scratch: &Path, root: &Path, to: &Path) -> io::Result<()> {
    if !scratch.join(LOOK_AT).exists() {
        return Ok(());
    }
    let told = |what: &str| {
        let what = what.to_string();
        move |e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"))
    };
    let seen = Seen::of(root).map_err(told("reading"))?;
    seen.save(to)?;
    let file = root.join("varve-judge");
    fs::write(&file, [7; 100]).map_err(told("writing a new file"))?;
    fs::remove_file(&file).map_err(told("removing a file"))
}

/// Unmounts. A process that was killed leaves its directory a moment later.
fn unmounted(root: &Path) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match unmount(root, UnmountFlags::empty()) {
            Err(Errno::BUSY) if since.elapsed() < LEAVING => std::thread::sleep(LOOK),
            Err(Errno::BUSY) => {
                return Err(io::Error::other(
                    "the check has left a process of another group that uses the volume, so it cannot be unmounted; end it in the check",
                ));
            }
            other => return Ok(other?),
        }
    }
}

/// The exit code of the check in the root of a mounted state.
fn check(scratch: &Path, root: &Path, (words, acked): (&Path, &Path)) -> io::Result<i32> {
    let script = scratch.join(CHECK);
    let said = File::create(words)?;
    if !script.exists() {
        return Ok(0);
    }
    let mut shell = Command::new("sh");
    shell
        .arg(script)
        .current_dir(root)
        .env("VARVE_DIR", root)
        .env("VARVE_ACKED", acked)
        .stdin(Stdio::null())
        .stderr(said.try_clone()?)
        .stdout(said);
    let mut shell = shell.process_group(0).spawn()?;
    let status = shell.wait()?;
    // What it has left in the background would keep the volume busy.
    match kill_process_group(Pid::from_child(&shell), Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(e) => return Err(e.into()),
    }
    // One that was killed has no code.
    Ok(status.code().unwrap_or(255))
}

/// Options as `mount -o` takes them: those of all file systems as flags, all others as they are.
fn parse(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut others = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let flag = match option {
            "ro" => MountFlags::RDONLY,
            "sync" => MountFlags::SYNCHRONOUS,
            "dirsync" => MountFlags::DIRSYNC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "strictatime" => MountFlags::STRICTATIME,
            "lazytime" => MountFlags::LAZYTIME,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "defaults" | "rw" | "async" | "suid" | "dev" | "exec" | "atime" | "diratime" => {
                MountFlags::empty()
            }
            other => {
                others.push(other);
                MountFlags::empty()
            }
        };
        flags |= flag;
    }
    (flags, others.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_all_file_systems_are_flags() {
        let both = MountFlags::NOATIME | MountFlags::SYNCHRONOUS;
        let parsed = parse("noatime,data=journal,rw,sync,barrier=0");
        assert_eq!(parsed, (both, "data=journal,barrier=0".into()));
        assert_eq!(parse(""), (MountFlags::empty(), String::new()));
    }
}
