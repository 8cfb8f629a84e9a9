//! The library `varve` beside the crate `rust-fs-ext4`, each on a volume of its own: creating,
//! writing, removing, looking up, reading. One line a load, and how many times as fast Varve is.
//!
//! Both have the same device: memory, or a file of a folder. They take turns, and the median of the
//! rounds counts. `rust-fs-ext4` makes every call durable before it answers, because its calls are
//! transactions of their own. So each load that changes the volume is there twice: as one calls it,
//! and with a sync after each call of Varve's, which makes both promise the same.

mod device;
mod loads;
mod sides;

use loads::{Amount, LOADS, Load};
use sides::Side;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: library-speed [--rounds N] [--files N] [--mib N] [FOLDER]
The volume is in memory, or in files of FOLDER.";

struct Args {
    rounds: usize,
    amount: Amount,
    folder: Option<PathBuf>,
}

fn args() -> Result<Args, String> {
    let mut args = Args {
        rounds: 5,
        amount: Amount {
            files: 500,
            bytes: 64 << 20,
        },
        folder: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, String> {
            let value = words.next().ok_or(format!("{word}: say a number"))?;
            let number = value.parse().ok().filter(|&n| n > 0);
            number.ok_or(format!("{word} {value}: say a positive number"))
        };
        match word.as_str() {
            "--rounds" => args.rounds = number()? as usize,
            "--files" => args.amount.files = number()?,
            "--mib" => args.amount.bytes = number()? << 20,
            folder if !folder.starts_with('-') => args.folder = Some(folder.into()),
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(e) => {
            eprintln!("{e}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let mut times: Vec<[Vec<Duration>; 2]> = vec![Default::default(); LOADS.len()];
    for round in 0..args.rounds {
        for turn in 0..2 {
            // Each side begins every other round.
            let which = (round + turn) % 2;
            let device = device::made(args.folder.as_deref(), which)?;
            sides::formatted(device.clone())?;
            let mut side = sides::mounted(which, device.clone())?;
            for (load, times) in LOADS.iter().zip(&mut times) {
                if load.fresh {
                    side.end()?;
                    device.forget()?;
                    side = sides::mounted(which, device.clone())?;
                }
                times[which].push(measured(load, &*side, &args.amount)?);
            }
            side.end()?;
        }
    }
    println!("{:<34} {:>7}", "load", "times");
    for (load, [varve, other]) in LOADS.iter().zip(&mut times) {
        let times = median(other).as_secs_f64() / median(varve).as_secs_f64();
        println!("{:<34} {times:>7.2}", load.name);
    }
    Ok(())
}

fn measured(load: &Load, side: &dyn Side, amount: &Amount) -> Result<Duration, String> {
    let failed = |e: String| format!("{} of {}: {e}", load.name, side.name());
    (load.run)(side, amount).map_err(failed)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
