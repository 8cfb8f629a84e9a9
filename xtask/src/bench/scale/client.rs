//! A program that uses a mount: `cargo xtask bench scale-client`, a process of its own, as clients
//! of a mount are.
//!
//! It says `ready`, waits for a line, works, says `done N` with the number of its operations, and
//! then looks at all of its files once more for every line that it gets (`same`), until its input
//! ends.

use super::at;
use crate::Result;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of each file of `--count`.
const FILE_BYTES: usize = 4096;
/// Files that a client of a soak keeps.
const KEPT: usize = 200;
const LARGE_BYTES: u64 = 96 << 10;

#[derive(clap::Args)]
pub struct Args {
    /// The directory that it works in
    dir: PathBuf,
    /// Its number: names and content follow from it
    number: u64,
    /// Makes, writes, renames so many files, and removes some
    #[arg(long)]
    count: Option<u64>,
    /// Changes files at random for so many seconds
    #[arg(long)]
    seconds: Option<u64>,
}

/// Runs a client to its end.
pub fn run(args: &Args) -> Result {
    let mut lines = std::io::stdin().lines();
    let mut next = move || lines.next().is_some_and(|line| line.is_ok());
    let mut client = Client {
        dir: args.dir.clone(),
        number: args.number,
        files: BTreeMap::new(),
        random: Random(args.number ^ 0x5eed),
    };
    say("ready")?;
    if !next() {
        return Ok(());
    }
    let done = match (args.count, args.seconds) {
        (Some(count), _) => client.make(count)?,
        (None, seconds) => client.change(Duration::from_secs(seconds.unwrap_or(1)))?,
    };
    say(&format!("done {done}"))?;
    while next() {
        client.look_at_all()?;
        say("same")?;
    }
    Ok(())
}

fn say(what: &str) -> Result {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{what}").and_then(|()| out.flush());
    said.map_err(|e| format!("standard output: {e}"))
}

/// Sebastiano Vigna's SplitMix64: content and choices that a number repeats.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// A client with all that its files have to hold.
struct Client {
    dir: PathBuf,
    number: u64,
    files: BTreeMap<String, Vec<u8>>,
    random: Random,
}

impl Client {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Files are made, written and renamed; one of 16 is synced, one of 4 removed.
    fn make(&mut self, count: u64) -> Result<u64> {
        for n in 0..count {
            let made = format!("client {} makes {n}", self.number);
            let kept = format!("client {} keeps {n}", self.number);
            let content = self.random.bytes(FILE_BYTES);
            let (from, to) = (self.path(&made), self.path(&kept));
            let mut file = File::create_new(&from).map_err(at(&from))?;
            file.write_all(&content).map_err(at(&from))?;
            if n % 16 == 1 {
                file.sync_all().map_err(at(&from))?;
            }
            drop(file);
            fs::rename(&from, &to).map_err(at(&from))?;
            if n % 4 == 0 {
                fs::remove_file(&to).map_err(at(&to))?;
            } else {
                self.files.insert(kept, content);
            }
        }
        Ok(count)
    }

    /// Changes files at random until the time is over.
    fn change(&mut self, time: Duration) -> Result<u64> {
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < time {
            self.step(done)?;
            done += 1;
        }
        self.look_at_all()?;
        Ok(done)
    }

    fn any(&mut self) -> Option<String> {
        let at = self.random.below(self.files.len() as u64) as usize;
        self.files.keys().nth(at).cloned()
    }

    fn step(&mut self, done: u64) -> Result {
        let new = format!("client {} file {done}", self.number);
        let some = match self.any() {
            Some(name) if self.files.len() > KEPT => return self.remove(&name),
            Some(name) => name,
            None => return self.write_new(&new),
        };
        match self.random.below(16) {
            0..=4 => self.write_new(&new),
            5..=7 => self.write_into(&some),
            8 => self.cut(&some),
            9..=10 => self.rename(&some, &new),
            11 => {
                let other = self.any().unwrap_or_else(|| some.clone());
                self.rename(&some, &other)
            }
            12..=13 => self.remove(&some),
            14 => self.hold_removed(&some),
            _ => self.look(&some),
        }
    }

    fn write_new(&mut self, name: &str) -> Result {
        let length = self.random.below(LARGE_BYTES / 2) as usize;
        let content = self.random.bytes(length);
        let path = self.path(name);
        let mut file = File::create_new(&path).map_err(at(&path))?;
        file.write_all(&content).map_err(at(&path))?;
        if self.random.below(8) == 0 {
            file.sync_all().map_err(at(&path))?;
        }
        self.files.insert(name.into(), content);
        Ok(())
    }

    /// Writes anywhere, also beyond the end, where a hole is read as zeros.
    fn write_into(&mut self, name: &str) -> Result {
        let from = self.random.below(LARGE_BYTES) as usize;
        let length = 1 + self.random.below(12_000) as usize;
        let piece = self.random.bytes(length);
        let path = self.path(name);
        let opened = OpenOptions::new().write(true).open(&path);
        let file = opened.map_err(at(&path))?;
        file.write_all_at(&piece, from as u64).map_err(at(&path))?;
        if self.random.below(8) == 0 {
            file.sync_data().map_err(at(&path))?;
        }
        let content = self.files.get_mut(name).expect("it is one of ours");
        let end = from + piece.len();
        content.resize(content.len().max(end), 0);
        content[from..end].copy_from_slice(&piece);
        Ok(())
    }

