//! Makes so many files on the ext4 of an image: `many_files IMAGE COUNT`. Tells for each tenth how
//! fast it was, and how much memory the process holds.

#![allow(clippy::disallowed_macros, clippy::disallowed_types)] // A program in the real world.
#![allow(clippy::disallowed_methods)]

use std::time::Instant;
use varve::{Disk, Volume};

/// Files of one directory.
const DIR_FILES: u64 = 10_000;

/// Resident memory, MB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

fn main() -> varve::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(image), Some(count)) = (words.first(), words.get(1)) else {
        eprintln!("usage: many_files IMAGE COUNT");
        std::process::exit(2);
    };
    let count: u64 = count.parse().expect("COUNT is a number");
    let disk = Disk::open(image)?;
    let volume = Volume::mount(&disk, "scheme=emmc")?;
    let mut begun = Instant::now();
    let tenth = (count / 10).max(1);
    for n in 0..count {
        let dir = format!("/d{}", n / DIR_FILES);
        if n % DIR_FILES == 0 {
            volume.create_dir(&dir)?;
        }
        drop(volume.create(format!("{dir}/file {n}"))?);
        if (n + 1) % tenth == 0 {
            let rate = tenth as f64 / begun.elapsed().as_secs_f64();
            let memory = resident();
            println!("| {} files | {rate:.0} files/s, {memory} MB |", n + 1);
            begun = Instant::now();
        }
    }
    let begun = Instant::now();
    volume.unmount()?;
    println!("| unmount | {:.2} s |", begun.elapsed().as_secs_f64());
    Ok(())
}
