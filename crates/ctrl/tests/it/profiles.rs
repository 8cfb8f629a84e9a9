//! Device strings: every field can be set, impossible values are refused by field.

use blockdev::{Model, PackOrder};
use varve_ctrl::{Profile, ProfileError};

fn caps(text: &str) -> blockdev::Caps {
    let built = Profile::parse(text).unwrap().build(Some(16 << 20), None);
    built.unwrap().caps().clone()
}

fn refused(text: &str) -> String {
    Profile::parse(text).unwrap_err().to_string()
}

#[test]
fn a_name_alone_is_the_built_in_profile() {
    for name in Profile::names() {
        assert_eq!(Profile::parse(name), Profile::builtin(name));
    }
    let error = Profile::parse("floppy,card.cache_on=false").unwrap_err();
    assert!(matches!(error, ProfileError::Unknown { .. }), "{error}");
    assert!(error.to_string().contains("emmc-odroid-xu4"));
}

#[test]
fn changes_reach_the_device() {
    let caps_of = caps("emmc-odroid-xu4, card.cache_on=false ,card.wr_rel_set=false");
    assert!(!caps_of.volatile_cache && !caps_of.no_collateral);
    assert!(
        caps("emmc-odroid-xu4,card.en_rel_wr=false")
            .packed
            .is_none()
    );
    assert!(
        caps("emmc-odroid-xu4,card.max_packed_writes=0")
            .packed
            .is_none()
    );
    let packed = caps("emmc-odroid-xu4,card.pack_order=any-subset,card.max_packed_writes=5").packed;
    let packed = packed.unwrap();
    assert_eq!((packed.order, packed.writes_max), (PackOrder::AnySubset, 5));
    let large = Profile::parse("emmc-odroid-xu4,capacity_mib=32").unwrap();
    assert_eq!(large.capacity_bytes(), 32 << 20);
    assert!(caps("loop-like,fua=true").fua && !caps("loop-like").fua);
    assert_eq!(
        Profile::parse("emmc-odroid-xu4,nand.timing.program_us=900")
            .unwrap()
            .name(),
        "emmc-odroid-xu4"
    );
}

#[test]
fn impossible_values_are_refused_by_field_with_what_is_allowed() {
    for (change, field, allowed) in [
        ("card.cache_on=maybe", "card.cache_on", "true or false"),
        ("card.cache_kib=3", "card.cache_kib", "4 to 1048576"),
        ("card.cache_kib=-4", "card.cache_kib", "from 0 on"),
        ("card.cache_kib=6", "card.cache_kib", "multiple of 4"),
        (
            "card.max_packed_writes=2",
            "card.max_packed_writes",
            "3 to 255, or 0",
        ),
        (
            "card.max_packed_writes=300",
            "card.max_packed_writes",
            "3 to 255",
        ),
        ("card.pack_order=random", "card.pack_order", "any-subset"),
        ("card.bkops=soon", "card.bkops", "manual"),
        (
            "card.native_sector=1024",
            "card.native_sector",
            "512 or 4096",
        ),
        ("card.rel_wr_sec_c=0", "card.rel_wr_sec_c", "1 to 255"),
        (
            "card.max_transfer_kib=65536",
            "card.max_transfer_kib",
            "4 to 32764",
        ),
        (
            "card.barrier=true,card.cache_kib=0",
            "card.barrier",
            "without a cache",
        ),
        ("card.colour=3", "card.colour", "cache_kib"),
        ("cards.cache_kib=4", "cards.cache_kib", "card"),
        ("card=4", "`card`", "cache_kib"),
        ("card.cache_kib.x=4", "card.cache_kib.x", "cache_kib"),
        ("name=fast", "name", "cannot be changed"),
        ("card.cache_on", "card.cache_on", "FIELD=VALUE"),
        (
            "nand.timing.program_us=-1",
            "nand.timing.program_us",
            "0 to",
        ),
        (
            "nand.timing.program_us=nan",
            "nand.timing.program_us",
            "a number",
        ),
        ("nand.page_bytes=1000", "nand.page_bytes", "power of two"),
        (
            "ftl.over_provisioning=2.5",
            "ftl.over_provisioning",
            "0.01 to 1",
        ),
        ("ftl.lanes=0", "ftl.lanes", "1 to 256"),
        ("slc.on=true,slc.mib=0", "slc.mib", "5 (an open block"),
        ("slc.on=true,slc.mib=513", "slc.mib", "to 512 (the cells"),
        (
            "slc.on=true,slc.mib=18446744073709551615",
            "slc.mib",
            "whole number",
        ),
        ("slc.on=true,ftl.lanes=64", "slc.mib = 64", "it may be 65"),
        ("slc.bits_per_cell=1", "slc.bits_per_cell", "2 to 4"),
        (
            "slc.on=true,slc.bits_per_cell=3,nand.pages_per_block=2",
            "slc.bits_per_cell",
            "less than one page",
        ),
        ("slc.program_us=-1", "slc.program_us", "0 to one second"),
        ("slc.endurance=0", "slc.endurance", "1 to"),
        ("slc.size=3", "slc.size", "mib"),
        ("timing.fig8.write_us=-3", "timing.fig8.write_us", "0 to"),
        ("capacity_mib=0", "capacity_mib", "1 MiB to"),
        ("capacity_mib=99999999999", "capacity_mib", "1 MiB to"),
        ("default_timing=fast", "fast", "fig8"),
        ("", "``", "FIELD=VALUE"),
    ] {
        let error = refused(&format!("emmc-odroid-xu4,{change}"));
        assert!(
            error.contains(field) && error.contains(allowed) && error.contains("emmc-odroid-xu4"),
            "{change}: {error}"
        );
    }
    let error = refused("loop-like,max_transfer_kib=0");
    assert!(error.contains("max_transfer_kib"), "{error}");
    let error = refused("loop-like,timing.buffered-file.flush_us=-1");
    assert!(error.contains("timing.buffered-file.flush_us"), "{error}");
}

