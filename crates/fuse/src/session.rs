//! A session: the life of a mount, from the handshake with the kernel to the unmounted, clean
//! volume.

use crate::abort::Abort;
use crate::adapter::{Adapter, Agreed};
use crate::leave;
use crate::notices::Notices;
use crate::options::{Access, Options, Transport};
use crate::place::Place;
use crate::ring::desk::Desk;
use crate::ring::{Plan, Ring, Trouble, join_all};
use crate::room::Room;
use crate::server::{Remounter, Server};
use crate::source::Source;
use fuser::{Config, MountOption, Session, SessionACL};
use rt::{JoinHandle, Receiver, channel_named};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{AccessTimes, Vfs};

/// Bytes of a write below which there is no ring: the kernel puts an extended attribute of 64 KiB
/// with its name into an entry without asking whether it has room.
const RING_WRITE_MIN: u32 = 128 << 10;
/// What the kernel's side of a mount is opened through.
const DEVICE: &str = "/dev/fuse";
/// Allows the superuser to switch FUSE over io_uring on.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Why there is no mount; the volume is as clean as it was.
#[derive(Debug)]
pub struct MountError(io::Error);

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.trim_end())
    }
}

/// A mounted file system. Dropping it takes the mount away and leaves the volume as a crash does.
pub struct Mounted {
    session: Session<Adapter>,
    server: Arc<Server>,
    requests: Arc<Source>,
    notices: Arc<Notices>,
    /// None: requests come through the device.
    ring: Option<Ring>,
    /// Why there is none although the options would have one.
    without_ring: Option<String>,
    /// Threads of a ring that was refused, which end with the connection.
    left: Vec<JoinHandle<()>>,
    /// Ends with the last request.
    over: Receiver<()>,
    abort: Arc<Abort>,
    place: Place,
}

impl Mounted {
    /// Mounts `vfs` on `dir`. `source` is what the table of mounts calls it; `superuser` says
    /// whether devices and set-user-ID may work; `tell` gets a sentence when the file system fails
    /// for good; `remounter` lets the superuser remount.
    ///
    /// # Errors
    /// The host refuses; `vfs` has been unmounted then.
    pub fn new(
        vfs: &Arc<Vfs>,
        dir: &Path,
        source: &str,
        superuser: bool,
        options: &Options,
        tell: Box<dyn Fn(&str) + Send + Sync>,
        remounter: Option<Remounter>,
    ) -> Result<Mounted, MountError> {
        let with = with_ring(options).map_err(|why| no_ring(vfs, &why))?;
        let (options, plan) = (&with.options, with.plan);
        // The ring takes what is left.
        let room = Room::take(options).map_err(|e| no_mount(vfs, e))?;
        let tell: Arc<dyn Fn(&str) + Send + Sync> = Arc::from(tell);
        let notices = Arc::new(Notices::new());
        let server = server(vfs, options, &notices, &tell);
        if let Some(remounter) = remounter {
            server.remount_by(remounter);
        }
        let requests = Arc::new(Source::new());
        let (until, over) = channel_named("fuse session", 1);
        let agreed = Agreed::default();
        let adapter = Adapter::new(
            Arc::clone(&server),
            options.clone(),
            Arc::clone(&requests),
            Arc::clone(&notices),
            agreed.clone(),
            until,
        );
        let config = config(source, superuser, options);
        // Nothing may ask the directory for its links when nobody answers yet.
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
        let session = match Session::new(adapter, &dir, &config) {
            Ok(session) => session,
            Err(e) => {
                // Nothing has been changed; a failure here would be the next mount's, too.
                let _ = server.shut_down();
                return Err(explained(e));
            }
        };
        let place = Place::of(dir, session.as_fd().try_clone_to_owned().ok());
        read_ahead(place.device(), options.read_ahead);
        if let Err(e) = notices.begin(session.notifier()) {
            take_back(session, &place, &server, Vec::new());
            return Err(no_mount(vfs, e));
        }
        let desk = Desk {
            server: Arc::clone(&server),
            options: options.clone(),
            notices: Arc::clone(&notices),
            unmasked: Arc::clone(&agreed.unmasked),
            owner: rustix::process::geteuid().as_raw(),
        };
        let (abort, trouble) = trouble(&tell, place.clone());
        match ring_of(&session, plan, desk, &agreed, &trouble, &place) {
            Ok(begun) => {
                drop(room);
                Ok(Mounted {
                    session,
                    server,
                    requests,
                    notices,
                    ring: begun.ring,
                    without_ring: with.why_not.or(begun.why_not).map(|why| advised(&why)),
                    left: begun.left,
                    over,
                    abort,
                    place,
                })
            }
            Err((why, left)) => {
                notices.end();
                take_back(session, &place, &server, left);
                Err(no_ring(vfs, &why))
            }
        }
    }

