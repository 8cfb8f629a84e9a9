//! Areas of fast commits that the running kernel wrote: replayed here, by e2fsck and by the kernel;
//! whole, cut after any tag, and with any byte changed, with the checksums behind it corrected or
//! not.
//!
//! - V1 (unchanged areas): names, content, permissions, links and inode numbers of a whole area are
//!   those that the kernel showed before its power went. Of whole and cut areas these, and
//!   attributes and times, are those that e2fsck gets or the kernel's own replay, which both lose
//!   content that lay in inodes. `e2fsck -fn` finds no fault in what is left here. Where no fast
//!   commit is whole, the kernel refuses and e2fsck leaves out full commits as well; here the full
//!   commits count;
//! - V2 (changed areas): `e2fsck -fn` finds no fault either, or the mount is refused with a reason
//!   and nothing was written; no panic, no endless loop, no more memory than [`MEMORY_MAX`].
//!
//! The tests are a program of their own because that limit holds for the whole process.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod area;
#[path = "../it/common/mod.rs"]
mod common;
mod damage;
mod directed;
mod others;
mod ours;
mod replay;
mod scenes;

use area::Area;
use common::have_tools;
use replay::{Replayed, Volume, by_e2fsck, by_us};
use scenes::Scene;

/// The maximum of address space for a case and the test itself: what a damaged length asks for
/// would be more.
const MEMORY_MAX: u64 = 8 << 30;

/// Volumes: options of mke2fs.
const VOLUMES: [&[&str]; 4] = [
    &["-b", "4096", "-O", "fast_commit,inline_data"],
    &["-b", "1024", "-O", "fast_commit"],
    &[
        "-b",
        "4096",
        "-O",
        "fast_commit,^metadata_csum",
        "-I",
        "128",
    ],
    &["-b", "2048", "-O", "fast_commit,orphan_file", "-I", "512"],
];

/// The image that the kernel left, if it can be made here.
fn image_of(options: &[&str], scene: &Scene) -> Option<Volume> {
    if !have_tools() {
        return None;
    }
    scenes::left_by_kernel(options, scene)
}

/// Checks V1 on a whole area. Answers the number of fast commits replayed.
fn agrees(options: &[&str], scene: &Scene) -> Option<u64> {
    let volume = image_of(options, scene)?;
    let context = format!("{options:?}, {scene:?}");
    let ours = by_us(&volume.image, volume.bytes).unwrap_or_else(|e| panic!("{context}: {e}"));
    checked(&ours, &context);
    replay::is_live(&ours.tree, &volume.live, &context);
    let disputed = judged(&volume.image, volume.bytes, &ours, (true, &context));
    if disputed > 0 {
        println!("{context}: e2fsck leaves {disputed} paths otherwise");
    }
    Some(ours.fast_commits)
}

fn checked(ours: &Replayed, context: &str) {
    ours.check()
        .unwrap_or_else(|why| panic!("{context}: {why}"));
}

fn judged(
    image: &blockdev::Image,
    bytes: u64,
    ours: &Replayed,
    (inline, context): (bool, &str),
) -> u64 {
    let e2fsck = by_e2fsck(image, bytes);
    let kernel = replay::by_kernel(image, bytes);
    // The kernel refuses the mount where it finds tags, but no whole fast commit.
    assert!(kernel.is_some() || ours.fast_commits == 0, "{context}");
    replay::disputed(&ours.tree, (&e2fsck.tree, kernel.as_ref()), inline, context)
}

/// Checks V1 on areas cut before every `step`-th tag.
fn cuts_agree(options: &[&str], scene: &Scene, step: usize) {
    let Some(volume) = image_of(options, scene) else {
        return;
    };
    let inline = options.iter().any(|o| o.contains("inline_data"));
    let area = Area::of(&volume.image).expect("an area of fast commits");
    let whole = area.read(&volume.image);
    let tags = area.tags(&whole);
    let (mut cases, mut least, mut most, mut disputed) = (0, u64::MAX, 0, 0);
    for tag in tags.iter().step_by(step) {
        let mut cut = whole.clone();
        cut[tag.at..].fill(0);
        let mut image = volume.image.clone();
        area.write(&mut image, &cut);
        let context = format!(
            "{options:?}, {scene:?}, cut at byte {} ({})",
            tag.at, tag.kind
        );
        let ours = by_us(&image, volume.bytes).unwrap_or_else(|e| panic!("{context}: {e}"));
        checked(&ours, &context);
        disputed += judged(&image, volume.bytes, &ours, (inline, &context));
        cases += 1;
        (least, most) = (least.min(ours.fast_commits), most.max(ours.fast_commits));
    }
    println!(
        "{options:?}: {cases} cuts of {} tags, {least} to {most} fast commits replayed, e2fsck leaves {disputed} paths otherwise",
        tags.len()
    );
    assert!(cases > 0 && most > least);
}

/// Checks V2.
fn damage_is_answered(options: &[&str], scene: &Scene, steps: damage::Steps) {
    let limit = rustix::process::Rlimit {
        current: Some(MEMORY_MAX),
        maximum: Some(MEMORY_MAX),
    };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).expect("a limit");
    let Some(volume) = image_of(options, scene) else {
        return;
    };
    let tally = damage::run(&volume, &steps);
    println!("{options:?}: {tally}");
    let faults = &tally.faults;
    assert!(
        faults.is_empty(),
        "{}:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(tally.replayed > 0 && tally.refused > 0);
}

