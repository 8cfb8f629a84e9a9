//! One boot of the kernel: takes a script, and returns its status and output.
//!
//! The scratch directory is the only place where the guest can write. It holds, all made anew for
//! each boot: `init` (the boot script), `script`, `output` (what the script printed), `status` (its
//! exit status), `crash` (the wish to be killed), `console` (what the kernel printed), `mnt` (an
//! empty directory to mount on). A session adds `go.N`, `said.N` and `end.N` (`session`).

use crate::engine::{self, Disk, Engine, Machine};
use crate::running::Running;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a kernel may take until the script begins.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Memory of a guest, in MiB.
const MEMORY: u32 = 512;
/// How often the host looks whether the guest is done.
pub(crate) const POLL: Duration = Duration::from_millis(5);
/// Environment variable that holds the words of a call of the guest program.
pub(crate) const CALL: &str = "VARVE_GUEST_CALL";
/// Environment variable that holds the scratch directory, in the guest.
pub(crate) const SCRATCH: &str = "VARVE_GUEST_SCRATCH";

/// A kernel to boot.
pub struct Guest {
    scratch: tempfile::TempDir,
    program: Vec<String>,
    disks: Vec<Disk>,
    limit: Duration,
    memory: u32,
    /// Whether somebody wants it to end.
    stop: fn() -> bool,
    /// What runs it; `None`: the one that was found to work here.
    engine: Option<Engine>,
}

/// How a boot ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The script ended with this status and the kernel was powered off. Nothing was unmounted but
    /// by the script.
    Exit(i32),
    /// The script asked for a crash (`guest crash`): the kernel was killed in the middle of its
    /// work.
    Crash,
}

/// The result of a boot.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What the script printed, errors included.
    pub output: String,
    /// What the kernel printed.
    pub console: String,
}

impl Guest {
    /// A kernel whose scripts can call the running program as `guest ...`; `arguments` lead that
    /// program to [`hook`](crate::hook()). For a test of the standard harness named `in_the_guest`
    /// at the top of its file they are `&["in_the_guest", "--exact", "--nocapture"]`.
    ///
    /// # Errors
    /// The scratch directory cannot be made, or the running program has no path.
    pub fn new(arguments: &[&str]) -> io::Result<Guest> {
        let program = std::env::current_exe()?;
        let mut call = vec![program.to_string_lossy().into_owned()];
        call.extend(arguments.iter().map(ToString::to_string));
        let scratch = tempfile::Builder::new().prefix("guest").tempdir()?;
        Ok(Guest {
            scratch,
            program: call,
            disks: Vec::new(),
            limit: Duration::from_secs(60),
            memory: MEMORY,
            stop: || false,
            engine: None,
        })
    }

    /// Makes it run on `engine`.
    pub(crate) fn on(mut self, engine: Engine) -> Guest {
        self.engine = Some(engine);
        self
    }

    /// Makes it run on this machine.
    ///
    /// # Errors
    /// Its programs or modules are missing.
    pub fn machine(mut self, machine: Machine) -> io::Result<Guest> {
        self.engine = machine.engine().map_err(io::Error::other)?;
        Ok(self)
    }

    /// Adds an image file; the first is `$DISK0` in the guest, the next `$DISK1`.
    #[must_use]
    pub fn disk(mut self, image: &Path) -> Guest {
        self.disks.push(Disk::Image(image.to_path_buf()));
        self
    }

    /// Adds a disk that another program, or another thread of this one, serves by vhost-user at
    /// `socket`. It is named as one of [`disk`](Guest::disk) is, and carries every flush.
    #[must_use]
    pub fn served(mut self, socket: &Path) -> Guest {
        self.disks.push(Disk::VhostUser(socket.to_path_buf()));
        self
    }

