//! What runs the guest's kernel: User Mode Linux, which boots in a second but not on every machine,
//! or QEMU, which emulates a processor and runs everywhere, about five times slower.
//!
//! In both of them the root of the guest is the host's, read-only, and the scratch directory is
//! mounted over it for writing. A disk is a file, or a device that another program serves at a
//! socket of vhost-user. A write goes there when it is issued, so a guest that is killed leaves
//! every write that it completed, whether flushed or not. Only the second kind carries flushes to
//! the host in both engines.

mod initrd;
mod qemu;
mod unpacked;
mod user_mode;

use crate::Guest;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::OnceLock;
use std::time::Duration;

/// A disk of the guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Disk {
    /// An image file.
    Image(PathBuf),
    /// A device that is served at this socket.
    VhostUser(PathBuf),
}

impl Disk {
    fn is_served(&self) -> bool {
        matches!(self, Disk::VhostUser(_))
    }
}

/// A way to run a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    /// A kernel that is a program.
    UserMode(user_mode::Program),
    /// The kernel of a Debian package in an emulated machine.
    Qemu(qemu::Machine),
}

impl Engine {
    /// Starts the kernel with so many MiB of memory and the scratch directory `dir`, whose file
    /// `init` becomes its first process. What the kernel prints goes to the file `console`. The
    /// kernel does not outlive the thread that calls this.
    ///
    /// # Errors
    /// The program does not start, or a disk has no path.
    pub fn start(&self, dir: &Path, memory: u32, disks: &[Disk]) -> io::Result<Child> {
        match self {
            Engine::UserMode(program) => program.start(dir, memory, disks),
            Engine::Qemu(machine) => machine.start(dir, memory, disks),
        }
    }

    /// The command that mounts the scratch directory in the guest, under its own path.
    pub fn mount_scratch(&self, dir: &Path) -> String {
        let dir = dir.display();
        match self {
            Engine::UserMode(_) => format!("mount -t hostfs -o {dir} none {dir}"),
            Engine::Qemu(_) => format!("mount -t 9p -o {},cache=none scratch {dir}", qemu::SHARE),
        }
    }

    /// The name of the `n`-th disk in the guest.
    pub fn disk_name(&self, disks: &[Disk], n: usize) -> String {
        match self {
            // The kernel numbers the disks of each driver.
            Engine::UserMode(_) if disks[n].is_served() => {
                let before = disks[..n].iter().filter(|disk| disk.is_served());
                format!("vd{}", letter(before.count()))
            }
            // The first letter is that of a root disk, which there is none of.
            Engine::UserMode(_) => format!("ubd{}", letter(n + 1)),
            Engine::Qemu(_) => format!("vd{}", letter(n)),
        }
    }

    /// The commands that make disks appear which the kernel does not find by itself.
    pub fn find_disks(&self, disks: &[Disk]) -> io::Result<String> {
        match self {
            Engine::UserMode(_) if disks.iter().any(Disk::is_served) => user_mode::find_disks(),
            Engine::UserMode(_) | Engine::Qemu(_) => Ok(String::new()),
        }
    }

    /// The word by which [`KNOWN`] names it.
    pub fn word(&self) -> &'static str {
        match self {
            Engine::UserMode(_) => "uml",
            Engine::Qemu(_) => "qemu",
        }
    }

    /// How many times longer than User Mode Linux it takes for the same script.
    pub fn slowness(&self) -> u32 {
        match self {
            Engine::UserMode(_) => 1,
            Engine::Qemu(_) => 5,
        }
    }
}

/// Which way to run a kernel a user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Machine {
    /// The first one that boots; finding that out takes a boot or two.
    #[default]
    Any,
    /// User Mode Linux.
    UserMode,
    /// QEMU.
    Qemu,
}

impl Machine {
    /// Its engine; none for [`Machine::Any`].
    pub(crate) fn engine(self) -> Result<Option<Engine>, String> {
        Ok(match self {
            Machine::Any => None,
            Machine::UserMode => Some(Engine::UserMode(user_mode::Program::find()?)),
            Machine::Qemu => Some(Engine::Qemu(qemu::Machine::find()?)),
        })
    }
}

/// The letter of a disk.
fn letter(n: usize) -> char {
    char::from(b'a' + n as u8)
}

/// Environment variable with the word of the engine that boots here, for the programs of who has
/// found it out: else each of them boots a kernel for that alone.
pub(crate) const KNOWN: &str = "VARVE_TEST_GUEST";

/// The engine that the environment names, if what it needs is installed.
fn known() -> Option<Engine> {
    let machine = match std::env::var(KNOWN).ok()?.as_str() {
        "uml" => Machine::UserMode,
        "qemu" => Machine::Qemu,
        _ => return None,
    };
    machine.engine().ok()?
}

/// The first engine that boots on this machine, or why none does. It is found out once in each
/// process, which takes as long as a boot or two: a program that is installed may still be unable
/// to run, because a sandbox forbids what it needs. When `stop` says so, none boots.
pub(crate) fn chosen(stop: fn() -> bool) -> Result<&'static Engine, &'static str> {
    static CHOSEN: OnceLock<Result<Engine, String>> = OnceLock::new();
    CHOSEN
        .get_or_init(|| {
            if let Some(engine) = known() {
                return Ok(engine);
            }
            let user_mode = user_mode::Program::find().map(Engine::UserMode);
            let first = match user_mode.and_then(|engine| boots(engine, stop)) {
                Ok(engine) => return Ok(engine),
                Err(e) => e,
            };
            let machine = qemu::Machine::find().map(Engine::Qemu);
            machine
                .and_then(|engine| boots(engine, stop))
                .map_err(|second| format!("{first}; {second}"))
        })
        .as_ref()
        .map_err(String::as_str)
}

/// The engine, if it gets as far as running a script.
fn boots(engine: Engine, stop: fn() -> bool) -> Result<Engine, String> {
    let name = match engine {
        Engine::UserMode(_) => "User Mode Linux",
        Engine::Qemu(_) => "QEMU",
    };
    let booted = Guest::new(&[]).and_then(|guest| {
        let guest = guest.limit(Duration::from_secs(20)).stop_when(stop);
        let guest = guest.on(engine.clone());
        guest.crash("touch crash; sleep 60")
    });
    match booted {
        Ok(_) => Ok(engine),
        Err(e) => Err(format!(
            "{name} does not run here{}: {}",
            because(&engine),
            e.to_string().lines().next().unwrap_or_default()
        )),
    }
}

/// What is known to keep an engine from running. The kernel of Linux 6.1 in user mode sets the
/// registers of a process in a block whose size it has fixed, and the host refuses the block if its
/// processor has more (`put_fp_registers`).
fn because(engine: &Engine) -> &'static str {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match engine {
        Engine::UserMode(_) if cpu.contains(" amx_tile") => {
            ", maybe because this processor has AMX registers, which Linux 6.1 in user mode cannot set"
        }
        _ => "",
    }
}

/// A program in the search path.
fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|path| path.is_file())
}
