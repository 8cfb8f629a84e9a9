//! Smaller forms of one operation, for shrinking.

use crate::ops::Op;
use std::collections::BTreeMap;

/// Forms of the operation that do less, the least first.
pub fn smaller(op: &Op) -> Vec<Op> {
    match op {
        Op::Write { path, offset, len } => {
            let form = |(offset, len)| Op::Write {
                path: path.clone(),
                offset,
                len,
            };
            ranges(*offset, *len).map(form).collect()
        }
        Op::Fallocate {
            path,
            offset,
            len,
            keep_size,
        } => {
            let form = |(offset, len)| Op::Fallocate {
                path: path.clone(),
                offset,
                len,
                keep_size: *keep_size,
            };
            ranges(*offset, *len).map(form).collect()
        }
        Op::Truncate { path, size } => {
            let form = |size| Op::Truncate {
                path: path.clone(),
                size,
            };
            let sizes = [0, 1, SECTOR, BLOCK].into_iter().filter(|n| n < size);
            sizes.map(form).collect()
        }
        Op::SetXattr { path, name, value } if value.len() > 1 => vec![Op::SetXattr {
            path: path.clone(),
            name: name.clone(),
            value: value[..1].to_vec(),
        }],
        Op::Symlink { target, to } if target.len() > 1 => vec![Op::Symlink {
            target: "t".into(),
            to: to.clone(),
        }],
        _ => Vec::new(),
    }
}

const SECTOR: u64 = base::SECTOR_BYTES as u64;
const BLOCK: u64 = base::BLOCK_BYTES as u64;

/// Smaller ranges: a sector or a block, at the start of the file or where the range begins, or the
/// whole length moved to the start.
fn ranges(offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let forms = [
        (0, SECTOR),
        (offset, SECTOR),
        (0, BLOCK),
        (offset, BLOCK),
        (0, len),
    ];
    let end = offset.saturating_add(len);
    forms
        .into_iter()
        .filter(move |(o, l)| o.saturating_add(*l) < end && *l <= len)
}

/// Short names for the parts of paths, given in the order in which parts come.
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

    /// The operation with short names. Names of extended attributes stay as they are.
    pub fn rename(&mut self, op: &Op) -> Op {
        let mut path = |p: &String| self.path(p);
        match op {
            Op::Create(p) => Op::Create(path(p)),
            Op::Mkdir(p) => Op::Mkdir(path(p)),
            Op::Rmdir(p) => Op::Rmdir(path(p)),
            Op::Unlink(p) => Op::Unlink(path(p)),
            Op::Fsync(p) => Op::Fsync(path(p)),
            Op::Fdatasync(p) => Op::Fdatasync(path(p)),
            Op::SyncDir(p) => Op::SyncDir(path(p)),
            Op::Hold(p) => Op::Hold(path(p)),
            Op::Write {
                path: p,
                offset,
                len,
            } => Op::Write {
                path: path(p),
                offset: *offset,
                len: *len,
            },
            Op::Fallocate {
                path: p,
                offset,
                len,
                keep_size,
            } => Op::Fallocate {
                path: path(p),
                offset: *offset,
                len: *len,
                keep_size: *keep_size,
            },
            Op::SetXattr {
                path: p,
                name,
                value,
            } => Op::SetXattr {
                path: path(p),
                name: name.clone(),
                value: value.clone(),
            },
            Op::RemoveXattr { path: p, name } => Op::RemoveXattr {
                path: path(p),
                name: name.clone(),
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_forms_are_smaller() {
        let write = |offset, len| Op::Write {
            path: "/f".into(),
            offset,
            len,
        };
        let forms: Vec<String> = smaller(&write(8192, 20_000))
            .iter()
            .map(Op::to_string)
            .collect();
        assert_eq!(
            forms,
            [
                "write /f 0+512",
                "write /f 8192+512",
                "write /f 0+4096",
                "write /f 8192+4096",
                "write /f 0+20000"
            ]
        );
        assert!(smaller(&write(0, 512)).is_empty() && smaller(&write(0, 1)).is_empty());
    }

    #[test]
    fn names_become_short_and_stay_apart() {
        let mut names = Names::default();
        let op = Op::Rename {
            from: "/some dir/x".into(),
            to: "/x/y".into(),
        };
        let short = names.rename(&op);
        assert_eq!(short.to_string(), "rename /a/b /b/c");
        assert_eq!(
            names.rename(&Op::Mkdir(String::new())).to_string(),
            "mkdir "
        );
    }
}
