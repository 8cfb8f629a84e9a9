//! Protocol-aware pruning against the code that it trusts: what is left out recovers to nothing
//! that is not found without it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_crash::Judgement;
use varve_crash::case::{Case, Setup, Volumes};
use varve_crash::check::Checker;
use varve_crash::cuts::walk;
use varve_crash::oracle::Oracle;
use varve_crash::traced::{Traced, trace};

use base::Time;
use blockdev::Image;
use blockdev::spec::{Bound, Mode};
use vfs::Vfs;

/// Tells what was recovered, as one line.
struct Content;

impl Oracle for Content {
    fn advance(&mut self, _: Time) {}
    fn epoch(&self) -> u64 {
        0
    }
    fn position(&self) -> usize {
        0
    }
    fn moments(&self) -> Vec<Time> {
        Vec::new()
    }
    fn judge(&self, vfs: &Arc<Vfs>, judgement: &mut Judgement) {
        judgement.violations.push(format!("{:?}", walk(vfs)));
    }
    fn story(&self) -> Vec<String> {
        Vec::new()
    }
}

fn setup(scheme: &str, device: &str, seed: u64) -> Setup {
    Case {
        scheme: scheme.into(),
        device: device.into(),
        workload: "mix".into(),
        seed,
        scheduler: None,
        mutant: None,
    }
    .setup(&mut Volumes::default())
    .expect("a case")
}

/// For each cut: states that pruning leaves out, and what recovery makes of all states and of those
/// that it keeps.
#[derive(Default)]
struct Seen {
    left_out: usize,
    cuts: usize,
}

/// Most states of one cut, and cuts of one run, that are recovered.
const STATES: usize = 400;
const CUTS: usize = 12;

fn compare(setup: &Setup, seen: &mut Seen) {
    let Traced { trace, began, .. } =
        trace(&setup.config, &setup.volume, setup.subject.as_ref()).expect("a run");
    let checker = Checker::new(&setup.config, &setup.volume);
    let mut cursor = trace.cursor();
    let mut left = CUTS;
    for at in trace.cut_points().into_iter().filter(|at| *at > began) {
        cursor.seek(at);
        let bound = |prune| Bound {
            mode: Mode::Bounded,
            subset_max: 2,
            torn_max: 2,
            states_max: STATES as u32,
            prune,
        };
        if cursor.counted(&bound(true)).pruned == 0 {
            continue;
        }
        let images = |prune| -> BTreeMap<u64, Image> {
            let choices = cursor.choices(&bound(prune));
            let image = |choice| {
                let image = cursor.image(choice);
                (image.content_hash(), image)
            };
            choices.iter().map(image).collect()
        };
        let (kept, all) = (images(true), images(false));
        let recover = |images: Vec<Image>| -> BTreeSet<String> {
            let mut contents = BTreeSet::new();
            let mut enter = |_, judgement: Judgement| {
                contents.insert(judgement.violations.join("; "));
                true
            };
            checker
                .check(&Content, &images, &mut enter)
                .expect("checked");
            contents
        };
        let more: Vec<Image> = all
            .iter()
            .filter(|(hash, _)| !kept.contains_key(hash))
            .map(|(_, image)| image.clone())
            .collect();
        seen.left_out += more.len();
        seen.cuts += 1;
        let found = recover(kept.into_values().collect());
        for content in recover(more) {
            assert!(
                found.contains(&content),
                "{at:?}: a state that was left out recovers to {content}, the others to {found:?}"
            );
        }
        left -= 1;
        if left == 0 {
            return;
        }
    }
}

#[test]
fn what_pruning_leaves_out_recovers_to_what_it_keeps() {
    let mut left_out = BTreeMap::new();
    for (scheme, device) in [
        ("jbd2", "spec:emmc"),
        ("emmc", "spec:emmc"),
        ("coalition", "spec:nvme"),
        ("jbd2", "spec:disk"),
    ] {
        let mut seen = Seen::default();
        for seed in 1..3 {
            compare(&setup(scheme, device, seed), &mut seen);
        }
        left_out.insert((scheme, device), (seen.cuts, seen.left_out));
    }
    // A commit of the coalition schemes is one block, and their home writes are deltas: nothing
    // there is protected here.
    for ((scheme, device), (_, states)) in &left_out {
        let enough = *scheme != "jbd2" || *states > 100;
        assert!(enough, "{scheme} on {device}: hardly anything was pruned");
    }
}
