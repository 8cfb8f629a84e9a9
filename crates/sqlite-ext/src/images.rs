//! The images that are mounted for the process (sqlite-ext-E4).

use crate::api::Api;
use crate::name::Name;
use crate::said;
use crate::share::{ENDED, Listener, Session, connect, wait_for_gone, why_protected};
use crate::uri::Wish;
use rt::Mutex;
use sqlite_vfs::{Mount, Options, ffi};
use std::ffi::c_int;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use varve::{Disk, Error, Format, Kind, Volume};

/// Held while an image is mounted or unmounted, so that whoever opens one that is being unmounted
/// waits for the end of that.
static IMAGES: Mutex<Vec<Image>> = Mutex::named("sqlite-ext images", Vec::new());

/// The images that other processes serve to this one.
static SESSIONS: Mutex<Vec<Weak<Session>>> = Mutex::named("sqlite-ext sessions", Vec::new());

/// Held while a session begins. Who does that holds no other lock of ours: two processes that
/// connect to each other would wait in a circle.
static CONNECTING: Mutex<()> = Mutex::named("sqlite-ext connecting", ());

/// Numbers of errors on Linux.
const EBUSY: c_int = 16;
const ESTALE: c_int = 116;

/// How often a process that ends looks whether it may have the images, and how long it waits
/// between two looks.
const LOOKS: u32 = 100;
const LOOK: base::Nanos = base::Nanos(10_000_000);
/// How long the end of a process waits for its images: half a minute.
const PATIENCE_LOOKS: u32 = 6000;
const PATIENCE_LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// How often an image that is in use is tried, and the pause between two tries: one that is being
/// made or unmounted has nobody who serves it for a moment.
const TRIES: u32 = 50;
const BETWEEN_TRIES: base::Nanos = base::Nanos(10_000_000);

/// Why an image is refused that is not the one whose databases are open.
const REPLACED: &str = "was renamed, removed or replaced while databases in it are open; close \
                        these connections first";

struct Image {
    /// The SQLite that hears of failures.
    api: Api,
    path: PathBuf,
    /// Device and number of the file: it may have several names.
    file: (u64, u64),
    volume: Volume,
    mount: Arc<Mount>,
    /// Files of SQLite, calls that are using it, and other processes.
    users: usize,
    /// Lets other processes in.
    listener: Option<Listener>,
}

/// Where the databases of an image are.
pub enum Home {
    /// Mounted by this process.
    Here(Arc<Mount>),
    /// Mounted by another one, which serves it.
    There(Arc<Session>),
}

/// Why an image cannot be used.
#[derive(Debug)]
pub struct Refusal {
    /// SQLite's code.
    pub code: c_int,
    /// The number that a system call would set.
    pub errno: c_int,
    /// For the user: what, where, why.
    pub text: String,
    /// Another process has the image, which may serve it, or is making it.
    pub is_in_use: bool,
}

impl Refusal {
    fn busy(image: &Path, errno: c_int, why: &str) -> Refusal {
        Refusal {
            code: ffi::SQLITE_BUSY,
            errno,
            text: format!("{}: {why}", image.display()),
            is_in_use: false,
        }
    }

    fn of(image: &Path, e: &Error) -> Refusal {
        let text = e.to_string();
        let shown = image.display().to_string();
        let text = match text.starts_with(&shown) {
            true => text,
            false => format!("{shown}: {text}"),
        };
        let is_in_use = is_in_use(e);
        Refusal {
            code: match is_in_use {
                true => ffi::SQLITE_BUSY,
                false => ffi::SQLITE_CANTOPEN,
            },
            errno: e.errno(),
            text,
            is_in_use,
        }
    }
}

/// The home of an image. A mount stays until [`release`]; the image is mounted if nobody has.
///
/// # Errors
/// It cannot be made or mounted, was mounted by the process that this one forked from, was replaced
/// since it was mounted, or is in use by somebody who does not serve it.
pub fn acquire(api: Api, image: &Path, wish: &Wish) -> Result<Home, Refusal> {
    let mut left = TRIES;
    loop {
        if let Some(session) = known_session(image)? {
            return Ok(Home::There(session));
        }
        let refusal = match mount_here(api, image, wish) {
            Ok(home) => return Ok(home),
            Err(refusal) if refusal.is_in_use => refusal,
            Err(refusal) => return Err(refusal),
        };
        if let Some(session) = session(api, image)? {
            return Ok(Home::There(session));
        }
        if left == 0 {
            return Err(why_protected(image).unwrap_or(refusal));
        }
        left -= 1;
        rt::sleep(BETWEEN_TRIES);
    }
}

/// As mounted by this process, or mounted now.
fn mount_here(api: Api, image: &Path, wish: &Wish) -> Result<Home, Refusal> {
    let mut images = IMAGES.lock();
    if let Some(mount) = used(&mut images, image)? {
        return Ok(Home::Here(mount));
    }
    let mounted = mounted(api, image, wish);
    let mounted = mounted.map_err(|e| Refusal {
        is_in_use: is_in_use(&e) || is_being_made(&e, wish),
        ..Refusal::of(image, &e)
    })?;
    let mount = Arc::clone(&mounted.mount);
    if let Some(listener) = &mounted.listener {
        listener.start(api);
    }
    images.push(mounted);
    Ok(Home::Here(mount))
}

