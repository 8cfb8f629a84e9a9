//! One boot of the kernel: takes a script, and returns its status and output.
//!
//! The scratch directory is the only place where the guest can write. It holds, all made anew for
//! each boot: `init` (the boot script), `script`, `output` (what the script printed), `status` (its
//! exit status), `crash` (the wish to be killed), `console` (what the kernel printed), `mnt` (an
//! empty directory to mount on).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::modules;

/// Names of the program: Debian's package has the first, a kernel of one's own build the second.
const PROGRAMS: [&str; 2] = ["linux.uml", "linux"];
/// Memory of the guest.
const MEMORY: &str = "mem=384M";
/// How often the host looks whether the guest is done.
const POLL: Duration = Duration::from_millis(5);
/// Environment variable that holds the words of a call of the guest program.
pub(crate) const CALL: &str = "VARVE_UML_CALL";
/// Environment variable that holds the scratch directory, in the guest.
pub(crate) const SCRATCH: &str = "VARVE_UML_SCRATCH";

/// A kernel to boot.
pub struct Uml {
    scratch: tempfile::TempDir,
    program: Vec<String>,
    disks: Vec<PathBuf>,
    limit: Duration,
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

impl Uml {
    /// A kernel whose scripts can call the running program as `guest ...`; `arguments` lead that
    /// program to [`guest::hook`](crate::guest::hook). For a test of the standard harness named
    /// `uml_guest` at the top of its file they are `&["uml_guest", "--exact", "--nocapture"]`.
    ///
    /// # Errors
    /// The scratch directory cannot be made, or the running program has no path.
    pub fn new(arguments: &[&str]) -> io::Result<Uml> {
        let program = std::env::current_exe()?;
        let mut call = vec![program.to_string_lossy().into_owned()];
        call.extend(arguments.iter().map(ToString::to_string));
        let scratch = tempfile::Builder::new().prefix("uml").tempdir()?;
        Ok(Uml {
            scratch,
            program: call,
            disks: Vec::new(),
            limit: Duration::from_secs(60),
        })
    }

    /// Adds an image file; the first is `/dev/ubdb` in the guest, the next `/dev/ubdc`.
    #[must_use]
    pub fn disk(mut self, image: &Path) -> Uml {
        self.disks.push(image.to_path_buf());
        self
    }

    /// Sets the longest time that a boot may take (60 s by default).
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Uml {
        self.limit = limit;
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
        let dir = self.scratch();
        for name in ["output", "status", "crash", "console"] {
            match fs::remove_file(dir.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        fs::create_dir_all(dir.join("mnt"))?;
        fs::write(dir.join("script"), script)?;
        fs::write(dir.join("init"), self.init())?;
        fs::set_permissions(dir.join("init"), fs::Permissions::from_mode(0o755))?;
        let child = self.start()?;
        let done = self.watch(child);
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap_or_default()).into_owned()
        };
        let (output, console) = (read("output"), read("console"));
        let fail = |what: &str| {
            let text = format!(
                "{what}\n--- console\n{}\n--- output\n{}",
                tail(&console),
                tail(&output)
            );
            io::Error::other(text)
        };
        let ending = match done? {
            Done::Killed => Ending::Crash,
            Done::TimedOut => return Err(fail("the guest was not done in time")),
            Done::Ended => match read("status").trim().parse() {
                Ok(status) => Ending::Exit(status),
                Err(_) => return Err(fail("the guest died")),
            },
        };
        Ok(Outcome {
            ending,
            output,
            console,
        })
    }

    /// Runs a script that has to end with status 0.
    ///
    /// # Errors
    /// As [`run`](Uml::run); any other end, with the script's output.
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
    /// As [`check`](Uml::check).
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
    fn init(&self) -> String {
        let dir = self.scratch().display();
        let program = self.program.join(" ");
        format!(
            "#!/bin/sh\n\
             export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
             export HOME=/ TMPDIR={dir} {SCRATCH}={dir} DIR={dir} MNT={dir}/mnt\n\
             mount -t proc proc /proc\n\
             mount -t sysfs sys /sys\n\
             mount -t hostfs -o {dir} none {dir}\n\
             cd {dir}\n\
             guest() {{ {CALL}=\"$*\" {program} >/dev/null; }}\n\
             ( set -eu; . ./script ) >output 2>&1 </dev/null\n\
             echo $? >status\n\
             guest poweroff\n"
        )
    }

    fn start(&self) -> io::Result<Child> {
        let dir = self.scratch();
        let program = program().ok_or_else(|| io::Error::other("no User Mode Linux"))?;
        let mut command = Command::new(program);
        command
            .args([
                MEMORY,
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
        for (n, image) in self.disks.iter().enumerate() {
            let letter = char::from(b'b' + n as u8);
            // Relative paths would be looked up in the guest's view of its current directory.
            command.arg(format!(
                "ubd{letter}={}",
                fs::canonicalize(image)?.display()
            ));
        }
        command.spawn()
    }

    /// Waits for the end, or for the wish to be killed.
    fn watch(&self, mut child: Child) -> io::Result<Done> {
        let started = Instant::now();
        let done = loop {
            if child.try_wait()?.is_some() {
                break Done::Ended;
            }
            if self.scratch().join("crash").exists() {
                break Done::Killed;
            }
            if started.elapsed() > self.limit {
                break Done::TimedOut;
            }
            std::thread::sleep(POLL);
        };
        // The guest's processes are processes of the host, in the group of the kernel.
        let group =
            rustix::process::Pid::from_raw(child.id() as i32).expect("a process has an id above 0");
        match rustix::process::kill_process_group(group, rustix::process::Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => return Err(e.into()),
        }
        child.wait()?;
        Ok(done)
    }
}

enum Done {
    Ended,
    Killed,
    TimedOut,
}

/// The last lines of a text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|dir| PROGRAMS.map(|name| dir.join(name)))
        .find(|path| path.is_file())
}

/// Why a kernel with F2FS cannot run on this machine: the program or its modules are missing, or it
/// does not boot here (a sandbox may forbid what it needs); `None` if it can. Takes as long as a
/// boot, about 2 s.
pub fn lacks() -> Option<String> {
    if program().is_none() {
        return Some("no User Mode Linux (program `linux.uml`)".into());
    }
    if let Err(e) = modules::path_of("f2fs") {
        return Some(format!("User Mode Linux without F2FS: {e}"));
    }
    let booted = Uml::new(&[]).and_then(|uml| {
        let uml = uml.limit(Duration::from_secs(20));
        uml.crash("touch crash; sleep 60")
    });
    booted.err().map(|e| {
        format!(
            "User Mode Linux does not run here: {}",
            e.to_string().lines().next().unwrap_or_default()
        )
    })
}
