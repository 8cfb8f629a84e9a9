//! Benchmark of `HostFile` beside fio on the same file, in one run: sequential writes of 1 MiB and
//! random writes of 4 KiB, by one and by four tasks. Prints rates and ratios, the median of three
//! rounds in which both sides take turns. Without fio it prints the rates of `HostFile` alone.
//!
//! `cargo bench -p varve-blockdev --bench host`, in a folder of the disk to be measured.
#![allow(clippy::disallowed_macros)] // No simulation runs here: printing cannot hold up a yield.

use base::{Bytes, Lba, Nanos, SECTOR_BYTES};
use std::path::Path;
use std::process::Command;
use varve_blockdev::{BlockDevice, Class, HostFile, HostIo, HostOptions, Request};

const FILE_BYTES: u64 = 256 << 20;
const SECONDS: u64 = 2;
const ROUNDS: usize = 3;

/// One row of the table: what both sides do.
struct Load {
    name: &'static str,
    bytes: usize,
    random: bool,
    tasks: u64,
    depth: usize,
    direct: bool,
}

const fn load(name: &'static str, bytes: usize, tasks: u64, depth: usize, direct: bool) -> Load {
    let random = bytes == 4096;
    Load {
        name,
        bytes,
        random,
        tasks,
        depth,
        direct,
    }
}

const LOADS: [Load; 8] = [
    load("seq 1M, direct", 1 << 20, 1, 4, true),
    load("seq 1M, direct", 1 << 20, 4, 4, true),
    load("rand 4k, direct", 4096, 1, 1, true),
    load("rand 4k, direct", 4096, 4, 1, true),
    load("rand 4k, direct", 4096, 1, 16, true),
    load("rand 4k, direct", 4096, 4, 16, true),
    load("rand 4k, cached", 4096, 1, 1, false),
    load("rand 4k, cached", 4096, 4, 1, false),
];

fn main() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host-bench");
    std::fs::write(&path, vec![1; FILE_BYTES as usize]).expect("room for the file");
    println!(
        "{:<16} tasks depth  engine     varve MB/s     fio MB/s   ratio",
        "load"
    );
    for load in &LOADS {
        for (io, engine) in [(HostIo::Uring, "io_uring"), (HostIo::Sync, "psync")] {
            if io == HostIo::Sync && load.depth > 1 {
                continue;
            }
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                match varve(&path, load, io) {
                    Some(rate) => ours.push(rate),
                    None => return println!("no io_uring here"),
                }
                theirs.extend(fio(&path, load, engine));
            }
            let (ours, theirs) = (median(ours), median(theirs));
            let ratio = if theirs > 0.0 { ours / theirs } else { 0.0 };
            println!(
                "{:<16} {:>5} {:>5}  {engine:<9} {ours:>11.1} {theirs:>12.1} {ratio:>7.2}",
                load.name, load.tasks, load.depth
            );
        }
    }
    let _ = std::fs::remove_file(&path);
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// MB/s of `HostFile`.
fn varve(path: &Path, load: &Load, io: HostIo) -> Option<f64> {
    let options = HostOptions {
        direct: load.direct,
        io,
        ..HostOptions::write()
    };
    let device = HostFile::open(path, &options).ok()?;
    let start = rt::now();
    let end = start + Nanos::from_secs(SECONDS);
    let written = rt::scope(|scope| {
        let device = &device;
        let task = |n| scope.spawn("bench", move || write_until(device, load, n, end));
        let tasks: Vec<_> = (0..load.tasks).map(task).collect();
        let done = tasks.into_iter().map(|t| t.join().expect("no panic"));
        done.sum::<u64>()
    });
    Some(written as f64 / 1e6 / ((rt::now() - start).0 as f64 / 1e9))
}

fn write_until(device: &HostFile, load: &Load, task: u64, end: base::Time) -> u64 {
    // As in fio, the buffer is aligned, so that nothing is copied on either side.
    let bytes = Bytes::from(vec![task as u8; load.bytes + 4096]);
    let skip = bytes.as_ptr().align_offset(4096);
    let bytes = bytes.slice(skip..skip + load.bytes);
    let slots = FILE_BYTES / load.bytes as u64;
    let (mut x, mut next) = (task * 2 + 1, task * slots / load.tasks);
    let mut place = || {
        if load.random {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            return x % slots;
        }
        next = (next + 1) % slots;
        next
    };
    let mut submit = || {
        let lba = Lba(place() * (load.bytes / SECTOR_BYTES) as u64);
        device.submit(Request::write(lba, Class::Data, bytes.clone()))
    };
    let mut under_way: std::collections::VecDeque<_> = (0..load.depth).map(|_| submit()).collect();
    let mut written = 0;
    while let Some(ticket) = under_way.pop_front() {
        device.wait(ticket).expect("written");
        written += load.bytes as u64;
        if rt::now() < end {
            under_way.push_back(submit());
        }
    }
    written
}

/// MB/s of fio; `None`: it is not installed, or lacks this engine.
fn fio(path: &Path, load: &Load, engine: &str) -> Option<f64> {
    let rw = if load.random { "randwrite" } else { "write" };
    let out = Command::new("fio")
        .arg("--name=bench")
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={rw}"))
        .arg(format!("--bs={}", load.bytes))
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--numjobs={}", load.tasks))
        .arg(format!("--direct={}", u8::from(load.direct)))
        .arg(format!("--size={FILE_BYTES}"))
        .arg(format!("--offset_increment={}", offset_increment(load)))
        .args([
            "--time_based",
            "--group_reporting",
            "--randrepeat=0",
            "--thread",
        ])
        .args(["--norandommap", "--fallocate=none", "--invalidate=0"])
        .arg(format!("--runtime={SECONDS}"))
        .args(["--output-format=terse", "--terse-version=3"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    // Field 48 of version 3: write bandwidth, KiB/s.
    let rate = text
        .lines()
        .find(|l| l.starts_with("3;"))?
        .split(';')
        .nth(47)?;
    Some(rate.parse::<f64>().ok()? * 1024.0 / 1e6)
}

/// Sequential jobs begin at different places, random ones share the file.
fn offset_increment(load: &Load) -> u64 {
    match load.random {
        true => 0,
        false => FILE_BYTES / load.tasks,
    }
}
