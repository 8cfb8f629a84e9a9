//! How a task spells the names of its script.
//!
//! On a volume with the feature `casefold` the directory of each task gets the flag before anything
//! is made in it, and all below inherit it. A name is made as the script spells it, and asked for
//! in capitals, so that every lookup, removal, rename and sync needs the folding, while the names
//! that stand in the directories, which are what the judge compares, are those of the script.

use base::Ino;
use std::sync::Arc;
use vfs::{FileFlags, FsResult, Vfs};

/// The spellings of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Names {
    /// Case does not count in the directories of tasks.
    folded: bool,
}

impl Names {
    /// Those of the volume that is mounted.
    pub fn of(vfs: &Arc<Vfs>) -> Names {
        let fs = vfs.fs();
        Names {
            folded: fs.ignores_case(fs.root()).is_some(),
        }
    }

    /// Prepares the empty directory of a task.
    ///
    /// # Errors
    /// The flag cannot be set.
    pub fn begin(self, vfs: &Arc<Vfs>, dir: Ino) -> FsResult<()> {
        if !self.folded {
            return Ok(());
        }
        let fs = vfs.fs();
        fs.set_file_flags(dir, fs.file_flags(dir)? | FileFlags::CASEFOLD)
    }

    /// How a name is asked for that is there.
    pub fn asked(self, path: &str) -> String {
        match self.folded {
            true => path.to_uppercase(),
            false => path.into(),
        }
    }

    /// How a name is asked for that is made, or that is to stand where another one did: only the
    /// directories before it are there.
    pub fn made(self, path: &str) -> String {
        match path.rsplit_once('/') {
            Some((dirs, name)) => format!("{}/{name}", self.asked(dirs)),
            None => path.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_asked_for_in_capitals() {
        let (plain, folded) = (Names { folded: false }, Names { folded: true });
        assert_eq!(
            (plain.asked("/d/f"), plain.made("/d/f")),
            ("/d/f".into(), "/d/f".into())
        );
        assert_eq!(
            (folded.asked("/d/f"), folded.made("/d/f")),
            ("/D/F".into(), "/D/f".into())
        );
        assert_eq!(
            (folded.asked(""), folded.made("")),
            (String::new(), String::new())
        );
    }
}
