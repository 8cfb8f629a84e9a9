//! The text of a calibrated profile, and the register of an eMMC.

use crate::known::seen;
use ctrl::Profile;
use toml::Value;
use varve_calibrate::text::{Origin, SET, profile};
use varve_calibrate::{ExtCsd, fit};

#[test]
fn the_text_is_a_profile_whose_device_shows_what_was_measured() {
    let template = Profile::text_of("emmc-odroid-xu4").unwrap();
    let device = "emmc-odroid-xu4,timing.fig8.write_us=300,card.cache_kib=1024";
    let measured = seen(device, 256 << 20);
    let fitted = fit(&template, &[], &measured).unwrap();
    let origin = Origin {
        name: "card \"x\"",
        template: "emmc-odroid-xu4",
        measured: "a test",
    };
    let text = profile(&template, &fitted, origin).unwrap();
    let read = Profile::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!((read.name(), read.timing()), ("card \"x\"", SET));
    assert!(
        !text.contains("[timing.paper-fit"),
        "the other sets are of another device: {text}"
    );
    // Comments of fields that were measured are gone, those of others stay.
    assert!(!text.contains("125 - 40 (request, two commands)"), "{text}");
    assert!(text.contains("MLC rating"), "{text}");
    let line = text
        .lines()
        .position(|l| l.starts_with("write_us = "))
        .unwrap();
    let comment = text.lines().nth(line - 1).unwrap();
    assert!(
        comment.starts_with("# Measured: ") && comment.contains("95 %"),
        "{comment}"
    );
    assert!(text.lines().all(|l| l.len() <= 140), "{text}");
    // The second fit begins at the first one's end: nothing is left to change.
    let again = fit(&text, &[], &measured).unwrap();
    assert!(again.miss() < 0.05, "{}", again.miss());
    let cache = again
        .fitted
        .iter()
        .find(|f| f.field == "card.cache_kib")
        .unwrap();
    assert_eq!((cache.template, cache.value), (1024.0, 1024.0));
}

/// The register of a modelled card, as the kernel would print it.
fn hex(changes: &str) -> String {
    let profile = Profile::parse(&format!("emmc-odroid-xu4{changes}")).unwrap();
    let mut raw = [0_u8; 512];
    for field in profile.describe().unwrap().ext_csd {
        let bytes = field.value.to_le_bytes();
        let len = match field.name {
            "SEC_COUNT" | "CACHE_SIZE" => 4,
            _ => 1,
        };
        raw[field.byte..field.byte + len].copy_from_slice(&bytes[..len]);
    }
    let hex: String = raw.iter().map(|b| format!("{b:02x}")).collect();
    format!("{hex}\n")
}

#[test]
fn a_register_decides_the_fields_that_it_knows() {
    let changes = ",card.cache_kib=4096,card.cache_fifo=true,card.max_packed_writes=0,card.barrier=true,card.wr_rel_set=false";
    let register = ExtCsd::from_hex(&hex(changes)).unwrap();
    let given = register.given();
    let value = |name: &str| {
        &given
            .iter()
            .find(|g| g.field == format!("card.{name}"))
            .unwrap()
            .value
    };
    assert_eq!(value("cache_kib"), &Value::Integer(4096));
    assert_eq!(value("max_packed_writes"), &Value::Integer(0));
    assert_eq!(value("native_sector"), &Value::Integer(512));
    for (name, is) in [
        ("cache_fifo", true),
        ("barrier", true),
        ("wr_rel_set", false),
        ("en_rel_wr", true),
    ] {
        assert_eq!(value(name), &Value::Boolean(is), "{name}");
    }
    let cache = register
        .registers()
        .into_iter()
        .find(|r| r.name == "CACHE_SIZE")
        .unwrap();
    assert_eq!(cache.meaning, "4096 KiB");
}

#[test]
fn a_register_that_is_none_is_refused() {
    for text in [
        "",
        "00",
        &"0".repeat(1023),
        &"x".repeat(1024),
        &"\u{e9}".repeat(512),
    ] {
        assert!(ExtCsd::from_hex(text).is_err(), "{text}");
    }
}
