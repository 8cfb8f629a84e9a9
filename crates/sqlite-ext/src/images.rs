//! The images that are mounted for the process (sqlite-ext-E4).

use crate::api::Api;
use crate::making::{self, Before};
use crate::name::Name;
use crate::said;
use crate::share::{ENDED, Listener, Session, connect, wait_for_gone, why_protected};
use crate::uri::Wish;
use rt::Mutex;
use sqlite_vfs::{Mount, Options, ffi};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use varve::{Disk, Error, Volume};

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
    /// What the file was, until something in the image is open: then the image stays.
    made: Option<Before>,
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
        is_in_use: is_in_use(&e) || making::is_being_made(&e, wish),
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
    let file = making::identity(image);
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
    there.made = None;
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
    let file = making::identity(image);
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

/// Something in the image is open, so it stays if this process made it.
pub fn keep(mount: &Arc<Mount>) {
    let mut images = IMAGES.lock();
    let there = images.iter_mut().find(|i| Arc::ptr_eq(&i.mount, mount));
    if let Some(there) = there {
        there.made = None;
    }
}

/// Gives back what [`acquire`] gave; the last one unmounts the image, and takes it away again if it
/// was made for an open that failed (making-U1). Answers SQLite's code.
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
    // It holds the lock of the image.
    let disk = image.volume.disk().clone();
    let unmounted = image.volume.unmount();
    if let Some(before) = image.made {
        before.restore(&image.path);
    }
    drop(disk);
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

fn mounted(api: Api, image: &Path, wish: &Wish) -> Result<Image, Error> {
    let (disk, mut made) = making::disk(image, wish)?;
    let mounted = mounted_on(api, image, wish, (&disk, &mut made));
    if let (Err(_), Some(before)) = (&mounted, made) {
        // making-U1.
        before.restore(image);
    }
    mounted
}

fn mounted_on(
    api: Api,
    image: &Path,
    wish: &Wish,
    (disk, made): (&Disk, &mut Option<Before>),
) -> Result<Image, Error> {
    let file = making::identity(image).unwrap_or_default();
    // Before the mount, which may take long: who finds the image locked finds somebody to ask.
    let sharer = Listener::new(file);
    let options = wish.options.as_deref().unwrap_or_default();
    let mut read_only = options.split(',').any(|option| option == "ro");
    let volume = match Volume::mount(disk, options) {
        Err(Error::NotFormatted) => match making::finished(image, disk, wish)? {
            None => return Err(Error::NotFormatted),
            before => {
                *made = before;
                Volume::mount(disk, options)?
            }
        },
        Err(Error::ReadOnlyDisk) => {
            read_only = true;
            Volume::mount(disk, &format!("{options},ro"))?
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
        made: *made,
        listener: sharer,
    })
}

fn is_in_use(e: &Error) -> bool {
    e.kind() == std::io::ErrorKind::ResourceBusy
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
