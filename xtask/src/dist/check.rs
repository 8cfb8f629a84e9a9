//! Whether what was packed is what a user needs: the package is unpacked into an empty folder, its
//! files are compared with its checksums, its program runs, pages and completions are read.

use super::{HELPERS, SHELLS, files_in};
use crate::Result;
use crate::sh::sh;
use std::fs;
use std::path::Path;

/// Checks the package in the folder `out`; `is_static`: the program has to need no library.
pub fn all(out: &Path, package: &Path, is_static: bool) -> Result {
    let root = out.join("installed");
    let _ = fs::remove_dir_all(&root);
    let inside = root.to_string_lossy();
    sh("dpkg-deb", &["-R", &package.to_string_lossy(), &inside])?;
    within(out, "sha256sum --quiet --check SHA256SUMS")?;
    within(&root, "md5sum --quiet --check DEBIAN/md5sums")?;
    let program = root.join("usr/bin/varve");
    let version = sh(&program.to_string_lossy(), &["--version"])?;
    if version != format!("varve {}", env!("CARGO_PKG_VERSION")) {
        return Err(format!("the packed program says that it is {version}"));
    }
    if is_static && needs_loader(&fs::read(&program).map_err(|e| e.to_string())?) {
        return Err("the packed program needs libraries of the system".into());
    }
    helpers(&root)?;
    pages(&root)?;
    completions(&root)?;
    fs::remove_dir_all(&root).map_err(|e| format!("{}: {e}", root.display()))
}

/// Runs a command line in a folder.
fn within(folder: &Path, line: &str) -> Result {
    let script = format!("cd \"$1\" && {line}");
    sh("sh", &["-c", &script, "sh", &folder.to_string_lossy()]).map(drop)
}

/// mount(8) and fsck(8) find the program under their names for it.
fn helpers(root: &Path) -> Result {
    for helper in HELPERS {
        let at = root.join(helper);
        let leads = at.canonicalize().map_err(|e| format!("{helper}: {e}"))?;
        if !leads.ends_with("usr/bin/varve") {
            return Err(format!("{helper} leads to {}", leads.display()));
        }
    }
    let fsck = root.join("usr/sbin/fsck.varve");
    let said = sh(&fsck.to_string_lossy(), &["/nowhere"]);
    match said {
        Err(told) if told.contains("/nowhere") && told.contains("exit status: 8") => Ok(()),
        other => Err(format!("fsck.varve of no image: {other:?}")),
    }
}

/// Each page has the parts that man(1) lists and apropos(1) finds.
fn pages(root: &Path) -> Result {
    let pages = files_in(&root.join("usr/share/man/man1"))?;
    if pages.len() < 25 {
        return Err(format!("only {} pages", pages.len()));
    }
    for page in &pages {
        let text = sh("gzip", &["-dc", &page.to_string_lossy()])?;
        if !text.contains(".TH ") || !text.contains(".SH NAME") {
            return Err(format!("{} is no page", page.display()));
        }
    }
    Ok(())
}

/// The completions name commands, and the shell of this host that most have reads its own.
fn completions(root: &Path) -> Result {
    for (shell, place) in SHELLS {
        let at = root.join(place);
        let words = fs::read_to_string(&at).map_err(|e| format!("{place}: {e}"))?;
        if !words.contains("compare") {
            return Err(format!("the completions of {shell} do not name `compare`"));
        }
    }
    let bash = root.join(SHELLS[0].1);
    let ask = "source \"$1\"; COMP_WORDS=(varve umo); COMP_CWORD=1; _varve varve umo varve; echo ${COMPREPLY[*]}";
    match sh("bash", &["-c", ask, "bash", &bash.to_string_lossy()])?.as_str() {
        "umount" => Ok(()),
        other => Err(format!("bash completes `umo` to `{other}`")),
    }
}

/// Whether an ELF file of 64 bits names a loader (PT_INTERP), which would look for libraries.
fn needs_loader(elf: &[u8]) -> bool {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let found = elf.get(at..at + bytes).unwrap_or_default();
        found.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
    };
    let (table, entry, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let entries = (0..count).map(|n| table as usize + (n * entry) as usize);
    entries
        .map(|at| number(at, 4))
        .any(|kind| kind == PT_INTERP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_told_from_one_without() {
        // This test is a program with one.
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(needs_loader(&own));
        let mut without = own.clone();
        // No entry in the table of parts.
        without[0x38..0x3a].fill(0);
        assert!(!needs_loader(&without));
        assert!(!needs_loader(b"too short"));
    }

    #[test]
    fn a_file_that_was_changed_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "one").unwrap();
        within(folder.path(), "md5sum a > sums").unwrap();
        within(folder.path(), "md5sum --quiet --check sums").unwrap();
        fs::write(folder.path().join("a"), "two").unwrap();
        let said = within(folder.path(), "md5sum --quiet --check sums").unwrap_err();
        assert!(said.contains("a: FAILED"), "{said}");
    }
}
