//! `cargo xtask bench mount`: Varve's mount beside fuse2fs and beside the kernel's ext4 on a loop
//! device.
//!
//! All sides use one image file whose blocks are allocated, format it anew, and wait for equal
//! fsyncs. They take turns, so that other work of the machine hits all of them alike, and the
//! median of the rounds counts.

use super::aims::Figures;
use super::loads::{self, Amount, Figure};
use super::sides::{Ground, Mount, Side};
use crate::Result;
use crate::sh::sh;
use crate::test::need::{has_program, is_root};
use crate::uring::{self, Switched};
use crate::workspace;
use std::path::PathBuf;

/// Room in the image beside the large file: journal, tables, small files.
const ROOM_BYTES: u64 = 512 << 20;
const PROGRAMS: [(&str, &str); 7] = [
    ("fio", "fio"),
    ("fuse2fs", "fuse2fs"),
    ("losetup", "mount"),
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("fsck.f2fs", "f2fs-tools"),
    ("fusermount3", "fuse3"),
];
const LOADS: [&str; 4] = ["seq", "random", "sqlite", "names"];

#[derive(clap::Args)]
pub struct Args {
    /// A short run: smaller files, one round
    #[arg(long)]
    quick: bool,
    /// Rounds; the median of them counts [default: 3, with --quick 1]
    #[arg(long)]
    repeats: Option<u32>,
    /// Where the image lies, on the disk to measure on
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Sides: fuse2fs, fuse2fs-big, kernel, kernel-direct, kernel-fast, jbd2, jbd2-direct, emmc,
    /// emmc-direct, jbd2-uring, emmc-uring, fast, fast-uring, f2fs, f2fsj
    #[arg(long, value_delimiter = ',')]
    sides: Vec<String>,
    /// Loads: seq, random, sqlite, names
    #[arg(long, value_delimiter = ',')]
    loads: Vec<String>,
    /// The program, instead of one built for release
    #[arg(long)]
    varve: Option<PathBuf>,
    /// More mount options for Varve
    #[arg(long)]
    options: Option<String>,
}

/// Runs `cargo xtask bench mount`.
pub fn run(args: &Args) -> Result {
    check_machine()?;
    let mut sides = chosen(&args.sides, &Side::ALL, Side::name)?;
    if let Some(why) = uring::lacks().filter(|_| args.sides.is_empty()) {
        eprintln!("without the sides over io_uring: {why}");
        sides.retain(|side| !side.over_io_uring());
    }
    // Until the end of the run, however it ends.
    let ring = sides.iter().any(|side| side.over_io_uring());
    let _switched = ring.then(Switched::on).transpose()?;
    let loads = chosen(&args.loads, &LOADS, |l| l)?;
    let (amount, rounds) = match args.quick {
        true => (Amount::QUICK, 1),
        false => (Amount::FULL, 3),
    };
    let rounds = args.repeats.unwrap_or(rounds).max(1);
    let varve = match &args.varve {
        Some(path) => path.clone(),
        // Users run a release build, so that is what is measured.
        None => workspace::build_varve(&["--release"])?,
    };
    let host = |e: std::io::Error| format!("{}: {e}", args.dir.display());
    std::fs::create_dir_all(&args.dir).map_err(host)?;
    let dir = args.dir.canonicalize().map_err(host)?;
    let folder = tempfile::tempdir_in(dir).map_err(|e| format!("a folder: {e}"))?;
    let bytes = amount.file_bytes + ROOM_BYTES;
    let ground = Ground::new(varve, args.options.clone(), folder.path(), bytes)?;
    tell_machine()?;
    let mut figures = Figures::default();
    for round in 1..=rounds {
        for side in &sides {
            eprintln!("round {round} of {rounds}: {}", side.name());
            one(&ground, *side, &amount, &loads, &mut figures)
                .map_err(|e| format!("{}: {e}", side.name()))?;
        }
    }
    println!("{}", figures.table(&sides));
    let (aims, missed) = figures.aims();
    println!("{aims}\n{missed} missed");
    Ok(())
}

