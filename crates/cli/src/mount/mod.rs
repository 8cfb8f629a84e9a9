//! `varve mount` and `varve umount`: mounts the file system of an image on a directory of the host.

mod daemon;
mod held;
mod helper;
mod options;
mod remount;
mod session;
mod table;
mod umount;
mod verdict;

pub use helper::as_helper;
pub use umount::{let_go, let_go_unused, umount};

use crate::args::MountArgs;
use crate::failure::{Failure, failed, tell, usage};
use fuse::{Mounted, Options, Room};
use held::{Held, Remounter};
use nix::sys::signal::{SigSet, Signal};
use session::{Event, Session, Watch};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use verdict::Verdict;

/// How long files that are still open may keep the end waiting after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// What to mount, with absolute paths.
struct Plan {
    image: PathBuf,
    dir: PathBuf,
    text: String,
}

/// Runs `varve mount`.
pub fn mount(args: &MountArgs) -> Result<(), Failure> {
    let text = args.options.join(",");
    if let Some(words) = remount::words(&text) {
        return remount::remount(args.dir.as_ref().unwrap_or(&args.image), &words);
    }
    let dir = args.dir.as_ref().ok_or_else(|| {
        usage("which directory to mount on is missing; only `-o remount` does without one of IMAGE and DIR")
    })?;
    let text = options::absolute(&text).map_err(failed)?;
    let options = Options::parse(&text).map_err(usage)?;
    let absolute = |path: &Path| {
        path.canonicalize()
            .map_err(|e| failed(format!("{}: {e}", path.display())))
    };
    let plan = Plan {
        image: absolute(&args.image)?,
        dir: absolute(dir)?,
        text,
    };
    if !plan.dir.is_dir() {
        return Err(usage(format!("{}: is no directory", plan.dir.display())));
    }
    if !args.daemon && joined(&plan, &options)? {
        return Ok(());
    }
    match (args.foreground, args.daemon) {
        (false, false) => daemon::start(&plan),
        (_, true) => {
            daemon::name();
            serve(plan, &options, true)
        }
        (_, false) => serve(plan, &options, false),
    }
}

/// Refuses a place that shows a volume of Varve already. True: the image is mounted somewhere, and
/// is there too from now on, as the kernel does it with a device that it has mounted.
fn joined(plan: &Plan, options: &Options) -> Result<bool, Failure> {
    let (dir, image) = (plan.dir.display(), plan.image.display());
    if let Some(line) = table::on(&plan.dir).map_err(failed)? {
        let source = line.source.display();
        return Err(failed(format!(
            "{dir}: {source} is mounted there; `varve umount {dir}` first"
        )));
    }
    let all = table::ours().map_err(failed)?;
    let Some(first) = all.into_iter().find(|line| line.source == plan.image) else {
        return Ok(false);
    };
    let at = first.at.display();
    if let Some(option) = options.rest.first() {
        return Err(failed(format!(
            "{image}: is mounted at {at}, with the options that it has there; leave out `{option}`"
        )));
    }
    if options.read_only == first.writable {
        let word = if first.writable {
            "for writing"
        } else {
            "read-only"
        };
        return Err(failed(format!(
            "{image}: is mounted at {at} {word}, so it can be mounted elsewhere {word} only"
        )));
    }
    rustix::mount::mount_bind(&first.at, &plan.dir).map_err(|e| {
        failed(format!(
            "{image}: is mounted at {at}; to mount it at {dir} as well, as root: {e}"
        ))
    })?;
    Ok(true)
}

/// Mounts, answers requests until the end, and leaves a clean volume.
fn serve(plan: Plan, options: &Options, as_daemon: bool) -> Result<(), Failure> {
    // Before any thread is made, so that all of them leave the signals to one.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals
        .thread_block()
        .map_err(|e| failed(format!("blocking signals: {e}")))?;
    // The volume's tasks start when it is opened.
    drop(Room::take(options).map_err(failed)?);
    let image = plan.image.display().to_string();
    let place = plan.dir.clone();
    let name = place.display().to_string();
    let held = Held::open(&plan, options)?;
    let told = image.clone();
    let of_volume = Box::new(move |what: &str| tell(format!("{told}: {what}")));
    let superuser = rustix::process::geteuid().is_root();
    // Threads and descriptors that the host may refuse are there before the mount is: a mount whose
    // process ends for the lack of one would hang its users.
    let leave = as_daemon.then(daemon::Leave::prepare).transpose()?;
    let (tell_end, events) = channel();
    let session = Session::wait(tell_end.clone())?;
    let watch = Watch::wait(signals, tell_end)?;
    let (vfs, options) = (Arc::clone(held.vfs()), held.options.clone());
    let remounter = Remounter::new(plan, held);
    let asked = Arc::clone(&remounter);
    let remount = Box::new(move |words: &str| Arc::clone(&asked).prepare(words));
    let mounted = Mounted::new(
        &vfs,
        &place,
        &image,
        superuser,
        &options,
        of_volume,
        Some(remount),
    )
    .map_err(|e| failed(format!("{name}: {e}")))?;
    drop(vfs);
    match mounted.without_ring() {
        _ if mounted.over_io_uring() => tell(format!("{name}: requests come over io_uring")),
        Some(why) => tell(format!(
            "{name}: requests come through /dev/fuse, not over io_uring: {why}"
        )),
        None => {}
    }
    let server = mounted.server();
    let device = mounted.device().unwrap_or_default();
    let verdict = Arc::new(Verdict::listen(&device));
    watch.begin(name, device.clone());
    let session = session.begin(mounted, Arc::clone(&verdict));
    if let Some(Err(why)) = leave.map(daemon::Leave::ready) {
        let _ = umount::let_go(&device);
        let _ = events.recv_timeout(GRACE);
        return Err(why);
    }
    let ended = match events.recv() {
        Ok(Event::LetGo) => matches!(events.recv_timeout(GRACE), Ok(Event::Ended)),
        Ok(Event::Ended) | Err(_) => true,
    };
    let result = if ended {
        let result = session.join();
        result.unwrap_or_else(|_| Err("the session panicked".into()))
    } else {
        // Files that are still open keep the connection; it ends with this process.
        server.shut_down()
    };
    // A caller that is told the result can use the image at once.
    remounter.close();
    verdict.tell(&result);
    result.map_err(|e| failed(format!("{image}: {e}")))
}
