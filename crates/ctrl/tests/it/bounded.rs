//! Memory: what a device needs depends on what is written and what is open, not on its size or age.
//! And equal runs have equal results in another process. The measured memory is that of the whole
//! process, so the tests here are few and small.

use crate::host::random;
use base::{Lba, Rng, Time};
use blockdev::{Adversary, Class, Model, Request};
use varve_ctrl::{AnyModel, Profile};

fn device(bytes: u64, adversary: Adversary) -> AnyModel {
    let profile = Profile::builtin("emmc-odroid-xu4").unwrap();
    let mut m = profile.build(Some(bytes), None).unwrap();
    m.set_adversary(adversary);
    m
}

/// Random requests of all kinds over the first `span` sectors.
fn load(
    m: &mut AnyModel,
    seed: u64,
    requests: u64,
    span: u64,
    mut each: impl FnMut(&AnyModel),
) -> Time {
    let mut rng = Rng::named(seed, "load");
    let payload = random(&mut rng, 512 * 32);
    let mut now = Time(0);
    for _ in 0..requests {
        let n = 1 + rng.below(16);
        let lba = Lba(rng.below(span - n));
        let bytes = payload.slice(..n as usize * 512);
        let request = match rng.below(16) {
            0 => Request::flush(),
            1 => Request::discard(lba, n),
            2 | 3 => Request::write_fua(lba, Class::Data, bytes),
            4 => Request::read(lba, n),
            _ => Request::write(lba, Class::Data, bytes),
        };
        let done = m.execute(now, request);
        done.result.unwrap();
        now = done.at + base::Nanos(rng.below(100_000));
        each(m);
    }
    now
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A device of 32 GiB, with 8 MiB written all over it, and a power cycle.
#[cfg(target_os = "linux")]
fn a_large_device_costs_what_is_written() {
    let before = resident_bytes();
    let mut m = device(32 << 30, Adversary::Spec);
    let mut rng = Rng::named(1, "all over");
    let mut now = Time(0);
    for _ in 0..2048 {
        let lba = Lba(rng.below((32 << 30) / 4096) * 8);
        let bytes = random(&mut rng, 512 * 8);
        now = m.execute(now, Request::write(lba, Class::Data, bytes)).at;
    }
    now = m.execute(now, Request::flush()).at;
    let profile = Profile::builtin("emmc-odroid-xu4").unwrap();
    let next = profile
        .build(None, Some(m.clone().power_off(now, 1)))
        .unwrap();
    let grown = (resident_bytes() - before) >> 20;
    assert_eq!(next.caps().sectors, (32 << 30) / 512);
    assert!(grown < 100, "{grown} MiB for 8 MiB of data");
}

/// What the model keeps for a cut, at its largest, over a run.
fn largest_backlog(adversary: Adversary, requests: u64) -> usize {
    let mut m = device(32 << 20, adversary);
    let mut largest = 0;
    load(&mut m, 2, requests, 8192, |m| {
        largest = largest.max(m.backlog());
    });
    largest
}

fn the_backlog_stays_that_of_a_short_run(requests: u64) {
    for adversary in [Adversary::Own, Adversary::Spec] {
        let short = largest_backlog(adversary, 5000);
        let long = largest_backlog(adversary, requests);
        assert!(
            long < 2 * short + 100 && short > 0,
            "{adversary:?}: {short}, then {long}"
        );
    }
}

#[test]
fn memory_follows_content_and_open_operations() {
    #[cfg(target_os = "linux")]
    a_large_device_costs_what_is_written();
    the_backlog_stays_that_of_a_short_run(20_000);
}

#[test]
#[ignore = "20 seconds: a million requests"]
fn the_backlog_of_a_million_requests_is_that_of_a_short_run() {
    the_backlog_stays_that_of_a_short_run(1_000_000);
}

fn hashes() -> String {
    let of = |adversary| {
        let mut m = device(16 << 20, adversary);
        let now = load(&mut m, 3, 1500, 4096, |_| {});
        m.power_off(Time(now.0 - 50_000), 9).content_hash()
    };
    format!("hashes {:x} {:x}", of(Adversary::Own), of(Adversary::Spec))
}

#[test]
#[ignore = "the other process of the next test"]
#[expect(
    clippy::disallowed_macros,
    reason = "its output is what the next test reads"
)]
fn print_hashes() {
    println!("{}", hashes());
}

#[test]
fn equal_runs_leave_equal_media_in_two_processes() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "bounded::print_hashes",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains(&hashes()), "{}; the other: {said}", hashes());
}
