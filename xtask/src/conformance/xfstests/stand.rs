//! Two devices with mount points, and xfstests running on them.

use super::super::mounts::Fs;
use super::expected::{Outcome, outcome};
use crate::Result;
use crate::sh::sh;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// MiB of the device that all tests share, and of the one that each formats; both are sparse.
const TEST_MIB: u64 = 4096;
const SCRATCH_MIB: u64 = 8192;
/// Seconds after which a test is ended.
const LIMIT_S: u32 = 300;
/// Users that tests work as, with their numbers.
const USERS: [(&str, u32); 3] = [
    ("fsgqa", 70_001),
    ("fsgqa2", 70_002),
    ("123456-fsgqa", 70_003),
];
/// Programs that stand before those of the host in the search path.
const PROGRAMS: [(&str, &str); 4] = [
    ("mount", include_str!("mount.sh")),
    ("umount", include_str!("umount.sh")),
    ("df", include_str!("df.sh")),
    ("findmnt", include_str!("findmnt.sh")),
];
const INSIDE: &str = include_str!("inside.sh");

/// What mounts the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    Kernel,
    /// This program `varve`, with these options.
    Varve(&'a Path, &'a str),
}

/// Everything that a test needs; dropping it takes the devices away.
pub struct Stand<'a> {
    source: &'a Path,
    folder: PathBuf,
    fs: Fs,
    by: By<'a>,
    test: String,
    scratch: String,
}

impl<'a> Stand<'a> {
    /// Prepares `folder`, which may hold what an earlier run has left.
    pub fn new(source: &'a Path, folder: &Path, fs: Fs, by: By<'a>) -> Result<Stand<'a>> {
        let host = |e: std::io::Error| format!("{}: {e}", folder.display());
        let _ = fs::remove_dir_all(folder);
        for part in ["bin", "test", "scratch", "results"] {
            fs::create_dir_all(folder.join(part)).map_err(host)?;
        }
        for (name, text) in PROGRAMS {
            let program = folder.join("bin").join(name);
            fs::write(&program, text).map_err(host)?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(host)?;
        }
        with_users(folder).map_err(host)?;
        let device = |name: &str, mib: u64| -> Result<String> {
            let image = folder.join(name);
            let file = fs::File::create(&image).map_err(host)?;
            file.set_len(mib << 20).map_err(host)?;
            fs.make(&image.to_string_lossy())?;
            sh("losetup", &["--find", "--show", &image.to_string_lossy()])
        };
        let test = device("test.img", TEST_MIB)?;
        let mut stand = Stand {
            source,
            folder: folder.to_path_buf(),
            fs,
            by,
            test,
            scratch: String::new(),
        };
        stand.scratch = device("scratch.img", SCRATCH_MIB)?;
        Ok(stand)
    }

    /// Runs one test.
    pub fn run(&self, test: &str) -> Result<Outcome> {
        let mut command = Command::new("timeout");
        command.args(["-k", "10", &LIMIT_S.to_string()]);
        command.args(["unshare", "-m", "--propagation", "slave"]);
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["bash", "-c", INSIDE, "bash", test]);
        let at = |name: &str| self.folder.join(name);
        command
            .env("STAND", &self.folder)
            .env("SOURCE", self.source)
            .env("FSTYP", self.fs.name())
            .env("TEST_DEV", &self.test)
            .env("TEST_DIR", at("test"))
            .env("SCRATCH_DEV", &self.scratch)
            .env("SCRATCH_MNT", at("scratch"))
            .env("RESULT_BASE", at("results"))
            .env("RECREATE_TEST_DEV", "false")
            .env("HOST_OPTIONS", "/dev/null");
        if let By::Varve(varve, options) = self.by {
            let path = std::env::var("PATH").unwrap_or_default();
            let path = format!("{}:{path}", at("bin").display());
            command
                .env("PATH", path)
                .env("VARVE", varve)
                .env("VARVE_OPTIONS", options);
        }
        let output = command.output().map_err(|e| format!("timeout: {e}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        if matches!(output.status.code(), Some(124 | 137) | None) {
            return Ok(Outcome::Failed(format!("is not done after {LIMIT_S} s")));
        }
        Ok(outcome(test, &said, output.status.success()))
    }

    /// The file with the output of a test that failed.
    pub fn output(&self, test: &str) -> PathBuf {
        self.folder.join("results").join(format!("{test}.out.bad"))
    }
}

impl Drop for Stand<'_> {
    fn drop(&mut self) {
        for device in [&self.test, &self.scratch] {
            let _ = sh("losetup", &["--detach", device]);
        }
    }
}

/// Writes the host's tables of users and groups with those of xfstests into files of our own.
fn with_users(folder: &Path) -> std::io::Result<()> {
    let mut passwd = fs::read_to_string("/etc/passwd")?;
    let mut group = fs::read_to_string("/etc/group")?;
    for (name, number) in USERS {
        if !passwd
            .lines()
            .any(|line| line.starts_with(&format!("{name}:")))
        {
            passwd += &format!("{name}:x:{number}:{number}::/tmp:/bin/bash\n");
        }
        if !group
            .lines()
            .any(|line| line.starts_with(&format!("{name}:")))
        {
            group += &format!("{name}:x:{number}:\n");
        }
    }
    fs::write(folder.join("passwd"), passwd)?;
    fs::write(folder.join("group"), group)
}
