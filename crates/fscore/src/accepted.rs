//! Writes of content that was accepted earlier, and only reaches the file system now.
//!
//! A front door may have a cache of its own above the file system: the kernel's, above a mount. What it took there was permitted at that time, and its writer
//! has been told so. A flag that has been set since, like `chattr +i`, forbids later writes and not this one; to refuse it would lose the content without a
//! word.

/// Marks the running task's writes as accepted earlier.
#[derive(Clone, Copy, Debug)]
pub struct Accepted;

impl Accepted {
    /// Runs `f`; each write in it brings content that was accepted earlier.
    pub fn scope<T>(f: impl FnOnce() -> T) -> T {
        rt::with_local(Accepted, f)
    }

    /// Whether the running task's writes were accepted earlier.
    pub fn here() -> bool {
        rt::local::<Accepted>().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inside_of_the_scope() {
        assert!(!Accepted::here());
        assert!(Accepted::scope(Accepted::here));
        assert!(!Accepted::here());
    }
}
