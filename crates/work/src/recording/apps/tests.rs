//! Generated recordings are sound, and resemble the recordings that there are.

use super::*;
use crate::recording::{Handle, Op};
use base::Set;
use proptest::prelude::*;

fn fsyncs(recording: &Recording) -> usize {
    recording.calls.iter().filter(|c| c.op.is_sync()).count()
}

/// Checks recording-N1 to recording-N3.
fn check_invariants(recording: &Recording) {
    let mut names: Set<&str> = Set::default();
    for folder in &recording.folders {
        assert!(inside(folder, &names), "recording-N3: {folder}");
        names.insert(folder);
    }
    for (file, _) in &recording.files {
        assert!(inside(file, &names), "recording-N3: {file}");
        assert!(names.insert(file), "recording-N3: {file} is there twice");
    }
    let (mut now, mut open, mut used) = (base::Nanos(0), Set::default(), Set::default());
    let is_open =
        |open: &Set<u32>, handle: &Handle| assert!(open.contains(&handle.0), "recording-N2");
    for call in &recording.calls {
        assert!(call.at >= now, "recording-N1");
        now = call.at;
        match &call.op {
            Op::Open {
                handle,
                path,
                create,
                ..
            } => {
                assert!(
                    used.insert(handle.0) && open.insert(handle.0),
                    "recording-N2: {handle:?}"
                );
                assert!(inside(path, &names), "recording-N3: {path}");
                assert!(*create || names.contains(&path[..]), "recording-N3: {path}");
                names.insert(path);
            }
            Op::Write { handle, .. }
            | Op::Read { handle, .. }
            | Op::Sync { handle, .. }
            | Op::Truncate { handle, .. } => is_open(&open, handle),
            Op::Close { handle } => assert!(open.remove(&handle.0), "recording-N2: {handle:?}"),
            Op::Unlink { path } => assert!(names.remove(&path[..]), "recording-N3: {path}"),
            Op::Rename { from, to } => {
                assert!(names.remove(&from[..]), "recording-N3: {from}");
                assert!(inside(to, &names), "recording-N3: {to}");
                names.insert(to);
            }
            Op::SyncAll => panic!("no app syncs all"),
            Op::Mkdir { .. } | Op::Rmdir { .. } => panic!("no app makes folders"),
        }
    }
    assert!(open.is_empty(), "recording-N2: all is closed at the end");
}

/// True if `path` is absolute and plain and lies in a folder that is there.
fn inside(path: &str, names: &Set<&str>) -> bool {
    let plain = path
        .split('/')
        .skip(1)
        .all(|p| !matches!(p, "" | "." | ".."));
    let (parent, _) = path.rsplit_once('/').expect("absolute");
    path.starts_with('/') && plain && (parent.is_empty() || names.contains(parent))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_seed_and_length_gives_a_sound_recording(seed: u64, seconds in 1u32..60) {
        for app in &table().apps {
            let recording = generate(&app.name, seconds, seed).unwrap();
            check_invariants(&recording);
            let wanted = (f64::from(app.fsyncs * seconds) / 5.0).round() as usize;
            prop_assert_eq!(fsyncs(&recording), wanted, "apps-A1: {} {}", app.name, seconds);
        }
    }
}

#[test]
fn five_seconds_have_the_published_number_of_fsyncs() {
    for app in &table().apps {
        let recording = generate(&app.name, 5, 7).unwrap();
        check_invariants(&recording);
        assert_eq!(fsyncs(&recording), app.fsyncs as usize);
    }
}

#[test]
fn the_seed_decides_and_nothing_else() {
    for app in APPS {
        let one = generate(app, 20, 1).unwrap();
        assert_eq!(one, generate(app, 20, 1).unwrap(), "apps-A2: {app}");
        assert_ne!(one, generate(app, 20, 2).unwrap(), "apps-A2: {app}");
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_the_reason() {
    let fail = |app, seconds| generate(app, seconds, 1).unwrap_err().to_string();
    assert!(fail("whatsapp", 5).contains("whatsapp") && fail("whatsapp", 5).contains("google-map"));
    assert!(fail("gmail", 0).contains("1 to 3600"));
    assert!(fail("gmail", 3601).contains("3601"));
    let table = table();
    let base = &table.apps[0];
    type Change = fn(&mut Parameters);
    let wrong: [(&str, Change); 10] = [
        ("fsyncs", |p| p.fsyncs = 0),
        ("burst", |p| p.burst = 0.5),
        ("workers", |p| p.workers = 0),
        ("pages", |p| p.pages = f64::NAN),
        ("others", |p| p.others = -1.0),
        ("made", |p| p.made = 1.5),
        ("shards", |p| p.shards = 0),
        ("kept", |p| p.kept = 20),
        ("mix", |p| p.mix.cache = 2.0),
        ("one fsync", |p| {
            p.mix = Mix {
                rollback: 1.0,
                ..Mix::default()
            }
        }),
    ];
    for (named, change) in wrong {
        let mut app = base.clone();
        change(&mut app);
        let e = generate_with(&table, &app, 5, 1).unwrap_err().to_string();
        assert!(e.contains(named) && e.contains("facebook"), "{e}");
    }
}

/// A recording, if `VARVE_TRACES` names its folder.
#[allow(clippy::disallowed_methods)]
fn recorded(name: &str) -> Option<crate::recording::stats::Stats> {
    let Some(folder) = std::env::var_os("VARVE_TRACES").filter(|f| !f.is_empty()) else {
        eprintln!("skipped: no traces");
        return None;
    };
    let path = std::path::Path::new(&folder).join(name);
    let recording = crate::recording::read(&path).unwrap();
    Some(crate::recording::stats::of(&recording))
}

/// Compares the generators of two apps with the recordings of these. Where a recording and the
/// paper disagree, the generator follows the paper: docs/use/apps.md has the differences.
#[test]
fn generated_facebook_and_twitter_are_like_their_recordings() {
    let of = |app| crate::recording::stats::of(&generate(app, 118, 1).unwrap());
    let near = |what: &str, found: f64, wanted: f64, low: f64, high: f64| {
        let ratio = found / wanted;
        eprintln!("{what}: {found:.3}, recorded {wanted:.3}, ratio {ratio:.2}");
        assert!(
            (low..=high).contains(&ratio),
            "{what}: {found} for {wanted}"
        );
    };
    for (app, file, rate) in [
        ("facebook", "mobibench-facebook.txt.gz", (0.95, 1.05)),
        // The recording has 12.6 fsyncs in 5 s, Table 3 has 9.
        ("twitter", "mobibench-twitter.txt.gz", (0.6, 0.8)),
    ] {
        let Some(real) = recorded(file) else { return };
        let made = of(app);
        let share = |s: &crate::recording::stats::Stats| s.directory_syncs as f64 / s.syncs as f64;
        let name = |what| format!("{app}: {what}");
        near(
            &name("fsyncs in 5 s"),
            made.syncs_per_5s,
            real.syncs_per_5s,
            rate.0,
            rate.1,
        );
        near(
            &name("folder syncs"),
            share(&made),
            share(&real),
            0.85,
            1.15,
        );
        let pages = (made.pages_per_sync.mean, real.pages_per_sync.mean);
        near(&name("pages per sync"), pages.0, pages.1, 0.35, 1.1);
        let gap = (made.sync_gap_ms.median, real.sync_gap_ms.median);
        near(&name("median gap of syncs"), gap.0, gap.1, 0.4, 2.5);
        let own = (made.own_us_per_sync, real.own_us_per_sync);
        near(&name("own time per sync"), own.0, own.1, 0.1, 3.0);
    }
}
