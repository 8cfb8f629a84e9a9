//! `cargo xtask dist`: what people install, in `target/dist-files`: a program that needs no library
//! of the system (musl), as a tar archive and as a Debian package with manual pages, completions
//! and the helpers of mount(8) and fsck(8); a list of what it is made of (CycloneDX); checksums.

use crate::Result;
use crate::sh::sh;
use crate::workspace;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the program runs.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Debian's word for it.
const ARCHITECTURE: &str = "amd64";
/// Files of an archive are as old as this (1980-01-01), so that equal sources give equal bytes.
const EPOCH: &str = "@315532800";
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/varve"),
    ("zsh", "usr/share/zsh/vendor-completions/_varve"),
    ("fish", "usr/share/fish/vendor_completions.d/varve.fish"),
];
/// Names by which mount(8) and fsck(8) call the program.
const HELPERS: [&str; 3] = [
    "usr/sbin/mount.fuse.varve",
    "usr/sbin/umount.fuse.varve",
    "usr/sbin/fsck.varve",
];

#[derive(clap::Args)]
pub struct Args {
    /// Build it twice, in folders of their own, and compare the bytes
    #[arg(long)]
    twice: bool,
    /// Take this program instead of building one
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Makes the archives.
pub fn run(args: &Args) -> Result {
    let out = workspace::target().join("dist-files");
    let _ = fs::remove_dir_all(&out);
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build(&workspace::target())?,
    };
    if args.twice {
        let again = build(&workspace::target().join("dist-again"))?;
        if digest(&program)? != digest(&again)? {
            return Err(format!(
                "{} and {} differ",
                program.display(),
                again.display()
            ));
        }
        println!("built twice: equal bytes");
    }
    let tree = out.join("tree");
    stage(&program, &tree)?;
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("varve-{version}-{ARCHITECTURE}");
    let files = [
        tar(&tree, &out.join(format!("{name}.tar.gz")))?,
        debian(
            &tree,
            &out.join(format!("varve_{version}_{ARCHITECTURE}.deb")),
            version,
        )?,
        sbom(&out.join(format!("{name}.cdx.json")), version)?,
    ];
    let mut sums = String::new();
    for file in &files {
        let bytes = fs::metadata(file)
            .map_err(|e| format!("{}: {e}", file.display()))?
            .len();
        let base = file.file_name().unwrap_or_default().to_string_lossy();
        println!("{bytes:>10} {}", file.display());
        sums.push_str(&format!("{}  {base}\n", digest(file)?));
    }
    write(&out.join("SHA256SUMS"), sums.as_bytes())?;
    let program = fs::metadata(tree.join("usr/bin/varve")).map_err(|e| e.to_string())?;
    println!("{:>10} the program", program.len());
    Ok(())
}

/// Builds the program below `folder`.
fn build(folder: &Path) -> Result<PathBuf> {
    let status = workspace::cargo()
        .args([
            "build",
            "--locked",
            "--profile",
            "dist",
            "--target",
            TARGET,
            "--package",
            "varve-cli",
        ])
        .env("CARGO_TARGET_DIR", folder)
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        // Two folders give the same bytes.
        .env(
            "RUSTFLAGS",
            format!("--remap-path-prefix={}=.", workspace::root().display()),
        )
        .status();
    match status.map_err(|e| format!("cargo: {e}"))?.success() {
        true => Ok(folder.join(TARGET).join("dist/varve")),
        false => Err(format!(
            "the program cannot be built; it needs `rustup target add {TARGET}` and the Debian package musl-tools"
        )),
    }
}

/// Lays out what is installed.
fn stage(program: &Path, tree: &Path) -> Result {
    let inside = tree.join("usr/bin/varve");
    make_folder(&inside)?;
    let host = |e: std::io::Error| format!("{}: {e}", inside.display());
    fs::copy(program, &inside).map_err(host)?;
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).map_err(host)?;
    for helper in HELPERS {
        let at = tree.join(helper);
        make_folder(&at)?;
        symlink("../bin/varve", &at).map_err(|e| format!("{}: {e}", at.display()))?;
    }
    let varve = inside.to_string_lossy();
    let pages = tree.join("usr/share/man/man1");
    sh(&varve, &["man", "--out", &pages.to_string_lossy()])?;
    for (shell, place) in SHELLS {
        let words = sh(&varve, &["completions", shell])?;
        let place = tree.join(place);
        make_folder(&place)?;
        write(&place, format!("{words}\n").as_bytes())?;
    }
    let root = workspace::root();
    for (file, place) in [
        ("LICENSE-MIT", "usr/share/doc/varve/LICENSE-MIT"),
        ("LICENSE-APACHE", "usr/share/doc/varve/LICENSE-APACHE"),
        ("README.md", "usr/share/doc/varve/README.md"),
        ("CHANGELOG.md", "usr/share/doc/varve/CHANGELOG.md"),
    ] {
        let place = tree.join(place);
        make_folder(&place)?;
        fs::copy(root.join(file), &place).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(())
}