    fn cut(&mut self, name: &str) -> Result {
        let length = self.random.below(LARGE_BYTES);
        let path = self.path(name);
        let opened = OpenOptions::new().write(true).open(&path);
        let file = opened.map_err(at(&path))?;
        file.set_len(length).map_err(at(&path))?;
        let content = self.files.get_mut(name).expect("it is one of ours");
        content.resize(length as usize, 0);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result {
        let path = self.path(from);
        fs::rename(&path, self.path(to)).map_err(at(&path))?;
        let content = self.files.remove(from).expect("it is one of ours");
        self.files.insert(to.into(), content);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result {
        let path = self.path(name);
        fs::remove_file(&path).map_err(at(&path))?;
        self.files.remove(name);
        Ok(())
    }

    /// Removes a name while the file is open, and reads it then.
    fn hold_removed(&mut self, name: &str) -> Result {
        let path = self.path(name);
        let file = File::open(&path).map_err(at(&path))?;
        fs::remove_file(&path).map_err(at(&path))?;
        let content = self.files.remove(name).expect("it is one of ours");
        let mut read = vec![0; content.len() + 1];
        let mut have = 0;
        loop {
            let got = file.read_at(&mut read[have..], have as u64);
            match got.map_err(at(&path))? {
                0 => break,
                count => have += count,
            }
        }
        same(&path, &read[..have], &content)
    }

    fn look(&self, name: &str) -> Result {
        let path = self.path(name);
        let read = fs::read(&path).map_err(at(&path))?;
        same(&path, &read, &self.files[name])
    }

    /// Names and content are what they have to be. Others may use the directory as well.
    fn look_at_all(&self) -> Result {
        let ours = format!("client {} ", self.number);
        let mut found = 0;
        for entry in fs::read_dir(&self.dir).map_err(at(&self.dir))? {
            let name = entry.map_err(at(&self.dir))?.file_name();
            let name = name.to_string_lossy().to_string();
            if !name.starts_with(&ours) {
                continue;
            }
            if !self.files.contains_key(&name) {
                return Err(format!("{name} is there again"));
            }
            found += 1;
        }
        if found != self.files.len() {
            let all = self.files.len();
            return Err(format!("{}: {found} of {all} names", self.dir.display()));
        }
        self.files.keys().try_for_each(|name| self.look(name))
    }
}

fn same(path: &Path, read: &[u8], content: &[u8]) -> Result {
    if read == content {
        return Ok(());
    }
    let differs = read.iter().zip(content).position(|(a, b)| a != b);
    Err(format!(
        "{}: {} bytes of {}, other ones from {:?} on",
        path.display(),
        read.len(),
        content.len(),
        differs
    ))
}

/// A client from outside.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts one, and waits until it is ready. `amount` is `--count` or `--seconds`.
    pub fn start(dir: &Path, number: u64, amount: (&str, u64)) -> Result<Running> {
        let own = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
        let mut child = Command::new(own)
            .args(["bench", "scale-client"])
            .arg(dir)
            .arg(number.to_string())
            .args([amount.0, &amount.1.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("a client: {e}"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut running = Running {
            child,
            input,
            output,
        };
        running.expect("ready")?;
        Ok(running)
    }

    /// Lets it go on: it works at the first call, and looks at its files at each later one.
    pub fn go(&mut self) -> Result {
        let input = self.input.as_mut().expect("it has not ended");
        writeln!(input, "go").map_err(|e| format!("a client: {e}"))
    }

    /// Waits until it has worked; the number of its operations.
    pub fn done(&mut self) -> Result<u64> {
        let said = self.expect("done ")?;
        said.parse().map_err(|e| format!("a client: {said}: {e}"))
    }

    /// Waits until it has found its files as they have to be.
    pub fn same(&mut self) -> Result {
        self.expect("same").map(drop)
    }

    fn expect(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|e| format!("a client: {e}"))?;
        match line.trim().strip_prefix(word) {
            Some(rest) => Ok(rest.into()),
            None => Err("a client has failed: it has said why".into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of its input is its end.
        self.input = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(dir: &Path) -> Client {
        Client {
            dir: dir.into(),
            number: 7,
            files: BTreeMap::new(),
            random: Random(1),
        }
    }

    #[test]
    fn a_client_sees_its_files_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut client = client(folder.path());
        assert_eq!(client.make(20), Ok(20));
        for n in 0..2000 {
            client.step(n).expect("a good file system");
        }
        client.look_at_all().expect("a good file system");
    }

    /// A byte, a name too many and a name too few are seen.
    #[test]
    fn a_client_sees_what_differs() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut client = client(folder.path());
        client.make(3).expect("a good file system");
        let name = client.any().expect("two");
        let path = client.path(&name);
        let right = fs::read(&path).expect("there");
        let mut wrong = right.clone();
        wrong[4000] ^= 1;
        fs::write(&path, &wrong).expect("room");
        let said = client.look_at_all().unwrap_err();
        assert!(said.contains("from Some(4000)"), "{said}");
        fs::remove_file(&path).expect("there");
        assert!(client.look_at_all().unwrap_err().contains("1 of 2 names"));
        fs::write(&path, &right).expect("room");
        client.look_at_all().expect("as it was");
        fs::write(client.path("client 7 makes 9"), b"").expect("room");
        assert!(client.look_at_all().unwrap_err().contains("again"));
    }
}
