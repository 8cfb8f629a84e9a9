//! The oldest toolchain that we promise is the `rust-version` of the root `Cargo.toml`. No
//! toolchain is pinned, because a toolchain file would force a download on a fresh machine.

use crate::{Result, workspace};
use std::process::Command;

/// Runs `cargo xtask msrv`.
pub fn run() -> Result {
    for name in ["rust-toolchain.toml", "rust-toolchain"] {
        if workspace::root().join(name).exists() {
            return Err(format!(
                "{name} pins a toolchain; delete it, `rust-version` is enough"
            ));
        }
    }
    let promised = promised(&workspace::read("Cargo.toml")?)?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("--version")
        .output()
        .map_err(|e| format!("cannot start rustc: {e}"))?;
    let running = running(&String::from_utf8_lossy(&output.stdout))?;
    if running < promised {
        return Err(format!(
            "rustc {running:?} is older than rust-version {promised:?}"
        ));
    }
    println!(
        "msrv: rust-version {}.{}, running {}.{}",
        promised.0, promised.1, running.0, running.1
    );
    Ok(())
}

/// Major and minor of `workspace.package.rust-version`.
fn promised(manifest: &str) -> Result<(u32, u32)> {
    let manifest: toml::Table = manifest.parse().map_err(|e| format!("Cargo.toml: {e}"))?;
    let version = manifest
        .get("workspace")
        .and_then(|w| w.get("package")?.get("rust-version")?.as_str())
        .ok_or("Cargo.toml: no workspace.package.rust-version")?;
    two_numbers(version).ok_or(format!(
        "Cargo.toml: rust-version {version:?} is no version"
    ))
}

/// Major and minor of the answer of `rustc --version`.
fn running(answer: &str) -> Result<(u32, u32)> {
    answer
        .split_whitespace()
        .nth(1)
        .and_then(two_numbers)
        .ok_or(format!("rustc --version answered {answer:?}"))
}

fn two_numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        assert_eq!(promised(manifest), Ok((1, 95)));
        assert_eq!(
            running("rustc 1.100.0-nightly (abc 2026-01-01)"),
            Ok((1, 100))
        );
        assert!(running("rustc 1.100.0").unwrap() > promised(manifest).unwrap());
        assert!(promised("[workspace]\n").is_err());
        assert!(running("").is_err());
    }

    #[test]
    fn the_running_toolchain_is_new_enough() {
        run().unwrap();
    }
}
