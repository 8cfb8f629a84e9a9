//! Recordings of block requests: lines read a second, and requests replayed a second on the layer
//! that counts; reading, sorting, folding and filling stand apart. Of a made recording of a million
//! requests, and of those in `VARVE_TRACES`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use rig::counting::Policy;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;
use varve_work::blocktrace::counting::{self, CountingSpec, Fill, Shape};
use varve_work::blocktrace::fold::{Fold, Footprint};
use varve_work::blocktrace::{BlockTrace, read_from};

/// CSV as from a phone: reads and writes of 4 to 64 KiB, some in a row, in 8 GiB.
fn made(requests: u64) -> String {
    let mut rng = base::Rng::named(1, "made recording");
    let mut text = String::from("process,device,rw_flag,sector,size,timestamp\n");
    let mut next = 0;
    for n in 0..requests {
        let size = 8 << rng.below(5);
        let sector = match rng.one_in(2) {
            true => next,
            false => 8 * rng.below(2 << 20),
        };
        next = (sector + size) % (16 << 20);
        let kind = if rng.one_in(2) { 'R' } else { 'W' };
        let (s, us) = (n / 10_000, n % 10_000 * 100);
        let _ = writeln!(
            text,
            "made-{},8388608,{kind},{sector},{size},{s}.{us:06}",
            n % 97
        );
    }
    text
}

fn measure(name: &str, bytes: &[u8]) {
    let begun = Instant::now();
    let trace = read_from(name, bytes, None, true).expect("the recording reads");
    let reading = begun.elapsed().as_secs_f64();
    let footprint = Footprint::of(&trace).expect("it has a footprint");
    // What is timed is the second pass: the first fills the caches and the device.
    let seconds = |passes: u32| run(&trace, &footprint, passes);
    let (one, three) = (seconds(1), seconds(3));
    let pass = ((three.0 - one.0) / 2.0).max(1e-9);
    let requests = trace.requests.len() as f64;
    let units = three.1 as f64 / 3.0;
    println!(
        "{name:<32} {:>9} {:>12.0} {:>14.0} {:>14.0} {:>9} {:>9.3}",
        trace.requests.len(),
        trace.reading.lines as f64 / reading,
        requests / pass,
        units / pass,
        footprint.bytes() >> 20,
        three.2,
    );
}

/// Seconds, units moved, write amplification.
fn run(trace: &BlockTrace, footprint: &Footprint, passes: u32) -> (f64, u64, f64) {
    let spec = CountingSpec {
        bytes: footprint.roomy(),
        shape: Shape::default(),
        policy: Policy::Greedy,
        seed: 1,
        fold: Fold::Compact,
        fill: Fill::Footprint,
        passes,
    };
    let begun = Instant::now();
    let run = counting::run(trace, footprint, &spec).expect("it runs");
    (
        begun.elapsed().as_secs_f64(),
        run.host_units + run.read_units,
        run.write_amplification.unwrap_or(0.0),
    )
}

fn main() {
    // `cargo test --benches` asks whether it builds, no more.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!(
        "{:<32} {:>9} {:>12} {:>14} {:>14} {:>9} {:>9}",
        "recording", "requests", "lines/s", "requests/s", "units/s", "MiB", "write amp"
    );
    measure("made", made(1_000_000).as_bytes());
    let Some(folder) = std::env::var_os("VARVE_TRACES").filter(|f| !f.is_empty()) else {
        println!("skipped: no traces (VARVE_TRACES is not set)");
        return;
    };
    for name in [
        "pixel6a-slideshow.csv.gz",
        "pixel6a-telegram-precond.csv.gz",
    ] {
        let bytes = std::fs::read(PathBuf::from(&folder).join(name)).expect("the recording");
        measure(name, &bytes);
    }
}
