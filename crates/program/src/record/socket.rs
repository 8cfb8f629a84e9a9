//! Acknowledgements over a socket, for clients of a server: a line in, `ok` back when it is noted.

use super::Recorder;
use rt::JoinHandle;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::Requester;

/// Longest line in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A Unix socket that takes acknowledgements.
pub struct AckSocket {
    path: PathBuf,
    over: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

impl AckSocket {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The host refuses.
    pub fn listen(path: &Path, recorder: &Arc<Recorder>) -> io::Result<AckSocket> {
        let socket = UnixListener::bind(path)?;
        let over = Arc::new(AtomicBool::new(false));
        let (ended, recorder) = (Arc::clone(&over), Arc::clone(recorder));
        let listener = rt::spawn("acknowledgements", move || {
            for client in socket.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let recorder = Arc::clone(&recorder);
                // A client that stays is let go with the process.
                let _task = rt::spawn("acknowledging client", move || {
                    // A client that has gone wants no answer.
                    let _ = serve(&client, &recorder);
                });
            }
        });
        Ok(AckSocket {
            path: path.into(),
            over,
            listener,
        })
    }

    /// Takes no further clients.
    pub fn close(self) {
        self.over.store(true, Ordering::Release);
        if UnixStream::connect(&self.path).is_ok() {
            // Its panic would have been reported where it happened.
            let _ = self.listener.join();
        }
    }
}

/// Answers one client until it goes.
fn serve(client: &UnixStream, recorder: &Recorder) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(client)?;
    let thread = Requester(peer.pid.as_raw_pid() as u32);
    let mut lines = BufReader::new(client);
    loop {
        let mut line = String::new();
        let mut limited = io::Read::take(&mut lines, LINE_BYTES_MAX);
        if limited.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let text = line.trim_end_matches(['\r', '\n']);
        thread.scope(|| recorder.acknowledge(text));
        let mut back = client;
        back.write_all(b"ok\n")?;
    }
}
