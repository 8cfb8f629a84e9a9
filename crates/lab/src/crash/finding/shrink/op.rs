//! Smaller forms of one operation.

use crate::crash::ops::Op;
use std::collections::BTreeMap;

/// Forms that do less of the same, the least first.
pub fn smaller(op: &Op) -> Vec<Op> {
    match op {
        Op::Write { path, from, len } => {
            let form = |(from, len)| Op::Write {
                path: path.clone(),
                from,
                len,
            };
            ranges(*from, *len).map(form).collect()
        }
        Op::Truncate { path, size } => {
            let form = |size| Op::Truncate {
                path: path.clone(),
                size,
            };
            let sizes = [0, 1, 8].into_iter().filter(|n| n < size);
            sizes.map(form).collect()
        }
        Op::Symlink { target, to } if target.len() > 1 => vec![Op::Symlink {
            target: "t".into(),
            to: to.clone(),
        }],
        _ => Vec::new(),
    }
}

/// Ranges of sectors that are smaller: one sector, one block, the same from the beginning.
fn ranges(from: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let forms = [(0, 1), (from, 1), (0, 8), (from, 8), (0, len)];
    let size = move |(f, l): (u64, u64)| f + l;
    forms
        .into_iter()
        .filter(move |r| size(*r) < from + len && r.1 <= len)
}

/// Short names for the parts of paths, in the order in which they come.
#[derive(Default)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    fn part(&mut self, part: &str) -> String {
        let next = self.0.len();
        let short = || match u8::try_from(next) {
            Ok(n) if n < 26 => char::from(b'a' + n).to_string(),
            _ => format!("n{next}"),
        };
        self.0.entry(part.into()).or_insert_with(short).clone()
    }

    fn path(&mut self, path: &str) -> String {
        let parts = path.split('/').enumerate();
        let short = parts.map(|(n, part)| match n {
            0 => part.to_string(),
            _ => self.part(part),
        });
        short.collect::<Vec<_>>().join("/")
    }

    /// The operation with short names; `None` if it has names of a kind that is not known here.
    pub fn rename(&mut self, op: &Op) -> Option<Op> {
        let mut path = |p: &String| self.path(p);
        Some(match op {
            Op::Create(p) => Op::Create(path(p)),
            Op::Mkdir(p) => Op::Mkdir(path(p)),
            Op::Rmdir(p) => Op::Rmdir(path(p)),
            Op::Unlink(p) => Op::Unlink(path(p)),
            Op::Fsync(p) => Op::Fsync(path(p)),
            Op::Fdatasync(p) => Op::Fdatasync(path(p)),
            Op::SyncDir(p) => Op::SyncDir(path(p)),
            Op::Hold(p) => Op::Hold(path(p)),
            Op::Write { path: p, from, len } => Op::Write {
                path: path(p),
                from: *from,
                len: *len,
            },
            Op::Truncate { path: p, size } => Op::Truncate {
                path: path(p),
                size: *size,
            },
            Op::Rename { from, to } => Op::Rename {
                from: path(from),
                to: path(to),
            },
            Op::Link { from, to } => Op::Link {
                from: path(from),
                to: path(to),
            },
            Op::Symlink { target, to } => Op::Symlink {
                target: target.clone(),
                to: path(to),
            },
            Op::Chmod { path: p, perm } => Op::Chmod {
                path: path(p),
                perm: *perm,
            },
            Op::Sync | Op::Pause(_) => op.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_forms_are_smaller() {
        let write = Op::Write {
            path: "/f".into(),
            from: 16,
            len: 40,
        };
        let forms: Vec<String> = smaller(&write).iter().map(Op::to_string).collect();
        assert_eq!(
            forms,
            [
                "write /f 0+1",
                "write /f 16+1",
                "write /f 0+8",
                "write /f 16+8",
                "write /f 0+40"
            ]
        );
        let least = Op::Write {
            path: "/f".into(),
            from: 0,
            len: 1,
        };
        assert!(smaller(&least).is_empty());
    }

    #[test]
    fn names_become_short_and_stay_apart() {
        let mut names = Names::default();
        let op = Op::Rename {
            from: "/some dir/x".into(),
            to: "/x/y".into(),
        };
        let short = names.rename(&op).unwrap();
        assert_eq!(short.to_string(), "rename /a/b /b/c");
        assert_eq!(
            names.rename(&Op::Mkdir(String::new())).unwrap().to_string(),
            "mkdir "
        );
    }
}