/// The session of an image; connects to whoever serves it. `None`: nobody does.
fn session(api: Api, image: &Path) -> Result<Option<Arc<Session>>, Refusal> {
    let connecting = CONNECTING.lock();
    if let Some(session) = known_session(image)? {
        return Ok(Some(session));
    }
    let session = connect(api, image)?;
    let known = session.as_ref().map(Arc::downgrade);
    SESSIONS.lock().extend(known);
    drop(connecting);
    Ok(session)
}

/// The session of an image, if there is one that is used.
///
/// While a database is open whose session has ended, or whose image is another file than its path
/// leads to, nothing of that path is opened: SQLite would make its journal in another mount than
/// the one that has the database, and a later recovery would roll that journal back.
fn known_session(image: &Path) -> Result<Option<Arc<Session>>, Refusal> {
    let file = identity(image);
    let mut sessions = SESSIONS.lock();
    sessions.retain(|session| session.strong_count() > 0);
    let mut there = sessions.iter().filter_map(Weak::upgrade);
    let Some(session) = there.find(|session| session.is_of(image, file)) else {
        return Ok(None);
    };
    if session.is_of_another_process() {
        return Err(forked(image));
    }
    if !session.is_alive() {
        return Err(Refusal::busy(image, ESTALE, ENDED));
    }
    match session.leads_to(file) {
        true => Ok(Some(session)),
        false => Err(Refusal::busy(image, ESTALE, REPLACED)),
    }
}

/// For the client of another process: the mount of an image of this one, for one more user.
pub fn join(file: (u64, u64)) -> Option<Arc<Mount>> {
    let mut images = IMAGES.lock();
    let there = images.iter_mut().find(|image| image.file == file)?;
    if there.mount.is_of_another_process() {
        return None;
    }
    there.users += 1;
    Some(Arc::clone(&there.mount))
}

/// This process is a fork of the one that uses the image.
fn forked(image: &Path) -> Refusal {
    let why = "is mounted by the process that this one forked from; open databases after a fork, \
               or start processes without one (Python: the method `spawn`)";
    Refusal::busy(image, EBUSY, why)
}

/// The mount of an image that is mounted, for one more user; `None` if it is not.
fn used(images: &mut [Image], image: &Path) -> Result<Option<Arc<Mount>>, Refusal> {
    let file = identity(image);
    let same = |there: &&mut Image| there.path == image || Some(there.file) == file;
    let Some(there) = images.iter_mut().find(same) else {
        return Ok(None);
    };
    if there.mount.is_of_another_process() {
        return Err(forked(image));
    }
    if Some(there.file) != file {
        // What is written there would go into a file that has another name, or none.
        return Err(Refusal::busy(image, ESTALE, REPLACED));
    }
    there.users += 1;
    Ok(Some(Arc::clone(&there.mount)))
}

/// Gives back what [`acquire`] gave; the last one unmounts the image. Answers SQLite's code.
pub fn release(mount: &Arc<Mount>) -> c_int {
    let mut images = IMAGES.lock();
    let at = images.iter().position(|i| Arc::ptr_eq(&i.mount, mount));
    let Some(at) = at else {
        return ffi::SQLITE_OK;
    };
    images[at].users -= 1;
    if images[at].users > 0 {
        return ffi::SQLITE_OK;
    }
    let image = images.swap_remove(at);
    let unmounted = image.volume.unmount();
    // Not sooner: who connects meanwhile waits, and then finds the image free.
    drop(image.listener);
    match unmounted {
        Ok(()) => ffi::SQLITE_OK,
        Err(not) => {
            let errno = not.error.errno();
            let text = format!("{}: {}", image.path.display(), not.error);
            not.volume.abandon();
            said::say(image.api, ffi::SQLITE_IOERR_CLOSE, errno, &text);
            ffi::SQLITE_IOERR_CLOSE
        }
    }
}

/// Writes what the connections of this process have not closed: a process that ends in order has
/// lost nothing. One that is killed leaves its images as a cut of power would.
///
/// What a thread keeps for itself is gone in the one that ends the process, so another does it.
#[allow(
    clippy::disallowed_methods,
    reason = "the runtime's own needs what is gone"
)]
pub extern "C" fn sync_all() {
    let writer = std::thread::Builder::new().spawn(|| drop(rt::foreign(write_all)));
    let Ok(writer) = writer else { return };
    // The end may have been asked for within a call that holds what the writer needs, so it is not
    // waited for without a limit. A fault was told where it happened.
    for _ in 0..PATIENCE_LOOKS {
        if writer.is_finished() {
            return;
        }
        std::thread::sleep(PATIENCE_LOOK);
    }
}

