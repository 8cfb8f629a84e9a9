//! The supplementary groups of the processes of this host.

/// The groups that a process is in beside its own; none if it has ended, or is in another name
/// space.
pub(crate) fn groups_of(process: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    groups_in(&status)
}

fn groups_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|l| l.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_process() {
        assert_eq!(groups_in("Name:\tsh\nGroups:\t4 50 1000 \n"), [4, 50, 1000]);
        assert!(groups_in("Name:\tsh\nGroups:\n").is_empty());
        assert!(groups_of(u32::MAX).is_empty());
    }
}
