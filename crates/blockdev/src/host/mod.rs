//! A block device on a file or block device of the host.

mod buffer;
mod busy;
mod fill;
mod job;
mod options;
mod past;
mod place;
mod uring;

pub use options::{HostError, HostIo, HostOptions};

use crate::check::check_request;
use crate::tickets::Tickets;
use crate::{BlockDevice, Caps, Card, DevError, Reply, Request, Ticket};
use base::BLOCK_BYTES;
use fill::Fill;
use job::{Job, Pool};
use place::Place;
use rt::Mutex;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use uring::Lanes;

/// The smallest size of a volume: in less there is no superblock.
const BYTES_MIN: u64 = 2 * BLOCK_BYTES as u64;

/// A file or block device of the host.
///
/// A write is volatile until a flush (`fdatasync`, on a block device a flush of its cache). A FUA
/// write (`RWF_DSYNC`) is durable at completion; the host does not promise that it is old or new
/// after a cut. A discard punches a hole in a file, and is `BLKDISCARD` on a device.
///
/// Opening for writing excludes all others; `busy` describes how, and which readers are let in.
///
/// A failed flush is reported once, to the caller that asked for it: the host may have dropped what
/// it could not write, and does not report that to the next flush. So after a failed flush the
/// caller must count nothing since the last successful flush as durable.
///
/// Open it after a `fork`, in the process that uses it: a ring does not survive one.
pub struct HostFile {
    place: Arc<Place>,
    io: HostIo,
    pool: Pool,
    engine: Engine,
}

enum Engine {
    Sync(Mutex<Tickets<Result<Reply, DevError>>>),
    Uring(Lanes),
    Card(Box<Card>),
}

