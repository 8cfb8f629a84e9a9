//! A configuration that is saved three times.

use crash_test_example::{replace, replace_hastily};
use std::fs;
use std::io;
use std::path::Path;
use varve_crash_test::{ack, crash_test};

const VERSIONS: u8 = 4;

fn content(version: u8) -> Vec<u8> {
    vec![b'0' + version; 5000]
}

fn begin(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("config"), content(0))
}

fn save(dir: &Path, how: fn(&Path, &[u8]) -> io::Result<()>) -> io::Result<()> {
    for version in 1..VERSIONS {
        how(&dir.join("config"), &content(version))?;
        ack(&format!("saved {version}"));
    }
    Ok(())
}

/// The file is one of its versions, and none older than the last that was said to be saved.
fn whole(dir: &Path, acked: &[String]) {
    let found = fs::read(dir.join("config")).expect("the configuration is there");
    let version = (0..VERSIONS).find(|&version| found == content(version));
    let version = version.expect("the configuration is whole");
    assert!(
        acked.len() <= version.into(),
        "{} were saved, {version} is there",
        acked.len()
    );
}

#[crash_test(setup = begin, check = whole)]
fn a_replaced_file_is_old_or_new(dir: &Path) -> io::Result<()> {
    save(dir, replace)
}

#[crash_test(setup = begin, check = whole)]
#[should_panic(expected = "no fdatasync(config.part) comes before")]
fn a_file_replaced_without_syncs_is_lost(dir: &Path) -> io::Result<()> {
    save(dir, replace_hastily)
}

mod judges {
    use super::*;

    #[crash_test(setup = begin, judge = "same-or-old=config", model = "posix")]
    fn a_judge_of_the_program_takes_the_place_of_a_check(dir: &Path) -> io::Result<()> {
        save(dir, replace)
    }
}
