//! The attribute for who names the crate `varve` only. What it does is tested in `crash-test` and,
//! with the program, in `cli`.

use std::path::Path;
use std::process::Command;
use varve::crash_test::ack;

#[varve::crash_test(check = |dir, acked| dir.is_dir() && acked.is_empty())]
#[ignore = "started by the test below"]
fn saves(dir: &Path) -> std::io::Result<()> {
    ack("nothing");
    std::fs::write(dir.join("file"), "content")
}

#[test]
fn the_attribute_asks_for_the_program() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "crash_test::saves", "--include-ignored"]);
    test.env_remove("VARVE").env("PATH", "/nowhere");
    let output = test.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && said.contains("needs the program varve"),
        "{said}"
    );
}
