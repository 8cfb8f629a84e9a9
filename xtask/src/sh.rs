//! Running programs of the host.

use crate::Result;
use std::process::Command;

/// Runs a program. Answers its standard output, or what it printed when it failed.
pub fn sh(program: &str, args: &[&str]) -> Result<String> {
    let shown = || format!("{program} {}", args.join(" "));
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| format!("{}: {e}", shown()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!(
            "{} failed ({}): {} {}",
            shown(),
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_named_with_its_words() {
        assert_eq!(sh("echo", &["a", "b"]), Ok("a b".into()));
        let said = sh("sh", &["-c", "echo out; echo why >&2; exit 3"]).unwrap_err();
        assert!(
            said.starts_with("sh -c") && said.contains("3") && said.ends_with("out why"),
            "{said}"
        );
        assert!(sh("no-such-program", &[]).is_err_and(|e| e.contains("no-such-program")));
    }
}
