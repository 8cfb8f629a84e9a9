//! An image with a mount point, and helpers to run programs that must succeed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command as a user without rights except those that a file grants.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --groups=50 sh -c";

/// How `varve mount` tells that requests come over io_uring.
pub const OVER_RING: &str = ": requests come over io_uring";

pub const VARVE: &str = env!("CARGO_BIN_EXE_varve");

/// Names the transport for all mounts that name none themselves: the cases are the same over each.
const TRANSPORT: &str = "VARVE_TEST_TRANSPORT";

/// The transport that mounts have to use here; none: that of their options.
pub fn transport() -> Option<String> {
    std::env::var(TRANSPORT).ok()
}

/// What is added to the words of a mount.
pub fn over(args: &[&str]) -> Vec<String> {
    let is_mount = args.first() == Some(&"mount");
    let named = |word: &&str| word.contains("transport=") || word.contains("remount");
    match transport() {
        Some(transport) if is_mount && !args.iter().any(named) => {
            vec!["-o".into(), format!("transport={transport}")]
        }
        _ => Vec::new(),
    }
}

/// Exit code, and what it said.
pub fn run(program: &str, args: &[&str]) -> (i32, String) {
    let (code, text) = run_as_it_is(program, args);
    // What is said is the same over each transport but for this line.
    let lines = text.split_inclusive('\n');
    let text = lines.filter(|line| !line.contains(OVER_RING)).collect();
    (code, text)
}

/// The same, with the line that tells of the ring.
pub fn run_as_it_is(program: &str, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(program);
    command.args(args);
    if program == VARVE {
        command.args(over(args));
    }
    let output = command.output().expect(program);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).to_string();
    (output.status.code().unwrap_or(-1), text)
}

/// What it said; it ends well.
pub fn must(program: &str, args: &[&str]) -> String {
    let (code, text) = run(program, args);
    assert_eq!(code, 0, "{program} {args:?}: {text}");
    text
}

/// Takes a mount away by `program`; what that said. A test beside this one that starts a program
/// has copies of our open files until that program runs, those that are closed by then among them:
/// so "busy" may pass.
pub fn unmount(program: &str, at: &str) -> String {
    let words: &[&str] = match program {
        "umount" => &[at],
        _ => &["umount", at],
    };
    for _ in 0..100 {
        let (code, text) = run(program, words);
        if code == 0 {
            // A slow machine gets a word of patience.
            let lines = text.split_inclusive('\n');
            return lines
                .filter(|line| !line.contains("waiting until"))
                .collect();
        }
        assert!(text.contains("busy"), "{program}: umount {at}: {text}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{program}: umount {at}: busy for 5 seconds");
}

/// A folder with an image and a mount point.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn empty() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        // Other users get as far as the mount point.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("ours");
        let place = Place { folder };
        fs::create_dir(place.dir()).expect("a mount point");
        place
    }
    pub fn new(fs: &str) -> Place {
        let place = Place::empty();
        let image = place.image();
        must(VARVE, &["mkfs", "--fs", fs, "--size", "128", &image]);
        place
    }
    pub fn image(&self) -> String {
        self.folder
            .path()
            .join("image")
            .to_string_lossy()
            .to_string()
    }
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }
    pub fn at(&self) -> String {
        self.dir().to_string_lossy().to_string()
    }
    pub fn mount(&self, options: &str) {
        let words = must(VARVE, &["mount", &self.image(), &self.at(), "-o", options]);
        assert_eq!(words, "");
    }
    pub fn umount(&self) {
        assert_eq!(unmount(VARVE, &self.at()), "");
    }
    /// An image of ext4 as `mke2fs` makes it.
    pub fn foreign(options: &[&str]) -> Place {
        let place = Place::empty();
        let image = place.image();
        let file = fs::File::create(&image).expect("an image");
        file.set_len(128 << 20).expect("room");
        let line = ["-q", "-F", "-t", "ext4"];
        must("mke2fs", &[&line[..], options, &[&image]].concat());
        place
    }
    /// By the kernel, on a loop device.
    pub fn mount_by_kernel(&self) {
        must("mount", &["-o", "loop", &self.image(), &self.at()]);
    }
    pub fn umount_kernel(&self) {
        unmount("umount", &self.at());
    }
    /// `e2fsck` finds nothing.
    pub fn check(&self) {
        must("e2fsck", &["-fn", &self.image()]);
    }
    /// Nor does the checker of this kind of file system.
    pub fn judge(&self, kind: &str) {
        match kind {
            "f2fs" => {
                must(VARVE, &["fsck", "-n", &self.image()]);
                let text = must("fsck.f2fs", &["--dry-run", &self.image()]);
                let bad = ["[Fail]", "[ASSERT]", "[FIX]"];
                assert!(!bad.iter().any(|word| text.contains(word)), "{text}");
            }
            _ => self.check(),
        }
    }
}

/// Runs each line of `script` with a shell in `dir`: what it printed, and how it ended.
pub fn shell(dir: &Path, script: &str) -> String {
    let mut log = String::new();
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let line = line.replace("@nobody", NOBODY);
        let output = Command::new("sh")
            .args(["-c", &line])
            .env("LC_ALL", "C")
            .current_dir(dir)
            .output()
            .expect("a shell");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        log += &format!("$ {line}\n{text}-> {:?}\n", output.status.code());
    }
    log
}

impl Drop for Place {
    fn drop(&mut self) {
        // What a failed test left; nothing is mounted after a good one.
        let _ = run("umount", &["-l", &self.at()]);
    }
}
