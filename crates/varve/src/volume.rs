//! A mounted volume: its files by path, as `std::fs` has them.

use crate::cut::Cut;
use crate::open_files::OpenFiles;
use crate::paths::bytes;
use crate::{DirEntry, Disk, Error, File, Metadata, OpenOptions, Result, Space};
use rig::{Fs, MountOptions};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{FsError, FsResult, OpenFlags, RenameMode, SetAttr, Vfs};

/// Permission bits of a directory that is made.
const DIR_PERM: u16 = 0o755;
/// What makes an fsync of ext4 cheaper in the real world; simulations leave it out, so that they
/// run what the papers describe.
const OF_EXT_MOUNTS: [&str; 2] = ["small=64", "commit-by=caller"];

/// What the volume and its open files share.
pub(crate) struct Mount {
    pub vfs: Arc<Vfs>,
    pub files: OpenFiles,
}

/// A mounted volume. It works as the superuser: permission bits are kept and not checked. A path
/// begins at the root, with or without a slash.
///
/// [`unmount`](Volume::unmount) ends it. Dropping it is a crash.
pub struct Volume {
    disk: Disk,
    cut: Arc<Cut>,
    mount: Arc<Mount>,
}

/// A disk that is claimed for a mount. However the mount fails, by a panic as well, the disk is cut
/// off from the tasks that it may have begun, and is free.
struct Claim<'a> {
    disk: &'a Disk,
    cut: Arc<Cut>,
    mounted: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.mounted {
            return;
        }
        // A panic ends a simulation with all of its tasks, and nothing may wait there meanwhile.
        if !(rt::in_simulation() && rt::unwinding()) {
            self.cut.cut();
        }
        self.disk.unclaim();
    }
}

/// A volume that could not be unmounted. With [`Error::FilesOpen`] nothing has happened, and it can
/// be used on.
#[derive(Debug)]
pub struct NotUnmounted {
    /// The volume.
    pub volume: Volume,
    /// Why not.
    pub error: Error,
}