    /// `MAJOR:MINOR` of the mount in the table of mounts (`/proc/self/mountinfo`), the same
    /// wherever else it is mounted, too.
    pub fn device(&self) -> Option<String> {
        self.place.device().map(String::from)
    }

    /// Whether requests come over io_uring; else they come through `/dev/fuse`.
    pub fn over_io_uring(&self) -> bool {
        self.ring.is_some()
    }

    /// Why requests come through `/dev/fuse` although the options would have them over io_uring,
    /// with what helps, if they do; a sentence without its end.
    pub fn without_ring(&self) -> Option<&str> {
        self.without_ring.as_deref()
    }

    /// The requests' end, to sync or to shut down from outside.
    pub fn server(&self) -> Arc<Server> {
        Arc::clone(&self.server)
    }

    /// Answers requests until the mount is taken away, calls `gone`, then writes everything and
    /// marks the volume clean. The kernel may have given the mount's device number to another one
    /// when `gone` runs.
    ///
    /// # Errors
    /// Why the volume is not clean.
    pub fn serve(self, gone: impl FnOnce()) -> Result<(), String> {
        // Without it, requests that wait are not seen, and each is read when the one before is
        // answered or waits.
        let device = self.session.as_fd().try_clone_to_owned();
        self.requests.set(device.ok());
        let device = self.session.as_fd().as_raw_fd();
        let of_kernel = |e: io::Error| format!("the connection to the kernel ended: {e}");
        let running = self.session.spawn().map_err(of_kernel)?;
        // Nothing is ever sent.
        let _ = self.over.recv();
        gone();
        let is_gone = self.requests.is_gone();
        self.requests.set(None);
        self.notices.end();
        let ended = match is_gone {
            true => {
                leave::served(running, device);
                Ok(())
            }
            false => running.join(),
        };
        // A request that is under way is answered before the volume ends.
        if let Some(ring) = self.ring {
            ring.join();
        }
        join_all(self.left);
        self.server.shut_down()?;
        match self.abort.why() {
            Some(why) => Err(format!("{why}; the volume is clean")),
            None => ended.map_err(of_kernel),
        }
    }
}

/// What answers requests to `vfs`.
fn server(
    vfs: &Arc<Vfs>,
    options: &Options,
    notices: &Arc<Notices>,
    tell: &Arc<dyn Fn(&str) + Send + Sync>,
) -> Arc<Server> {
    let (kernel, teller) = (Arc::clone(notices), Arc::clone(tell));
    let server = Server::new(
        Arc::clone(vfs),
        kernel,
        options.access_times_kept(),
        options.errors.as_deref() == Some("panic"),
        Box::new(move |what| teller(what)),
    );
    Arc::new(server.show_xattrs(options.xattrs))
}

/// What is known of the ring before there is a mount.
struct WithRing {
    /// Without the ring where this process may have none.
    options: Options,
    /// What the ring needs.
    plan: Option<Plan>,
    /// Why there can be none although it was asked for.
    why_not: Option<String>,
}

