//! What was unsynced, without exploring.

use crate::script::Script;
use varve_program::lint::lint;
use varve_program::posix::Posix;

fn lints(script: &Script) -> Vec<String> {
    let lints = lint(&Posix::default(), &script.recording()).expect("it can be followed");
    lints.iter().map(ToString::to_string).collect()
}

#[test]
fn an_acknowledgement_tells_what_is_unsynced_once() {
    let mut script = Script::new().with_file("log", b"");
    script
        .append("log", &[1; 5000])
        .ack("1")
        .create("f")
        .ack("2")
        .ack("3");
    let lints = lints(&script);
    assert_eq!(lints.len(), 2, "{lints:?}");
    assert_eq!(
        lints[0],
        "at the acknowledgement of `1` (call 1):\n  \
         5000 bytes of log from 0 on, by `write(log)` (call 0, process 3 test, thread 4), are not synced: fdatasync(log) lacks\n  \
         the size 5000 of log, by `write(log)` (call 0, process 3 test, thread 4), is not synced: fdatasync(log) lacks"
    );
    assert!(lints[1].contains("the name f"), "{}", lints[1]);
    assert!(lints[1].contains("fsync(.) lacks"), "{}", lints[1]);
    script.fdatasync("log").fsync("");
    let mut synced = Script::new().with_file("log", b"");
    synced.append("log", &[1; 5000]).fdatasync("log").ack("1");
    assert!(self::lints(&synced).is_empty());
}

#[test]
fn what_nobody_can_see_is_not_told() {
    let mut script = Script::new();
    script
        .create("t")
        .write("t", 0, b"x")
        .unlink("t")
        .ack("gone");
    let lints = lints(&script);
    // Only that the file may be there again.
    let seen: Vec<&str> = lints.iter().flat_map(|l| l.lines().skip(1)).collect();
    assert_eq!(seen.len(), 1, "{lints:?}");
    assert!(seen[0].contains("the removal of t"), "{lints:?}");
}

#[test]
fn a_rename_over_a_file_overtakes_its_content() {
    let mut script = Script::new().with_file("db", b"old");
    script.create("t").write("t", 0, b"new").rename("t", "db");
    let lints = lints(&script);
    assert_eq!(lints.len(), 1);
    assert!(lints[0].starts_with("at `rename(t, db)`"), "{}", lints[0]);
    assert!(lints[0].contains("3 bytes of t from 0 on"), "{}", lints[0]);
    let mut synced = Script::new().with_file("db", b"old");
    synced
        .create("t")
        .write("t", 0, b"new")
        .fsync("t")
        .rename("t", "db");
    assert!(self::lints(&synced).is_empty());
}
