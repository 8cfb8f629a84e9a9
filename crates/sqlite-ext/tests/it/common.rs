//! The extension, and programs that load it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with the extension as people install it, `varve.so`.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(library(), folder.path().join("varve.so")).unwrap();
        Place { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script in SQLite's shell, which goes on after errors, and answers all that it says.
    pub fn shell(&self, script: &str) -> String {
        // A command with a dot begins its line.
        let lines: Vec<&str> = script.lines().map(str::trim_start).collect();
        let script = format!(".load ./varve\n{}\n", lines.join("\n"));
        text_of(&fed(self.command("sqlite3"), &script))
    }

    /// Runs a program in Python. `db(name, **parameters)` connects to a database in `app.img`.
    pub fn python(&self, program: &str) -> Output {
        fed(self.python_command(), &format!("{PRELUDE}\n{program}"))
    }

    /// Debian's Python: others may be built without loading of extensions.
    pub fn python_command(&self) -> Command {
        let mut command = self.command("/usr/bin/python3");
        command.arg("-");
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        command
    }

    /// e2fsck finds nothing in the image.
    pub fn e2fsck(&self) {
        let mut command = self.command("e2fsck");
        succeeds(command.args(["-fn", "app.img"]));
    }
}

pub const PRELUDE: &str = "
import os, sqlite3, sys, threading
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension('./varve')
def db(name='app.db', uri='create=64M', **kw):
    kw.setdefault('timeout', 60)
    return sqlite3.connect(f'file:app.img:/{name}?vfs=varve&{uri}', uri=True, **kw)
def why():
    return loader.execute('select varve_error()').fetchone()[0]
";

/// The extension, in the folder in which the tests are built. `cargo test` does not build it for
/// them, because no Rust program can use it; `cargo xtask test` does.
// Tests have no front end that could pass it down.
#[allow(clippy::disallowed_methods)]
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let built = program.ancestors().nth(2).unwrap();
    if std::env::var_os("VARVE_TEST_BUILT").is_some() {
        return built.join("libvarve_sqlite3.so");
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "varve-sqlite-ext", "--lib"]);
    succeeds(cargo.arg("--target-dir").arg(built.parent().unwrap()));
    built.join("libvarve_sqlite3.so")
}

pub fn text_of(out: &Output) -> String {
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

pub fn succeeds(command: &mut Command) -> String {
    let out = command.output();
    let out = out.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = text_of(&out);
    assert!(out.status.success(), "{command:?}: {}\n{text}", out.status);
    text
}

fn fed(mut command: Command, script: &str) -> Output {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut input = child.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}
