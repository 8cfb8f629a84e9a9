//! What a program pays for `putc`, measured with the C library of this machine (`putc.c`).

use crate::Result;
use std::process::Command;

/// Nanoseconds for 4,096 bytes. The write to `/dev/null` of each full buffer is in it, and is small
/// beside them.
pub fn measure() -> Result<f64> {
    let text = |e: std::io::Error| format!("putc: {e}");
    let folder = tempfile::tempdir().map_err(text)?;
    let (source, program) = (folder.path().join("putc.c"), folder.path().join("putc"));
    std::fs::write(&source, include_str!("putc.c")).map_err(text)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-o"]).arg(&program).arg(&source);
    let made = compiler
        .status()
        .map_err(|e| format!("cc, the C compiler: {e}"))?;
    if !made.success() {
        return Err(format!("cc: {made}"));
    }
    let said = Command::new(&program).output().map_err(text)?.stdout;
    let said = String::from_utf8_lossy(&said);
    said.trim()
        .parse()
        .map_err(|e| format!("putc said {said:?}: {e}"))
}
