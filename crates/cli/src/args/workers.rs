//! How many workers an option may ask for.

use std::num::NonZeroUsize;

/// More than any host has cores; each is a thread, most also a process.
const WORKERS_MAX: usize = 1024;

/// Reads a number of workers.
pub fn workers(text: &str) -> Result<NonZeroUsize, String> {
    let count = text
        .parse()
        .ok()
        .filter(|count: &NonZeroUsize| count.get() <= WORKERS_MAX);
    count.ok_or_else(|| format!("it is a number from 1 to {WORKERS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_starts_more_than_a_host_can() {
        assert_eq!(workers("1024").map(NonZeroUsize::get), Ok(1024));
        for text in ["0", "1025", "999999999", "-1", "", "99999999999999999999"] {
            let why = workers(text).expect_err(text);
            assert!(why.contains("from 1 to 1024"), "{why}");
        }
    }
}
