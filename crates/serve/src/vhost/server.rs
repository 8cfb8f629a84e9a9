//! The socket: who connects is served until it goes, then the next one.

use super::session::Session;
use crate::Served;
use crate::socket::{Close, Named, next_client};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// How the device shows itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Most queues, 1 to 16.
    pub queues: u16,
    /// Refuse writes.
    pub read_only: bool,
    /// The device began blank with this server, so nobody may go on with what an earlier one held.
    pub blank: bool,
    /// The serial number, of which 20 bytes are told.
    pub id: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            queues: 4,
            read_only: false,
            blank: false,
            id: "varve".into(),
        }
    }
}

/// A Unix socket for clients of vhost-user.
pub struct Server {
    socket: Named,
}

impl Server {
    /// Makes the socket. One that is left behind, at which nobody listens, is replaced.
    ///
    /// # Errors
    /// Somebody listens there, something else than a socket has the name, or the host refuses.
    pub fn bind(path: &Path) -> io::Result<Server> {
        let socket = Named::bind(path)?;
        Ok(Server { socket })
    }

    /// Serves clients, one after the other, until [`Served::end`]; then removes the socket. `tell`
    /// hears why a connection was closed that the client did not end.
    ///
    /// # Errors
    /// The host fails.
    pub fn run(
        self,
        served: &Served,
        options: &Options,
        tell: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let mut knows = false;
        let done = loop {
            let listener = &self.socket.listener;
            let accept = || listener.accept();
            match next_client(listener.as_fd(), served, accept) {
                Ok(Some((stream, _))) => {
                    let (why, knew) = Session::new(served, options, stream, knows).run();
                    knows = knew;
                    if let Close::Broken(why) = why {
                        tell(&format!("a client of vhost-user is let go: {why}"));
                    }
                }
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.socket.remove();
        done
    }
}
