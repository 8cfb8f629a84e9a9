//! User Mode Linux: a kernel that is an ordinary program of the host (Debian package
//! `user-mode-linux`).
//!
//! Its disk `ubd` (seen with 6.1.176) has a volatile write cache and no FUA, so the kernel turns a
//! FUA write into write and flush. A flush gets lost in the driver: it walks the segments of a
//! request, and a flush has none. A disk of vhost-user is `virtio_blk`, which keeps them.

use super::Disk;
use crate::modules;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Names of the program: Debian's package has the first, a kernel of one's own build the second.
const PROGRAMS: [&str; 2] = ["linux.uml", "linux"];

/// The number of a block device among those of virtio.
const BLOCK_DEVICE: u32 = 2;

/// The kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    /// The kernel of this machine, if its modules have F2FS.
    pub fn find() -> Result<Program, String> {
        let program = super::program(&PROGRAMS)
            .ok_or_else(|| format!("no User Mode Linux (program `{}`)", PROGRAMS[0]))?;
        modules::of_user_mode()
            .and_then(|place| place.files_of("f2fs"))
            .map_err(|e| format!("User Mode Linux without F2FS: {e}"))?;
        Ok(Program(program))
    }

    pub fn start(&self, dir: &Path, memory: u32, disks: &[Disk]) -> io::Result<Child> {
        let mut command = Command::new(&self.0);
        command
            .args([
                &format!("mem={memory}M"),
                "rootfstype=hostfs",
                "root=/dev/root",
                "hostfs=/",
                "ro",
            ])
            .args(["con=null", "con0=null,fd:1", "panic=-1"])
            .arg(format!("init={}/init", dir.display()))
            .arg(format!("uml_dir={}/", dir.display()))
            .env("TMPDIR", dir)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("console"))?)
            .stderr(Stdio::null())
            .process_group(0);
        for (n, disk) in disks.iter().enumerate() {
            // Relative paths would be looked up in the guest's view of its current directory.
            match disk {
                Disk::Image(image) => {
                    let (image, letter) = (fs::canonicalize(image)?, super::letter(n + 1));
                    command.arg(format!("ubd{letter}={}", image.display()));
                }
                Disk::VhostUser(socket) => {
                    let socket = fs::canonicalize(socket)?;
                    let device = format!("{}:{BLOCK_DEVICE}", socket.display());
                    command.arg(format!("virtio_uml.device={device}"));
                }
            }
        }
        rt::signals::end_with_this_thread(&mut command);
        command.spawn()
    }
}

/// The commands that load the driver of virtio disks; the kernel makes their nodes.
pub(super) fn find_disks() -> io::Result<String> {
    // What the kernel has built in has no file.
    let place = modules::of_user_mode()?;
    let files = place.files_of("virtio_blk").unwrap_or_default();
    // The guest looks there, and not where the path of the caller leads.
    let insmod = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"]
        .iter()
        .any(|dir| Path::new(dir).join("insmod").is_file());
    if !files.is_empty() && !insmod {
        let why = "no `insmod` (Debian package kmod): the guest loads virtio_blk for its served disk by it";
        return Err(io::Error::other(why));
    }
    Ok((files
        .iter()
        .map(|file| format!("insmod {}\n", file.display())))
    .collect())
}