#[test]
fn an_area_too_large_for_the_size_that_is_built_is_refused_by_field() {
    let profile = Profile::parse("emmc-odroid-xu4,slc.on=true").unwrap();
    let error = profile.build(Some(64 << 20), None).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("slc.mib = 64; it may be 5 (an open"),
        "{error}"
    );
    assert!(profile.build(Some(128 << 20), None).is_ok());
}

#[test]
fn only_a_device_that_has_an_slc_area_describes_it() {
    let with = Profile::parse("emmc-odroid-xu4,slc.on=true,slc.mib=16").unwrap();
    let slc = with.describe().unwrap().slc.unwrap();
    assert_eq!((slc.mib, slc.bits_per_cell), (16, 2));
    for name in Profile::names() {
        let plain = Profile::builtin(name).unwrap();
        let has = matches!(name, "nvme-980pro" | "ufs-generic");
        assert_eq!(plain.describe().unwrap().slc.is_some(), has, "{name}");
    }
}

#[test]
fn a_profile_says_how_slow_its_host_is() {
    let percent = |text: &str| Profile::parse(text).unwrap().cpu_percent();
    assert_eq!(percent("emmc-odroid-xu4"), 400);
    assert_eq!(percent("nvme-980pro"), 100);
    assert_eq!(percent("nvme-980pro,host.cpu_percent=250"), 250);
    for bad in ["0", "10001", "-1", "fast"] {
        let why = Profile::parse(&format!("loop-like,host.cpu_percent={bad}")).unwrap_err();
        assert!(why.to_string().contains("host.cpu_percent"), "{why}");
    }
    let why = Profile::parse("loop-like,host.cores=4")
        .unwrap_err()
        .to_string();
    assert!(why.contains("cpu_percent"), "{why}");
    let text = include_str!("../../profiles/loop-like.toml");
    let unknown = text.replace("cpu_percent = 100", "cpu_percent = 100\ncores = 4");
    let why = Profile::from_toml(&unknown).unwrap_err().to_string();
    assert!(why.contains("cores"), "{why}");
    let without = text.replace("[host]", "").replace("cpu_percent = 100", "");
    let why = Profile::from_toml(&without).unwrap_err().to_string();
    assert!(why.contains("host"), "{why}");
    let parsed = Profile::parse("ufs-generic,host.cpu_percent=50").unwrap();
    assert_eq!(parsed.describe().unwrap().host_cpu_percent, 50);
}

/// The scheduler is that of Linux of the profile's time; a profile of the user's need not name one.
#[test]
fn a_profile_says_which_scheduler_its_host_has() {
    use blockdev::Scheduler;
    let scheduler = |text: &str| Profile::parse(text).unwrap().scheduler();
    assert_eq!(scheduler("emmc-odroid-xu4"), Scheduler::Cfq310);
    assert_eq!(scheduler("ufs-generic"), Scheduler::MqDeadline);
    assert_eq!(scheduler("nvme-980pro"), Scheduler::None);
    assert_eq!(scheduler("nvme-980pro,host.scheduler=bfq"), Scheduler::Bfq);
    let why = Profile::parse("nvme-980pro,host.scheduler=cfq").unwrap_err();
    let why = why.to_string();
    assert!(
        why.contains("host.scheduler") && why.contains("cfq-3.10"),
        "{why}"
    );
    let text = include_str!("../../profiles/loop-like.toml");
    let silent = Profile::from_toml(&text.replace("scheduler = \"none\"", "")).unwrap();
    assert_eq!(silent.scheduler(), Scheduler::None);
    let wrong = text.replace("scheduler = \"none\"", "scheduler = \"noop\"");
    let why = Profile::from_toml(&wrong).unwrap_err().to_string();
    assert!(why.contains("noop") && why.contains("mq-deadline"), "{why}");
}

#[test]
fn random_device_strings_never_panic() {
    let mut rng = base::Rng::named(1, "device strings");
    let bits = [
        "emmc-odroid-xu4",
        ",",
        "card",
        ".",
        "=",
        "cache_kib",
        "-1",
        "18446744073709551616",
        "true",
        "timing",
        "fig8",
        "\u{e9}",
        "nand",
        "page_bytes",
        "1e400",
        "\n",
        "capacity_mib",
        "0",
    ];
    for _ in 0..5000 {
        let n = rng.below(9);
        let mut text = String::from("emmc-odroid-xu4,");
        (0..n).for_each(|_| text.push_str(bits[rng.below(bits.len() as u64) as usize]));
        let _ = Profile::parse(&text);
    }
}

/// The translation layer programs page after page, so chips that take whole word lines are refused.
#[test]
fn one_shot_word_lines_are_refused_by_field_and_rule() {
    let text = include_str!("../../profiles/emmc-odroid-xu4.toml");
    let with =
        |pairing: &str| text.replacen("[nand]\n", &format!("[nand]\npairing = \"{pairing}\"\n"), 1);
    assert!(Profile::from_toml(&with("none")).is_ok());
    let why = Profile::from_toml(&with("one-shot-tlc"))
        .unwrap_err()
        .to_string();
    assert!(
        why.contains("nand.pairing") && why.contains("nand-N6"),
        "{why}"
    );
}
