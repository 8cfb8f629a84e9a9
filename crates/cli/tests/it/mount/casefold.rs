//! Directories without regard to case in a mount: the kernel, which compares bytes, keeps no name
//! of them.

use super::place::{Place, VARVE, must, run};
use std::fs;
use std::path::Path;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("reads");
    let name = |e: std::io::Result<fs::DirEntry>| e.expect("reads").file_name();
    let mut names: Vec<_> = entries
        .map(|e| name(e).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn exercise(root: &Path) {
    let dir = root.join("dir");
    fs::create_dir(&dir).expect("room");
    // The kernel has been told that these names are missing, while case still counted.
    assert!(!dir.join("first").exists() && !dir.join("FIRST").exists());
    must("chattr", &["+F", &dir.to_string_lossy()]);
    assert!(must("lsattr", &["-d", &dir.to_string_lossy()]).contains('F'));
    fs::write(dir.join("First"), b"1").expect("room");
    for spelling in ["first", "FIRST", "First"] {
        let content = fs::read(dir.join(spelling)).expect(spelling);
        assert_eq!(content, b"1", "{spelling}");
    }
    // A listing gives the kernel names, too.
    assert_eq!(names(&dir), ["First"]);
    fs::remove_file(dir.join("fIRST")).expect("the same name");
    for spelling in ["first", "FIRST", "First"] {
        assert!(!dir.join(spelling).exists(), "{spelling}");
    }
    fs::create_dir(dir.join("Below")).expect("room");
    assert!(fs::create_dir(dir.join("BELOW")).is_err());
    fs::write(dir.join("bElOw/x"), b"x").expect("room");
    assert!(
        dir.join("BELOW/X").exists(),
        "below it case does not count, either"
    );
    fs::rename(dir.join("below/X"), dir.join("Moved")).expect("moves");
    assert!(!dir.join("Below/x").exists() && dir.join("MOVED").exists());
    fs::rename(dir.join("moved"), dir.join("MOVED")).expect("nothing to do");
    fs::hard_link(dir.join("moved"), dir.join("Twin")).expect("room");
    assert!(fs::hard_link(dir.join("moved"), dir.join("tWIN")).is_err());
    assert_eq!(names(&dir), ["Below", "Moved", "Twin"]);
    let (code, words) = run("chattr", &["-F", &dir.to_string_lossy()]);
    assert!(code != 0 && words.contains("not empty"), "{words}");
    fs::remove_dir(dir.join("BELOW")).expect("empty");
    assert!(!dir.join("below").exists() && !dir.join("Below").exists());
}

fn on(fs: &str) {
    for options in ["rw", "direct", "writeback,attr_timeout=600"] {
        let place = Place::empty();
        let image = place.image();
        let made = ["mkfs", "--fs", fs, "--casefold", "--size", "128", &image];
        must(VARVE, &made);
        place.mount(options);
        exercise(&place.dir());
        place.umount();
        place.judge(fs);
    }
}

#[test]
fn no_spelling_outlives_a_name() {
    on("ext4");
}

#[test]
fn no_spelling_outlives_a_name_on_f2fs() {
    on("f2fs");
}