impl Volume {
    /// Mounts the file system on `disk`, and recovers it if it was not unmounted. `options` are
    /// those of `varve mount -o`: `ro`, `commit=5`, `cache=1M`, `scheme=emmc`; none: "".
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Mounted`], [`Error::Options`] with the options that there
    /// are, [`Error::ReadOnlyDisk`], [`Error::FileSystem`].
    pub fn mount(disk: &Disk, options: &str) -> Result<Volume> {
        disk.claim()?;
        let mut claim = Claim {
            disk,
            cut: Arc::new(Cut::new(disk.below().clone())),
            mounted: false,
        };
        let mount = Volume::mount_claimed(&claim, options)?;
        claim.mounted = true;
        Ok(Volume {
            disk: disk.clone(),
            cut: claim.cut.clone(),
            mount,
        })
    }

    fn mount_claimed(claim: &Claim<'_>, options: &str) -> Result<Arc<Mount>> {
        let disk = claim.disk;
        let kind = disk.fs()?;
        let options = parsed(kind, options)?;
        let read_only = match &options {
            MountOptions::Ext4(o) => o.read_only,
            MountOptions::F2fs(o) => o.read_only,
        };
        if !read_only && !disk.is_writable() {
            return Err(Error::ReadOnlyDisk);
        }
        // Recovery writes.
        let _ = disk.take_zeros();
        let mounted = rig::Volume::mount_device(claim.cut.clone(), kind, options, read_only);
        let mounted = mounted.map_err(|e| match e {
            rig::VolumeError::Fs(e @ FsError::Options { .. }) => Error::Options(e.to_string()),
            rig::VolumeError::Fs(e) => Error::fs("mounting")(e),
            other => Error::host(other.to_string()),
        })?;
        Ok(Arc::new(Mount {
            vfs: mounted.vfs,
            files: OpenFiles::new(),
        }))
    }

    /// Makes everything durable, marks the volume clean and frees the disk.
    ///
    /// # Errors
    /// [`Error::FilesOpen`], with nothing done; something could not be written.
    pub fn unmount(self) -> std::result::Result<(), NotUnmounted> {
        self.mount.files.sweep();
        let fail = |volume, error| Err(NotUnmounted { volume, error });
        match self.vfs().open_files() {
            0 => {}
            open => return fail(self, Error::FilesOpen(open)),
        }
        match self.vfs().unmount() {
            Ok(()) => self.disk.unclaim(),
            Err(e) => return fail(self, Error::fs("unmounting")(e)),
        }
        match self.mount.files.take_error() {
            Ok(()) => Ok(()),
            Err(e) => fail(self, Error::fs("closing a dropped file")(e)),
        }
    }

    /// Ends the volume as a cut of power would, and frees the disk: nothing is written any more
    /// (cut-A1, cut-A2), and the tasks of the mount end. Open files answer errors from then on.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.cut.cut();
        self.vfs().stop_writeback();
        // It cannot write, and ends the tasks.
        let _ = self.vfs().fs().unmount();
        self.disk.unclaim();
    }

    /// The disk below.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The file layer.
    #[doc(hidden)]
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.mount.vfs
    }

    /// Opens the file at `path` to read it.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Makes the file at `path`, or cuts it to size 0, to write it.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(self, path)
    }

    pub(crate) fn open_flags(&self, path: &Path, flags: OpenFlags, mode: u16) -> Result<File> {
        let opened = self.vfs().open(bytes(path), flags, mode);
        let file = opened.map_err(Error::file("opening", path))?;
        let file = self.mount.files.keep(file);
        Ok(File::new(self.mount.clone(), file, path.into()))
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// Those of opening and reading it.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let mut file = self.open(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        file.close()?;
        Ok(content)
    }

    /// Makes a file with this content, or replaces its content. It is durable after a sync.
    ///
    /// # Errors
    /// Those of making and writing it.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let mut file = self.create(path)?;
        file.write_all(content.as_ref())?;
        file.close()
    }

    /// The entries of a directory but `.` and `..`, in the order of the directory.
    ///
    /// # Errors
    /// Not a directory, or not there.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>> {
        let entries = self.call("listing", path.as_ref(), |vfs, path| vfs.readdir(path))?;
        let real = |e: &vfs::DirEntry| e.name != b"." && e.name != b"..";
        Ok(entries.into_iter().filter(real).map(DirEntry).collect())
    }

    /// What `stat` tells of the inode at `path`, symbolic links followed.
    ///
    /// # Errors
    /// Not there.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let attr = self.call("looking at", path.as_ref(), |vfs, path| vfs.stat(path));
        attr.map(Metadata)
    }

    /// What `lstat` tells: of a symbolic link itself.
    ///
    /// # Errors
    /// Not there.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let attr = self.call("looking at", path.as_ref(), |vfs, path| vfs.lstat(path));
        attr.map(Metadata)
    }

    /// True if there is something at `path`, symbolic links followed.
    ///
    /// # Errors
    /// The path cannot be walked for another reason than that something is not there.
    pub fn try_exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// It exists, or its parent does not.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let make = |vfs: &Arc<Vfs>, path: &[u8]| vfs.mkdir(path, DIR_PERM);
        self.call("making", path.as_ref(), make).map(drop)
    }

    /// Makes a directory and those above it that are missing.
    ///
    /// # Errors
    /// Something above it is no directory.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let above: Vec<_> = path
            .ancestors()
            .filter(|p| !p.as_os_str().is_empty())
            .collect();
        for dir in above.into_iter().rev() {
            let there = || self.metadata(dir).is_ok_and(|m| m.is_dir());
            match self.create_dir(dir) {
                Err(e) if !there() => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes a name of a file, of a symbolic link or of another inode that is no directory.
    ///
    /// # Errors
    /// Not there, or a directory.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.call("removing", path.as_ref(), |vfs, path| vfs.unlink(path))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Not there, no directory, or not empty.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.call("removing", path.as_ref(), |vfs, path| vfs.rmdir(path))
    }

    /// Renames, and replaces what has the new name.
    ///
    /// # Errors
    /// Those of `rename(2)`.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let to = bytes(to.as_ref());
        self.call("renaming", from.as_ref(), |vfs, from| {
            vfs.rename(from, to, RenameMode::Replace)
        })
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// Those of `link(2)`.
    pub fn hard_link(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<()> {
        let old = bytes(old.as_ref());
        let linked = self.call("linking", new.as_ref(), |vfs, new| vfs.link(old, new));
        linked.map(drop)
    }

    /// Makes a symbolic link at `path` that leads to `target`.
    ///
    /// # Errors
    /// Those of `symlink(2)`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let target = bytes(target.as_ref());
        let made = self.call("making", path.as_ref(), |vfs, path| {
            vfs.symlink(target, path)
        });
        made.map(drop)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Not there, or no symbolic link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let target = self.call("reading", path.as_ref(), |vfs, path| vfs.readlink(path))?;
        Ok(OsString::from_vec(target).into())
    }

    /// Changes the permission bits, the low 12 bits of `mode`.
    ///
    /// # Errors
    /// Not there.
    pub fn set_permissions(&self, path: impl AsRef<Path>, mode: u16) -> Result<()> {
        let set = SetAttr {
            perm: Some(mode & 0o7777),
            ..SetAttr::default()
        };
        let done = self.call("changing", path.as_ref(), |vfs, path| {
            vfs.set_attr(path, &set)
        });
        done.map(drop)
    }

    /// Makes the names in a directory durable, as an fsync of the directory does.
    ///
    /// # Errors
    /// Not a directory; something could not be written.
    pub fn sync_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.call("syncing", path.as_ref(), |vfs, path| vfs.sync_dir(path))
    }

    /// Makes everything durable (`syncfs`).
    ///
    /// # Errors
    /// Something could not be written.
    pub fn sync(&self) -> Result<()> {
        self.vfs().sync().map_err(Error::fs("syncing"))
    }

    /// True if [`File::write_atomic`] works here: on ext4 and ext3 with a journal, and on F2FS, if
    /// they are mounted for writing.
    pub fn has_atomic_writes(&self) -> bool {
        self.vfs().has_atomic_writes()
    }

    /// The single writes that [`File::write_atomic`] takes whatever the file looks like: shortest
    /// and longest, bytes, as `statx` tells `stx_atomic_write_unit_min` and `_max`. Lengths between
    /// are powers of two, at offsets that are multiples of them. Several parts together may be
    /// longer or shorter. `None` where there are no atomic writes, and on F2FS, which sets no bound
    /// to one write.
    pub fn atomic_write_unit(&self) -> Option<(u32, u32)> {
        self.vfs().atomic_unit().map(|unit| (unit.min, unit.max))
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// The device fails.
    pub fn space(&self) -> Result<Space> {
        let stat = self.vfs().statfs().map_err(Error::fs("asking for space"))?;
        Ok(stat.into())
    }

    fn call<T>(
        &self,
        doing: &'static str,
        path: &Path,
        f: impl FnOnce(&Arc<Vfs>, &[u8]) -> FsResult<T>,
    ) -> Result<T> {
        f(self.vfs(), bytes(path)).map_err(Error::file(doing, path))
    }
}

/// The options, with those of the real world where nothing else is said.
fn parsed(kind: Fs, text: &str) -> Result<MountOptions> {
    let mut words: Vec<&str> = text.split(',').filter(|word| !word.is_empty()).collect();
    let key = |word: &str| word.split('=').next().unwrap_or(word).to_string();
    if matches!(kind, Fs::Ext4 | Fs::Ext3) {
        for word in OF_EXT_MOUNTS {
            if !words.iter().any(|w| key(w) == key(word)) {
                words.push(word);
            }
        }
    }
    let options = MountOptions::parse(kind, &words.join(","));
    options.map_err(|e| Error::Options(e.to_string()))
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("disk", &self.disk)
            .field("open_files", &self.vfs().open_files())
            .finish()
    }
}

impl std::fmt::Display for NotUnmounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotUnmounted {}

impl From<NotUnmounted> for Error {
    /// Drops the volume.
    fn from(e: NotUnmounted) -> Error {
        e.error
    }
}
