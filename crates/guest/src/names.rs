//! One operation on many names, as the workload `meta` does it: `width` successive objects are in
//! one directory, and so are `width` successive directories.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Entries in a directory.
pub const WIDTH: u32 = 100;
/// Bytes of a file of the operations on files that have content.
const CONTENT: [u8; 4096] = [7; 4096];

/// The operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Makes directories.
    Mkdir,
    /// Removes empty directories.
    Rmdir,
    /// Makes files of 4 KiB.
    Create,
    /// Removes files of 4 KiB.
    Unlink,
}

impl FromStr for Op {
    type Err = io::Error;

    fn from_str(word: &str) -> io::Result<Op> {
        match word {
            "mkdir" => Ok(Op::Mkdir),
            "rmdir" => Ok(Op::Rmdir),
            "create" => Ok(Op::Create),
            "unlink" => Ok(Op::Unlink),
            _ => Err(io::Error::other(format!("no operation {word}"))),
        }
    }
}

/// Names that are ready for the operation.
pub(crate) struct Names {
    op: Op,
    count: u32,
    root: PathBuf,
}

impl Names {
    /// Makes the directories, and the objects if the operation removes them, and syncs them.
    pub fn prepare(op: Op, count: u32, root: &Path) -> io::Result<Names> {
        let root = root.to_path_buf();
        let names = Names { op, count, root };
        for n in (0..count).step_by(WIDTH as usize) {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o755).create(names.dir(n))?;
        }
        match op {
            Op::Rmdir => names.each(Op::Mkdir)?,
            Op::Unlink => names.each(Op::Create)?,
            Op::Mkdir | Op::Create => {}
        }
        names.sync()?;
        Ok(names)
    }

    /// Does the operation with all objects, and syncs.
    pub fn work(&self) -> io::Result<()> {
        self.each(self.op)?;
        self.sync()
    }

    fn each(&self, op: Op) -> io::Result<()> {
        for n in 0..self.count {
            let path = self.dir(n).join(format!("e{n}"));
            match op {
                Op::Mkdir => fs::create_dir(path)?,
                Op::Rmdir => fs::remove_dir(path)?,
                Op::Create => fs::write(path, CONTENT)?,
                Op::Unlink => fs::remove_file(path)?,
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(&self.root)?)?)
    }

    /// The directory of the `n`-th object.
    fn dir(&self, n: u32) -> PathBuf {
        let mut above = vec![n / WIDTH];
        while let Some(&last) = above.last().filter(|n| **n >= WIDTH) {
            above.push(last / WIDTH);
        }
        let levels = above.iter().rev();
        levels.fold(self.root.clone(), |path, n| path.join(format!("d{n}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_and_go_in_directories_of_a_hundred() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Names::prepare(Op::Create, 250, dir.path()).expect("prepared");
        made.work().expect("made");
        let last = dir.path().join("d2/e249");
        assert_eq!(fs::metadata(&last).expect("it is there").len(), 4096);
        fs::remove_dir_all(dir.path().join("d0")).expect("removed");
        let gone = tempfile::tempdir().expect("a directory");
        let gone_names = Names::prepare(Op::Rmdir, 250, gone.path()).expect("prepared");
        assert_eq!(
            fs::read_dir(gone.path().join("d1")).expect("d1").count(),
            100
        );
        gone_names.work().expect("removed");
        assert_eq!(fs::read_dir(gone.path().join("d1")).expect("d1").count(), 0);
        let deep = Names {
            op: Op::Mkdir,
            count: 0,
            root: "/r".into(),
        };
        assert_eq!(deep.dir(123_456), Path::new("/r/d12/d1234"));
    }
}
