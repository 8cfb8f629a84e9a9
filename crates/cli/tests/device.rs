//! `varve device` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use serde_json::Value;
use std::process::{Command, Output};

fn varve(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(args)
        .output()
        .expect("the program starts")
}

fn stdout(args: &[&str]) -> String {
    let out = varve(args);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

#[test]
fn profiles_are_listed_with_their_timing_sets() {
    let text = stdout(&["device", "list"]);
    for word in ["emmc-odroid-xu4", "loop-like", "fig8, paper-fit", "1024"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let all = json(&["device", "list", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), 2);
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
