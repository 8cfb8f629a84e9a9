//! `cargo xtask dist`: what people install, in `target/dist-files`: a program that needs no library
//! of the system (musl), as a tar archive and as a Debian package with manual pages, completions
//! and the helpers of mount(8) and fsck(8); a list of what it is made of (CycloneDX); checksums.
//! What was made is unpacked and checked as a user would find it.

mod check;
mod debian;
mod elf;
mod sbom;

use crate::Result;
use crate::sh::sh;
use crate::workspace;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the program runs.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Relocations of addresses as a bit map (DT_RELR), which musl's start code reads: a program that
/// may be loaded anywhere has some hundred thousand of them, and each takes 24 bytes otherwise.
const PACKED: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";
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
    /// Pack this program instead of building one, into `target/dist-given`
    #[arg(long, conflicts_with = "twice")]
    program: Option<PathBuf>,
}

/// Why the program cannot be built here; `None` if it can.
pub fn lacks() -> Option<String> {
    let folder = sh("rustc", &["--print", "target-libdir", "--target", TARGET]);
    let is_there = folder.is_ok_and(|folder| Path::new(&folder).exists());
    (!is_there).then(|| format!("no Rust for musl: `rustup target add {TARGET}`"))
}

/// Makes the archives.
pub fn run(args: &Args) -> Result {
    let (program, out) = match &args.program {
        Some(program) => (program.clone(), "dist-given"),
        None => (build(&workspace::target())?, "dist-files"),
    };
    let out = workspace::target().join(out);
    let _ = fs::remove_dir_all(&out);
    let effort = match args.program {
        Some(_) => Effort::Least,
        None => Effort::Most,
    };
    let sums = archives(&program, &out, effort)?;
    // A program that was given may need the host's libraries, and has any size.
    check::all(&out, args.program.is_none())?;
    if args.twice {
        let folder = workspace::target().join("dist-again");
        let again = archives(&build(&folder)?, &folder.join("files"), effort)?;
        if sums != again {
            return Err(format!("two builds differ:\n{sums}\n{again}"));
        }
        println!("built twice: equal bytes");
    }
    for file in files_in(&out)?.iter().filter(|file| file.is_file()) {
        println!("{:>10} {}", size(file)?, file.display());
    }
    println!("{:>10} the program", size(&out.join("tree/usr/bin/varve"))?);
    Ok(())
}

/// How hard the archives are compressed. Nobody loads down what is packed of a program that was
/// given, and to compress it takes longer than all that is checked of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// What people get.
    Most,
    /// What is looked at and thrown away.
    Least,
}

/// Makes the archives of a program in a folder; answers their checksums, which stand there, too.
fn archives(program: &Path, out: &Path, effort: Effort) -> Result<String> {
    let tree = out.join("tree");
    stage(program, &tree)?;
    let version = env!("CARGO_PKG_VERSION");
    let files = [
        tar(&tree, &archive_in(out), effort)?,
        debian::package(&tree, &package_in(out), version, effort)?,
        sbom::list(&bill_in(out), version)?,
    ];
    let mut sums = String::new();
    for file in &files {
        let base = file.file_name().unwrap_or_default().to_string_lossy();
        sums.push_str(&format!("{}  {base}\n", digest(file)?));
    }
    write(&out.join("SHA256SUMS"), sums.as_bytes())?;
    Ok(sums)
}

/// The Debian package in a folder.
fn package_in(out: &Path) -> PathBuf {
    let version = env!("CARGO_PKG_VERSION");
    out.join(format!("varve_{version}_{ARCHITECTURE}.deb"))
}

/// The archive in a folder.
fn archive_in(out: &Path) -> PathBuf {
    out.join(format!("{}.tar.gz", name()))
}

/// The list of what the program is made of, in a folder.
fn bill_in(out: &Path) -> PathBuf {
    out.join(format!("{}.cdx.json", name()))
}

fn name() -> String {
    format!("varve-{}-{ARCHITECTURE}", env!("CARGO_PKG_VERSION"))
}

