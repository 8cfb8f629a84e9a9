//! A `varve serve` under way, and its statistics.

use crate::Result;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The line that ends the statistics.
const LAST: &str = "home writes";

/// The server. Dropped, it is ended.
pub struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
    pub socket: PathBuf,
}

/// What the device did up to a moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Statistics {
    /// Home writes of the ext4, blocks of 4 KiB.
    pub remapped: u64,
    pub missed: u64,
    pub escaped: u64,
    pub unlogged: u64,
    pub zeros: u64,
    /// Pages of 512 bytes.
    pub programs: u64,
    /// Seconds of the model.
    pub seconds: f64,
}

impl Server {
    /// Serves a device of so many MiB at a socket.
    pub fn start(varve: &Path, device: &str, mib: u64, socket: PathBuf) -> Result<Server> {
        let mut child = Command::new(varve)
            .args([
                "serve",
                device,
                "--size",
                &format!("{mib}M"),
                "--vhost-user",
            ])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", varve.display()))?;
        let said = BufReader::new(child.stdout.take().ok_or("no output of varve serve")?);
        let mut server = Server {
            child,
            said,
            socket,
        };
        server.line()?;
        Ok(server)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.said.read_line(&mut line) {
            Ok(1..) => Ok(line),
            Ok(0) => Err("varve serve has ended".into()),
            Err(e) => Err(format!("reading from varve serve: {e}")),
        }
    }

    fn signal(&self, signal: Signal) -> Result {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|e| format!("a signal to varve serve: {e}"))
    }

    /// Asks for the statistics, as a user does.
    pub fn statistics(&mut self) -> Result<Statistics> {
        self.signal(Signal::USR1)?;
        let mut text = String::new();
        loop {
            let line = self.line()?;
            text += &line;
            if line.starts_with(LAST) {
                return parse(&text);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.signal(Signal::TERM);
        let _ = self.child.wait();
    }
}

/// The number that stands before a word in the line that begins so.
fn number(text: &str, line: &str, word: &str) -> Result<f64> {
    let missing = || format!("no number before `{word}` in a line `{line}` of:\n{text}");
    let found = text.lines().find(|l| l.starts_with(line));
    let words: Vec<&str> = found.ok_or_else(missing)?.split_whitespace().collect();
    let mut pairs = words.windows(2);
    let number = pairs.find_map(|pair| {
        let is = pair[1].trim_end_matches([',', ';']) == word;
        is.then(|| pair[0].parse().ok())?
    });
    number.ok_or_else(missing)
}

/// Reads the statistics of `varve serve`.
fn parse(text: &str) -> Result<Statistics> {
    let home = |word: &str| number(text, LAST, word).map(|n| n as u64);
    Ok(Statistics {
        remapped: home("remapped")?,
        missed: home("missed")?,
        escaped: home("escaped")?,
        unlogged: home("not")?,
        zeros: home("zeros")?,
        programs: number(text, "flash:", "programs")? as u64,
        seconds: number(text, "time of the model:", "s")?,
    })
}

impl Statistics {
    /// What was done since `earlier`.
    pub fn since(&self, earlier: &Statistics) -> Statistics {
        Statistics {
            remapped: self.remapped - earlier.remapped,
            missed: self.missed - earlier.missed,
            escaped: self.escaped - earlier.escaped,
            unlogged: self.unlogged - earlier.unlogged,
            zeros: self.zeros - earlier.zeros,
            programs: self.programs - earlier.programs,
            seconds: self.seconds - earlier.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "5 reads (20 KiB), 7 writes (9 KiB, 0 with FUA)\n\
        time of the model: 1.500000 s\n\
        flash: 800 programs, 3 erases, 4 units of 4 KiB from the host\n\
        home writes of an ext4, blocks: 99 remapped, 1 missed (99.00 % remapped); 4 escaped, 3 not in the journal, 2 zeros\n";

    #[test]
    fn statistics_are_read_and_others_refused() {
        let read = parse(TEXT).unwrap();
        let all = (read.remapped, read.missed, read.escaped, read.unlogged);
        assert_eq!(all, (99, 1, 4, 3));
        assert_eq!((read.zeros, read.programs, read.seconds), (2, 800, 1.5));
        let none = TEXT.replace("blocks: 99", "none of");
        assert!(parse(&none).unwrap_err().contains("before `remapped`"));
    }
}
