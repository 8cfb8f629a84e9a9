//! `varve serve` as a user runs it: a client by NBD, a power cut, and the state that is saved.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, folder, on_image, text, told, varve};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server, from its first line on.
struct Server(Child, BufReader<std::process::ChildStdout>);

impl Server {
    fn start(dir: &Path, words: &str) -> Server {
        let mut child = command()
            .current_dir(dir)
            .arg("serve")
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("serving "), "{line}");
        Server(child, out)
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }

    /// Waits for its end; what it printed since.
    fn ended(mut self) -> String {
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success(), "{rest}");
        rest
    }
}

/// A client of NBD that asks in the oldest way.
struct Client(UnixStream);

impl Client {
    fn new(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        let option = [
            &3u32.to_be_bytes()[..],
            b"IHAVEOPT",
            &1u32.to_be_bytes(),
            &[0; 4],
        ];
        stream.write_all(&option.concat()).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Client(stream)
    }

    /// The error of the answer; none if there is no answer.
    fn ask(&mut self, kind: u16, offset: u64, len: u32, sent: &[u8]) -> Option<u32> {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(sent);
        self.0.write_all(&bytes).ok()?;
        let mut answer = [0; 16];
        self.0.read_exact(&mut answer).ok()?;
        Some(u32::from_be_bytes(answer[4..8].try_into().unwrap()))
    }

    fn write(&mut self, block: u64, byte: u8) -> Option<u32> {
        self.ask(1, block * 4096, 4096, &[byte; 4096])
    }

    fn flush(&mut self) -> Option<u32> {
        self.ask(3, 0, 0, &[])
    }

    fn read(&mut self, block: u64) -> Vec<u8> {
        assert_eq!(self.ask(0, block * 4096, 4096, &[]), Some(0));
        let mut bytes = vec![0; 4096];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

/// What a flush covered is there after the cut, the last command too, and nothing behind it.
#[test]
fn a_cut_after_a_command_leaves_what_the_device_promised() {
    let dir = folder();
    let dir = dir.path();
    let words = "emmc-odroid-xu4 --size 32 --nbd unix:n --kill-at 4 --save state";
    let server = Server::start(dir, words);
    let mut client = Client::new(&dir.join("n"));
    assert_eq!(client.write(1, 1), Some(0));
    assert_eq!(client.write(2, 2), Some(0));
    assert_eq!(client.flush(), Some(0));
    let _ = client.write(3, 3);
    assert_ne!(client.write(4, 4), Some(0), "the power is gone");
    let said = server.ended();
    assert!(
        said.contains("flushes") && said.contains("write amplification"),
        "{said}"
    );
    let shown = varve(&["device", "show", dir.join("state").to_str().unwrap()]);
    assert!(text(&shown.stdout).contains("emmc-odroid-xu4"));
    // The state goes on.
    let server = Server::start(dir, "state --nbd unix:n --save state");
    let mut client = Client::new(&dir.join("n"));
    assert_eq!((client.read(1)[0], client.read(2)[4095]), (1, 2));
    assert_eq!(client.read(4), vec![0; 4096]);
    assert_eq!(client.write(5, 5), Some(0));
    server.signal("-TERM");
    server.ended();
    // It was switched off in order: its cache was not lost.
    let server = Server::start(dir, "state --nbd unix:n --read-only");
    let mut client = Client::new(&dir.join("n"));
    assert_eq!(client.read(5), vec![5; 4096]);
    assert_eq!(client.write(5, 6), Some(1));
    server.signal("-INT");
    server.ended();
}

#[test]
fn a_cut_at_a_time_comes_without_a_command() {
    let dir = folder();
    let words = "nandsim-2007 --size 32 --nbd unix:n --pace 0.1 --kill-at 1s --save state";
    let said = Server::start(dir.path(), words).ended();
    assert!(said.contains("time of the model: 1.000000 s"), "{said}");
    assert!(dir.path().join("state").exists());
}

#[test]
fn an_image_is_changed_in_place_and_statistics_come_on_demand() {
    let dir = folder();
    let image = dir.path().join("img");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let mut server = Server::start(dir.path(), "img --nbd unix:n");
    let mut client = Client::new(&dir.path().join("n"));
    assert_eq!(client.write(3, 7), Some(0));
    assert_eq!(client.flush(), Some(0));
    server.signal("-USR1");
    let line = server.line();
    assert!(
        line.contains("1 writes (4 KiB, 0 with FUA), 1 flushes"),
        "{line}"
    );
    server.signal("-TERM");
    server.ended();
    let content = std::fs::read(&image).unwrap();
    assert_eq!(content[3 * 4096..4 * 4096], [7; 4096]);
}

/// The device as a file of FUSE: parts of sectors, a sync, and its end.
#[test]
fn a_file_is_the_device() {
    use std::os::unix::fs::FileExt;
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: no /dev/fuse");
        return;
    }
    let dir = folder();
    std::fs::create_dir(dir.path().join("at")).unwrap();
    let server = Server::start(
        dir.path(),
        "emmc-odroid-xu4 --size 32 --file at --save state",
    );
    let path = dir.path().join("at/device");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 32 << 20);
    file.write_all_at(&[9; 700], 1000).unwrap();
    file.sync_all().unwrap();
    let mut bytes = [1; 702];
    file.read_exact_at(&mut bytes, 999).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[700], bytes[701]), (0, 9, 9, 0));
    drop(file);
    server.signal("-TERM");
    let said = server.ended();
    assert!(!said.contains(" 0 flushes"), "{said}");
    assert!(!path.exists(), "the mount is gone");
    let shown = varve(&[
        "device",
        "show",
        dir.path().join("state").to_str().unwrap(),
        "--json",
    ]);
    assert!(
        text(&shown.stdout).contains("\"nonzero_blocks\": 1"),
        "{}",
        text(&shown.stdout)
    );
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let dir = folder();
    let image = dir.path().join("img");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    for option in [
        ["--pace", "1"],
        ["--kill-at", "1"],
        ["--save", "x"],
        ["--size", "1"],
    ] {
        let words = [&["serve", "--nbd", "unix:n"][..], &option].concat();
        told(on_image(&words, &image), 2, option[0]);
    }
    std::fs::write(dir.path().join("cut"), b"VARVEDEV").unwrap();
    let cut = dir.path().join("cut");
    told(
        on_image(&["serve", "--nbd", "unix:n"], &cut),
        1,
        "cut short",
    );
    let none = dir.path().join("none");
    told(
        on_image(&["serve", "--nbd", "unix:n"], &none),
        2,
        "no such file",
    );
}
