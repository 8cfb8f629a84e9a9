//! xOpen, xDelete and xAccess, in code without raw pointers: flags, permissions, temporary files.

use crate::batch::Batch;
use crate::error::During;
use crate::ffi;
use crate::file::{SqliteFile, sync_parent};
use crate::locks::Level;
use crate::mount::{Mount, Node};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{Errno, FsError, OpenFlags};

/// Permission bits of a database (`SQLITE_DEFAULT_FILE_PERMISSIONS`).
const DATABASE_PERM: u16 = 0o644;
/// Permission bits of a temporary file.
const TEMP_PERM: u16 = 0o600;
/// Names that are tried for a temporary file.
const TEMP_ATTEMPTS: u32 = 4096;
/// The bits of xOpen's flags that say which kind of file it is.
const KIND_MASK: c_int = 0x000F_FF00;

/// What xOpen is asked for.
pub struct Request {
    /// `None`: a temporary file.
    pub path: Option<Vec<u8>>,
    /// The flags that SQLite passes.
    pub flags: c_int,
    /// The `psow` parameter of the name, or its default.
    pub powersafe_overwrite: bool,
}

/// Opens a file; answers it with the flags that came true.
///
/// # Errors
/// SQLite's code.
pub fn open(mount: &Arc<Mount>, request: Request) -> Result<(SqliteFile, c_int), c_int> {
    let Request { path, flags, .. } = request;
    let kind = flags & KIND_MASK;
    let (path, file, flags) = match path {
        Some(path) => {
            let (file, flags) = open_named(mount, &path, flags)?;
            (path, file, flags)
        }
        None => {
            let (path, file) = open_temporary(mount, flags)?;
            (path, file, flags)
        }
    };
    if flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0
        && let Err(error) = mount.vfs.unlink(&path)
    {
        return Err(give_up(mount, &path, file, &error));
    }
    let is_new_journal = flags & ffi::SQLITE_OPEN_CREATE != 0
        && matches!(
            kind,
            ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL
        );
    let node = (kind == ffi::SQLITE_OPEN_MAIN_DB).then(|| mount.node(file.ino()));
    let journal_of = match kind {
        ffi::SQLITE_OPEN_MAIN_JOURNAL if mount.holds_journals() => database_of(mount, &path),
        _ => None,
    };
    let extends = kind == ffi::SQLITE_OPEN_WAL && mount.options.extend_logs;
    let log = extends.then(|| mount.node(file.ino()));
    mount.files.fetch_add(1, Ordering::Relaxed);
    let file = SqliteFile {
        mount: Arc::clone(mount),
        file,
        path,
        node,
        level: Level::None,
        shm: None,
        sync_dir: is_new_journal,
        powersafe_overwrite: request.powersafe_overwrite,
        persist_wal: false,
        chunk: 0,
        last_errno: 0,
        batch: None,
        batch_refused: false,
        journal_of,
        log,
        holds: None,
        pending: Batch::default(),
    };
    Ok((file, flags))
}

fn open_named(mount: &Mount, path: &[u8], flags: c_int) -> Result<(vfs::File, c_int), c_int> {
    let (perm, owner) = permissions(mount, path, flags);
    let (file, flags) = open_or_read_only(mount, path, flags, perm)?;
    if let Some((uid, gid)) = owner
        && let Err(error) = give_to(&file, uid, gid)
    {
        return Err(give_up(mount, path, file, &error));
    }
    Ok((file, flags))
}

/// Closes a file that cannot be used, as one that is dropped open would keep the volume from being
/// unmounted. Answers SQLite's code of `error`.
fn give_up(mount: &Mount, path: &[u8], file: vfs::File, error: &FsError) -> c_int {
    let code = mount.fail(During::Open, path, error);
    if let Err(error) = file.close() {
        mount.fail(During::Close, path, &error);
    }
    code
}

/// Makes a temporary file under a name that nothing has. A name may be taken: by another
/// registration on the volume, or by what a crash has left of an earlier one.
fn open_temporary(mount: &Mount, flags: c_int) -> Result<(Vec<u8>, vfs::File), c_int> {
    let mut attempts = 0;
    loop {
        let path = mount.temp_name();
        attempts += 1;
        match mount
            .vfs
            .open(&path, wanted(flags) | OpenFlags::EXCL, TEMP_PERM)
        {
            Ok(file) => return Ok((path, file)),
            // A damaged directory may have every name.
            Err(FsError::Posix(Errno::Exist)) if attempts < TEMP_ATTEMPTS => {}
            Err(error) => return Err(mount.fail(During::Open, &path, &error)),
        }
    }
}

