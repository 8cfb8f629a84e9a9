//! `varve crash --dir`: runs a program of the user on a volume of ours, records its system calls,
//! and judges what a cut may leave.

mod family;
mod place;
mod record;

use crate::args::{AckArgs, CrashArgs};
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::stop::Stop;
use ::program::call::Recording;
use ::program::record::{list, load, save};
use std::io::Write;
use std::path::Path;

/// The variable that names the file of acknowledgements.
const ACKS_VARIABLE: &str = "VARVE_ACKS";

/// Runs `varve ack`.
pub fn ack(args: &AckArgs) -> Result<(), Failure> {
    let file = std::env::var_os(ACKS_VARIABLE).ok_or_else(|| {
        usage("$VARVE_ACKS is not set: `varve ack` is for commands of `varve crash --dir --run`")
    })?;
    if args.text.contains('\n') {
        return Err(usage("an acknowledgement is one line"));
    }
    let name = Path::new(&file).display();
    let of_file = |e: std::io::Error| failed(format!("{name}: {e}"));
    let mut acks = std::fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .map_err(of_file)?;
    let line = format!("{}\n", args.text);
    acks.write_all(line.as_bytes()).map_err(of_file)
}

/// Records, explores, reports; fails if a state is bad.
pub fn dir(args: &CrashArgs) -> Result<(), Failure> {
    let recordings = match &args.program.recording {
        Some(file) => vec![read(file)?],
        None => recorded(args)?,
    };
    if let Some(file) = &args.program.keep {
        let [recording] = &recordings[..] else {
            return Err(usage("--keep takes one recording: leave --runs out"));
        };
        let bytes = save(recording).map_err(failed)?;
        std::fs::write(file, bytes).map_err(|e| failed(format!("{}: {e}", file.display())))?;
    }
    if args.program.show {
        let lists: Vec<String> = recordings.iter().map(list).collect();
        return say(&lists.join("\n"));
    }
    Err(usage("say --show"))
}

fn recorded(args: &CrashArgs) -> Result<Vec<Recording>, Failure> {
    let Some(command) = &args.run else {
        return Err(usage(
            "what to run is missing: say --run COMMAND, or --recording FILE for one that was kept",
        ));
    };
    OutFolder::prepare(&args.out)?;
    let stop = Stop::watch()?;
    let runs = 0..args.program.runs.get();
    runs.map(|_| record::record(args, command, &stop)).collect()
}

fn read(file: &Path) -> Result<Recording, Failure> {
    let name = file.display();
    let bytes = std::fs::read(file).map_err(|e| failed(format!("{name}: {e}")))?;
    load(&bytes).map_err(|e| failed(format!("{name}: {e}")))
}