impl HostFile {
    /// Opens the image file or block device at `path`.
    ///
    /// # Errors
    /// It is neither, too short, or in use; the window is not inside it; the host refuses. With
    /// [`HostIo::Uring`] also: the host has no io_uring.
    pub fn open(path: impl AsRef<Path>, options: &HostOptions) -> Result<HostFile, HostError> {
        let path = path.as_ref();
        let host = |doing| HostError::host(path, doing);
        let before = std::fs::metadata(path).map_err(host("cannot be found"))?;
        check_kind(path, &before)?;
        let is_device = before.file_type().is_block_device();
        if options.write && busy::is_write_protected(&before) {
            return Err(HostError::write_protected(path));
        }
        let mut how = File::options();
        how.read(true).write(options.write);
        if is_device && options.write {
            how.custom_flags(libc::O_EXCL);
        }
        let file = how.open(path).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => busy::claimed(path, before.rdev()),
            Some(libc::EROFS) => HostError::write_protected(path),
            _ => host("cannot be opened")(e),
        })?;
        let host_file = HostFile::adopt(path, file, options)?;
        if host_file.place.bytes < BYTES_MIN {
            let what = format!(
                "{} bytes are too short for a file system",
                host_file.place.bytes
            );
            return Err(HostError::unfit(path, what));
        }
        Ok(host_file)
    }

    /// Makes an image file of `bytes` zeros, or uses an empty one, for reading and writing.
    ///
    /// # Errors
    /// As [`HostFile::open`]; the file exists and is not empty. It is in use also if another
    /// process made it, or removed it, during the call.
    pub fn create(
        path: impl AsRef<Path>,
        bytes: u64,
        options: &HostOptions,
    ) -> Result<HostFile, HostError> {
        HostFile::created(path.as_ref(), bytes, options, || ())
    }

    /// `before_lock` runs when the file is open and not locked yet.
    fn created(
        path: &Path,
        bytes: u64,
        options: &HostOptions,
        before_lock: impl FnOnce(),
    ) -> Result<HostFile, HostError> {
        let host = |doing| HostError::host(path, doing);
        let mut how = File::options();
        how.read(true).write(true).truncate(false);
        let (file, is_new) = match how.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let there = how.create(true).open(path);
                (there.map_err(host("cannot be made"))?, false)
            }
            Err(e) => return Err(host("cannot be made")(e)),
        };
        let meta = file.metadata().map_err(host("its status"))?;
        check_kind(path, &meta)?;
        if meta.len() != 0 || meta.file_type().is_block_device() {
            return Err(HostError::unfit(path, "has content already"));
        }
        before_lock();
        busy::lock(path, &file, &meta, true)?;
        refuse_made_meanwhile(path, &file)?;
        file.set_len(bytes).map_err(|e| {
            if is_new {
                // An empty file would be in the way of the next attempt. The first error is told.
                let _ = std::fs::remove_file(path);
            }
            host("cannot be that long")(e)
        })?;
        sync_name(path).map_err(host("its name cannot be made durable"))?;
        let options = HostOptions {
            write: true,
            ..options.clone()
        };
        HostFile::adopt(path, file, &options)
    }

    /// Locks an open file and determines its properties.
    fn adopt(path: &Path, file: File, options: &HostOptions) -> Result<HostFile, HostError> {
        let meta = file
            .metadata()
            .map_err(HostError::host(path, "its status"))?;
        busy::lock(path, &file, &meta, options.write)?;
        busy::refuse_used_by_kernel(path, &meta, options.write)?;
        // What commands write, the host's page cache does not see.
        let options = &HostOptions {
            direct: options.direct || options.io == HostIo::Mmc,
            ..options.clone()
        };
        let mut place = Place::new(path, file, options)?;
        place.locked_by = Some(busy::this_process());
        // The file below a loop device is locked too, so that it cannot be opened at the same time.
        if let Some(below) = busy::backing_file(&meta)
            && let Ok(file) = File::open(&below)
        {
            let meta = file
                .metadata()
                .map_err(HostError::host(&below, "its status"))?;
            busy::lock(&below, &file, &meta, options.write)?;
            place.beside.push(file);
        }
        HostFile::on(Arc::new(place), options.io)
    }

    /// Uses a file that is open to read and write, as it is and without locking it. Its length,
    /// rounded down to 4 KiB, is the capacity.
    ///
    /// # Errors
    /// The length cannot be determined.
    pub fn new(file: File) -> io::Result<HostFile> {
        let options = HostOptions::write();
        let place = Place::new(Path::new("the host file"), file, &options);
        let mut place = place.map_err(io::Error::other)?;
        // Somebody else may write the file.
        place.fill = None;
        HostFile::on(Arc::new(place), HostIo::Sync).map_err(io::Error::other)
    }

    fn on(place: Arc<Place>, io: HostIo) -> Result<HostFile, HostError> {
        let lanes = match io {
            HostIo::Mmc => return HostFile::by_commands(place),
            HostIo::Sync => None,
            // A transfer through the page cache is a copy in memory, which a queue would only make
            // longer.
            HostIo::Auto if place.align == 1 => None,
            HostIo::Auto => Lanes::new().ok(),
            HostIo::Uring => {
                let made = Lanes::new();
                Some(made.map_err(HostError::host(&place.path, "io=uring"))?)
            }
        };
        Ok(HostFile {
            place,
            io,
            pool: Pool::new(),
            engine: match lanes {
                Some(lanes) => Engine::Uring(lanes),
                None => Engine::Sync(Mutex::named("host file", Tickets::default())),
            },
        })
    }

    /// Uses an eMMC by commands.
    fn by_commands(place: Arc<Place>) -> Result<HostFile, HostError> {
        let path = &place.path;
        if !place.is_device || place.start != 0 {
            let what =
                "io=mmc needs the whole device of an eMMC, such as /dev/mmcblk0, and no offset";
            return Err(HostError::unfit(path, what));
        }
        let file = place.file.try_clone();
        let card = file.and_then(Card::on);
        let card = card.map_err(HostError::host(path, "io=mmc (for root, on an eMMC)"))?;
        Ok(HostFile {
            engine: Engine::Card(Box::new(card)),
            io: HostIo::Mmc,
            pool: Pool::new(),
            place,
        })
    }

    /// This open file with another queue: for another simulation, or for the real world beside one.
    /// The lock lasts as long as one of them.
    ///
    /// # Errors
    /// As [`HostFile::open`], if no ring can be made.
    pub fn another(&self) -> Result<HostFile, HostError> {
        self.place.fill.iter().for_each(Fill::end);
        HostFile::on(self.place.clone(), self.io)
    }

    /// This open file, but with requests carried out in the thread of the caller, which a
    /// simulation needs in order to be deterministic.
    ///
    /// # Errors
    /// None that is known.
    pub fn another_sync(&self) -> Result<HostFile, HostError> {
        self.place.fill.iter().for_each(Fill::end);
        HostFile::on(self.place.clone(), HostIo::Sync)
    }

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        self.place.bytes
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// True if the host's page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.place.align > 1
    }

    /// True if requests go through io_uring.
    pub fn is_uring(&self) -> bool {
        matches!(self.engine, Engine::Uring(_))
    }

    /// Fills `buf` from byte `offset` of the volume on, with any alignment, in the thread of the
    /// caller.
    ///
    /// # Errors
    /// The range ends beyond the volume; errors of the host.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.place.read_any(offset, buf)
    }

    /// This image with another length of the volume, bytes: a file is cut or extended with zeros,
    /// of a device less is used.
    ///
    /// # Errors
    /// The device is shorter; errors of the host.
    pub fn resized(self, bytes: u64) -> Result<HostFile, HostError> {
        let io = self.io;
        let path = self.place.path.clone();
        drop((self.engine, self.pool));
        let mut place = Arc::try_unwrap(self.place)
            .map_err(|_| HostError::unfit(&path, "is open twice; its length cannot change"))?;
        if place.is_device {
            if bytes > place.bytes {
                let what = format!("has {} bytes, not {bytes}", place.bytes);
                return Err(HostError::unfit(&path, what));
            }
        } else {
            let set = place.file.set_len(place.start + bytes);
            set.map_err(HostError::host(&path, "cannot have that length"))?;
        }
        place.set_bytes(bytes);
        HostFile::on(Arc::new(place), io)
    }
}

