//! What a mount and the kernel hold in memory.

use crate::Result;
use std::fs;

/// Resident memory of a process, KiB: now, or with `peak` the most so far.
pub fn resident(pid: u32, peak: bool) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let key = if peak { "VmHWM:" } else { "VmRSS:" };
    line_number(&text, key).ok_or_else(|| format!("{file} has no {key}"))
}

/// Inodes of FUSE that the kernel holds, of all mounts of the machine.
pub fn known_to_kernel() -> Result<u64> {
    let file = "/proc/slabinfo";
    let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    // Without a line no mount of FUSE has been there.
    Ok(line_number(&text, "fuse_inode").unwrap_or(0))
}

/// The first number behind the word that begins a line.
fn line_number(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(word)).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_the_first_word_of_their_line() {
        let text = "VmPeak:\t 9 kB\nVmRSS:\t  1234 kB\nfuse_inode  77 80 832\n";
        assert_eq!(line_number(text, "VmRSS:"), Some(1234));
        assert_eq!(line_number(text, "fuse_inode"), Some(77));
        assert_eq!(line_number(text, "VmHWM:"), None);
        assert!(resident(std::process::id(), true).is_ok_and(|kib| kib > 100));
    }
}