/// # Errors
/// There can be no ring, and the options want no mount without one.
fn with_ring(options: &Options) -> Result<WithRing, String> {
    let plan = match options.transport {
        Transport::Device => None,
        _ if options.max_write < RING_WRITE_MIN => Some(Err(format!(
            "max_write={} is too little for it, {RING_WRITE_MIN} is the least",
            options.max_write
        ))),
        _ => Some(Plan::new()),
    };
    let mut options = options.clone();
    let (plan, why_not) = match (plan, options.transport) {
        (None, _) => (None, None),
        (Some(Ok(plan)), _) => (Some(plan), None),
        (Some(Err(why)), Transport::Uring) => return Err(why),
        (Some(Err(why)), _) => {
            options.transport = Transport::Device;
            (None, Some(why))
        }
    };
    Ok(WithRing {
        options,
        plan,
        why_not,
    })
}

/// What ends the connection, and what the ring calls when it is in trouble.
fn trouble(tell: &Arc<dyn Fn(&str) + Send + Sync>, place: Place) -> (Arc<Abort>, Trouble) {
    let abort = Arc::new(Abort::new(place));
    let (teller, ends) = (Arc::clone(tell), Arc::clone(&abort));
    let break_up = move |why: &str| {
        if let Some(sentence) = ends.end(why) {
            teller(&sentence);
        }
    };
    let trouble = Trouble {
        tell: Arc::clone(tell),
        break_up: Arc::new(break_up),
    };
    (abort, trouble)
}

/// What came of a ring that was planned, or of none.
#[derive(Default)]
struct Begun {
    ring: Option<Ring>,
    /// Threads that end with the connection.
    left: Vec<JoinHandle<()>>,
    /// Why there is no ring although it was asked for.
    why_not: Option<String>,
}

/// Starts the ring if it has been agreed on. Without one, requests come through the device. An
/// error is why there can be no mount, with what ends with its connection.
fn ring_of(
    session: &Session<Adapter>,
    plan: Option<Plan>,
    desk: Desk,
    agreed: &Agreed,
    trouble: &Trouble,
    place: &Place,
) -> Result<Begun, (String, Vec<JoinHandle<()>>)> {
    let transport = desk.options.transport;
    let Some(plan) = plan else {
        return Ok(Begun::default());
    };
    if !agreed.ring.load(Ordering::Relaxed) {
        let why = "the kernel does not offer it".to_string();
        return match transport {
            Transport::Uring => Err((why, Vec::new())),
            _ => Ok(Begun {
                why_not: Some(why),
                ..Begun::default()
            }),
        };
    }
    let depth = desk.options.queue_depth;
    let server = Arc::clone(&desk.server);
    let place = place.clone();
    let ask = move || place.ask();
    match Ring::start(plan, session.as_fd(), &Arc::new(desk), depth, trouble, ask) {
        Ok(ring) => {
            // Forgets have threads of their own (ends-N2).
            server.room_waiters(usize::MAX);
            Ok(Begun {
                ring: Some(ring),
                ..Begun::default()
            })
        }
        Err(refused) if transport == Transport::Uring || refused.stuck => {
            let why = format!("it cannot be registered ({})", refused.why);
            Err((why, refused.left))
        }
        Err(refused) => Ok(Begun {
            ring: None,
            left: refused.left,
            why_not: Some(format!("it cannot be registered ({})", refused.why)),
        }),
    }
}

/// Takes a mount back that nobody has served: it is gone when this returns, also where somebody has
/// looked into it meanwhile and waits. Threads in `left` are waited for if the connection ended.
fn take_back(
    mut session: Session<Adapter>,
    place: &Place,
    server: &Server,
    left: Vec<JoinHandle<()>>,
) {
    let device = session.as_fd().try_clone_to_owned().ok();
    // Whoever waits is answered, and leaves.
    place.end_connection();
    match place.is_on_top() {
        true => {
            // This try is the only one that the library makes: its second one would hit whatever is
            // mounted below.
            let _ = session.unmount_callable().unmount();
            place.take_away();
            drop(session);
        }
        false => {
            leave::unserved(session);
            let _ = server.shut_down();
        }
    }
    let requests = Source::new();
    requests.set(device);
    if requests.is_gone() {
        join_all(left);
    }
}