/// Between the opening of an empty file and its lock another process may have made an image of it,
/// or removed it. Extending it would cut that image, or make one that has no name.
fn refuse_made_meanwhile(path: &Path, file: &File) -> Result<(), HostError> {
    let locked = file
        .metadata()
        .map_err(HostError::host(path, "its status"))?;
    let same = |named: Metadata| (named.dev(), named.ino()) == (locked.dev(), locked.ino());
    match locked.len() == 0 && std::fs::metadata(path).is_ok_and(same) {
        true => Ok(()),
        false => Err(HostError::in_use(
            path,
            "another program, which has just made or removed it; try again",
        )),
    }
}

/// Makes the name of a new file durable, as what is synced into the file is lost with it.
fn sync_name(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

fn check_kind(path: &Path, meta: &Metadata) -> Result<(), HostError> {
    let kind = meta.file_type();
    if kind.is_dir() {
        return Err(HostError::unfit(
            path,
            "is a directory; name an image file or a block device",
        ));
    }
    if !kind.is_file() && !kind.is_block_device() {
        return Err(HostError::unfit(
            path,
            "is neither a regular file nor a block device",
        ));
    }
    Ok(())
}

impl BlockDevice for HostFile {
    fn caps(&self) -> Caps {
        match &self.engine {
            Engine::Card(card) => Caps {
                sectors: self.place.caps.sectors,
                ..card.caps()
            },
            Engine::Sync(_) | Engine::Uring(_) => self.place.caps.clone(),
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        let job = |request| {
            let legal = check_request(&self.place.caps, &request);
            legal.and_then(|()| Job::new(&self.place, &self.pool, request))
        };
        match &self.engine {
            Engine::Card(card) => card.submit(request),
            Engine::Uring(lanes) => lanes.submit(&self.place, &self.pool, job(request)),
            Engine::Sync(done) => {
                let result = job(request).and_then(|mut job| {
                    job.run(&self.place, 0)?;
                    Ok(job.into_reply(&self.pool))
                });
                done.lock().keep(result)
            }
        }
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        match &self.engine {
            Engine::Card(card) => card.wait(ticket),
            Engine::Uring(lanes) => lanes.wait(&self.place, &self.pool, ticket),
            Engine::Sync(done) => done.lock().fetch(ticket)?,
        }
    }
}
