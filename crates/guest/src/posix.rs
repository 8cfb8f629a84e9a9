//! Applies plans to a directory of the running kernel, and reads its tree: this is what runs in the
//! guest.

use crate::plan::content;
use crate::tree::{digest, windows};
use crate::{Node, Op, Plan, Tree};
use fscore::{FallocateMode, FileKind};
use rustix::fs as rfs;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Applies `plan` to the directory `root`. Answers the error numbers of the operations (0: success)
/// and the files that are held open.
///
/// # Errors
/// An operation of a plan that must not fail did.
pub fn run(root: &Path, plan: &Plan) -> io::Result<(Vec<i32>, Vec<File>)> {
    let mut held = Vec::new();
    let mut codes = Vec::with_capacity(plan.ops.len());
    rustix::process::umask(rfs::Mode::empty());
    for (n, op) in plan.ops.iter().enumerate() {
        let code = match apply(root, op, &mut held) {
            Ok(()) => 0,
            Err(e) => match e.raw_os_error() {
                Some(code) if plan.may_fail => code,
                _ => return Err(io::Error::other(format!("operation {n}, {op:?}: {e}"))),
            },
        };
        codes.push(code);
    }
    Ok((codes, held))
}

fn apply(root: &Path, op: &Op, held: &mut Vec<File>) -> io::Result<()> {
    let open = |path: &str| File::options().write(true).open(at(root, path));
    match op {
        Op::Write {
            path,
            offset,
            len,
            seed,
        } => {
            open(path)?.write_all_at(&content(*seed, *offset, *len), *offset)?;
        }
        Op::Truncate { path, size } => open(path)?.set_len(*size)?,
        Op::Fallocate {
            path,
            mode,
            offset,
            len,
        } => {
            use rfs::FallocateFlags as F;
            let flags = match mode {
                FallocateMode::Allocate => F::empty(),
                FallocateMode::KeepSize => F::KEEP_SIZE,
                FallocateMode::PunchHole => F::PUNCH_HOLE | F::KEEP_SIZE,
                FallocateMode::ZeroRange => F::ZERO_RANGE,
                FallocateMode::ZeroRangeKeepSize => F::ZERO_RANGE | F::KEEP_SIZE,
                FallocateMode::CollapseRange => F::COLLAPSE_RANGE,
                FallocateMode::InsertRange => F::INSERT_RANGE,
                FallocateMode::Unshare => F::UNSHARE_RANGE,
            };
            rfs::fallocate(open(path)?, flags, *offset, *len)?;
        }
        Op::Fsync { path, data_only } => {
            let file = File::open(at(root, path))?;
            if *data_only {
                file.sync_data()?
            } else {
                file.sync_all()?
            }
        }
        Op::Sync => rfs::syncfs(File::open(root)?)?,
        Op::Hold { path } => held.push(File::open(at(root, path))?),
        _ => apply_to_name(|path| at(root, path), op)?,
    }
    Ok(())
}

fn at(root: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        root.to_path_buf()
    } else {
        root.join(path)
    }
}

