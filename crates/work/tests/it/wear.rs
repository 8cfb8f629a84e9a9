//! How long a device lives, as a short run predicts it, beside what the translation layer counted
//! over a run ten times as long.

use report::results::Run;
use report::wear::Basis;
use rig::{Config, Fs, Preset};
use varve_work::RunConfig;
use varve_work::run::run;

/// The profile as it is, blocks of 128 pages.
const CARD: &str = "emmc-odroid-xu4";

fn ran_on(scheme: &str, device: &str, mib: u64, workload: &str) -> Run {
    let mut stack = Config::new(Preset::default(), device, 1);
    if scheme.starts_with("checkpoint") {
        stack.fs = Fs::F2fs;
    }
    stack.set_scheme(scheme).unwrap();
    stack.bytes = mib << 20;
    let config = RunConfig {
        stack,
        workload: workload.into(),
        seed: 1,
        recording: None,
    };
    match run(&config, &mut |_, _| {}) {
        Ok(finished) => finished.run,
        Err(e) => panic!("{scheme} on {device}, {workload}: {e}"),
    }
}

#[test]
fn explore() {
    let list = std::env::var("CASES").unwrap();
    for case in list.lines().filter(|l| !l.trim().is_empty()) {
        let f: Vec<&str> = case.split_whitespace().collect();
        let t = std::time::Instant::now();
        let short = ran_on(f[0], f[1], f[2].parse().unwrap(), f[3]);
        let t1 = t.elapsed();
        let long = ran_on(f[0], f[1], f[2].parse().unwrap(), f[4]);
        let t2 = t.elapsed();
        let w = short.wear.unwrap();
        let l = long.wear.unwrap();
        let fl = long.flash.unwrap();
        let fs = short.flash.unwrap();
        println!("{case}\n  {t1:?} {t2:?} host {} {} programs {} naive {:.1} due*10 {:.1} slc {:.1} | counted {} naive {:.1} | long due {:.1} {:.1} {:?}/{:?} life {:?} {:?}", fs.host_pages, fl.host_pages, fs.programs, fs.programs as f64 / 128.0 * 10.0, w.erases_due*10.0, w.slc.map_or(0.0,|s|s.erases_due*10.0), fl.erases, fl.programs as f64 / 128.0, l.erases_due, l.slc.map_or(0.0,|s|s.erases_due), w.basis, l.basis, w.life(), l.life());
    }
}
