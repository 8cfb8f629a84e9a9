//! Applies plans to a file system of ours, and reads its tree.

use crate::plan::content;
use crate::tree::{digest, windows};
use crate::{Node, Op, Plan, Tree};
use base::Ino;
use fscore::{
    Creds, Errno, FileKind, FileSystem, FsResult, RenameMode, SetAttr, TimeSet, XattrMode,
};
use rt::WallTime;
use std::collections::BTreeMap;

/// Applies `plan` to the root of `fs`. Answers the error numbers of the operations (0: success) and
/// the inodes that are held open.
///
/// # Errors
/// An operation of a plan that must not fail did, or one failed otherwise than a system call may.
pub fn run(fs: &dyn FileSystem, plan: &Plan) -> Result<(Vec<i32>, Vec<Ino>), String> {
    let mut held = Vec::new();
    let mut codes = Vec::with_capacity(plan.ops.len());
    for (n, op) in plan.ops.iter().enumerate() {
        let code = match apply(fs, op, &mut held) {
            Ok(()) => 0,
            Err(fscore::FsError::Posix(errno)) if plan.may_fail => errno.code(),
            Err(e) => return Err(format!("operation {n}, {op:?}: {e}")),
        };
        codes.push(code);
    }
    Ok((codes, held))
}

/// The inode of a relative path.
fn find(fs: &dyn FileSystem, path: &str) -> FsResult<Ino> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .into_iter()
        .try_fold(fs.root(), |dir, part| fs.lookup(dir, part.as_bytes()))
}

/// The directory of a relative path, and the last name.
fn split<'a>(fs: &dyn FileSystem, path: &'a str) -> FsResult<(Ino, &'a [u8])> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((find(fs, dir)?, name.as_bytes()))
}

fn apply(fs: &dyn FileSystem, op: &Op, held: &mut Vec<Ino>) -> FsResult<()> {
    match op {
        Op::Write {
            path,
            offset,
            len,
            seed,
        } => {
            let (ino, data) = (find(fs, path)?, content(*seed, *offset, *len));
            let done = fs.write(ino, *offset, &data)?;
            if done < data.len() {
                // The error comes with the next byte, as with a system call.
                fs.write(ino, offset + done as u64, &data[done..])?;
            }
        }
        Op::Fallocate {
            path,
            mode,
            offset,
            len,
        } => {
            fs.fallocate(find(fs, path)?, *mode, *offset, *len)?;
        }
        Op::Fsync { path, data_only } => fs.fsync(find(fs, path)?, *data_only)?,
        Op::Sync => fs.sync()?,
        Op::Hold { path } => {
            let ino = find(fs, path)?;
            fs.open(ino)?;
            held.push(ino);
        }
        Op::Truncate { path, size } => set_size(fs, path, *size)?,
        Op::Own {
            path,
            perm,
            uid,
            gid,
        } => {
            set(
                fs,
                path,
                SetAttr {
                    uid: Some(*uid),
                    gid: Some(*gid),
                    ..SetAttr::default()
                },
            )?;
            set(
                fs,
                path,
                SetAttr {
                    perm: Some(*perm),
                    ..SetAttr::default()
                },
            )?;
        }
        Op::Times { path, secs, nanos } => {
            let time = Some(TimeSet::To(WallTime {
                secs: *secs,
                nanos: *nanos,
            }));
            set(
                fs,
                path,
                SetAttr {
                    atime: time,
                    mtime: time,
                    ..SetAttr::default()
                },
            )?;
        }
        _ => apply_to_name(fs, op)?,
    }
    Ok(())
}

/// The operations on names, and on the names of attributes.
fn apply_to_name(fs: &dyn FileSystem, op: &Op) -> FsResult<()> {
    match op {
        Op::Mkdir { path, perm } => {
            let (dir, name) = split(fs, path)?;
            fs.mkdir(dir, name, *perm, Creds::default())?;
        }
        Op::Make {
            path,
            kind,
            perm,
            rdev,
        } => {
            let (dir, name) = split(fs, path)?;
            fs.create(dir, name, *kind, *perm, *rdev, Creds::default())?;
        }
        Op::Symlink { path, target } => {
            let (dir, name) = split(fs, path)?;
            fs.symlink(dir, name, target.as_bytes(), Creds::default())?;
        }
        Op::Link { from, to } => {
            let ino = find(fs, from)?;
            let (dir, name) = split(fs, to)?;
            fs.link(ino, dir, name)?;
        }
        Op::Rename { from, to, exchange } => {
            let ((from_dir, from), (to_dir, to)) = (split(fs, from)?, split(fs, to)?);
            let mode = if *exchange {
                RenameMode::Exchange
            } else {
                RenameMode::Replace
            };
            fs.rename(from_dir, from, to_dir, to, mode)?;
        }
        Op::Unlink { path } => {
            let (dir, name) = split(fs, path)?;
            fs.unlink(dir, name)?;
        }
        Op::Rmdir { path } => {
            let (dir, name) = split(fs, path)?;
            fs.rmdir(dir, name)?;
        }
        Op::SetXattr { path, name, value } => {
            fs.setxattr(find(fs, path)?, name.as_bytes(), value, XattrMode::Any)?;
        }
        Op::RemoveXattr { path, name } => fs.removexattr(find(fs, path)?, name.as_bytes())?,
        _ => unreachable!("an operation on content or an inode: {op:?}"),
    }
    Ok(())
}

