//! Recordings from files: a small one of our own, damaged ones, and the two of real applications if
//! they are here. Those are data of others, so they are not in the repository; `VARVE_TRACES` names
//! their folder.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use proptest::prelude::*;
use rig::{Config, Preset};
use std::io::Write;
use std::path::PathBuf;
use varve_work::RunConfig;
use varve_work::recording::stats::{self, Stats};
use varve_work::recording::{self, Call, Op, Reading, Recording};
use varve_work::run::run;
use varve_work::workload::replay::validate;

/// A note-taking application, made by hand: each rule of the reader decides something in it.
const NOTES: &str = include_str!("../data/notes.txt");
/// An application with a database, a log and a child, as strace prints it.
const APP: &str = include_str!("../data/app.strace");
const HOME: &str = "/data/data/org.example.notes";

fn notes() -> (Recording, Reading) {
    recording::read_from("notes.txt", NOTES.as_bytes(), true).expect("the recording reads")
}

/// The calls on a path, in short.
fn on(recording: &Recording, path: &str) -> Vec<String> {
    let path = format!("{HOME}/{path}");
    let mut handles = Vec::new();
    let mut words = Vec::new();
    for Call { op, .. } in &recording.calls {
        let kind = op.kind();
        match op {
            Op::Open {
                handle, path: p, ..
            } if *p == path => {
                handles.push(*handle);
                words.push(kind.into());
            }
            Op::Write {
                handle,
                offset,
                bytes,
            } if handles.contains(handle) => words.push(format!("write {offset}+{bytes}")),
            Op::Truncate { handle, size } if handles.contains(handle) => {
                words.push(format!("truncate {size}"));
            }
            Op::Read { handle, .. } | Op::Sync { handle, .. } | Op::Close { handle }
                if handles.contains(handle) =>
            {
                words.push(kind.into());
            }
            Op::Unlink { path: p } if *p == path => words.push(kind.into()),
            Op::Rename { from, to } if *from == path || *to == path => words.push(kind.into()),
            _ => {}
        }
    }
    words
}

#[test]
fn files_are_rebuilt_by_the_rules() {
    let (recording, reading) = notes();
    validate(&recording).unwrap();
    assert!(reading.faults.is_empty(), "{:?}", reading.faults);
    let rules: Vec<(&str, u64)> = reading.rules.iter().map(|(r, n)| (&r[..3], *n)).collect();
    let wanted = [
        ("M1 ", 2),
        ("M10", 1),
        ("M11", 1),
        ("M12", 8),
        ("M13", 1),
        ("M14", 1),
        ("M4 ", 2),
        ("M5 ", 1),
        ("M6 ", 2),
        ("M7 ", 1),
        ("M8 ", 1),
        ("M9 ", 2),
    ];
    assert_eq!(rules, wanted);
    let journal = [
        "open",
        "write 0+4616",
        "write 4616+4",
        "write 4620+4096",
        "write 8716+4",
        "fsync",
        "truncate 0",
        "close",
    ];
    let found = on(&recording, "databases/notes.db-journal");
    assert_eq!(found, [journal, journal].concat());
    let picture = [0, 1, 2, 3, 4].map(|n| format!("write {}+1024", n * 1024));
    let picture: Vec<&str> = picture.iter().map(String::as_str).collect();
    assert_eq!(
        on(&recording, "cache/image/a b.png"),
        [&["open", "close", "open"], &picture[..], &["close"]].concat()
    );
    assert_eq!(
        on(&recording, "shared_prefs/notes.xml"),
        ["rename", "open", "write 0+846", "fsync", "close"]
    );
    let bak = on(&recording, "shared_prefs/notes.xml.bak");
    assert_eq!(bak, ["rename", "unlink"]);
    assert_eq!(
        on(&recording, "cache/web/f_000001"),
        [
            "open",
            "write 0+8192",
            "close",
            "open",
            "write 8192+288",
            "close",
            "unlink"
        ]
    );
    assert_eq!(on(&recording, "cache/web/f_000000"), ["unlink"]);
    // The second transaction wrote a page more than its journal saved.
    let size = |path: &str| {
        let path = format!("{HOME}/{path}");
        let file = recording.files.iter().find(|(p, _)| *p == path);
        file.map(|(_, bytes)| *bytes)
    };
    assert_eq!(size("databases/notes.db"), Some(12288));
    assert_eq!(size("databases/notes.db-journal"), Some(0));
    assert_eq!(size("cache/web/f_000000"), Some(4096));
    assert_eq!(size("files/note.txt"), None, "it is made");
}

