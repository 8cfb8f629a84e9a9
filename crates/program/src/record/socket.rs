//! Acknowledgements over a socket, for clients of a server: a line in, `ok` back when it is noted.
//!
//! A client may go without waiting for the answer: what it has sent until the socket is closed
//! counts, whoever has not read it yet.

use super::Recorder;
use base::Nanos;
use rt::JoinHandle;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::Requester;

/// Longest line in bytes; what is longer counts as several.
const LINE_BYTES_MAX: usize = 64 << 10;
/// How long the listener waits when the host refuses a client, as where there are no descriptors.
const REFUSED: Nanos = Nanos(20_000_000);

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
        let listener = rt::try_spawn("acknowledgements", move || {
            let mut clients = Vec::new();
            while !ended.load(Ordering::Acquire) {
                let client = socket.accept();
                match client.and_then(|(client, _)| Client::of(client, &recorder)) {
                    Ok(client) => clients.push(client),
                    Err(_) => rt::sleep(REFUSED),
                }
                clients.retain(|client: &Client| !client.task.is_finished());
            }
            // Those that have connected and were not looked at yet.
            let waiting = match socket.set_nonblocking(true) {
                Ok(()) => socket.incoming().map_while(Result::ok).collect(),
                Err(_) => Vec::new(),
            };
            clients.extend(
                waiting
                    .into_iter()
                    .filter_map(|client| Client::of(client, &recorder).ok()),
            );
            clients.into_iter().for_each(Client::end);
        })?;
        Ok(AckSocket {
            path: path.into(),
            over,
            listener,
        })
    }

    /// Notes what clients have sent until now, and takes nothing further.
    pub fn close(self) {
        self.over.store(true, Ordering::Release);
        // The listener may be waiting for a client.
        if UnixStream::connect(&self.path).is_ok() {
            // Its panic would have been reported where it happened.
            let _ = self.listener.join();
        }
    }
}

/// A client, and who answers it.
struct Client {
    stream: Arc<UnixStream>,
    task: JoinHandle<()>,
}

impl Client {
    /// Without a thread the connection ends, and the client hears that nothing was acknowledged.
    fn of(stream: UnixStream, recorder: &Arc<Recorder>) -> io::Result<Client> {
        let stream = Arc::new(stream);
        let (served, recorder) = (Arc::clone(&stream), Arc::clone(recorder));
        let task = rt::try_spawn("acknowledging client", move || {
            // The host tells no more of it, so it has gone.
            let _ = serve(&served, &recorder);
        })?;
        Ok(Client { stream, task })
    }

    /// Waits until all is noted that it has sent.
    fn end(self) {
        // What it sent before can still be read. It may have gone.
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.task.join();
    }
}

/// Answers one client until it goes.
fn serve(client: &UnixStream, recorder: &Recorder) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(client)?;
    let thread = Requester(peer.pid.as_raw_pid() as u32);
    let mut lines = BufReader::new(client);
    let mut cut = Vec::new();
    loop {
        let mut line = std::mem::take(&mut cut);
        let room = LINE_BYTES_MAX - line.len();
        let read = lines
            .by_ref()
            .take(room as u64)
            .read_until(b'\n', &mut line);
        if line.is_empty() {
            return read.map(drop);
        }
        // At the end of the room a character may have been cut in two.
        if line.len() == LINE_BYTES_MAX
            && let Err(e) = std::str::from_utf8(&line)
            && e.error_len().is_none()
        {
            cut = line.split_off(e.valid_up_to());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        thread.scope(|| recorder.acknowledge(text));
        // A client that does not wait for the answer may have gone; what else it sent counts.
        let mut back = client;
        let _ = back.write_all(b"ok\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::volume;
    use crate::state::acknowledged;
    use tempfile::TempDir;

    fn listening() -> (TempDir, PathBuf, Arc<Recorder>, AckSocket) {
        let folder = tempfile::tempdir().expect("a folder");
        let fs = volume(32 << 20, (0, 0)).expect("a volume");
        let recorder = Recorder::new(fs, 16 << 20, &[], Box::new(|_| ()));
        recorder.begin().expect("an empty volume");
        let at = folder.path().join("socket");
        let socket = AckSocket::listen(&at, &recorder).expect("a socket");
        (folder, at, recorder, socket)
    }

    fn told(recorder: &Recorder) -> Vec<String> {
        let recording = recorder.end().expect("room").0;
        let told = acknowledged(&recording, recording.calls.len());
        told.into_iter().map(String::from).collect()
    }

    #[test]
    fn clients_that_do_not_wait_for_the_answer_are_heard() {
        let (_folder, at, recorder, socket) = listening();
        let mut open = Vec::new();
        for n in 0..50 {
            let mut client = UnixStream::connect(&at).expect("it listens");
            let lines = format!("{n} one\n{n} two\n{n} unended");
            client.write_all(lines.as_bytes()).expect("room");
            // Every other one goes at once.
            open.extend((n % 2 == 0).then_some(client));
        }
        socket.close();
        let told = told(&recorder);
        for n in 0..50 {
            for word in ["one", "two", "unended"] {
                let line = format!("{n} {word}");
                assert!(told.contains(&line), "{line} is lost: {told:?}");
            }
        }
        assert_eq!(told.len(), 150);
    }

    #[test]
    fn a_line_that_is_no_utf_8_ends_nothing() {
        let (_folder, at, recorder, socket) = listening();
        let mut client = UnixStream::connect(&at).expect("it listens");
        // The second byte of the last character that fits lies behind the room.
        let long = "x".repeat(LINE_BYTES_MAX - 1) + "\u{e4}y\n";
        client.write_all(b"\xff\xfe\n").expect("room");
        client.write_all(long.as_bytes()).expect("it is read");
        client.write_all(b"last\n").expect("room");
        let mut answers = [0; 12];
        client.read_exact(&mut answers).expect("four answers");
        socket.close();
        let told = told(&recorder);
        assert_eq!(told[0], "\u{fffd}\u{fffd}");
        assert_eq!(told[1].len(), LINE_BYTES_MAX - 1);
        assert_eq!(&told[2..], ["\u{e4}y", "last"]);
    }

    #[test]
    fn a_line_takes_so_much_memory_and_no_more() {
        let (_folder, at, recorder, socket) = listening();
        let mut client = UnixStream::connect(&at).expect("it listens");
        let line = [vec![b'x'; 70_000], b"\nshort\n".to_vec()].concat();
        client.write_all(&line).expect("it is read");
        let mut answers = [0; 9];
        client.read_exact(&mut answers).expect("three answers");
        assert_eq!(&answers, b"ok\nok\nok\n");
        socket.close();
        assert!(UnixStream::connect(&at).is_err(), "nobody listens");
        let lengths: Vec<usize> = told(&recorder).iter().map(String::len).collect();
        assert_eq!(lengths, [65_536, 70_000 - 65_536, 5]);
    }
}
