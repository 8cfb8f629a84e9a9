//! `cargo xtask sqlite-race`: the search for races of SQLite's write-ahead log, with the sources of
//! another SQLite than the one that Varve is built with.
//!
//! The sources are those that a version of the crate `libsqlite3-sys` carries, so the registry is
//! all that is needed. They take the place of the present ones in a copy of that crate, and a
//! package of its own, outside of the workspace, builds the search with the copy.

use crate::{Result, workspace};
use std::path::{Path, PathBuf};

/// Versions of SQLite, and the version of `libsqlite3-sys` that carries each.
const VERSIONS: [(&str, &str); 4] = [
    ("3.50.2", "0.35.0"),
    ("3.51.1", "0.36.0"),
    ("3.51.3", "0.37.0"),
    ("3.53.1", "0.38.0"),
];

/// What SQLite is made of.
const SOURCES: [&str; 3] = ["sqlite3.c", "sqlite3.h", "sqlite3ext.h"];

/// Options of `cargo xtask sqlite-race`.
#[derive(clap::Args)]
pub struct Args {
    /// The SQLite that is searched; without it, the one that Varve is built with
    #[arg(long, value_name = "VERSION", value_parser = VERSIONS.map(|(sqlite, _)| sqlite))]
    sqlite: Option<String>,
    /// Where a task may give way: at calls of the VFS; at SQLite's mutexes, too; at its atomic
    /// accesses to shared memory, too
    #[arg(long, default_value = "memory", value_parser = ["vfs", "mutexes", "memory"])]
    points: String,
    /// Workloads
    #[arg(long, default_value_t = 20)]
    workloads: u64,
    /// Kinds of schedules: delay, random, pct-2, pct-3, pct-5, stalls, ten-stalls; or all
    #[arg(long, default_value = "all", value_name = "LIST")]
    kinds: String,
    /// Schedules of each kind for each workload
    #[arg(long, default_value_t = 2000)]
    schedules: u64,
    /// Number of the first workload
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Run one schedule again, with the same --points
    #[arg(long, value_name = "LINE")]
    replay: Option<String>,
}

/// Builds the search and runs it.
pub fn run(args: &Args) -> Result {
    let root = workspace::root();
    let place = root.join("target/sqlite-race");
    let now = source_of(&root)?;
    let sys = place.join("libsqlite3-sys");
    // What an earlier run left may be of another version.
    let _ = std::fs::remove_dir_all(&sys);
    copy(&now, &sys)?;
    if let Some(sqlite) = &args.sqlite {
        let carrier = VERSIONS.iter().find(|(version, _)| version == sqlite);
        let (_, carrier) = carrier.expect("the option takes no other");
        let old = source_of(&fetched(&place, carrier)?)?;
        for name in SOURCES {
            let (from, to) = (
                old.join("sqlite3").join(name),
                sys.join("sqlite3").join(name),
            );
            std::fs::copy(&from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
        }
    }
    let package = place.join("package");
    write(&package.join("Cargo.toml"), &manifest(&root, &sys))?;
    let mut search = workspace::cargo();
    search
        .args(["run", "--quiet", "--release", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(place.join("build"))
        .args(["--", &args.points])
        .env("CFLAGS", shared_memory_calls(&root));
    match &args.replay {
        Some(line) => search.arg(line),
        None => {
            let numbers = [args.workloads, args.first, args.schedules];
            search.arg(&args.kinds).args(numbers.map(|n| n.to_string()))
        }
    };
    let status = search.status().map_err(|e| format!("cargo: {e}"))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err("SQLite lost acknowledged rows or damaged the database, see above".into()),
        _ => Err(format!("the search did not run: {status}")),
    }
}

/// Options of the C compiler with which SQLite calls the search before each atomic access. The
/// source stays as it is.
fn shared_memory_calls(root: &Path) -> String {
    let header = root.join("crates/sqlite/examples/wal_race/atomics.h");
    let given = std::env::var("CFLAGS").unwrap_or_default();
    format!("{given} -include {}", header.display())
}

/// The folder of a package that does nothing but depend on this version of `libsqlite3-sys`.
fn fetched(place: &Path, version: &str) -> Result<PathBuf> {
    let folder = place.join(format!("libsqlite3-sys-{version}"));
    let manifest = format!(
        "[package]\nname = \"carrier\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [workspace]\n[lib]\npath = \"lib.rs\"\n\
         [dependencies]\nlibsqlite3-sys = \"={version}\"\n"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("lib.rs"), "")?;
    Ok(folder)
}

/// Where the sources of `libsqlite3-sys` lie, as the package in `folder` depends on it.
fn source_of(folder: &Path) -> Result<PathBuf> {
    let output = workspace::cargo()
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array();
    let found = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "libsqlite3-sys");
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.ok_or("cargo metadata names no libsqlite3-sys")?;
    let folder = Path::new(manifest).parent();
    Ok(folder.expect("a manifest lies in a folder").to_path_buf())
}

/// The package outside of the workspace that builds the search.
fn manifest(root: &Path, sys: &Path) -> String {
    let crates = root.join("crates");
    let crates = crates.display();
    format!(
        "[package]\nname = \"wal-race\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [[bin]]\nname = \"wal-race\"\npath = \"{crates}/sqlite/examples/wal_race/main.rs\"\n\
         [dependencies]\n\
         base = {{ package = \"varve-base\", path = \"{crates}/base\" }}\n\
         rt = {{ package = \"varve-rt\", path = \"{crates}/rt\" }}\n\
         testkit = {{ package = \"varve-testkit\", path = \"{crates}/testkit\" }}\n\
         varve-sqlite = {{ path = \"{crates}/sqlite\" }}\n\
         vfs = {{ package = \"varve-vfs\", path = \"{crates}/vfs\" }}\n\
         [patch.crates-io]\nlibsqlite3-sys = {{ path = \"{}\" }}\n",
        sys.display()
    )
}

fn write(path: &Path, text: &str) -> Result {
    let folder = path.parent().expect("a file lies in a folder");
    let made = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text));
    made.map_err(|e| format!("{}: {e}", path.display()))
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result {
    let bad = |e: std::io::Error| format!("{}: {e}", from.display());
    std::fs::create_dir_all(to).map_err(bad)?;
    for entry in std::fs::read_dir(from).map_err(bad)? {
        let entry = entry.map_err(bad)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target)?;
        } else {
            std::fs::copy(&source, &target).map_err(bad)?;
        }
    }
    Ok(())
}
