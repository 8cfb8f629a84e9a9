//! `varve device` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{varve, words};
use serde_json::Value;

fn stdout(args: &[&str]) -> String {
    let out = varve(args);
    assert!(out.status.success(), "{}", words(&out));
    String::from_utf8(out.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

#[test]
fn profiles_are_listed_with_their_timing_sets() {
    let text = stdout(&["device", "list"]);
    for word in [
        "emmc-odroid-xu4",
        "loop-like",
        "nvme-980pro",
        "ufs-generic",
        "fig8, paper-fit",
        "1024",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let all = json(&["device", "list", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), 8);
}

#[test]
fn an_nvme_device_shows_its_identify_data() {
    let text = stdout(&["device", "show", "nvme-980pro,vwc=off"]);
    for word in [
        "nvme, 4096 MiB",
        "AWUPF",
        "8 logical blocks, 4096 bytes",
        "a volatile write cache, off",
        "512 KiB in a command",
        "SLC area",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let shown = json(&["device", "show", "ufs-generic", "--json"]);
    assert_eq!(shown["caps"]["sector_bytes"], 4096);
    let fields = shown["identify"].as_array().unwrap();
    assert!(
        fields
            .iter()
            .any(|f| f["name"] == "bLUQueueDepth" && f["value"] == 32)
    );
}

fn byte(shown: &Value, name: &str) -> (u64, u64) {
    let field = shown["ext_csd"].as_array().unwrap().iter();
    let field = field.clone().find(|f| f["name"] == name).unwrap();
    (
        field["byte"].as_u64().unwrap(),
        field["value"].as_u64().unwrap(),
    )
}

#[test]
fn a_profile_is_shown_with_caps_timing_and_ext_csd() {
    let text = stdout(&["device", "show", "emmc-odroid-xu4"]);
    for word in [
        "emmc, 1024 MiB",
        "reliable_granule",
        "packed.order",
        "timing fig8 (default)",
        "nand.program_us",
        "MAX_PACKED_WRITES",
        "63 entries in a packed command",
        "reliable writes of any length",
        "packed command failed",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let shown = json(&["device", "show", "emmc-odroid-xu4", "--json"]);
    assert_eq!(shown["caps"]["packed"]["order"], "prefix");
    assert_eq!(byte(&shown, "SEC_COUNT"), (212, (1 << 30) / 512));
    assert_eq!(byte(&shown, "CACHE_CTRL"), (33, 1));
    assert_eq!(shown["timing_default"], "fig8");
    let plain = json(&["device", "show", "loop-like", "--json"]);
    assert_eq!(plain["ext_csd"].as_array().unwrap().len(), 0);
}

#[test]
fn changes_show_and_bad_ones_are_refused_by_field() {
    let device = "emmc-odroid-xu4,card.cache_on=false,card.en_rel_wr=false,card.native_sector=4096";
    let shown = json(&["device", "show", device, "--json"]);
    assert_eq!(shown["caps"]["volatile_cache"], false);
    assert_eq!(shown["caps"]["packed"], Value::Null);
    assert_eq!(shown["caps"]["sector_bytes"], 4096);
    assert_eq!(byte(&shown, "CACHE_CTRL"), (33, 0));
    assert_eq!(byte(&shown, "WR_REL_PARAM").1 & 4, 0);
    assert_eq!(byte(&shown, "DATA_SECTOR_SIZE"), (61, 1));
    for (device, words) in [
        ("floppy", "emmc-odroid-xu4"),
        (
            "emmc-odroid-xu4,card.cache_kib=3",
            "card.cache_kib = 3; it may be 4",
        ),
        ("emmc-odroid-xu4,card.colour=3", "card.colour"),
    ] {
        let out = varve(&["device", "show", device]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains(words), "{said}");
        assert_eq!(out.status.code(), Some(2));
    }
}

/// Runs what has to fail with `code`; answers what it says.
fn fails(code: i32, args: &[&str]) -> String {
    let out = varve(args);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    said
}

#[test]
fn devices_are_made_loaded_shown_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for profile in [
        "loop-like",
        "nandsim-2007",
        "emmc-odroid-xu4,card.cache_kib=64",
    ] {
        let (device, image, back) = (path("device"), path("image"), path("back"));
        let made = stdout(&["device", "new", profile, &device, "--size", "16", "--force"]);
        assert!(made.contains("16 MiB"), "{made}");
        let shown = json(&["device", "show", &device, "--json"]);
        assert_eq!(shown["profile"], profile);
        assert_eq!(shown["capacity_bytes"], 16 << 20);
        assert_eq!(shown["nonzero_blocks"], 0);
        let mut content = vec![0; 16 << 20];
        for (i, byte) in content[5 << 20..6 << 20].iter_mut().enumerate() {
            *byte = (i / 3) as u8;
        }
        std::fs::write(&image, &content).unwrap();
        let loaded = stdout(&["device", "load", &image, &device]);
        assert!(loaded.contains(": 256 blocks"), "{loaded}");
        let said = fails(1, &["device", "load", &image, &device]);
        assert!(said.contains("holds data; --force"), "{said}");
        let shown = json(&["device", "show", &device, "--json"]);
        assert_eq!(shown["nonzero_blocks"], 256);
        assert_eq!(shown["chips"].is_null(), profile == "loop-like");
        let text = stdout(&["device", "show", &device]);
        let flash = text.contains("erases: least, mean, most");
        assert_eq!(flash, profile != "loop-like", "{text}");
        stdout(&["device", "save", &device, &back, "--force"]);
        assert!(std::fs::read(&back).unwrap() == content, "{profile}");
        // What is zero in the image is zero on the device afterwards.
        content[5 << 20..(5 << 20) + 40960].fill(0);
        std::fs::write(&image, &content).unwrap();
        let loaded = stdout(&["device", "load", &image, &device, "--force"]);
        assert!(loaded.contains(": 10 blocks"), "{loaded}");
        let saved = json(&["device", "save", &device, &back, "--force", "--json"]);
        assert_eq!(saved["nonzero_blocks"], 246);
        assert!(std::fs::read(&back).unwrap() == content, "{profile}");
        let loaded = json(&["device", "load", &image, &device, "--force", "--json"]);
        assert_eq!(loaded["written_blocks"], 0, "{loaded}");
        let line = ["device", "new", profile, &device, "--force", "--json"];
        let made = json(&[&line[..], &["--size", "16"]].concat());
        assert_eq!(
            (&made["profile"], &made["capacity_bytes"]),
            (&profile.into(), &(16 << 20).into())
        );
    }
    // Nothing of a temporary file is left.
    assert_eq!(folder.path().read_dir().unwrap().count(), 3);
}

#[test]
fn files_in_the_way_and_files_that_are_no_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (device, image) = (path("device"), path("image"));
    stdout(&["device", "new", "loop-like", &device, "--size", "1"]);
    let whole = std::fs::read(&device).unwrap();
    let said = fails(1, &["device", "new", "loop-like", &device]);
    assert!(said.contains("it exists; --force"), "{said}");
    std::fs::write(&image, [1; 4096]).unwrap();
    let said = fails(1, &["device", "save", &device, &image]);
    assert!(said.contains("it exists; --force"), "{said}");
    let said = fails(2, &["device", "save", &device, &device, "--force"]);
    assert!(said.contains("the saved device itself"), "{said}");
    let said = fails(
        1,
        &[
            "device",
            "new",
            "loop-like",
            folder.path().to_str().unwrap(),
            "--force",
        ],
    );
    assert!(said.contains("no regular file"), "{said}");
    assert!(std::fs::read(&device).unwrap() == whole);
    std::fs::write(&image, [1; 4096]).unwrap();
    let said = fails(2, &["device", "load", &image, &device]);
    assert!(said.contains("4096 bytes, the device 1048576"), "{said}");
    let said = fails(1, &["device", "show", &image]);
    assert!(said.contains("no saved device"), "{said}");
    std::fs::write(&image, &whole[..whole.len() - 1]).unwrap();
    let said = fails(1, &["device", "save", &image, &path("out")]);
    assert!(said.contains("cut short"), "{said}");
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(&image, &flipped).unwrap();
    let said = fails(1, &["device", "load", &device, &image]);
    assert!(said.contains("damaged"), "{said}");
    let said = fails(1, &["device", "show", &path("absent")]);
    assert!(said.contains("absent"), "{said}");
    let said = fails(2, &["device", "new", "floppy", &path("out")]);
    assert!(said.contains("loop-like"), "{said}");
    let said = fails(
        2,
        &["device", "new", "loop-like", &path("out"), "--size", "0"],
    );
    assert!(said.contains("capacity"), "{said}");
    assert!(!std::path::Path::new(&path("out")).exists());
}

/// The runs of a short comparison on `device`, without the name of it.
fn runs(device: &str) -> String {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let mut all = json(&[
        "compare",
        "--json",
        "--out",
        folder,
        "--device",
        device,
        "--schemes",
        "jbd2,emmc",
        "--workload",
        "fsync:count=20",
        "--size",
        "64",
    ]);
    for run in all["runs"].as_array_mut().unwrap() {
        run["device"].as_object_mut().unwrap().remove("profile");
    }
    all["runs"].to_string()
}

#[test]
fn a_profile_that_was_written_to_a_file_gives_the_same_runs() {
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.toml");
    let text = stdout(&["device", "new", "emmc-odroid-xu4,timing.fig8.write_us=200"]);
    std::fs::write(&card, &text).unwrap();
    let card = card.to_str().unwrap();
    let changed = runs("emmc-odroid-xu4,timing.fig8.write_us=200");
    assert_eq!(runs(card), changed);
    assert_ne!(runs("emmc-odroid-xu4"), changed, "the change counts");
    assert!(stdout(&["device", "show", card]).contains("EXT_CSD"));

    std::fs::write(card, text.replace("lanes = 4", "lanes = 257")).unwrap();
    let out = varve(&["compare", "--device", card]);
    assert_eq!(out.status.code(), Some(2));
    let said = words(&out);
    assert!(
        said.contains("line ") && said.contains("ftl.lanes"),
        "{said}"
    );

    let saved = folder.path().join("saved");
    let out = varve(&["device", "new", card, saved.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(words(&out).contains("built-in profile") && !saved.exists());
}