/// Unmounts the volume, which nobody has changed, because there is no mount.
fn no_mount(vfs: &Vfs, why: io::Error) -> MountError {
    // A failure here would be the next mount's, too.
    let _ = vfs.unmount();
    MountError(why)
}

/// The same because there is no ring.
fn no_ring(vfs: &Vfs, why: &str) -> MountError {
    let why = advised(why);
    let why = format!("requests over io_uring: {why}; transport=auto does without");
    no_mount(vfs, io::Error::other(why))
}

/// Why there is no ring, and what helps.
fn advised(why: &str) -> String {
    let advice = advice(std::fs::read_to_string(SWITCH).ok().as_deref());
    format!("{why}{advice}")
}

/// What helps where the switch of FUSE over io_uring holds this; nothing if it is on.
fn advice(switch: Option<&str>) -> String {
    match switch.map(str::trim) {
        None => "; Linux 6.14 and later have FUSE over io_uring".into(),
        Some("Y" | "1") => String::new(),
        Some(_) => format!("; `echo Y > {SWITCH}` (as root) allows it"),
    }
}

/// The library does not say what it is that could not be opened.
fn explained(e: io::Error) -> MountError {
    match File::options().read(true).write(true).open(DEVICE) {
        Err(of_device) => {
            let help = match of_device.raw_os_error() {
                Some(libc::EMFILE) => "`ulimit -n` is the limit",
                _ => {
                    "it is there with the kernel module `fuse`, and open to everybody with mode 666"
                }
            };
            let why = format!("{DEVICE}: {of_device}; {help}");
            MountError(io::Error::new(of_device.kind(), why))
        }
        Ok(_) => MountError(e),
    }
}

/// Sets how far the kernel reads ahead: by itself it reads 128 KiB at a time of a file system of
/// FUSE, whatever is agreed on. Only the superuser may; for others it stays at that.
fn read_ahead(device: Option<&str>, bytes: u32) {
    let Some(device) = device else { return };
    let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
    let _ = std::fs::write(file, (bytes >> 10).to_string());
}

