//! `varve mount` and `varve umount`: a file system in an image as a directory of the host.

mod daemon;
mod helper;
mod options;
mod umount;

pub use helper::as_helper;
pub use umount::{let_go, let_go_unused, umount};

use crate::args::MountArgs;
use crate::failure::{Failure, failed, usage};
use fuse::{Mounted, Options};
use nix::sys::signal::{SigSet, Signal};
use rig::{HostFile, HostOptions, Volume};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long files that are still open may keep the end waiting after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// What to mount, with absolute paths.
struct Plan {
    image: PathBuf,
    dir: PathBuf,
    text: String,
}

/// What the main thread waits for.
enum Event {
    /// The kernel has ended the session.
    Ended,
    /// A signal has come, and the mount has been taken away.
    LetGo,
}

/// Runs it.
pub fn mount(args: &MountArgs) -> Result<(), Failure> {
    let text = options::absolute(&args.options.join(",")).map_err(failed)?;
    let options = Options::parse(&text).map_err(usage)?;
    let absolute = |path: &Path| {
        path.canonicalize()
            .map_err(|e| failed(format!("{}: {e}", path.display())))
    };
    let plan = Plan {
        image: absolute(&args.image)?,
        dir: absolute(&args.dir)?,
        text,
    };
    if !plan.dir.is_dir() {
        return Err(usage(format!("{}: is no directory", plan.dir.display())));
    }
    match (args.foreground, args.daemon) {
        (false, false) => daemon::start(&plan),
        (_, true) => {
            daemon::name();
            serve(&plan, &options, true)
        }
        (_, false) => serve(&plan, &options, false),
    }
}

/// Mounts, answers requests until the end, and leaves a clean volume.
fn serve(plan: &Plan, options: &Options, as_daemon: bool) -> Result<(), Failure> {
    // Before any thread is made, so that all of them leave the signals to one.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals
        .thread_block()
        .map_err(|e| failed(format!("blocking signals: {e}")))?;
    let name = plan.image.display().to_string();
    let of_image = |e: &dyn std::fmt::Display| failed(format!("{name}: {e}"));
    let (host, mut rest) = options::of_host(options).map_err(usage)?;
    let file = HostFile::open(&plan.image, &host).map_err(failed)?;
    let journal = match options::take_journal(&mut rest) {
        Some(path) => {
            let host = HostOptions {
                offset: 0,
                size: None,
                ..host.clone()
            };
            Some(HostFile::open(&path, &host).map_err(failed)?)
        }
        None => None,
    };
    let chosen = options::of_volume(&file, options, rest).map_err(|e| of_image(&e))?;
    let volume = Volume::mount(&file, journal.as_ref(), chosen, options.read_only)
        .map_err(|e| of_image(&e))?;
    let told = name.clone();
    let tell = Box::new(move |what: &str| eprintln!("varve: {told}: {what}"));
    let superuser = rustix::process::geteuid().is_root();
    let mounted = Mounted::new(&volume.vfs, &plan.dir, &name, superuser, options, tell)
        .map_err(|e| failed(format!("{}: {e}", plan.dir.display())))?;
    let server = mounted.server();
    let (tell_end, events) = channel();
    let tell_signal = tell_end.clone();
    let session = std::thread::spawn(move || {
        let result = mounted.serve();
        let _ = tell_end.send(Event::Ended);
        result
    });
    let dir = plan.dir.clone();
    std::thread::spawn(move || take_signals(&signals, &dir, &tell_signal));
    if as_daemon {
        daemon::ready()?;
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
    result.map_err(|e| of_image(&e))
}

/// Each signal takes the mount away, as `umount` does.
fn take_signals(signals: &SigSet, dir: &Path, tell: &Sender<Event>) {
    while signals.wait().is_ok() {
        if let Err(why) = umount::let_go(dir) {
            eprintln!("varve: {}: {why}", dir.display());
        } else if tell.send(Event::LetGo).is_err() {
            return;
        }
    }
}
