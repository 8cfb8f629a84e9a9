//! QEMU with the kernel of a Debian package (`qemu-system-x86`, `linux-image-amd64`,
//! `busybox-static`). The processor is emulated: that takes neither a right nor a feature of the
//! host, and runs the same everywhere.
//!
//! The host's directories are shared by 9p. A disk is a `virtio-blk` device, which has a volatile
//! write cache and no FUA, so the kernel turns a FUA write into write and flush; a flush ends in
//! QEMU, as an image file need not outlive the host. A disk that is served at a socket is a
//! `vhost-user-blk` device, and the guest's memory is shared with the server; where that server
//! goes, QEMU looks for another one at the same socket each second, and the guest's requests wait.

use super::{Disk, initrd, unpacked};
use crate::modules::{self, Place};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "qemu-system-x86_64";
/// How directories of the host are mounted.
pub(super) const SHARE: &str = "trans=virtio,version=9p2000.L,msize=262144";
/// Modules without which the guest sees neither its root nor its disks.
const FIRST: [&str; 4] = ["virtio_pci", "virtio_blk", "9pnet_virtio", "9p"];
/// The first slot of the PCI bus that the disks may take: those before are the machine's own.
const DISK_SLOT: usize = 8;

/// What QEMU is to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Machine {
    program: PathBuf,
    busybox: PathBuf,
    kernel: PathBuf,
    modules: Place,
}

impl Machine {
    /// The newest kernel of this machine that has F2FS, and the programs to run it.
    pub fn find() -> Result<Machine, String> {
        let need = |name: &str, package: &str| {
            let why = format!("no program `{name}` (Debian package `{package}`)");
            super::program(&[name]).ok_or(why)
        };
        let program = need(PROGRAM, "qemu-system-x86")?;
        let busybox = need("busybox", "busybox-static")?;
        let found = modules::installed().into_iter().rev().find_map(|place| {
            let kernel = Path::new("/boot").join(format!("vmlinuz-{}", place.release()?));
            let usable = place.files_of("f2fs").is_ok() && File::open(&kernel).is_ok();
            usable.then_some((kernel, place))
        });
        let (kernel, modules) =
            found.ok_or("no kernel with F2FS in /boot (Debian package `linux-image-amd64`)")?;
        Ok(Machine {
            program,
            busybox,
            kernel,
            modules,
        })
    }

    pub fn start(&self, dir: &Path, memory: u32, disks: &[Disk]) -> io::Result<Child> {
        let initrd = dir.join("initrd");
        let modules: Vec<PathBuf> = FIRST
            .iter()
            // What the kernel has built in has no file.
            .flat_map(|module| self.modules.files_of(module).unwrap_or_default())
            .collect();
        fs::write(
            &initrd,
            initrd::make(&self.busybox, &modules, &dir.join("init"))?,
        )?;
        let console = File::create(dir.join("console"))?;
        let mut command = Command::new(&self.program);
        command
            .args(["-accel", "tcg", "-cpu", "max", "-m", &memory.to_string()])
            .args([
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
                "-serial",
                "stdio",
            ])
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 edd=off mitigations=off",
            ])
            .arg("-kernel")
            .arg(unpacked::path(&self.kernel))
            .arg("-initrd")
            .arg(&initrd)
            .args(share(
                Path::new("/"),
                "host",
                ",readonly=on,multidevs=remap",
            ))
            .args(share(dir, "scratch", ""))
            .stdin(Stdio::null())
            .stderr(console.try_clone()?)
            .stdout(console)
            .process_group(0);
        if disks.iter().any(Disk::is_served) {
            let shared = format!("memory-backend-memfd,id=memory,size={memory}M,share=on");
            command.args(["-machine", "memory-backend=memory", "-object", &shared]);
        }
        for (n, disk) in disks.iter().enumerate() {
            command.args(arguments(n, disk)?);
        }
        rt::signals::end_with_this_thread(&mut command);
        command.spawn()
    }
}

/// The arguments for a disk.
fn arguments(n: usize, disk: &Disk) -> io::Result<[String; 4]> {
    let (slot, function) = (DISK_SLOT + n / 8, n % 8);
    let place = format!("addr={slot:#x}.{function},multifunction=on");
    Ok(match disk {
        Disk::Image(image) => {
            let image = option(&fs::canonicalize(image)?);
            let drive = "format=raw,if=none,cache=unsafe,discard=unmap";
            [
                "-drive".into(),
                format!("file={image},id=d{n},{drive}"),
                "-device".into(),
                format!("virtio-blk-pci,drive=d{n},{place}"),
            ]
        }
        Disk::VhostUser(socket) => [
            "-chardev".into(),
            format!("socket,id=d{n},path={},reconnect=1", option(socket)),
            "-device".into(),
            format!("vhost-user-blk-pci,chardev=d{n},{place}"),
        ],
    })
}

/// Options that share a directory under a name.
fn share(dir: &Path, name: &str, more: &str) -> [String; 2] {
    let path = option(dir);
    [
        "-virtfs".into(),
        format!("local,path={path},mount_tag={name},security_model=none{more}"),
    ]
}

/// A path as the value of an option, in which a comma stands twice.
fn option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_ends_no_option() {
        assert_eq!(option(Path::new("/a,b/c")), "/a,,b/c");
        let share = share(Path::new("/x,y"), "host", "");
        assert_eq!(
            share[1],
            "local,path=/x,,y,mount_tag=host,security_model=none"
        );
    }
}
