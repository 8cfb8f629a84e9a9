//! The programs in `examples/` do what their heads say.

use std::path::Path;
use std::process::Command;

/// What an example prints.
// Tests have no front end that could pass it down.
#[allow(clippy::disallowed_methods)]
fn printed(name: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    let mut command = match std::env::var_os("VARVE_TEST_BUILT") {
        // `cargo xtask test` has compiled all examples.
        Some(_) => Command::new(target.join("debug/examples").join(name)),
        None => {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["run", "--quiet", "--package", "varve", "--example", name]);
            cargo.arg("--target-dir").arg(target);
            cargo
        }
    };
    let out = command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}: {words}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn each_example_runs() {
    assert_eq!(printed("image"), "clean: true\n");
    let text = printed("own_device");
    assert!(text.ends_with("bytes free\n"), "{text}");
    let text = printed("compare");
    assert!(
        text.starts_with("jbd2: ") && text.contains("\nemmc: "),
        "{text}"
    );
    assert_eq!(printed("power_cuts"), "10 cuts, 0 violations\n");
}