/// Runs all loads on one side, from an empty file system to one that was checked.
fn one(
    ground: &Ground,
    side: Side,
    amount: &Amount,
    which: &[&str],
    figures: &mut Figures,
) -> Result {
    ground.format(side)?;
    loads::drop_caches()?;
    let mut mount = ground.mount(side)?;
    if which.contains(&"seq") || which.contains(&"random") {
        figures.add(Figure::Write, side, loads::write(mount.dir(), amount)?);
        mount = again(ground, side, mount)?;
    }
    if which.contains(&"seq") {
        figures.add(Figure::Read, side, loads::read(mount.dir(), amount)?);
    }
    if which.contains(&"random") {
        loads::drop_caches()?;
        figures.add(Figure::Random, side, loads::random(mount.dir(), amount)?);
    }
    if which.contains(&"sqlite") {
        for (figure, mode) in [(Figure::SqliteDelete, "delete"), (Figure::SqliteWal, "wal")] {
            loads::drop_caches()?;
            let rate = loads::sqlite(&ground.varve, mount.dir(), mode, amount)?;
            figures.add(figure, side, rate);
        }
    }
    if which.contains(&"names") {
        loads::drop_caches()?;
        let seconds = loads::names(mount.dir(), amount)?;
        let files = f64::from(amount.files);
        let each = [Figure::Create, Figure::Stat, Figure::Unlink];
        for (figure, seconds) in each.into_iter().zip(seconds) {
            figures.add(figure, side, files / seconds);
        }
        figures.add(Figure::Names, side, files / seconds.iter().sum::<f64>());
    }
    mount.end()?;
    ground.check(side)
}

/// Mounts anew, so that nothing is in any cache.
fn again<'g>(ground: &'g Ground, side: Side, mount: Mount<'g>) -> Result<Mount<'g>> {
    mount.end()?;
    loads::drop_caches()?;
    ground.mount(side)
}

fn chosen<T: Copy>(words: &[String], all: &[T], name: fn(T) -> &'static str) -> Result<Vec<T>> {
    if words.is_empty() {
        return Ok(all.to_vec());
    }
    let find = |word: &String| {
        let found = all.iter().copied().find(|t| name(*t) == word);
        found.ok_or_else(|| {
            let there: Vec<_> = all.iter().map(|t| name(*t)).collect();
            format!("there is no `{word}`; there are: {}", there.join(", "))
        })
    };
    words.iter().map(find).collect()
}

/// What the kernel's side and the mounts need.
pub fn check_machine() -> Result {
    if !is_root() {
        return Err("the kernel's side needs root: loop devices, mounts, dropped caches".into());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !std::path::Path::new(device).exists() {
            return Err(format!("there is no {device}"));
        }
    }
    match PROGRAMS.iter().find(|(program, _)| !has_program(program)) {
        Some((_, package)) => Err(format!("Debian package {package} is not installed")),
        None => Ok(()),
    }
}

fn tell_machine() -> Result {
    let kernel = sh("uname", &["-r"])?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "Linux {kernel}, {cores} cores; {}",
        sh("fio", &["--version"])?
    );
    // fuse2fs prints its version on standard error, and fails because it is given no image.
    let fuse2fs = std::process::Command::new("fuse2fs").arg("-V").output();
    let said = fuse2fs.map(|o| [o.stdout, o.stderr].concat());
    let said = said.map_err(|e| format!("fuse2fs: {e}"))?;
    let said = String::from_utf8_lossy(&said).to_string();
    println!("{}\n", said.lines().take(2).collect::<Vec<_>>().join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_chosen_by_name_or_refused() {
        let words = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
        let some = chosen(&words("kernel,emmc"), &Side::ALL, Side::name);
        assert_eq!(some, Ok(vec![Side::Kernel, Side::Emmc]));
        assert_eq!(chosen(&[], &LOADS, |l| l).map(|l| l.len()), Ok(4));
        let e = chosen(&words("ext5"), &Side::ALL, Side::name).unwrap_err();
        assert!(e.contains("ext5") && e.contains("kernel-direct"), "{e}");
    }
}
