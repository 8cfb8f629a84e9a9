//! A plan: a list of file operations that can be applied both to a directory of the kernel and to a
//! file system of ours.

use crate::plans;
use fscore::{FallocateMode, FileKind};

/// One operation. Paths are relative to the root of the tree; their parents are not made. Offsets,
/// lengths and sizes are bytes; `perm` are the low 12 bits of the mode; `seed` chooses the
/// `content`.
#[allow(missing_docs, reason = "the fields are said above")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Makes a directory.
    Mkdir { path: String, perm: u16 },
    /// Makes an empty file, device, pipe or socket; the name must be free.
    Make {
        path: String,
        kind: FileKind,
        perm: u16,
        rdev: u32,
    },
    /// Writes `len` bytes of `content` at `offset` of a file.
    Write {
        path: String,
        offset: u64,
        len: usize,
        seed: u64,
    },
    /// Sets the size of a file.
    Truncate { path: String, size: u64 },
    /// Allocates or frees a range of a file.
    Fallocate {
        path: String,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    },
    /// Makes a symbolic link.
    Symlink { path: String, target: String },
    /// Gives a file a further name.
    Link { from: String, to: String },
    /// Moves a name, replacing the target or swapping the two.
    Rename {
        from: String,
        to: String,
        exchange: bool,
    },
    /// Removes a name of anything but a directory.
    Unlink { path: String },
    /// Removes an empty directory.
    Rmdir { path: String },
    /// Changes permissions and owner (permissions last).
    Own {
        path: String,
        perm: u16,
        uid: u32,
        gid: u32,
    },
    /// Sets the time of the last change and of the last access, seconds and nanoseconds.
    Times { path: String, secs: i64, nanos: u32 },
    /// Sets an extended attribute.
    SetXattr {
        path: String,
        name: String,
        value: Vec<u8>,
    },
    /// Removes an extended attribute.
    RemoveXattr { path: String, name: String },
    /// Makes an inode durable.
    Fsync { path: String, data_only: bool },
    /// Makes everything durable.
    Sync,
    /// Opens a file and keeps it open until the end of the process or of the mount.
    Hold { path: String },
}

/// A list of operations, and whether they may fail.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// Whether some operations are meant to fail (no space, no such name): which ones do is part of
    /// the comparison.
    pub may_fail: bool,
}

impl Plan {
    /// The plan called `name`, varied by `seed`.
    ///
    /// # Errors
    /// There is no such plan; the text lists them.
    pub fn named(name: &str, seed: u64) -> Result<Plan, String> {
        let Some((_, _, make)) = plans::ALL.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<&str> = plans::ALL.iter().map(|(name, ..)| *name).collect();
            return Err(format!("no plan {name:?}; there are: {}", names.join(", ")));
        };
        Ok(make(seed))
    }

    /// All names, with what each is for.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        plans::ALL.iter().map(|(name, what, _)| (*name, *what))
    }
}

/// `len` bytes that depend on `seed` and on their place alone, so that no two blocks are equal.
pub fn content(seed: u64, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = offset / 8;
    while bytes.len() < len + 8 {
        let mixed = (word ^ seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 29)).to_le_bytes());
        word += 1;
    }
    let skip = (offset % 8) as usize;
    bytes.drain(..skip);
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_depends_on_seed_and_place_alone() {
        let all = content(7, 0, 10_000);
        assert_eq!(content(7, 4099, 100), all[4099..4199]);
        assert_ne!(content(8, 0, 100), all[..100]);
        assert_ne!(all[..4096], all[4096..8192]);
    }

    #[test]
    fn plans_are_found_by_name_and_repeat() {
        for (name, _) in Plan::names() {
            let plan = Plan::named(name, 3).unwrap();
            assert!(!plan.ops.is_empty(), "{name}");
            assert_eq!(plan.ops, Plan::named(name, 3).unwrap().ops, "{name}");
        }
        assert!(Plan::named("x", 0).unwrap_err().contains("rich"));
    }
}