/// Makes the folder of a file.
fn make_folder(file: &Path) -> Result {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

fn write(file: &Path, bytes: &[u8]) -> Result {
    fs::write(file, bytes).map_err(|e| format!("{}: {e}", file.display()))
}

/// SHA-256 of a file, in hexadecimal.
fn digest(file: &Path) -> Result<String> {
    let line = sh("sha256sum", &[&file.to_string_lossy()])?;
    Ok(line.split(' ').next().unwrap_or_default().to_string())
}

fn tar(tree: &Path, file: &Path) -> Result<PathBuf> {
    let fixed = [
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ];
    let mtime = format!("--mtime={EPOCH}");
    let status = Command::new("tar")
        .args(fixed)
        // Without the time and name that gzip would add.
        .args([&mtime, "--use-compress-program=gzip -9n", "-C"])
        .arg(tree)
        .arg("-cf")
        .arg(file)
        .arg(".")
        .status();
    match status.map_err(|e| format!("tar: {e}"))?.success() {
        true => Ok(file.to_path_buf()),
        false => Err("tar failed".into()),
    }
}

fn debian(tree: &Path, file: &Path, version: &str) -> Result<PathBuf> {
    let control = tree.join("DEBIAN/control");
    make_folder(&control)?;
    let text = format!(
        "Package: varve\nVersion: {version}\nArchitecture: {ARCHITECTURE}\nMaintainer: The Varve authors <varve@example.org>\nSection: admin\nPriority: optional\n\
         Suggests: fuse3, e2fsprogs, f2fs-tools\nDescription: journaling on flash storage: compare schemes, trust them, use them\n \
         Models of eMMC, NVMe, UFS and raw flash, a journal compatible with JBD2, ext4\n and F2FS in user space, and an explorer of power cuts.\n"
    );
    write(&control, text.as_bytes())?;
    let made = Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", &EPOCH[1..])
        .args(["--root-owner-group", "--build"])
        .arg(tree)
        .arg(file)
        .output();
    let made = made.map_err(|e| format!("dpkg-deb: {e}"))?;
    let _ = fs::remove_dir_all(tree.join("DEBIAN"));
    match made.status.success() {
        true => Ok(file.to_path_buf()),
        false => Err(format!(
            "dpkg-deb: {}",
            String::from_utf8_lossy(&made.stderr).trim()
        )),
    }
}

/// What the program is made of, as CycloneDX 1.5.
fn sbom(file: &Path, version: &str) -> Result<PathBuf> {
    let out = workspace::cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            TARGET,
        ])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let all: Value =
        serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let used = used_by(&all, "varve-cli");
    let packages = all["packages"].as_array().into_iter().flatten();
    let mut components: Vec<Value> = packages
        .filter(|package| used.iter().any(|id| package["id"] == *id))
        .filter(|package| !package["source"].is_null())
        .map(component)
        .collect();
    components.sort_by_key(|c| c["purl"].to_string());
    let text = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "varve", "version": version}},
        "components": components,
    });
    let text = serde_json::to_string_pretty(&text).map_err(|e| e.to_string())?;
    write(file, format!("{text}\n").as_bytes())?;
    Ok(file.to_path_buf())
}

fn component(package: &Value) -> Value {
    let word = |key: &str| package[key].as_str().unwrap_or_default();
    json!({
        "type": "library",
        "name": word("name"),
        "version": word("version"),
        "purl": format!("pkg:cargo/{}@{}", word("name"), word("version")),
        "licenses": [{"expression": word("license")}],
    })
}

/// The packages that `name` needs to run, itself included, without those of builds and tests.
fn used_by(metadata: &Value, name: &str) -> Vec<Value> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    let nodes = nodes.map_or(&[][..], Vec::as_slice);
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut used: Vec<Value> = packages
        .filter(|package| package["name"] == name)
        .map(|package| package["id"].clone())
        .collect();
    let mut next = 0;
    while let Some(id) = used.get(next).cloned() {
        next += 1;
        let node = nodes.iter().find(|node| node["id"] == id);
        let deps = node
            .and_then(|node| node["deps"].as_array())
            .into_iter()
            .flatten();
        for dep in deps {
            let kinds = dep["dep_kinds"].as_array().into_iter().flatten();
            let runs = kinds.filter(|kind| kind["kind"].is_null()).count() > 0;
            if runs && !used.contains(&dep["pkg"]) {
                used.push(dep["pkg"].clone());
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_builds_and_tests_need_is_no_part_of_the_program() {
        let dep = |to: &str, kind: Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [{"name": "top", "id": "t"}, {"name": "a", "id": "a"}],
            "resolve": {"nodes": [
                {"id": "t", "deps": [dep("a", Value::Null), dep("b", json!("build")), dep("d", json!("dev"))]},
                {"id": "a", "deps": [dep("c", Value::Null), dep("t", Value::Null)]},
                {"id": "b", "deps": []}, {"id": "c", "deps": []}, {"id": "d", "deps": []},
            ]},
        });
        assert_eq!(used_by(&metadata, "top"), ["t", "a", "c"].map(Value::from));
        assert!(used_by(&metadata, "none").is_empty());
    }
}
