//! Clients that have ended and whose locks are not free yet (sqlite-ext-E7).
//!
//! A kernel frees the locks of a process before anybody hears that it has ended. Ours are freed by
//! the task that serves it, which has to be scheduled first. So who finds a lock taken looks
//! whether a client has ended, and waits for the end of that task before it is told that it is
//! busy.

use rt::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

/// The processes that are served.
static CLIENTS: Mutex<Vec<Client>> = Mutex::named("sqlite-ext clients", Vec::new());

/// How often it is looked, and the pause between two looks: what a client has left open is closed
/// within this time, unless the disk is stuck.
const LOOKS: u32 = 250;
const PAUSE: base::Nanos = base::Nanos::from_millis(1);

struct Client {
    number: u64,
    /// Readable when the process has ended.
    life: OwnedFd,
}

/// A client is served from now on; answers the number for [`leave`]. `None`: its end is not seen.
pub fn enter(life: Option<OwnedFd>) -> Option<u64> {
    let life = life?;
    let mut clients = CLIENTS.lock();
    let number = clients.iter().map(|c| c.number + 1).max().unwrap_or(0);
    clients.push(Client { number, life });
    Some(number)
}

/// Its files are closed.
pub fn leave(number: Option<u64>) {
    CLIENTS.lock().retain(|c| Some(c.number) != number);
}

/// Waits until the files of clients that have ended are closed.
pub fn wait() {
    for _ in 0..LOOKS {
        if !CLIENTS.lock().iter().any(|client| has_ended(&client.life)) {
            return;
        }
        rt::sleep(PAUSE);
    }
}

fn has_ended(life: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(life, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut polled, Some(&now)), Ok(n) if n > 0)
}
