//! `varve crash --kernel`: runs a program, or workloads of the explorer, on a file system of a
//! Linux kernel in a guest, and cuts it.

mod kept;
mod table;
mod trials;

use super::program::{check_log, explored};
use super::shell::Shell;
use crate::args::{CrashArgs, Engine};
use crate::campaign::shelf::Shelf;
use crate::failure::{Failure, failed, usage};
use crate::out::OutFolder;
use crate::pool::threads;
use crate::stop::Stop;
use crash::CrashError;
use crash::program::{Kernel, KernelPlan, Room};
use kept::Keeping;
use rig::signals;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Most guests that judge at the same time.
const GUESTS: usize = 16;
/// Largest file system, MiB: what an ext4 with blocks of 4 KiB may have.
const MIB_MAX: u64 = 16 << 20;

/// Boots, records, explores, reports; fails if a state is bad.
pub fn kernel(args: &CrashArgs, engine: Engine) -> Result<(), Failure> {
    let Some(fs) = &args.kernel.fs else {
        return Err(usage("--kernel needs --fs"));
    };
    let scripts = match args.run {
        Some(_) if args.store.is_some() => {
            return Err(usage(
                "--store keeps what came of sequences of --workload; --run is one program",
            ));
        }
        Some(_) => Vec::new(),
        None => trials::scripts(args, fs)?,
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if fs.is_empty() || !fs.chars().all(is_name) {
        return Err(usage(format!("--fs {fs}: a name like ext4 is wanted")));
    }
    if args
        .kernel
        .mount
        .contains(|c: char| c.is_whitespace() || "'\"\\$`;&|<>()".contains(c))
    {
        return Err(usage(
            "--mount: options like those of `mount -o`, without spaces",
        ));
    }
    if args.program.size > MIB_MAX {
        let mib = args.program.size;
        return Err(usage(format!(
            "--size: {mib} MiB; with --kernel it may be at most 16T"
        )));
    }
    check_log(args)?;
    let out = OutFolder::prepare(&args.out)?;
    let shelf = args.store.as_deref().map(Shelf::open).transpose()?;
    let stop = Stop::watch()?;
    let folder = tempfile::tempdir().map_err(|e| failed(format!("a folder: {e}")))?;
    let image = folder.path().join("device.img");
    let bytes = args.program.size << 20;
    let made = File::create(&image).and_then(|file| file.set_len(bytes));
    made.map_err(|e| failed(format!("making {}: {e}", image.display())))?;
    let given = args.kernel.mkfs.clone();
    make(
        &given.unwrap_or(format!("mkfs.{fs} $VARVE_DEVICE")),
        &image,
        &stop,
    )?;
    let plan = KernelPlan {
        machine: engine.into(),
        fs: fs.clone(),
        options: args.kernel.mount.clone(),
        image,
        words: vec!["in-the-guest".into()],
        setup: args.program.setup.clone(),
        run: args.run.clone().unwrap_or_default(),
        check: args.program.check.clone(),
        look: args.run.is_none(),
        patience: Duration::from_secs(args.timeout),
        guests: threads(args.jobs, GUESTS),
        stop: || signals::noted().is_some(),
    };
    // What fails because of the signal is told as that.
    let ended = |e: CrashError| match stop.signal() {
        Some(signal) => Failure::Stopped(signal, "nothing is written".into()),
        None => failed(e),
    };
    let mut room = Room::new(args.memory << 20);
    let mut kernel = Kernel::boot(plan, folder.path(), &mut room).map_err(ended)?;
    if args.run.is_none() {
        let version = kernel.version().map_err(ended)?;
        let keeping = shelf.map(|shelf| Keeping::new(shelf, &version, &trials::options(args)));
        return trials::tried(args, scripts, &mut kernel, (keeping.as_ref(), &out), &stop);
    }
    let recorded = kernel.record(room).map_err(ended)?;
    explored(args, &recorded, bytes, &mut kernel, &out, &stop)
}

/// Makes the file system.
fn make(command: &str, image: &Path, stop: &Stop) -> Result<(), Failure> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("VARVE_DEVICE", image)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdout(std::process::Stdio::null());
    let done = Shell::start(&mut shell).and_then(|mut shell| shell.wait(stop, None));
    match done {
        Err(e) => Err(failed(format!("sh: {e}"))),
        Ok(_) if stop.signal().is_some() => {
            let signal = stop.signal().unwrap_or_default();
            Err(Failure::Stopped(signal, "nothing is written".into()))
        }
        Ok((status, _)) if status.success() => Ok(()),
        Ok((status, _)) => Err(failed(format!("--mkfs ended with {status}"))),
    }
}