fn size(file: &Path) -> Result<u64> {
    let known = fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(known.len())
}

/// Builds the program below `folder`.
fn build(folder: &Path) -> Result<PathBuf> {
    let known = known_places(folder);
    let remap = |option: &str| {
        let words = known
            .iter()
            .map(|(from, to)| format!("{option}={from}={to}"));
        words.collect::<Vec<_>>()
    };
    let mut flags = remap("--remap-path-prefix");
    flags.push(PACKED.into());
    let status = workspace::cargo()
        .args(["build", "--locked", "--profile", "dist"])
        .args(["--target", TARGET, "--package", "varve-cli"])
        .env("CARGO_TARGET_DIR", folder)
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        .env(
            "CFLAGS_x86_64_unknown_linux_musl",
            remap("-ffile-prefix-map").join(" "),
        )
        // A path may hold spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .status();
    match status.map_err(|e| format!("cargo: {e}"))?.success() {
        true => Ok(folder.join(TARGET).join("dist/varve")),
        false => Err(format!(
            "the program cannot be built; it needs `rustup target add {TARGET}` and the Debian package musl-tools"
        )),
    }
}

/// Folders that a compiler would write into the program (places of panics), each with the name that
/// stands there instead, so that two machines and two folders give the same bytes.
fn known_places(folder: &Path) -> Vec<(String, &'static str)> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    let mut known = vec![(workspace::root().display().to_string(), ".")];
    if let Some(cargo) = cargo.or_else(home) {
        known.push((cargo.display().to_string(), "cargo"));
    }
    // The last that fits is taken, and this folder may lie in the tree.
    known.push((folder.display().to_string(), "target"));
    known
}

/// Lays out what is installed.
fn stage(program: &Path, tree: &Path) -> Result {
    let inside = tree.join("usr/bin/varve");
    make_folder(&inside)?;
    let host = |e: std::io::Error| format!("{}: {e}", inside.display());
    fs::copy(program, &inside).map_err(host)?;
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).map_err(host)?;
    // A program that was given may hold what a debugger needs.
    sh("strip", &[&inside.to_string_lossy()])?;
    for helper in HELPERS {
        let at = tree.join(helper);
        make_folder(&at)?;
        symlink("../bin/varve", &at).map_err(|e| format!("{}: {e}", at.display()))?;
    }
    let varve = inside.to_string_lossy();
    let pages = tree.join("usr/share/man/man1");
    sh(&varve, &["man", "--out", &pages.to_string_lossy()])?;
    for page in files_in(&pages)? {
        compress(&page)?;
    }
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
        ("CHANGELOG.md", "usr/share/doc/varve/changelog"),
        (
            "crates/report/vendor/LICENSE-vega",
            "usr/share/doc/varve/LICENSE-vega",
        ),
        (
            "crates/report/vendor/LICENSE-vega-lite",
            "usr/share/doc/varve/LICENSE-vega-lite",
        ),
    ] {
        let place = tree.join(place);
        make_folder(&place)?;
        fs::copy(root.join(file), &place).map_err(|e| format!("{file}: {e}"))?;
    }
    compress(&tree.join("usr/share/doc/varve/changelog"))?;
    write(
        &tree.join("usr/share/doc/varve/copyright"),
        debian::COPYRIGHT.as_bytes(),
    )
}

/// The files of a folder, by name.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(cannot)?;
    let files: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files = files.map_err(cannot)?;
    files.sort();
    Ok(files)
}

/// Replaces a file by a compressed one, without the time and name that gzip would add.
fn compress(file: &Path) -> Result {
    sh("gzip", &["-9nf", &file.to_string_lossy()]).map(drop)
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

fn tar(tree: &Path, file: &Path, effort: Effort) -> Result<PathBuf> {
    // Without the time and name that gzip would add.
    let compressor = match effort {
        Effort::Most => "--use-compress-program=gzip -9n",
        Effort::Least => "--use-compress-program=gzip -1n",
    };
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
        .args([&mtime, compressor, "-C"])
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
