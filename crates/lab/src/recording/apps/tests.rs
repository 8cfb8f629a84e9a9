use super::*;
use crate::paper::emmc::APPS;
use crate::recording::{Handle, Op};
use base::Set;
use proptest::prelude::*;

fn fsyncs(recording: &Recording) -> usize {
    recording.calls.iter().filter(|c| c.op.is_sync()).count()
}

/// N1 to N3 of `recording`.
fn check_invariants(recording: &Recording) {
    let mut names: Set<&str> = Set::default();
    for folder in &recording.folders {
        assert!(inside(folder, &names), "N3: {folder}");
        names.insert(folder);
    }
    for (file, _) in &recording.files {
        assert!(inside(file, &names), "N3: {file}");
        assert!(names.insert(file), "N3: {file} is there twice");
    }
    let (mut now, mut open, mut used) = (base::Nanos(0), Set::default(), Set::default());
    let is_open = |open: &Set<u32>, handle: &Handle| assert!(open.contains(&handle.0), "N2");
    for call in &recording.calls {
        assert!(call.at >= now, "N1");
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
                    "N2: {handle:?}"
                );
                assert!(inside(path, &names), "N3: {path}");
                assert!(*create || names.contains(&path[..]), "N3: {path}");
                names.insert(path);
            }
            Op::Write { handle, .. }
            | Op::Read { handle, .. }
            | Op::Sync { handle, .. }
            | Op::Truncate { handle, .. } => is_open(&open, handle),
            Op::Close { handle } => assert!(open.remove(&handle.0), "N2: {handle:?}"),
            Op::Unlink { path } => assert!(names.remove(&path[..]), "N3: {path}"),
            Op::Rename { from, to } => {
                assert!(names.remove(&from[..]), "N3: {from}");
                assert!(inside(to, &names), "N3: {to}");
                names.insert(to);
            }
            Op::Mkdir { .. } | Op::Rmdir { .. } => panic!("no app makes folders"),
        }
    }
    assert!(open.is_empty(), "N2: all is closed at the end");
}

/// Absolute, plain, and in a folder that is there.
fn inside(path: &str, names: &Set<&str>) -> bool {
    let plain = path
        .split('/')
        .skip(1)
        .all(|p| !matches!(p, "" | "." | ".."));
    let (parent, _) = path.rsplit_once('/').expect("absolute");
    path.starts_with('/') && plain && (parent.is_empty() || names.contains(parent))
}

#[test]
fn the_committed_table_has_the_papers_apps_and_rates() {
    let (table, published) = (table(), crate::paper::emmc::published().unwrap());
    let names: Vec<&str> = table.apps.iter().map(|app| &app.name[..]).collect();
    assert_eq!(names, APPS);
    for app in &table.apps {
        app.check().unwrap();
        let rate = published.get("Table 3", "fsyncs in 5 s", Some(&app.name));
        assert_eq!(Some(f64::from(app.fsyncs)), rate.value, "{}", app.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_seed_and_length_gives_a_sound_recording(seed: u64, seconds in 1u32..60) {
        for app in &table().apps {
            let recording = generate(&app.name, seconds, seed).unwrap();
            check_invariants(&recording);
            let wanted = (f64::from(app.fsyncs * seconds) / 5.0).round() as usize;
            prop_assert_eq!(fsyncs(&recording), wanted, "A1: {} {}", app.name, seconds);
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
        assert_eq!(one, generate(app, 20, 1).unwrap(), "A2: {app}");
        assert_ne!(one, generate(app, 20, 2).unwrap(), "A2: {app}");
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
    let wrong: [(&str, fn(&mut Parameters)); 9] = [
        ("fsyncs", |p| p.fsyncs = 0),
        ("burst", |p| p.burst = 0.5),
        ("workers", |p| p.workers = 0),
        ("pages", |p| p.pages = f64::NAN),
        ("others", |p| p.others = -1.0),
        ("made", |p| p.made = 1.5),
        ("shards", |p| p.shards = 0),
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
