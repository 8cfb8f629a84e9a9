//! Prints the tables of docs/results/write-amplification.md:
//! `cargo bench -p varve-ftl --bench amplification`.
#![allow(clippy::disallowed_macros)] // No task and no simulation runs here: printing cannot hold up a yield.

#[path = "../tests/common/uniform.rs"]
mod uniform;

use uniform::{Load, Outcome, Shape, TABLE, measure};
use varve_ftl::{Policy, theory};

fn off(got: f64, want: f64) -> String {
    format!("{want:.3} ({:+.2} %)", (got / want - 1.0) * 100.0)
}

fn uniform_writes() {
    println!(
        "| blocks x slots | rho | greedy | closed form | FIFO | closed form | 10 choices | windowed:64 | random |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for shape in TABLE {
        let (blocks, slots, rho) = shape;
        let run = |policy| measure(shape, policy, Load::Uniform, 8, 12);
        let plain = |policy| run(policy).amplification;
        let (greedy, fifo): (Outcome, Outcome) = (run(Policy::Greedy), run(Policy::Fifo));
        println!(
            "| {blocks} x {slots} | {rho:.2} | {:.3} | {} | {:.3} | {} | {:.3} | {:.3} | {:.3} |",
            greedy.amplification,
            off(greedy.amplification, theory::greedy(greedy.alpha, slots)),
            fifo.amplification,
            off(fifo.amplification, theory::fifo(fifo.alpha)),
            plain(Policy::Choices(10)),
            plain(Policy::Windowed(64)),
            plain(Policy::Random),
        );
    }
}

fn hot_and_cold() {
    println!("\n| rho | greedy | FIFO | 10 choices | cost-benefit |");
    println!("|---|---|---|---|---|");
    for rho in [0.10, 0.25, 0.40] {
        let shape: Shape = (1024, 64, rho);
        let of = |policy| measure(shape, policy, Load::HotCold, 8, 12).amplification;
        let choices = Policy::Choices(10);
        let all = [Policy::Greedy, Policy::Fifo, choices, Policy::CostBenefit].map(of);
        println!(
            "| {rho:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            all[0], all[1], all[2], all[3]
        );
    }
}

fn trims() {
    println!("\n| TRIM requests | alpha | FIFO | closed form |");
    println!("|---|---|---|---|");
    for one_in in [u64::MAX, 10, 5, 3] {
        let load = match one_in {
            u64::MAX => Load::Uniform,
            n => Load::Trims(n),
        };
        let got = measure((1024, 64, 0.25), Policy::Fifo, load, 8, 12);
        let share = if one_in == u64::MAX {
            "none".into()
        } else {
            format!("1 in {one_in}")
        };
        let form = off(got.amplification, theory::fifo(got.alpha));
        println!(
            "| {share} | {:.3} | {:.3} | {form} |",
            got.alpha, got.amplification
        );
    }
}

fn main() {
    uniform_writes();
    hot_and_cold();
    trims();
}
