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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::volume;
    use crate::state::acknowledged;
    use std::io::Read;

    #[test]
    fn a_line_takes_so_much_memory_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let fs = volume(32 << 20, (0, 0)).expect("a volume");
        let recorder = Recorder::new(fs, 16 << 20, &[], Box::new(|_| ()));
        recorder.begin().expect("an empty volume");
        let at = folder.path().join("socket");
        let socket = AckSocket::listen(&at, &recorder).expect("a socket");
        let mut client = UnixStream::connect(&at).expect("it listens");
        let line = [vec![b'x'; 70_000], b"\nshort\n".to_vec()].concat();
        client.write_all(&line).expect("it is read");
        let mut answers = [0; 9];
        client.read_exact(&mut answers).expect("three answers");
        assert_eq!(&answers, b"ok\nok\nok\n");
        socket.close();
        assert!(UnixStream::connect(&at).is_err(), "nobody listens");
        let recording = recorder.end().expect("room").0;
        let told = acknowledged(&recording, recording.calls.len());
        let lengths: Vec<usize> = told.iter().map(|line| line.len()).collect();
        assert_eq!(lengths, [65_536, 70_000 - 65_536, 5]);
    }
}