#[test]
fn packed_files_are_the_same_recording() {
    let plain = notes().0;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(NOTES.as_bytes()).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zst = ruzstd::encoding::compress_to_vec(NOTES.as_bytes(), level);
    let gz = gz.finish().unwrap();
    for packed in [&gz, &zst] {
        let (found, _) = recording::read_from("notes.txt", &packed[..], true).unwrap();
        assert_eq!(found, plain);
    }
    // Cut off: what is there counts; with `--strict` it is refused.
    for packed in [&gz[..gz.len() - 200], &zst[..zst.len() / 2]] {
        let cut = recording::read_from("notes.txt", packed, true).unwrap_err();
        assert!(cut.to_string().contains("notes.txt"), "{cut}");
    }
    let (_, reading) = recording::read_from("notes.txt", &gz[..gz.len() - 200], false).unwrap();
    assert_eq!(reading.faults["the file breaks off"].count, 1);
    assert!(recording::read_from("x", &gz[..20], false).is_err());
}

#[test]
fn lines_at_fault_are_skipped_and_counted_or_refused() {
    let long = "x".repeat(100_000);
    let bad = format!(
        "9 9 mmap 3 4\n9 9 mmap 3\nhello\n1 8 close 77\n9 10 pwrite 3 0 -7\n{long}\n9 11 pwrite 3 0 4\n\x07"
    );
    let text = format!("{NOTES}{bad}");
    let (_, reading) = recording::read_from("bad.txt", text.as_bytes(), false).unwrap();
    let lines = NOTES.lines().count() as u64;
    let faults: Vec<_> = reading
        .faults
        .iter()
        .map(|(kind, l)| (*kind, l.count, l.line - lines))
        .collect();
    let wanted = [
        ("broken line", 2, 3),
        ("line too long", 1, 6),
        ("negative offset or size", 1, 5),
        ("time goes back in a thread", 1, 4),
        ("unknown call", 2, 1),
    ];
    assert_eq!(faults, wanted.map(|(kind, n, at)| (kind, n, at)));
    assert_eq!(reading.faults["broken line"].example, "hello");
    let refused = recording::read_from("bad.txt", text.as_bytes(), true).unwrap_err();
    let wanted = format!("bad.txt, line {}: unknown call: 9 9 mmap 3 4", lines + 1);
    assert!(refused.to_string().ends_with(&wanted), "{refused}");
    for (text, words) in [
        ("", "empty"),
        ("1 0 close 3\n", "nothing to replay"),
        ("\0\0\0", "binary"),
    ] {
        let e = recording::read_from("odd", text.as_bytes(), false).unwrap_err();
        assert!(e.to_string().contains(words), "{e}");
    }
}

fn replayed(preset: Preset, workload: &str, mib: u64) -> Result<report::results::Run, String> {
    let mut stack = Config::new(preset, "emmc-odroid-xu4", 1);
    stack.bytes = mib << 20;
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/notes.txt");
    let config = RunConfig {
        stack,
        workload: workload.into(),
        seed: 1,
        recording: Some(path),
    };
    let finished = run(&config, &mut |_, _| {});
    finished.map(|f| f.run).map_err(|e| e.to_string())
}

#[test]
fn a_recording_runs_on_a_mounted_stack() {
    let recording = notes().0;
    for preset in [Preset::Jbd2, Preset::Emmc, Preset::None] {
        let run = replayed(preset, "replay:", 64).unwrap();
        assert_eq!(run.ops, recording.calls.len() as u64);
        assert_eq!(run.ops_by_kind["fsync"].ops, 8);
        assert!(run.virtual_seconds < 1.0, "no minute of idling: {run:?}");
        assert_eq!(run, replayed(preset, "replay:", 64).unwrap());
    }
    let paced = replayed(Preset::Jbd2, "replay:pace=recorded", 64).unwrap();
    assert!((60.0..60.1).contains(&paced.virtual_seconds), "{paced:?}");
    assert!(paced.commits > 0 && paced.blocks["journal_metadata"] > 0);
    let slow = replayed(Preset::Jbd2, "replay:think=2", 64).unwrap();
    let fast = replayed(Preset::Jbd2, "replay:pace=none", 64).unwrap();
    let usual = replayed(Preset::Jbd2, "replay:", 64).unwrap();
    assert!(fast.virtual_seconds < usual.virtual_seconds);
    assert!(usual.virtual_seconds < slow.virtual_seconds);
}

#[test]
fn files_that_do_not_fit_are_refused_before_anything_is_written() {
    let text = "1 0 fstat64 3 0\n1 5 pread 3 90000000000 100\n1 9 pwrite 3 0 4\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut stack = Config::new(Preset::Jbd2, "emmc-odroid-xu4", 1);
    stack.bytes = 64 << 20;
    let config = RunConfig {
        stack,
        workload: "replay:".into(),
        seed: 1,
        recording: Some(file.path().into()),
    };
    let error = run(&config, &mut |_, _| {}).err().expect("it cannot run");
    let error = error.to_string();
    assert!(
        error.contains("85830 MiB") && error.contains("--size"),
        "{error}"
    );
}