fn config(source: &str, superuser: bool, options: &Options) -> Config {
    let mut list = vec![
        MountOption::FSName(match superuser {
            true => source.to_string(),
            // By an option of `fusermount3`, which a comma would end.
            false => source.replace('\\', "\\\\").replace(',', "\\,"),
        }),
        // As text: the library hands its own word for it to `fusermount3` only.
        MountOption::CUSTOM("subtype=varve".into()),
        MountOption::DefaultPermissions,
    ];
    let mut add = |yes: bool, option: MountOption| {
        if yes {
            list.push(option);
        }
    };
    add(options.read_only, MountOption::RO);
    add(
        superuser && options.devices != Some(false),
        MountOption::Dev,
    );
    add(options.devices == Some(false), MountOption::NoDev);
    add(
        superuser && options.set_ids != Some(false),
        MountOption::Suid,
    );
    add(options.set_ids == Some(false), MountOption::NoSuid);
    add(!options.executables, MountOption::NoExec);
    add(
        options.access_times_kept() == AccessTimes::Never,
        MountOption::NoAtime,
    );
    add(options.sync, MountOption::Sync);
    add(options.dir_sync, MountOption::DirSync);
    let mut config = Config::default();
    config.mount_options = list;
    config.acl = match options.access {
        Access::Owner => SessionACL::Owner,
        Access::Root => SessionACL::RootAndOwner,
        Access::All => SessionACL::All,
    };
    config.n_threads = Some(options.threads);
    config.clone_fd = true;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_named_where_it_is_off() {
        assert!(advice(None).contains("Linux 6.14"));
        assert!(advice(Some("N\n")).contains("echo Y"));
        assert_eq!(advice(Some("Y\n")), "");
    }

    #[test]
    fn a_ring_whose_entries_are_too_small_for_the_kernel_is_none() {
        let small = |transport| Options {
            transport,
            max_write: RING_WRITE_MIN - 4096,
            ..Options::default()
        };
        assert!(with_ring(&small(Transport::Uring)).is_err());
        let without = with_ring(&small(Transport::Auto)).expect("a mount without a ring");
        assert_eq!(without.options.transport, Transport::Device);
        assert!(without.plan.is_none());
        let why = without.why_not.expect("it was asked for");
        assert!(why.contains("max_write=126976"), "{why}");
        let unasked = with_ring(&small(Transport::Device)).expect("a mount without a ring");
        assert_eq!(unasked.why_not, None);
        assert_eq!(Options::default().transport, Transport::Device);
    }

    /// A volume that holds nothing, to be mounted on a directory of its own.
    fn session(dir: &Path) -> (Session<Adapter>, Arc<Server>) {
        let vfs = Vfs::new(testkit::model::ModelFs::new());
        let notices = Arc::new(Notices::new());
        let tell: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|_: &str| {});
        let options = Options::default();
        let server = server(&vfs, &options, &notices, &tell);
        let (until, _) = channel_named("fuse session", 1);
        let adapter = Adapter::new(
            Arc::clone(&server),
            options.clone(),
            Arc::new(Source::new()),
            notices,
            Agreed::default(),
            until,
        );
        let config = config("leave", true, &options);
        let session = Session::new(adapter, dir, &config).expect("root and FUSE");
        (session, server)
    }

    /// Descriptors of this process that lead to the device of FUSE. Their order does not matter.
    #[allow(clippy::disallowed_methods)]
    fn devices() -> usize {
        let all = std::fs::read_dir("/proc/self/fd").expect("Linux");
        let leads = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok();
        let to = all.filter_map(|entry| leads(entry.expect("an entry")));
        to.filter(|to| to == Path::new(DEVICE)).count()
    }

    fn done(program: &str, args: &[&str]) {
        let status = std::process::Command::new(program).args(args).status();
        assert!(status.expect(program).success(), "{program} {args:?}");
    }

    /// place-L1: a mount that is taken back below another one leaves that one, and no descriptor.
    #[test]
    #[ignore = "needs root and FUSE; a suite has both"]
    fn a_mount_that_is_hidden_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().canonicalize().expect("a folder");
        let at = dir.to_string_lossy();
        let before = devices();
        let (session, server) = session(&dir);
        let place = Place::of(dir.clone(), session.as_fd().try_clone_to_owned().ok());
        done("mount", &["-t", "tmpfs", "over", &at]);
        std::fs::write(dir.join("theirs"), "x").expect("a file");
        take_back(session, &place, &server, Vec::new());
        drop(place);
        assert_eq!(devices(), before, "a descriptor is left");
        assert_eq!(std::fs::read(dir.join("theirs")).expect("there"), b"x");
        done("umount", &[&at]);
        // Below it lies what is left of the mount that nobody answers for.
        done("umount", &["-l", &at]);
    }

    /// A mount that others took away leaves no descriptor in the process that served it.
    #[test]
    #[ignore = "needs root and FUSE; a suite has both"]
    fn a_mount_that_has_gone_leaves_no_descriptor() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = devices();
        let vfs = Vfs::new(testkit::model::ModelFs::new());
        let tell = Box::new(|_: &str| {});
        let options = Options::default();
        let mounted = Mounted::new(&vfs, folder.path(), "leave", true, &options, tell, None);
        let mounted = mounted.expect("root and FUSE");
        let at = folder.path().to_path_buf();
        let umount = rt::try_spawn("umount", move || {
            done("umount", &[&at.to_string_lossy()]);
        });
        mounted.serve(|| ()).expect("a clean end");
        umount.expect("a thread").join().expect("unmounted");
        assert_eq!(devices(), before, "a descriptor is left");
    }
}
