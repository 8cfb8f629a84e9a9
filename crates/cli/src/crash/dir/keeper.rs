//! Takes away what a command leaves of which nobody is left to take care: where `varve` itself is
//! killed, a shell that waits for its end kills the recorded command with all that it has started
//! and that has not gone its own way (a daemon has), and removes mount and temporary folders.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads what there is to take away, a line each, and does so where the input ends without `over`.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
group= command= mount=
set --
family() {
    for child in $(cat /proc/$1/task/*/children 2>/dev/null); do family $child; done
    kill -KILL $1
}
while IFS= read -r line; do
    case $line in
        'group '*) group=${line#group } ;;
        'command '*) command=${line#command } ;;
        'mount '*) mount=${line#mount } ;;
        'folder '*) set -- "$@" "${line#folder }" ;;
        over) exit ;;
    esac
done
[ -z "$command" ] || family $command
[ -z "$group" ] || kill -KILL "-$group"
[ -z "$mount" ] || umount -l "$mount" || fusermount3 -u -z "$mount"
for folder; do rm -rf --one-file-system "$folder" || rm -rf "$folder"; done
"#;

/// A shell that waits.
pub struct Keeper {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Keeper {
    /// Starts it; `None`: the host has no shell, or starts no process. It is of no group of others,
    /// so that no signal of a terminal reaches it.
    pub fn start() -> Option<Keeper> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let input = shell.stdin.take();
        Some(Keeper { shell, input })
    }

    /// The command runs as this process, which may have a group of its own.
    pub fn runs(&mut self, command: u32, has_group: bool) {
        let id = command.to_string();
        self.tell("command", id.as_bytes());
        self.tell("group", if has_group { id.as_bytes() } else { b"" });
    }

    /// The command has ended.
    pub fn ran(&mut self) {
        self.tell("command", b"");
        self.tell("group", b"");
    }

    /// Something is mounted here.
    pub fn mount(&mut self, dir: &Path) {
        self.tell("mount", dir.as_os_str().as_bytes());
    }

    /// Nothing is mounted any more.
    pub fn unmounted(&mut self) {
        self.tell("mount", b"");
    }

    /// This temporary folder is there.
    pub fn folder(&mut self, folder: &Path) {
        self.tell("folder", folder.as_os_str().as_bytes());
    }

    fn tell(&mut self, what: &str, of: &[u8]) {
        // A name of several lines would be taken for others.
        if let Some(input) = self.input.as_mut().filter(|_| !of.contains(&b'\n')) {
            let line = [what.as_bytes(), b" ", of, b"\n"].concat();
            // It was killed: then nobody takes anything away.
            let _ = input.write_all(&line);
        }
    }
}

impl Drop for Keeper {
    /// Everything was taken away.
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            let _ = input.write_all(b"over\n");
        }
        let _ = self.shell.wait();
    }
}