/// One change of a recording: where, and to what.
fn mutations() -> impl Strategy<Value = Vec<(usize, Vec<u8>, bool)>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..6),
        proptest::sample::select(vec![
            &b"-1"[..],
            b"18446744073709551615",
            b"9223372036854775807",
            b"unlink",
            b"rename \"/a/b\" \"/a\" 0\n",
            b"\n1 5 mkdir \"/a/b\" 0\n",
            b"\n1 6 rmdir \"/data/data\" 0\n",
            b"\n2 7 open \"/data/data\" O_RDWR|O_CREAT 31\n",
            b"\n2 7 unlink \"/data\" 0\n",
            b"data/data O_RDWR",
            b"O_EXCL|O_TRUNC|",
            b"\n",
            b" ",
            b"\"",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    proptest::collection::vec((any::<usize>(), piece, any::<bool>()), 1..12)
}

/// The same calls run through the file system as the recording of strace says.
#[test]
fn a_recording_of_strace_runs() {
    let (recording, reading) = recording::read_from("app.strace", APP.as_bytes(), true).unwrap();
    assert!(
        !reading
            .rules
            .keys()
            .any(|rule| rule.starts_with("strace-S9 ")),
        "{reading:?}"
    );
    assert!(validate(&recording).is_ok());
    let stats = stats::of(&recording);
    // Two fdatasyncs of files, one of a folder, and that of the log's O_DSYNC.
    assert_eq!((stats.syncs, stats.directory_syncs), (4, 1));
    assert_eq!(stats.calls["rename"], 2);
    assert_eq!(recording.files, [("/home/a/app.db".to_string(), 12288)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the bytes, the reader ends in words or with a recording that fits together.
    #[test]
    fn damaged_recordings_are_read_or_refused(mutations in mutations(), strace: bool) {
        let mut bytes = if strace { APP } else { NOTES }.as_bytes().to_vec();
        for (at, piece, replaces) in mutations {
            let at = at % (bytes.len() + 1);
            let end = if replaces { (at + piece.len()).min(bytes.len()) } else { at };
            bytes.splice(at..end, piece);
        }
        let strict = recording::read_from("damaged", &bytes[..], true);
        if let Ok((recording, reading)) = recording::read_from("damaged", &bytes[..], false) {
            prop_assert!(validate(&recording).is_ok(), "{:?}", validate(&recording));
            prop_assert_eq!(strict.is_ok(), reading.faults.is_empty());
            stats::of(&recording);
        }
    }

    /// Bytes that are no recording at all.
    #[test]
    fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(recording::read_from("noise", &bytes[..], false));
    }
}

/// A recording by name; `None`, and a word about it, without traces.
fn trace(name: &str) -> Option<(Recording, Reading, Stats)> {
    let Some(folder) = std::env::var_os("VARVE_TRACES").filter(|f| !f.is_empty()) else {
        eprintln!("skipped: no traces (VARVE_TRACES is not set)");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    let (recording, reading) = recording::read_with(&path, true).expect("the recording reads");
    let stats = stats::of(&recording);
    Some((recording, reading, stats))
}

fn near(found: f64, wanted: f64, by: f64) {
    assert!((found - wanted).abs() <= by, "{found}, not {wanted}");
}

#[test]
fn facebook_is_as_its_table_says() {
    let Some((_, reading, stats)) = trace("mobibench-facebook.txt.gz") else {
        return;
    };
    eprintln!("{reading:#?}\n{stats:#?}");
    near(reading.seconds, 117.887, 0.001);
    assert_eq!(reading.threads, 74);
    assert_eq!((stats.syncs, stats.directory_syncs), (997, 316));
    let unlinks = stats.calls["unlink"];
    near(stats.pages_per_sync.mean, 2.42, 0.005);
    near(stats.bytes_per_sync.mean, 8892.0, 1.0);
    assert_eq!(stats.pages_per_sync.median, 3.0);
    near(stats.sync_gap_ms.median, 10.4, 0.05);
    assert_eq!(
        (stats.windows_active, stats.windows, stats.windows_max),
        (17, 24, 311)
    );
    assert_eq!(unlinks, 52, "two of 54 failed");
}

#[test]
fn twitter_is_as_its_table_says() {
    let Some((_, reading, stats)) = trace("mobibench-twitter.txt.gz") else {
        return;
    };
    eprintln!("{reading:#?}\n{stats:#?}");
    near(reading.seconds, 117.886, 0.001);
    assert_eq!(reading.threads, 127);
    assert_eq!((stats.syncs, stats.directory_syncs), (297, 77));
    near(stats.pages_per_sync.mean, 4.24, 0.005);
    near(stats.bytes_per_sync.mean, 16855.0, 1.0);
    assert_eq!((stats.windows_active, stats.windows_max), (24, 35));
    assert_eq!(stats.calls["unlink"], 13);
}