    /// Sets the longest time that a script may take in User Mode Linux (60 s by default); what is
    /// slower gets as much more.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Guest {
        self.limit = limit;
        self
    }

    /// Sets the memory of the guest in MiB (512 by default).
    #[must_use]
    pub fn memory(mut self, mib: u32) -> Guest {
        self.memory = mib;
        self
    }

    /// Ends every wait for it, with an error, as soon as `stop` says so.
    #[must_use]
    pub fn stop_when(mut self, stop: fn() -> bool) -> Guest {
        self.stop = stop;
        self
    }

    /// The directory that the guest can write to, under the same path. It is removed with this
    /// value.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Boots and runs `script` (`sh -eu`; variables `DIR`, the scratch directory, and `MNT`, an
    /// empty directory in it).
    ///
    /// # Errors
    /// The kernel does not start, dies without having been asked to, or is not done within the
    /// limit; the text ends with the last lines of its console and of the script's output.
    pub fn run(&self, script: &str) -> io::Result<Outcome> {
        let (running, limit) = self.start(script)?;
        let done = self.watch(running, limit)?;
        let ending = match done {
            Done::Killed => Ending::Crash,
            Done::TimedOut => return Err(self.failed("the guest was not done in time")),
            Done::Stopped => return Err(stopped()),
            Done::Ended => match self.read("status").trim().parse() {
                Ok(status) => Ending::Exit(status),
                Err(_) => return Err(self.failed("the guest died")),
            },
        };
        Ok(Outcome {
            ending,
            output: self.read("output"),
            console: self.read("console"),
        })
    }

    /// Boots on `script`; answers the running kernel, and how long the script may take.
    pub(crate) fn start(&self, script: &str) -> io::Result<(Running, Duration)> {
        let dir = self.scratch();
        for name in ["output", "status", "crash", "console"] {
            match fs::remove_file(dir.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        fs::create_dir_all(dir.join("mnt"))?;
        fs::write(dir.join("script"), script)?;
        let engine = match &self.engine {
            Some(engine) => engine,
            None => engine::chosen(self.stop).map_err(io::Error::other)?,
        };
        fs::write(dir.join("init"), self.init(engine)?)?;
        fs::set_permissions(dir.join("init"), fs::Permissions::from_mode(0o755))?;
        let child = engine.start(dir, self.memory, &self.disks)?;
        let running = Running::new(child, dir)?;
        Ok((running, self.limit * engine.slowness()))
    }

    /// What the guest has written to a file of the scratch directory.
    pub(crate) fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.scratch().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// An error with what the guest has said last.
    pub(crate) fn failed(&self, what: &str) -> io::Error {
        let (console, output) = (self.read("console"), self.read("output"));
        let text = format!(
            "{what}\n--- console\n{}\n--- output\n{}",
            tail(&console),
            tail(&output)
        );
        io::Error::other(text)
    }

    /// Runs a script that has to end with status 0.
    ///
    /// # Errors
    /// As [`run`](Guest::run); any other end, with the script's output.
    pub fn check(&self, script: &str) -> io::Result<Outcome> {
        let outcome = self.run(script)?;
        match outcome.ending {
            Ending::Exit(0) => Ok(outcome),
            other => Err(io::Error::other(format!(
                "the script ended with {other:?}\n--- console\n{}\n--- output\n{}",
                tail(&outcome.console),
                tail(&outcome.output)
            ))),
        }
    }

    /// Runs a script that has to end in a crash it asked for.
    ///
    /// # Errors
    /// As [`check`](Guest::check).
    pub fn crash(&self, script: &str) -> io::Result<Outcome> {
        let outcome = self.run(script)?;
        match outcome.ending {
            Ending::Crash => Ok(outcome),
            Ending::Exit(status) => Err(io::Error::other(format!(
                "the script ended with status {status} instead of a crash\n--- output\n{}",
                tail(&outcome.output)
            ))),
        }
    }

    /// The first process of the guest.
    fn init(&self, engine: &Engine) -> io::Result<String> {
        let dir = self.scratch().display();
        let program = self.program.join(" ");
        let mount = engine.mount_scratch(self.scratch());
        let disks: String = (0..self.disks.len())
            .map(|n| {
                let name = engine.disk_name(&self.disks, n);
                format!("export DISK{n}=/dev/{name} BLOCK{n}={name}\n")
            })
            .collect();
        let find = engine.find_disks(&self.disks)?;
        Ok(format!(
            "#!/bin/sh\n\
             export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             export HOME=/ TMPDIR={dir} {SCRATCH}={dir} DIR={dir} MNT={dir}/mnt\n\
             {disks}\
             mount -t proc proc /proc\n\
             mount -t sysfs sys /sys\n\
             {find}\
             {mount}\n\
             cd {dir}\n\
             guest() {{ {CALL}=\"$*\" {program} >/dev/null; }}\n\
             ( set -eu; . ./script ) >output 2>&1 </dev/null\n\
             echo $? >status\n\
             guest poweroff\n"
        ))
    }

    /// Waits for the end, or for the wish to be killed.
    fn watch(&self, mut running: Running, limit: Duration) -> io::Result<Done> {
        let started = Instant::now();
        let output = self.scratch().join("output");
        let mut script_began = None;
        let done = loop {
            if running.is_over()? {
                break Done::Ended;
            }
            if self.scratch().join("crash").exists() {
                break Done::Killed;
            }
            if (self.stop)() {
                break Done::Stopped;
            }
            if script_began.is_none() && output.exists() {
                script_began = Some(Instant::now());
            }
            let late = match script_began {
                Some(began) => began.elapsed() > limit,
                None => started.elapsed() > BOOT_LIMIT,
            };
            if late {
                break Done::TimedOut;
            }
            std::thread::sleep(POLL);
        };
        running.kill()?;
        Ok(done)
    }
}

impl Guest {
    /// Whether somebody wants it to end.
    ///
    /// # Errors
    /// Yes.
    pub(crate) fn go_on(&self) -> io::Result<()> {
        match (self.stop)() {
            true => Err(stopped()),
            false => Ok(()),
        }
    }
}

fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "it was asked to stop")
}

enum Done {
    Ended,
    Killed,
    TimedOut,
    Stopped,
}

/// The last lines of a text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Why a kernel with F2FS cannot run on this machine: programs or modules are missing, or nothing
/// boots here; `None` if it can. Takes as long as a boot or two.
pub fn lacks() -> Option<String> {
    engine::chosen(|| false).err().map(str::to_string)
}

/// The variable, and its value, that tell programs which kernel boots on this machine, so that none
/// of them has to find it out; `None` if none does. Takes as long as [`lacks`], once in each
/// process.
pub fn told() -> Option<(&'static str, &'static str)> {
    let engine = engine::chosen(|| false).ok()?;
    Some((engine::KNOWN, engine.word()))
}