/// Opens as asked; what cannot be written is opened for reading, as the unix VFS does.
fn open_or_read_only(
    mount: &Mount,
    path: &[u8],
    flags: c_int,
    perm: u16,
) -> Result<(vfs::File, c_int), c_int> {
    let is_writer = flags & ffi::SQLITE_OPEN_READWRITE != 0;
    let opened = match mount.options.read_only && is_writer {
        true => Err(Errno::RoFs.into()),
        false => mount.vfs.open(path, wanted(flags), perm),
    };
    let error = match opened {
        Ok(file) => return Ok((file, flags)),
        Err(error) => error,
    };
    let read_only = matches!(error, FsError::Posix(Errno::RoFs | Errno::Access));
    if !read_only || !is_writer {
        return Err(mount.fail(During::Open, path, &error));
    }
    let changed = flags & !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE);
    let file = mount
        .vfs
        .open(path, OpenFlags::READ | OpenFlags::NOFOLLOW, 0);
    match file {
        Ok(file) => Ok((file, changed | ffi::SQLITE_OPEN_READONLY)),
        Err(_) => Err(mount.fail(During::Open, path, &error)),
    }
}

/// The flags of SQLite as those of `vfs`.
fn wanted(flags: c_int) -> OpenFlags {
    let pairs = [
        (ffi::SQLITE_OPEN_READWRITE, OpenFlags::WRITE),
        (ffi::SQLITE_OPEN_CREATE, OpenFlags::CREATE),
        (ffi::SQLITE_OPEN_EXCLUSIVE, OpenFlags::EXCL),
    ];
    let wanted = pairs.into_iter().filter(|(flag, _)| flags & flag != 0);
    wanted.fold(OpenFlags::READ | OpenFlags::NOFOLLOW, |all, (_, ours)| {
        all | ours
    })
}

/// The path of the database whose journal this is: its name has `-journal` or `-wal` behind it.
fn database_path(journal: &[u8]) -> Option<&[u8]> {
    let end = journal.iter().rposition(|&b| b == b'-')?;
    Some(&journal[..end])
}

/// The node of the database whose journal this is. Whoever opens the journal has the database open.
fn database_of(mount: &Mount, journal: &[u8]) -> Option<Arc<Node>> {
    let attr = mount.vfs.stat(database_path(journal)?).ok()?;
    Some(mount.node(attr.ino))
}

/// Permission bits of a file that is made, and the owner of the database if a journal must be given
/// to it.
fn permissions(mount: &Mount, path: &[u8], flags: c_int) -> (u16, Option<(u32, u32)>) {
    if flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0 {
        return (TEMP_PERM, None);
    }
    if flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) == 0 {
        return (DATABASE_PERM, None);
    }
    match database_path(path).map(|database| mount.vfs.stat(database)) {
        Some(Ok(attr)) => (attr.perm & 0o777, Some((attr.uid, attr.gid))),
        _ => (DATABASE_PERM, None),
    }
}

fn give_to(file: &vfs::File, uid: u32, gid: u32) -> vfs::FsResult<()> {
    let attr = file.stat()?;
    if (attr.uid, attr.gid) == (uid, gid) {
        return Ok(());
    }
    let set = vfs::SetAttr {
        uid: Some(uid),
        gid: Some(gid),
        ..vfs::SetAttr::default()
    };
    file.set_attr(&set).map(drop)
}

/// Removes a file, and makes that durable if asked to.
///
/// An empty journal is none, so where journals are held its end needs no sync: that of the database
/// has made durable whatever an earlier journal at this path had left.
pub fn delete(mount: &Mount, path: &[u8], sync_dir: bool) -> c_int {
    let is_nothing = mount.holds_journals()
        && mount.vfs.sync_keeps_order()
        && mount.vfs.lstat(path).is_ok_and(|attr| attr.size == 0);
    let sync_dir = sync_dir && !is_nothing;
    if let Err(error) = mount.vfs.unlink(path) {
        return mount.fail(During::Delete, path, &error);
    }
    if !sync_dir {
        mount.journal_ended();
        return ffi::SQLITE_OK;
    }
    match sync_parent(mount, path) {
        Err(error) => mount.fail(During::DirSync, path, &error),
        Ok(()) => ffi::SQLITE_OK,
    }
}

/// xAccess: an empty file counts as none, since it cannot be a hot journal.
///
/// # Errors
/// SQLite's code.
pub fn exists(mount: &Mount, path: &[u8], flags: c_int) -> Result<bool, c_int> {
    match mount.vfs.stat(path) {
        Ok(attr) if flags == ffi::SQLITE_ACCESS_EXISTS => {
            Ok(attr.kind != vfs::FileKind::File || attr.size > 0)
        }
        Ok(_) => Ok(true),
        Err(FsError::Posix(Errno::NoEnt | Errno::NotDir)) => Ok(false),
        Err(error) => Err(mount.fail(During::Access, path, &error)),
    }
}
