//! The listening socket, and a task for each client.

use super::address::Address;
use super::hello;
use super::transmit;
use crate::Served;
use crate::socket::{Close, Named, next_client, send, wait_until};
use base::{Nanos, Time};
use rt::JoinHandle;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Most clients at once; each has memory for what is on its way.
const CLIENTS_MAX: usize = 16;

/// Least time between two reports of clients that were not let in.
const QUIET: Nanos = Nanos(1_000_000_000);

/// How the device shows itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The name of the export; the empty name asks for it as well.
    pub name: String,
    /// Refuse writes.
    pub read_only: bool,
    /// How long a client may take until it has chosen an export: those who have not keep others
    /// out.
    pub patience: Nanos,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: String::new(),
            read_only: false,
            patience: Nanos(10_000_000_000),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(Named),
}

/// A socket for clients of NBD.
pub struct Server {
    listener: Listener,
    address: Address,
}

impl Server {
    /// Listens. A Unix socket that is left behind, at which nobody listens, is replaced.
    ///
    /// # Errors
    /// Somebody listens there, something else than a socket has the name, or the host refuses.
    pub fn bind(address: &Address) -> io::Result<Server> {
        let (listener, address) = match address {
            Address::Unix(path) => (Listener::Unix(Named::bind(path)?), address.clone()),
            Address::Tcp(host, port) => {
                let listener = TcpListener::bind((host.as_str(), *port))?;
                listener.set_nonblocking(true)?;
                // Port 0 stands for one that is free.
                let port = listener.local_addr()?.port();
                (Listener::Tcp(listener), Address::Tcp(host.clone(), port))
            }
        };
        Ok(Server { listener, address })
    }

    /// Where it listens, with the port that was chosen.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Serves clients until [`Served::end`]. `tell` hears why a connection was closed that the
    /// client did not end.
    ///
    /// # Errors
    /// The host fails.
    pub fn run(
        self,
        served: &Arc<Served>,
        options: &Options,
        tell: impl Fn(&str) + Send + Clone + 'static,
    ) -> io::Result<()> {
        let mut clients = Vec::new();
        let mut refused = Refused::default();
        let done = loop {
            let stream = match self.accept(served) {
                Ok(Some(stream)) => stream,
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            };
            // A thread that has ended keeps its stack until somebody joins it.
            let ended = clients.extract_if(.., |client: &mut JoinHandle<()>| client.is_finished());
            join(ended.collect())?;
            if clients.len() >= CLIENTS_MAX {
                if let Some(text) = refused.one_more(rt::now()) {
                    tell(&text);
                }
                continue;
            }
            let (served, options, tell) = (served.clone(), options.clone(), tell.clone());
            let told = tell.clone();
            let client = rt::try_spawn("nbd client", move || {
                if let Close::Broken(why) = serve(&stream, &served, &options) {
                    tell(&format!("a client of NBD is let go: {why}"));
                }
            });
            match client {
                Ok(client) => clients.push(client),
                // Its connection has been dropped, so that it may try elsewhere, or again.
                Err(e) => told(&format!("a client of NBD is let go: no thread for it: {e}")),
            }
        };
        if let Some(text) = refused.told() {
            tell(&text);
        }
        if done.is_err() {
            served.end();
        }
        join(clients)?;
        if let Listener::Unix(socket) = &self.listener {
            socket.remove();
        }
        done
    }

    fn accept(&self, served: &Served) -> io::Result<Option<OwnedFd>> {
        match &self.listener {
            Listener::Unix(socket) => next_client(socket.listener.as_fd(), served, || {
                socket.listener.accept().map(|(stream, _)| stream.into())
            }),
            Listener::Tcp(listener) => next_client(listener.as_fd(), served, || {
                let (stream, _) = listener.accept()?;
                // An answer is whole when it is sent: nothing is gained by holding it back.
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }),
        }
    }
}

/// Clients that were not let in. Each may come again at once, so they are told of together.
#[derive(Default)]
struct Refused {
    /// Since the last report.
    count: u64,
    reported: Option<Time>,
}

impl Refused {
    /// Another one; a report, if one is due.
    fn one_more(&mut self, now: Time) -> Option<String> {
        self.count += 1;
        let quiet = |last: Time| now < last + QUIET;
        if self.reported.is_some_and(quiet) {
            return None;
        }
        self.reported = Some(now);
        self.told()
    }

    /// A report of those that no report was of.
    fn told(&mut self) -> Option<String> {
        let who = match std::mem::take(&mut self.count) {
            0 => return None,
            1 => "a client of NBD is".to_string(),
            n => format!("{n} clients of NBD are"),
        };
        Some(format!(
            "{who} not let in: there are too many, {CLIENTS_MAX} at most"
        ))
    }
}

fn join(clients: Vec<JoinHandle<()>>) -> io::Result<()> {
    for client in clients {
        let ended = client.join();
        ended.map_err(|_| io::Error::other("a client's task panicked"))?;
    }
    Ok(())
}

/// A connection, and the device behind it.
pub(super) struct Wire<'a> {
    pub stream: BorrowedFd<'a>,
    pub served: &'a Served,
    /// When the client is let go that is waited for.
    pub until: Option<Time>,
}

impl Wire<'_> {
    /// Fills `buf`.
    pub fn receive(&self, buf: &mut [u8]) -> Result<(), Close> {
        let mut at = 0;
        while at < buf.len() {
            match recv(self.stream, &mut buf[at..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Close::ByClient),
                Ok((n, _)) => at += n,
                Err(Errno::AGAIN) => {
                    wait_until(self.stream, self.served, PollFlags::IN, self.until)?;
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(Close::ByClient),
            }
        }
        Ok(())
    }

    pub fn send(&self, bytes: &[u8]) -> Result<(), Close> {
        send(self.stream, self.served, self.until, bytes)
    }
}

fn serve(stream: &OwnedFd, served: &Arc<Served>, options: &Options) -> Close {
    let mut wire = Wire {
        stream: stream.as_fd(),
        served,
        until: Some(rt::now() + options.patience),
    };
    match hello::agree(&wire, options) {
        Ok(agreed) => {
            wire.until = None;
            transmit::run(&wire, stream, served, options, agreed)
        }
        Err(why) => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_not_let_in_are_told_of_once_a_second() {
        let mut refused = Refused::default();
        let mut at = |ms: u64| refused.one_more(Time(ms * 1_000_000));
        assert!(at(0).unwrap().starts_with("a client of NBD is"));
        assert_eq!((at(1), at(999)), (None, None));
        assert!(at(1000).unwrap().starts_with("3 clients of NBD are"));
        assert_eq!(at(1500), None);
        assert!(refused.told().unwrap().starts_with("a client"));
        assert_eq!(refused.told(), None);
    }
}
