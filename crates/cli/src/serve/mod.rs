//! `varve serve`: a device for other programs, until a signal or until its power goes.

mod device;
mod folder;
mod names;

use crate::args::{Place, ServeArgs};
use crate::failure::{Failure, failed, no_thread, tell};
use crate::out::say;
use device::Device;
use folder::{Folder, How, signals_so_far};
use names::{line, shown};
use nix::sys::signal::{SigSet, Signal};
use rig::signals;
use serve::file::NAME;
use serve::{Served, nbd, vhost};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Serves, tells what was done, and saves the device if that is wanted.
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let (device, served) = Device::open(args)?;
    let device = Arc::new(device);
    // Every thread from here on inherits this: the signal goes to the one that waits for it.
    let mut wanted = SigSet::empty();
    wanted.add(Signal::SIGUSR1);
    (wanted.thread_block()).map_err(|e| failed(format!("handling signals: {e}")))?;
    let noting = match &args.at.file {
        // The second one cuts off who uses the file; the state is saved all the same.
        Some(_) => signals::note_two_ends(),
        None => signals::note_ends(),
    };
    noting.map_err(|e| failed(format!("handling signals: {e}")))?;
    let served = Arc::new(served);
    let (telling, about) = (device.clone(), served.clone());
    let telling = thread::Builder::new().spawn(move || {
        while wanted.wait().is_ok() {
            // Who asked has gone, if nobody reads it.
            let _ = say(&telling.told(&about));
        }
    });
    telling.map_err(no_thread("signals"))?;
    let (servers, folder) = start(&args.at, args, &served, device.is_blank())?;
    while signals::noted().is_none() && !served.is_ended() && !device.is_cut() {
        thread::sleep(LOOK);
    }
    // Who uses the file writes what it holds back; so the device works until then.
    let seen = signals_so_far();
    let of_file = folder.map_or(Ok(()), |folder| folder.take_away(seen));
    served.end();
    let joined = (servers.into_iter()).map(|server| {
        server
            .join()
            .unwrap_or_else(|_| Err(failed("a server panicked")))
    });
    let of_servers: Vec<Result<(), Failure>> = joined.collect();
    let statistics = device.told(&served);
    // What clients have written outlives whatever else fails.
    device.close(args)?;
    say(&statistics)?;
    of_servers.into_iter().collect::<Result<(), Failure>>()?;
    of_file
}

type Server = thread::JoinHandle<Result<(), Failure>>;

fn started(
    server: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<Server, Failure> {
    let server = thread::Builder::new().spawn(server);
    server.map_err(no_thread("a server"))
}

/// Listens everywhere first, then begins to serve, and tells so.
fn start(
    at: &Place,
    args: &ServeArgs,
    served: &Arc<Served>,
    blank: bool,
) -> Result<(Vec<Server>, Option<Folder>), Failure> {
    if let Some(path) = &at.file {
        folder::check(path)?;
    }
    let mut servers = Vec::new();
    let mut places = Vec::new();
    let vhost = match &at.vhost_user {
        None => None,
        Some(path) => {
            let named = |e| failed(format!("{}: {e}", shown(path)));
            places.push(format!("vhost-user {}", shown(path)));
            Some(vhost::Server::bind(path).map_err(named)?)
        }
    };
    if let Some(address) = &at.nbd {
        let server =
            nbd::Server::bind(address).map_err(|e| failed(format!("{}: {e}", line(address))))?;
        places.push(format!("nbd {}", line(server.address())));
        let options = nbd::Options {
            name: args.export.clone(),
            read_only: args.read_only,
            ..nbd::Options::default()
        };
        let served = served.clone();
        servers.push(started(move || {
            let done = server.run(&served, &options, |why| tell(why));
            served.end();
            done.map_err(failed)
        })?);
    }
    let folder = match &at.file {
        None => None,
        Some(path) => {
            places.push(format!("file {}", shown(&path.join(NAME))));
            let how = How {
                read_only: args.read_only,
                shared: at.nbd.is_some() || at.vhost_user.is_some(),
            };
            Some(Folder::mount(path, served, how)?)
        }
    };
    if let Some(server) = vhost {
        let options = vhost::Options {
            queues: args.queues,
            read_only: args.read_only,
            blank,
            ..vhost::Options::default()
        };
        let served = served.clone();
        servers.push(started(move || {
            let done = server.run(&served, &options, &mut |why| tell(why));
            served.end();
            done.map_err(failed)
        })?);
    }
    let (mib, places) = (served.bytes() >> 20, places.join(", "));
    let device = shown(Path::new(&args.device));
    say(&format!("serving {device}, {mib} MiB: {places}\n"))?;
    Ok((servers, folder))
}
