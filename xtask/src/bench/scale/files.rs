//! Very many files on one volume. The library makes them, because through the mount that takes
//! hours; then a mount lists, looks at, removes and adds some.

use super::super::loads::drop_caches;
use super::super::sides::{Ground, Mount, Side};
use super::client::Random;
use super::memory::resident;
use super::{Bench, at};
use crate::sh::sh;
use crate::{Result, workspace};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

const IMAGE_BYTES: u64 = 64 << 30;
/// As the example `many_files` has it.
const DIR_FILES: u64 = 10_000;
/// Of all files, one in so many is looked at, and is removed.
const SAMPLE: u64 = 100;

pub fn run(bench: &Bench, count: u64) -> Result {
    let folder = bench.folder()?;
    let (varve, options) = (bench.varve.clone(), bench.options.clone());
    let ground = Ground::sparse(varve, options, folder.path(), IMAGE_BYTES)?;
    let here = count / 10;
    let inodes = (count + here + (1 << 16)).to_string();
    let image = ground.image().to_string_lossy().to_string();
    sh("mke2fs", &["-q", "-F", "-t", "ext4", "-N", &inodes, &image])?;
    println!("| {count} files | figure |\n|---|---|");
    println!("{}", sh(&maker()?, &[&image, &count.to_string()])?);
    check(&ground)?;
    let mount = mounted(&ground, "mount")?;
    walk(&mount, count)?;
    sample(&mount, count)?;
    add(&mount, here)?;
    end(mount)?;
    let mount = mounted(&ground, "mount again")?;
    let left = count - count.div_ceil(SAMPLE) + here;
    walk(&mount, left)?;
    end(mount)?;
    check(&ground)?;
    println!();
    Ok(())
}

/// Builds the example that makes files.
fn maker() -> Result<String> {
    let status = workspace::cargo()
        .args(["build", "--quiet", "--release"])
        .args(["-p", "varve", "--example", "many_files"])
        .status();
    if !status.map_err(|e| format!("cargo: {e}"))?.success() {
        return Err("the example many_files does not compile".into());
    }
    let path = workspace::target().join("release/examples/many_files");
    Ok(path.to_string_lossy().to_string())
}

fn tell(what: &str, begun: Instant, count: u64, mount: Option<&Mount<'_>>) -> Result {
    let seconds = begun.elapsed().as_secs_f64();
    let rate = match count {
        0 => String::new(),
        count => format!(", {:.0}/s", count as f64 / seconds),
    };
    let memory = match mount.and_then(Mount::pid) {
        Some(pid) => format!(", {} MB", resident(pid, false)? >> 10),
        None => String::new(),
    };
    println!("| {what} | {seconds:.2} s{rate}{memory} |");
    Ok(())
}

fn mounted<'g>(ground: &'g Ground, what: &str) -> Result<Mount<'g>> {
    drop_caches()?;
    let begun = Instant::now();
    let mount = ground.mount(Side::Emmc)?;
    tell(what, begun, 0, Some(&mount))?;
    Ok(mount)
}

fn end(mount: Mount<'_>) -> Result {
    let begun = Instant::now();
    mount.end()?;
    tell("unmount", begun, 0, None)
}

fn check(ground: &Ground) -> Result {
    drop_caches()?;
    let begun = Instant::now();
    ground.check(Side::Emmc)?;
    tell("e2fsck -fn", begun, 0, None)
}

/// Every file is met once.
fn walk(mount: &Mount<'_>, count: u64) -> Result {
    let begun = Instant::now();
    let script = "find \"$1\" -type f -printf '%s\\n' | wc -l";
    let dir = mount.dir().to_string_lossy();
    let found = sh("sh", &["-c", script, "sh", &dir])?;
    if found != count.to_string() {
        return Err(format!("{found} files are met instead of {count}"));
    }
    tell("walk with attributes", begun, count, Some(mount))
}

fn path(dir: &Path, n: u64) -> PathBuf {
    dir.join(format!("d{}/file {n}", n / DIR_FILES))
}

/// Some files in any order: looked up, then removed.
fn sample(mount: &Mount<'_>, count: u64) -> Result {
    let mut some: Vec<u64> = (0..count).step_by(SAMPLE as usize).collect();
    let mut random = Random(count);
    some.sort_by_cached_key(|_| random.next());
    let each = |what: &str, act: &dyn Fn(&Path) -> std::io::Result<()>| {
        drop_caches()?;
        let begun = Instant::now();
        for n in &some {
            let path = path(mount.dir(), *n);
            act(&path).map_err(at(&path))?;
        }
        tell(what, begun, some.len() as u64, Some(mount))
    };
    each("stat of some", &|path| fs::metadata(path).map(drop))?;
    each("unlink of some", &|path| fs::remove_file(path))?;
    match fs::exists(path(mount.dir(), 0)) {
        Ok(false) => Ok(()),
        other => Err(format!("a removed file: {other:?}")),
    }
}

/// More files through the mount.
fn add(mount: &Mount<'_>, count: u64) -> Result {
    let tenth = (count / 10).max(1);
    let mut begun = Instant::now();
    for n in 0..count {
        let dir = mount.dir().join(format!("more{}", n / DIR_FILES));
        if n % DIR_FILES == 0 {
            fs::create_dir(&dir).map_err(at(&dir))?;
        }
        let path = dir.join(format!("file {n}"));
        File::create_new(&path).map_err(at(&path))?;
        if (n + 1) % tenth == 0 {
            let what = format!("{} made through the mount", n + 1);
            tell(&what, begun, tenth, Some(mount))?;
            begun = Instant::now();
        }
    }
    Ok(())
}