/// Each kind of change alone, and all of them.
#[test]
fn what_the_kernel_left_is_replayed_as_by_e2fsck() {
    let mut commits = 0;
    for scene in Scene::each() {
        let Some(n) = agrees(VOLUMES[0], &scene) else {
            return;
        };
        commits += n;
    }
    for options in &VOLUMES[1..] {
        commits += agrees(options, &Scene::All).unwrap_or(0);
    }
    println!("{commits} fast commits replayed");
    assert!(commits > 20);
}

/// What Varve's own fast commits leave behind each fsync is what it showed then, for Varve, for
/// e2fsck, and for the kernel if `kernel` says so.
fn ours_agree(
    (mkfs, mount): (&[&str], &str),
    seed: (u64, bool),
    changes: u64,
    others: bool,
) -> u64 {
    let mut replayed = 0;
    for left in ours::history(mkfs, mount, seed, changes) {
        let context = format!(
            "{mkfs:?}, {mount}, seed {seed:?}, {} ({})",
            left.what, left.fast
        );
        let found = by_us(&left.image, left.bytes).unwrap_or_else(|e| panic!("{context}: {e}"));
        checked(&found, &context);
        replay::is_synced(&found.tree, &left.live, &context);
        replayed += found.fast_commits;
        if others {
            judged(&left.image, left.bytes, &found, (false, &context));
        }
    }
    replayed
}

#[test]
fn what_our_fast_commits_leave_is_what_was_synced() {
    if !have_tools() {
        return;
    }
    let mut replayed = 0;
    for seed in 0..6 {
        let options = VOLUMES[seed as usize % VOLUMES.len()];
        let mount = ["scheme=fast-commit", "scheme=fast-commit+adaptive"][seed as usize % 2];
        replayed += ours_agree((options, mount), (seed, false), 60, seed == 1);
    }
    println!("{replayed} fast commits replayed");
    assert!(replayed > 60, "{replayed}");
}

/// As above, with more kinds of changes, most of which lead to full commits: files that are written
/// and synced without a name, and whose numbers are used again; shifted and punched ranges; flags.
#[test]
fn what_rare_changes_leave_is_what_was_synced() {
    if !have_tools() {
        return;
    }
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from: u64 = number("FROM").unwrap_or(0);
    let mut replayed = 0;
    for seed in from..from + number("SEEDS").unwrap_or(6) {
        let options = VOLUMES[1 + seed as usize % 3];
        let mount = ["scheme=fast-commit", "scheme=fast-commit+adaptive"][seed as usize % 2];
        let others = seed == 1 || number("OTHERS").is_some();
        replayed += ours_agree((options, mount), (seed, true), 80, others);
    }
    println!("{replayed} fast commits replayed");
    assert!(replayed > 20, "{replayed}");
}

#[test]
fn a_sample_of_cuts_is_replayed_as_by_e2fsck() {
    cuts_agree(VOLUMES[0], &Scene::All, 9);
}

#[test]
fn a_sample_of_damage_is_answered() {
    let steps = damage::Steps {
        raw: 997,
        mended: 97,
        tags: 37,
    };
    damage_is_answered(VOLUMES[0], &Scene::All, steps);
}

/// fast-W10: however full the log is, it has room for the replay of what was acknowledged.
#[test]
fn the_log_has_room_for_a_replay() {
    if !have_tools() {
        return;
    }
    let all = ours::tight_log(260);
    let mut replayed = 0;
    for left in &all {
        let found = by_us(&left.image, left.bytes).unwrap_or_else(|e| panic!("{}: {e}", left.what));
        replay::is_synced(&found.tree, &left.live, &left.what);
        replayed += found.fast_commits;
    }
    let last = all.last().expect("rounds");
    println!("{replayed} replayed, {}", last.what);
    assert!(replayed > 100);
}

#[test]
#[ignore = "long: 40 histories of our own fast commits, each judged by e2fsck and the kernel"]
fn histories_of_ours_are_replayed_as_by_e2fsck() {
    if !have_tools() {
        return;
    }
    let mut replayed = 0;
    for seed in 0..40 {
        let options = VOLUMES[seed as usize % VOLUMES.len()];
        let inline = options.iter().any(|o| o.contains("inline"));
        let mount = ["scheme=fast-commit", "scheme=fast-commit+adaptive"][seed as usize / 4 % 2];
        replayed += ours_agree((options, mount), (seed, false), 150, !inline);
    }
    println!("{replayed} fast commits replayed");
    assert!(replayed > 4_000, "{replayed}");
}

#[test]
#[ignore = "long: every kind of volume, 25 random histories on each"]
fn histories_of_the_kernel_are_replayed_as_by_e2fsck() {
    let (mut images, mut commits) = (0, 0);
    for options in VOLUMES {
        for seed in 0..25 {
            let Some(n) = agrees(options, &Scene::Random(seed)) else {
                return;
            };
            images += u64::from(n > 0);
            commits += n;
        }
    }
    println!("{images} images, {commits} fast commits replayed");
    assert!(images > 60);
}

#[test]
#[ignore = "long: every cut"]
fn every_cut_is_replayed_as_by_e2fsck() {
    for options in VOLUMES {
        cuts_agree(options, &Scene::All, 1);
        cuts_agree(options, &Scene::Random(1), 1);
    }
}

#[test]
#[ignore = "long: every byte that counts"]
fn every_damage_is_answered() {
    let steps = || damage::Steps {
        raw: 3,
        mended: 1,
        tags: 1,
    };
    // Run by hand: VOLUME=1 selects one volume.
    let only: Option<usize> = std::env::var("VOLUME").ok().and_then(|n| n.parse().ok());
    for (n, options) in (0..).zip(VOLUMES) {
        if only.is_none_or(|only| only == n) {
            damage_is_answered(options, &Scene::All, steps());
        }
    }
}
