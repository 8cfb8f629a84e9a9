//! `varve serve`: a device for other programs, until a signal or until its power goes.

mod device;

use crate::args::{Place, ServeArgs};
use crate::failure::{Failure, failed, tell, usage};
use crate::mount::let_go_unused;
use crate::out::say;
use device::Device;
use fuse::{Mounted, Options};
use nix::sys::signal::{SigSet, Signal};
use rig::signals;
use serve::file::{NAME, OneFile};
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
    signals::note_ends().map_err(|e| failed(format!("handling signals: {e}")))?;
    let served = Arc::new(served);
    let servers = start(&args.at, args, &served)?;
    let (telling, about) = (device.clone(), served.clone());
    thread::spawn(move || {
        while wanted.wait().is_ok() {
            // Who asked has gone, if nobody reads it.
            let _ = say(&telling.told(&about));
        }
    });
    while signals::noted().is_none() && !served.is_ended() && !device.is_cut() {
        thread::sleep(LOOK);
    }
    served.end();
    if let Some(folder) = &args.at.file {
        // One that was taken away by hand has ended the server.
        let _ = let_go_unused(folder);
    }
    for server in servers {
        server.join().map_err(|_| failed("a server panicked"))??;
    }
    let statistics = device.told(&served);
    say(&statistics)?;
    device.close(args)
}

type Server = thread::JoinHandle<Result<(), Failure>>;

/// Listens everywhere first, then begins to serve, and tells so.
fn start(at: &Place, args: &ServeArgs, served: &Arc<Served>) -> Result<Vec<Server>, Failure> {
    let mut servers = Vec::new();
    let mut places = Vec::new();
    let vhost = match &at.vhost_user {
        None => None,
        Some(path) => {
            let named = |e| failed(format!("{}: {e}", path.display()));
            places.push(format!("vhost-user {}", path.display()));
            Some(vhost::Server::bind(path).map_err(named)?)
        }
    };
    if let Some(address) = &at.nbd {
        let server = nbd::Server::bind(address).map_err(|e| failed(format!("{address}: {e}")))?;
        places.push(format!("nbd {}", server.address()));
        let options = nbd::Options {
            name: args.export.clone(),
            read_only: args.read_only,
        };
        let served = served.clone();
        servers.push(thread::spawn(move || {
            let done = server.run(&served, &options, |why| tell(why));
            served.end();
            done.map_err(failed)
        }));
    }
    if let Some(folder) = &at.file {
        places.push(format!("file {}", folder.join(NAME).display()));
        let mounted = mount(folder, served)?;
        let served = served.clone();
        servers.push(thread::spawn(move || {
            let done = mounted.serve(|| ());
            served.end();
            done.map_err(failed)
        }));
    }
    if let Some(server) = vhost {
        let options = vhost::Options {
            queues: args.queues,
            read_only: args.read_only,
            ..vhost::Options::default()
        };
        let served = served.clone();
        servers.push(thread::spawn(move || {
            let done = server.run(&served, &options, &mut |why| tell(why));
            served.end();
            done.map_err(failed)
        }));
    }
    let (mib, places) = (served.bytes() >> 20, places.join(", "));
    say(&format!("serving {}, {mib} MiB: {places}\n", args.device))?;
    Ok(servers)
}

/// The device as a file in a folder.
fn mount(folder: &Path, served: &Arc<Served>) -> Result<Mounted, Failure> {
    if !folder.is_dir() {
        return Err(usage(format!(
            "--file {}: it is no folder; make an empty one, in which the device is the file `{NAME}`",
            folder.display()
        )));
    }
    let options = Options {
        // One at a time: a sync that is carried out after a write began after that write was
        // answered, and a write of a part of a sector is alone.
        threads: 1,
        ..Options::default()
    };
    let superuser = rustix::process::geteuid().is_root();
    let of_volume = Box::new(|what: &str| tell(what));
    let vfs = OneFile::new(served.clone()).mounted();
    Mounted::new(
        &vfs,
        folder,
        "varve-serve",
        superuser,
        &options,
        of_volume,
        None,
    )
    .map_err(|e| failed(format!("{}: {e}", folder.display())))
}
