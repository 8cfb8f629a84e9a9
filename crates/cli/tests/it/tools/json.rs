//! What scripts read: `--json` prints one JSON document and nothing else, whatever the names are.

use crate::program::{run, text, varve_in};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The document that a command prints, with its exit code.
fn document(dir: &Path, line: &str) -> (i32, Value) {
    let out = run(dir, line);
    let said = text(&out.stdout);
    let value = serde_json::from_str(&said);
    let value = value.unwrap_or_else(|e| panic!("{line}: {e}: {said}"));
    (out.status.code().unwrap(), value)
}

#[test]
fn images_are_made_listed_and_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (code, made) = document(dir, "mkfs a.img --size 16M --seed 1 --json");
    assert_eq!(code, 0);
    assert_eq!(
        made,
        json!({"image": "a.img", "fs": "ext4", "blocks": 4096, "block_bytes": 4096,
            "inodes": 4096, "journal_blocks": 1024, "fast_commit_blocks": 0, "journal_device": null})
    );
    let (_, made) = document(dir, "mkfs f.img --fs f2fs --size 64M --json");
    assert_eq!(
        (&made["fs"], &made["blocks"]),
        (&json!("f2fs"), &json!(16384))
    );
    fs::write(dir.join("some"), "12345").unwrap();
    // Escape sequences, a mark that shows text backwards, and bytes that are no text.
    fs::write(dir.join("odd\u{1b}[31m\u{202e}"), "").unwrap();
    fs::write(dir.join(OsStr::from_bytes(b"raw\xff")), "").unwrap();
    let mut put = varve_in(dir);
    put.args(["cp", "some", "odd\u{1b}[31m\u{202e}"]);
    let put = put.arg(OsStr::from_bytes(b"raw\xff")).arg("a.img:/");
    assert!(put.status().unwrap().success());

    let out = run(dir, "ls --json a.img");
    let said = text(&out.stdout);
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said}");
    let (code, list) = document(dir, "ls --json a.img f.img");
    let list = list.as_array().unwrap().clone();
    assert_eq!(code, 0);
    let paths: Vec<_> = list
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    for path in [
        "/lost+found",
        "/some",
        "/odd\u{1b}[31m\u{202e}",
        "/raw\\xff",
    ] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
    let some = list.iter().find(|file| file["path"] == "/some").unwrap();
    assert_eq!(
        (&some["type"], &some["size_bytes"]),
        (&json!("file"), &json!(5))
    );
    assert_eq!(document(dir, "ls --json f.img"), (0, json!([])));
    // The array ends where one of several cannot be read.
    let (code, list) = document(dir, "ls --json a.img some");
    assert!(code == 1 && list.as_array().unwrap().len() == 4, "{list}");

    let (code, recovery) = document(dir, "recover -n --json a.img");
    assert_eq!((code, &recovery["recovery"]), (0, &json!([])));
    let (code, recovery) = document(dir, "recover --json none.img");
    assert!(code == 8 && recovery["error"].is_string(), "{recovery}");
}

/// A document has to be text, and the name of an image need not be.
#[test]
fn an_image_may_have_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"\xff.img");
    for words in [
        &["mkfs", "--size", "16M", "--json"][..],
        &["fsck", "--json"],
        &["recover", "--json"],
        &["ls", "--json"],
        &["info", "--json"],
    ] {
        let out = varve_in(dir.path()).args(words).arg(name).output().unwrap();
        let said = text(&out.stdout);
        assert!(out.status.success(), "{words:?}: {}", text(&out.stderr));
        serde_json::from_str::<Value>(&said).unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"));
    }
    for words in [&["fsck", "--json"][..], &["recover", "--json"]] {
        let none = OsStr::from_bytes(b"none\xff");
        let out = varve_in(dir.path()).args(words).arg(none).output().unwrap();
        let why: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(
            (out.status.code(), &why["image"]),
            (Some(8), &json!("none\\xff"))
        );
    }
}