fn set_size(fs: &dyn FileSystem, path: &str, size: u64) -> FsResult<()> {
    set(
        fs,
        path,
        SetAttr {
            size: Some(size),
            ..SetAttr::default()
        },
    )
}

fn set(fs: &dyn FileSystem, path: &str, set: SetAttr) -> FsResult<()> {
    fs.setattr(find(fs, path)?, &set).map(drop)
}

/// The tree of `fs`.
///
/// # Errors
/// Something cannot be read, or a directory says of an entry what its inode denies.
pub fn tree(fs: &dyn FileSystem) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let mut todo = vec![(fs.root(), String::new())];
    while let Some((ino, path)) = todo.pop() {
        let node = node(fs, ino).map_err(|e| format!("{path}: {e}"))?;
        if node.mode & 0o170_000 == 0o040_000 {
            list(fs, ino, &path, &mut todo)?;
        }
        tree.0
            .insert(if path.is_empty() { "/".into() } else { path }, node);
    }
    Ok(tree)
}

/// Adds what the directory `ino` holds to `todo`.
fn list(
    fs: &dyn FileSystem,
    ino: Ino,
    path: &str,
    todo: &mut Vec<(Ino, String)>,
) -> Result<(), String> {
    let told = |e: fscore::FsError| format!("{path}: {e}");
    let mut from = 0;
    loop {
        let entries = fs.readdir(ino, from, 200).map_err(told)?;
        let Some(last) = entries.last() else {
            return Ok(());
        };
        if last.next == from {
            return Err(format!("{path}: reading does not get on from {from}"));
        }
        from = last.next;
        for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
            let name = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            let found = fs.lookup(ino, &entry.name).map_err(told)?;
            let kind = fs.getattr(entry.ino).map_err(told)?.kind;
            if found != entry.ino || kind != entry.kind {
                return Err(format!(
                    "{name}: {entry:?}, lookup {found:?}, kind {kind:?}"
                ));
            }
            todo.push((entry.ino, name));
        }
    }
}

fn node(fs: &dyn FileSystem, ino: Ino) -> FsResult<Node> {
    let attr = fs.getattr(ino)?;
    let content = match attr.kind {
        FileKind::Symlink => digest(0, &fs.readlink(ino)?),
        FileKind::File => content_of(fs, ino, attr.size)?,
        _ => 0,
    };
    let time = |t: WallTime| (t.secs, t.nanos);
    Ok(Node {
        mode: u32::from(attr.kind.mode_bits() | attr.perm),
        ino: attr.ino.0.into(),
        nlink: attr.nlink.into(),
        owner: (attr.uid, attr.gid),
        rdev: attr.rdev,
        size: attr.size,
        sectors: attr.sectors,
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        content,
        xattrs: xattrs(fs, ino)?,
    })
}

fn content_of(fs: &dyn FileSystem, ino: Ino, size: u64) -> FsResult<u64> {
    let mut sum = 0;
    let mut buffer = vec![0; 1 << 20];
    for (mut at, mut left) in windows(size) {
        while left > 0 {
            let part = left.min(buffer.len() as u64);
            let buffer = &mut buffer[..part as usize];
            if fs.read(ino, at, buffer)? < buffer.len() {
                return Err(fscore::FsError::corrupt(format!(
                    "inode {ino:?}: a read at {at} is short, size {size}"
                )));
            }
            sum = digest(sum, buffer);
            at += part;
            left -= part;
        }
    }
    Ok(sum)
}

fn xattrs(fs: &dyn FileSystem, ino: Ino) -> FsResult<BTreeMap<String, Vec<u8>>> {
    let names = match fs.listxattr(ino) {
        Err(e) if e.errno() == Errno::NotSup => return Ok(BTreeMap::new()),
        names => names?,
    };
    let mut found = BTreeMap::new();
    for name in names {
        let value = fs.getxattr(ino, &name)?;
        found.insert(String::from_utf8_lossy(&name).into_owned(), value);
    }
    Ok(found)
}
