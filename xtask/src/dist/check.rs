//! Whether what was packed is what a user needs: the package is unpacked into an empty folder, its
//! files are compared with its checksums and with the archive, its program runs, pages and
//! completions are read, and the list of parts names them.

use super::elf::Elf;
use super::{ARCHITECTURE, HELPERS, SHELLS, archive_in, bill_in, files_in, package_in};
use crate::Result;
use crate::sh::sh;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Most bytes of the program: a little more than it has, so that a dependency which doubles it is
/// noticed when it comes.
const PROGRAM_BYTES_MAX: u64 = 25 << 20;

/// Checks what lies in the folder `out`. `is_built`: the program is the one that people get, which
/// needs no library.
pub fn all(out: &Path, is_built: bool) -> Result {
    let root = out.join("installed");
    let _ = fs::remove_dir_all(&root);
    let inside = root.to_string_lossy();
    let package = package_in(out);
    sh("dpkg-deb", &["-R", &package.to_string_lossy(), &inside])?;
    within(out, "sha256sum --quiet --check SHA256SUMS")?;
    within(&root, "md5sum --quiet --check DEBIAN/md5sums")?;
    control(&package)?;
    let program = root.join("usr/bin/varve");
    let version = sh(&program.to_string_lossy(), &["--version"])?;
    if version != format!("varve {}", env!("CARGO_PKG_VERSION")) {
        return Err(format!("the packed program says that it is {version}"));
    }
    kind(&program, is_built)?;
    helpers(&root)?;
    pages(&root)?;
    completions(&root)?;
    fs::remove_dir_all(root.join("DEBIAN")).map_err(|e| format!("{inside}: {e}"))?;
    archive(out, &root)?;
    bill(&fs::read_to_string(bill_in(out)).map_err(|e| e.to_string())?)?;
    fs::remove_dir_all(&root).map_err(|e| format!("{}: {e}", root.display()))
}

/// The program is stripped, and the one that people get needs no loader and has not grown.
fn kind(program: &Path, is_built: bool) -> Result {
    let bytes = fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
    let elf = Elf(&bytes);
    if elf.has_symbols() {
        return Err("the packed program is not stripped".into());
    }
    if is_built && elf.needs_loader() {
        return Err("the packed program needs libraries of the system".into());
    }
    match is_built && bytes.len() as u64 > PROGRAM_BYTES_MAX {
        true => Err(format!(
            "the packed program has {} bytes, more than {PROGRAM_BYTES_MAX}",
            bytes.len()
        )),
        false => Ok(()),
    }
}

/// What dpkg(1) reads of the package, and whose its files are.
fn control(package: &Path) -> Result {
    let package = package.to_string_lossy();
    for (field, wanted) in [
        ("Package", "varve"),
        ("Version", env!("CARGO_PKG_VERSION")),
        ("Architecture", ARCHITECTURE),
    ] {
        let found = sh("dpkg-deb", &["-f", &package, field])?;
        if found != wanted {
            return Err(format!("{field} of the package is {found}"));
        }
    }
    let files = sh("dpkg-deb", &["-c", &package])?;
    match files.lines().find(|line| !line.contains(" root/root ")) {
        Some(line) => Err(format!("a packed file is not root's: {line}")),
        None => Ok(()),
    }
}

/// The archive holds what the package installs.
fn archive(out: &Path, installed: &Path) -> Result {
    let unpacked = out.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir_all(&unpacked).map_err(|e| format!("{}: {e}", unpacked.display()))?;
    let inside = unpacked.to_string_lossy();
    sh(
        "tar",
        &["-xzf", &archive_in(out).to_string_lossy(), "-C", &inside],
    )?;
    let installed = installed.to_string_lossy();
    sh("diff", &["-r", "--no-dereference", &installed, &inside])?;
    fs::remove_dir_all(&unpacked).map_err(|e| format!("{inside}: {e}"))
}

/// The list of parts is CycloneDX, names this version, and each part has a version, an address and
/// a licence.
fn bill(text: &str) -> Result {
    let bill: Value = serde_json::from_str(text).map_err(|e| format!("list of parts: {e}"))?;
    let own = &bill["metadata"]["component"]["version"];
    if bill["bomFormat"] != "CycloneDX" || own != env!("CARGO_PKG_VERSION") {
        return Err(format!("the list of parts is one of version {own}"));
    }
    let parts = bill["components"].as_array().map_or(&[][..], Vec::as_slice);
    for part in parts {
        let words = [
            &part["name"],
            &part["version"],
            &part["purl"],
            &part["licenses"][0]["expression"],
        ];
        if words
            .iter()
            .any(|word| word.as_str().is_none_or(str::is_empty))
        {
            return Err(format!("the list of parts does not tell all of {part}"));
        }
    }
    for needed in ["fuser", "libsqlite3-sys", "vega"] {
        if !parts.iter().any(|part| part["name"] == needed) {
            return Err(format!("the list of parts does not name {needed}"));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_of_parts_that_tells_too_little_is_found() {
        let part = |name: &str| {
            json!({"name": name, "version": "1", "purl": format!("pkg:cargo/{name}@1"),
                "licenses": [{"expression": "MIT"}]})
        };
        let whole = json!({
            "bomFormat": "CycloneDX",
            "metadata": {"component": {"version": env!("CARGO_PKG_VERSION")}},
            "components": [part("fuser"), part("libsqlite3-sys"), part("vega")],
        });
        bill(&whole.to_string()).unwrap();
        let mut other = whole.clone();
        other["metadata"]["component"]["version"] = "0.0.0".into();
        assert!(bill(&other.to_string()).unwrap_err().contains("0.0.0"));
        let mut other = whole.clone();
        other["components"][1]["licenses"] = json!([]);
        assert!(
            bill(&other.to_string())
                .unwrap_err()
                .contains("libsqlite3-sys")
        );
        let mut other = whole;
        other["components"].as_array_mut().unwrap().pop();
        assert!(bill(&other.to_string()).unwrap_err().contains("name vega"));
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
