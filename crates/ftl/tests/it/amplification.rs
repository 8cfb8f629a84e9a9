//! Compares write amplification in counting mode with the closed forms of `theory`.
#![allow(clippy::disallowed_macros)] // No task and no simulation runs here: printing cannot hold up a yield.

#[path = "../common/uniform.rs"]
mod uniform;

use uniform::{Load, Shape, TABLE, measure};
use varve_ftl::{Policy, theory};

fn near(what: &str, got: f64, want: f64, percent: f64) {
    let off = (got / want - 1.0) * 100.0;
    println!("{what}: measured {got:.4}, closed form {want:.4}, {off:+.2} %");
    assert!(
        off.abs() < percent,
        "{what}: measured {got:.4}, closed form {want:.4}, off by {off:.2} %, {percent} % allowed"
    );
}

/// `times` scales the length of the runs.
fn greedy_and_fifo(times: u64) {
    for shape in TABLE {
        let (_, slots, rho) = shape;
        let greedy = measure(shape, Policy::Greedy, Load::Uniform, 8, 18 * times);
        // The forms are derived for large blocks: with 32 slots and 10 % of room the form for
        // greedy is half a percent low, as other simulators find too, and it matters that copies
        // and host writes each keep a block open.
        let (percent, of_fifo) = match (slots, rho) == (32, 0.10) {
            true => (0.8, 0.3),
            false => (0.6, 0.2),
        };
        let form = theory::greedy(greedy.alpha, slots);
        near(
            &format!("greedy {shape:?}"),
            greedy.amplification,
            form,
            percent,
        );
        let fifo = measure(shape, Policy::Fifo, Load::Uniform, 8, 18 * times);
        let form = theory::fifo(fifo.alpha);
        near(
            &format!("FIFO {shape:?}"),
            fifo.amplification,
            form,
            of_fifo,
        );
    }
}

#[test]
fn uniform_writes_meet_the_closed_forms() {
    greedy_and_fifo(1);
}

#[test]
#[ignore = "the same, ten times as long"]
fn uniform_writes_meet_the_closed_forms_in_long_runs() {
    greedy_and_fifo(10);
}

#[test]
fn trims_are_room() {
    let shape: Shape = (1024, 64, 0.25);
    for (one_in, q) in [(10, 0.1), (5, 0.2)] {
        let got = measure(shape, Policy::Fifo, Load::Trims(one_in), 8, 6);
        let fifo = theory::fifo(got.alpha);
        near(
            &format!("FIFO, TRIM 1 in {one_in}"),
            got.amplification,
            fifo,
            0.5,
        );
        let share = theory::live_share_in_use(q);
        let idle = 1.25 * (1.0 - 3.0 / 1024.0);
        near("alpha with TRIM", got.alpha, idle / share, 0.5);
    }
}

/// The order of the policies that the literature finds: with hot and cold data cost-benefit is
/// best, with uniform data greedy.
#[test]
fn policies_stand_in_their_order() {
    let shape: Shape = (1024, 64, 0.25);
    let of = |policy, load| measure(shape, policy, load, 8, 4).amplification;
    let uniform = [
        Policy::Greedy,
        Policy::Windowed(64),
        Policy::Choices(10),
        Policy::Choices(2),
        Policy::Random,
    ]
    .map(|p| of(p, Load::Uniform));
    println!("greedy, windowed, 10, 2 and 1 choices: {uniform:.3?}");
    assert!(uniform.is_sorted(), "{uniform:?}");
    let mixed = [Policy::CostBenefit, Policy::Greedy, Policy::Fifo].map(|p| of(p, Load::HotCold));
    println!("cost-benefit, greedy, FIFO: {mixed:.3?}");
    assert!(mixed.is_sorted() && mixed[0] < 0.9 * mixed[1], "{mixed:?}");
}