fn write_all() {
    // In a process that another thread forked while it held the lock nobody gives it back.
    let free = || {
        let images = IMAGES.try_lock();
        if images.is_none() {
            rt::sleep(LOOK);
        }
        images
    };
    let Some(images) = (0..LOOKS).find_map(|_| free()) else {
        return;
    };
    for image in images.iter() {
        if image.mount.is_of_another_process() {
            continue;
        }
        if let Err(e) = image.volume.vfs().sync() {
            let text = format!("{}: at the end of the process: {e}", image.path.display());
            said::say(image.api, ffi::SQLITE_IOERR_CLOSE, e.errno().code(), &text);
        }
    }
}

fn identity(image: &Path) -> Option<(u64, u64)> {
    let meta = image.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}

fn mounted(api: Api, image: &Path, wish: &Wish) -> Result<Image, Error> {
    let disk = match Disk::open(image) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => made(image, wish, e)?,
        Err(e) if wish.create.is_some() && is_empty(image) => made(image, wish, e)?,
        Err(e) if is_write_protected(&e) => Disk::open_read_only(image)?,
        other => other?,
    };
    let file = identity(image).unwrap_or_default();
    // Before the mount, which may take long: who finds the image locked finds somebody to ask.
    let sharer = Listener::new(file);
    let options = wish.options.as_deref().unwrap_or_default();
    let mut read_only = options.split(',').any(|option| option == "ro");
    let volume = match Volume::mount(&disk, options) {
        // Left by a process that ended before it had made the file system.
        Err(Error::NotFormatted) if wish.create.is_some_and(|bytes| is_blank(image, bytes)) => {
            disk.format(&Format::new(wish.kind.unwrap_or(Kind::Ext4)))?;
            Volume::mount(&disk, options)?
        }
        Err(Error::ReadOnlyDisk) => {
            read_only = true;
            Volume::mount(&disk, &format!("{options},ro"))?
        }
        other => other?,
    };
    let listener = Box::new(move |code: c_int, errno: c_int, text: &str| {
        said::say(api, code, errno, text);
    });
    let vfs = Arc::clone(volume.vfs());
    let told = Options {
        read_only,
        batch_atomic: true,
        hold_journals: true,
        extend_logs: true,
        shared_index: true,
        ..Options::default()
    };
    let mount = Mount::of_this_process(vfs, told, listener).waiting(Box::new(wait_for_gone));
    Ok(Image {
        api,
        path: image.into(),
        file,
        volume,
        mount: Arc::new(mount),
        users: 1,
        listener: sharer,
    })
}

/// Makes an image that is not there, if that is wished.
fn made(image: &Path, wish: &Wish, missing: Error) -> Result<Disk, Error> {
    let Some(bytes) = wish.create else {
        let text = format!("{missing}; the parameter create=SIZE, as in `&create=64M`, makes one");
        let errno = missing.errno();
        return Err(Error::Host { text, errno });
    };
    let was_there = image.symlink_metadata().is_ok();
    let disk = Disk::create(image, bytes)?;
    let made = disk.format(&Format::new(wish.kind.unwrap_or(Kind::Ext4)));
    // `Disk::create` found it empty under the lock, so what is in it is from this call, unless
    // somebody writes without a lock.
    if made.as_ref().is_err_and(|e| !matches!(e, Error::HoldsData)) {
        // Half a file system would be in the way of the next attempt; the lock is still held. An
        // empty file that was there is empty again, and keeps its owner. The first error is told.
        let emptied = std::fs::File::options().write(true).open(image);
        let _ = match was_there {
            true => emptied.and_then(|file| file.set_len(0)),
            false => std::fs::remove_file(image),
        };
    }
    made.map(|()| disk)
}

/// Whether an image is a file without a byte.
fn is_empty(image: &Path) -> bool {
    image.metadata().is_ok_and(|m| m.is_file() && m.len() == 0)
}

/// Whether an image is a file of so many bytes that was never written.
fn is_blank(image: &Path, bytes: u64) -> bool {
    let Ok(file) = std::fs::File::open(image) else {
        return false;
    };
    let is_file = file
        .metadata()
        .is_ok_and(|m| m.is_file() && m.len() == bytes);
    // ENXIO: there is no data behind the offset.
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
    is_file && data == Err(rustix::io::Errno::NXIO)
}

fn is_in_use(e: &Error) -> bool {
    e.kind() == std::io::ErrorKind::ResourceBusy
}

/// Whether an image that was to be made may be one that another process made at the same time: it
/// was too short when it was opened, or had content when it was made.
fn is_being_made(e: &Error, wish: &Wish) -> bool {
    let is_unfit = |errno: i32| {
        std::io::Error::from_raw_os_error(errno).kind() == std::io::ErrorKind::InvalidInput
    };
    wish.create.is_some() && matches!(e, Error::Host { errno, .. } if is_unfit(*errno))
}

fn is_write_protected(e: &Error) -> bool {
    matches!(
        e.kind(),
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Runs `f` on the image of `name`: as mounted, or mounted for this call.
///
/// # Errors
/// As [`acquire`].
pub fn with<R>(api: Api, name: &Name, f: impl FnOnce(&Home) -> R) -> Result<R, Refusal> {
    let home = acquire(api, &name.image, &Wish::default())?;
    let done = f(&home);
    if let Home::Here(mount) = &home {
        release(mount);
    }
    Ok(done)
}