/// The operations on names and attributes.
fn apply_to_name(at: impl Fn(&str) -> PathBuf, op: &Op) -> io::Result<()> {
    match op {
        Op::Mkdir { path, perm } => rfs::mkdir(at(path), mode(*perm))?,
        Op::Make {
            path,
            kind,
            perm,
            rdev,
        } => make(&at(path), *kind, *perm, *rdev)?,
        Op::Symlink { path, target } => symlink(target, at(path))?,
        Op::Link { from, to } => fs::hard_link(at(from), at(to))?,
        Op::Rename { from, to, exchange } => {
            let flags = if *exchange {
                rfs::RenameFlags::EXCHANGE
            } else {
                rfs::RenameFlags::empty()
            };
            rfs::renameat_with(rfs::CWD, at(from), rfs::CWD, at(to), flags)?;
        }
        Op::Unlink { path } => rfs::unlink(at(path))?,
        Op::Rmdir { path } => rfs::rmdir(at(path))?,
        Op::Own {
            path,
            perm,
            uid,
            gid,
        } => {
            std::os::unix::fs::lchown(at(path), Some(*uid), Some(*gid))?;
            rfs::chmod(at(path), mode(*perm))?;
        }
        Op::Times { path, secs, nanos } => {
            let time = rfs::Timespec {
                tv_sec: *secs,
                tv_nsec: (*nanos).into(),
            };
            let times = rfs::Timestamps {
                last_access: time,
                last_modification: time,
            };
            rfs::utimensat(rfs::CWD, at(path), &times, rfs::AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Op::SetXattr { path, name, value } => {
            rfs::lsetxattr(at(path), name.as_str(), value, rfs::XattrFlags::empty())?;
        }
        Op::RemoveXattr { path, name } => rfs::lremovexattr(at(path), name.as_str())?,
        _ => unreachable!("an operation on content: {op:?}"),
    }
    Ok(())
}

fn mode(perm: u16) -> rfs::Mode {
    rfs::Mode::from_raw_mode(perm.into())
}

fn make(path: &Path, kind: FileKind, perm: u16, rdev: u32) -> io::Result<()> {
    let kind = rfs::FileType::from_raw_mode(kind.mode_bits().into());
    rfs::mknodat(rfs::CWD, path, kind, mode(perm), rdev.into())?;
    Ok(())
}

/// The tree below `root`.
///
/// # Errors
/// Something cannot be read.
pub fn tree(root: &Path) -> io::Result<Tree> {
    let mut tree = Tree::default();
    let mut todo: Vec<(PathBuf, String)> = vec![(root.to_path_buf(), String::new())];
    while let Some((path, name)) = todo.pop() {
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let meta = fs::symlink_metadata(&path).map_err(told)?;
        tree.0.insert(
            if name.is_empty() {
                "/".into()
            } else {
                name.clone()
            },
            node(&path, &meta).map_err(told)?,
        );
        if meta.is_dir() {
            for entry in fs::read_dir(&path).map_err(told)? {
                let entry = entry.map_err(told)?;
                let inner = format!("{name}/{}", entry.file_name().to_string_lossy());
                todo.push((entry.path(), inner));
            }
        }
    }
    Ok(tree)
}

fn node(path: &Path, meta: &fs::Metadata) -> io::Result<Node> {
    let content = if meta.is_symlink() {
        digest(0, fs::read_link(path)?.as_os_str().as_encoded_bytes())
    } else if meta.is_file() {
        let file = File::open(path)?;
        let mut sum = 0;
        for (mut at, mut left) in windows(meta.len()) {
            let mut buffer = vec![0; 1 << 20];
            while left > 0 {
                let part = left.min(buffer.len() as u64);
                let buffer = &mut buffer[..part as usize];
                file.read_exact_at(buffer, at)?;
                sum = digest(sum, buffer);
                at += part;
                left -= part;
            }
        }
        sum
    } else {
        0
    };
    let device = meta.mode() & 0o170_000 == 0o020_000 || meta.mode() & 0o170_000 == 0o060_000;
    Ok(Node {
        mode: meta.mode(),
        ino: meta.ino(),
        nlink: meta.nlink(),
        owner: (meta.uid(), meta.gid()),
        rdev: if device { meta.rdev() as u32 } else { 0 },
        size: meta.len(),
        sectors: meta.blocks(),
        mtime: (meta.mtime(), meta.mtime_nsec() as u32),
        ctime: (meta.ctime(), meta.ctime_nsec() as u32),
        content,
        xattrs: xattrs(path)?,
    })
}

fn xattrs(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    // An F2FS inode has room for less than 5 KiB of names and values.
    let mut list = vec![0; 65536];
    let length = rfs::llistxattr(path, &mut list)?;
    let mut found = BTreeMap::new();
    for name in list[..length]
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty())
    {
        let mut value = vec![0; 65536];
        let length = rfs::lgetxattr(path, name, &mut value)?;
        value.truncate(length);
        found.insert(String::from_utf8_lossy(name).into_owned(), value);
    }
    Ok(found)
}
