//! `varve serve` as a user runs it: a client by NBD, a power cut, and the state that is saved.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, folder, on_image, run, text, told, varve, words};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server, from its first line on.
struct Server(Child, BufReader<std::process::ChildStdout>);

impl Server {
    fn start(dir: &Path, words: &str) -> Server {
        Server::telling(dir, words, Stdio::inherit())
    }

    fn telling(dir: &Path, words: &str, errors: Stdio) -> Server {
        let mut child = command()
            .current_dir(dir)
            .arg("serve")
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(errors)
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

/// The file of a profile names a model. As an image it would be written over.
#[test]
fn the_file_of_a_profile_is_a_model() {
    let dir = folder();
    let text = varve(&["device", "new", "emmc-odroid-xu4"]).stdout;
    let card = dir.path().join("card.toml");
    std::fs::write(&card, &text).unwrap();
    for name in ["card.toml", "./card.toml,timing.fig8.flush_us=900"] {
        let words = format!("{name} --size 32 --nbd unix:n --kill-at 3");
        let server = Server::start(dir.path(), &words);
        let mut client = Client::new(&dir.path().join("n"));
        assert_eq!(client.write(0, 7), Some(0));
        assert_eq!(client.flush(), Some(0));
        client.read(0);
        let said = server.ended();
        assert!(said.contains("time of the model"), "{said}");
        assert_eq!(std::fs::read(&card).unwrap(), text);
    }
    let words = ["serve", "--nbd", "unix:n", "--save", "x"];
    told(on_image(&words, &card), 2, "--save");
    std::fs::write(&card, "kind = 7").unwrap();
    told(on_image(&words[..3], &card), 2, "card.toml");
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

/// What one client of a device writes, the others read, also a program that has the file open and
/// has read the place before.
#[test]
fn an_open_file_shows_what_another_client_writes() {
    use std::os::unix::fs::FileExt;
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: no /dev/fuse");
        return;
    }
    let dir = folder();
    std::fs::create_dir(dir.path().join("at")).unwrap();
    let words = "emmc-odroid-xu4 --size 32 --file at --nbd unix:n";
    let server = Server::start(dir.path(), words);
    let mut client = Client::new(&dir.path().join("n"));
    let path = dir.path().join("at/device");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let read = || {
        let mut bytes = vec![1; 4096];
        file.read_exact_at(&mut bytes, 4096).unwrap();
        bytes
    };
    assert_eq!(read(), vec![0; 4096]);
    assert_eq!(client.write(1, 7), Some(0));
    assert_eq!(read(), vec![7; 4096]);
    file.write_all_at(&[9; 10], 4096).unwrap();
    assert_eq!(client.read(1)[..12], [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 7, 7]);
    drop((file, client));
    server.signal("-TERM");
    server.ended();
}

/// A server of `emmc-odroid-xu4` as a file that somebody has open, and what it says then.
struct InUse {
    dir: tempfile::TempDir,
    server: Server,
    errors: BufReader<std::process::ChildStderr>,
    file: File,
}

impl InUse {
    /// None where there is no FUSE.
    fn new() -> Option<InUse> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: no /dev/fuse");
            return None;
        }
        let dir = folder();
        std::fs::create_dir(dir.path().join("at")).unwrap();
        let words = "emmc-odroid-xu4 --size 32 --file at --save state";
        let mut server = Server::telling(dir.path(), words, Stdio::piped());
        let errors = BufReader::new(server.0.stderr.take().unwrap());
        let file = File::options()
            .write(true)
            .open(dir.path().join("at/device"));
        Some(InUse {
            dir,
            server,
            errors,
            file: file.unwrap(),
        })
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    fn nonzero_blocks(dir: &Path) -> u64 {
        let state = dir.join("state");
        let shown = varve(&["device", "show", state.to_str().unwrap(), "--json"]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["nonzero_blocks"].as_u64().unwrap()
    }
}

/// What is held back is written although the server was asked to end.
#[test]
fn a_file_in_use_works_until_it_is_closed() {
    use std::os::unix::fs::FileExt;
    let Some(mut at) = InUse::new() else { return };
    at.server.signal("-TERM");
    let said = at.said();
    assert!(
        said.contains("at/device is in use") && said.contains("close it"),
        "{said}"
    );
    at.file.write_all_at(&[7; 8192], 4096).unwrap();
    at.file.sync_all().unwrap();
    drop(at.file);
    at.server.ended();
    assert_eq!(InUse::nonzero_blocks(at.dir.path()), 2);
}

/// A second signal ends it with statistics and the saved state all the same.
#[test]
fn a_file_in_use_is_cut_off_by_a_second_signal() {
    use std::os::unix::fs::FileExt;
    let Some(mut at) = InUse::new() else { return };
    at.file.write_all_at(&[7; 4096], 4096).unwrap();
    at.server.signal("-INT");
    let said = at.said();
    assert!(said.contains("second signal"), "{said}");
    at.server.signal("-INT");
    let statistics = at.server.ended();
    assert!(statistics.contains("flash: "), "{statistics}");
    assert!(
        !at.dir.path().join("at/device").exists(),
        "no mount is left"
    );
    assert!(at.file.sync_all().is_err(), "the disk was pulled");
    assert_eq!(InUse::nonzero_blocks(at.dir.path()), 1);
}

/// The loop device that keeps the file is named.
#[test]
fn a_loop_device_that_keeps_the_file_is_named() {
    let Some(mut at) = InUse::new() else { return };
    let mut losetup = Command::new("losetup");
    losetup.args(["--direct-io=on", "--find", "--show", "at/device"]);
    let made = losetup.current_dir(at.dir.path()).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        eprintln!("skipped: no loop device for us");
        at.server.signal("-TERM");
        drop(at.file);
        at.server.ended();
        return;
    };
    let name = text(&made.stdout).trim().to_string();
    drop(at.file);
    at.server.signal("-TERM");
    let mut line = String::new();
    at.errors.read_line(&mut line).unwrap();
    let detached = Command::new("losetup").args(["-d", &name]).status();
    assert!(detached.unwrap().success());
    assert!(line.contains(&format!("losetup -d {name}")), "{line}");
    at.server.ended();
}

/// What would be out of sight below the mount.
#[test]
fn a_folder_with_content_is_no_place_for_the_file() {
    let dir = folder();
    let image = dir.path().join("img");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let words = ["serve", "--file", dir.path().to_str().unwrap()];
    told(on_image(&words, &image), 2, "it has `img` in it");
}

/// Fields and sizes of the command line are not those of a saved device.
#[test]
fn a_wrong_field_is_named() {
    for (words, says) in [
        ("emmc-odroid-xu4,foo=bar", "unknown field `foo`"),
        ("emmc-odroid-xu4 --size 100T", "--size: "),
        ("nosuch,foo=bar", "no such file, and no profile"),
    ] {
        let dir = folder();
        let out = crate::program::run(&dir, &format!("serve --nbd unix:n {words}"));
        let said = crate::program::words(&out);
        assert_eq!(out.status.code(), Some(2), "{words}: {said}");
        assert!(
            said.contains(says) && !said.contains("saved device"),
            "{words}: {said}"
        );
    }
}

/// A name with an escape sequence and a line end stays within its line, and drives no terminal.
#[test]
fn names_are_shown_and_not_carried_out() {
    let dir = folder();
    let name = "i\u{1b}[2Jm\ng";
    let image = dir.path().join(name);
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let plain = |said: &str| said.contains("i\\x1b[2Jm\\ng") && !said.contains('\u{1b}');
    let mut child = command()
        .current_dir(dir.path())
        .args(["serve", name, "--nbd", &format!("unix:s{name}")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(plain(&line) && line.contains("nbd unix:si"), "{line}");
    let server = Server(child, out);
    server.signal("-TERM");
    server.ended();
    let taken = format!("unix:{name}");
    for words in [
        ["serve", "--nbd", &taken, name],
        ["serve", "--vhost-user", name, name],
        ["serve", "--file", name, name],
        ["serve", "--nbd", "unix:n", &format!("no{name}")],
        ["serve", "--pace=1", "--nbd=unix:n", name],
    ] {
        let out = command()
            .current_dir(dir.path())
            .args(words)
            .output()
            .unwrap();
        let said = crate::program::words(&out);
        assert!(!out.status.success() && plain(&said), "{words:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// An image is not replaced by a socket.
#[test]
fn a_socket_does_not_take_the_place_of_the_image() {
    let dir = folder();
    let image = dir.path().join("img");
    std::fs::write(&image, vec![5; 1 << 20]).unwrap();
    let path = image.to_str().unwrap();
    let nbd = format!("unix:{path}");
    for socket in [["--nbd", &nbd], ["--vhost-user", path]] {
        let words = [&["serve"][..], &socket].concat();
        told(on_image(&words, &image), 1, "there is a file already");
    }
    assert_eq!(std::fs::read(&image).unwrap(), vec![5; 1 << 20]);
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

/// A name under which nothing can be saved is refused before anybody has written.
#[test]
fn a_state_that_cannot_be_saved_is_refused_at_the_start() {
    let dir = folder();
    std::fs::write(dir.path().join("mine"), b"mine").unwrap();
    for (path, why) in [("mine", "--force"), ("nowhere/state", "No such file")] {
        let line = format!("serve emmc-odroid-xu4 --size 32 --nbd unix:n --save {path}");
        let out = run(dir.path(), &line);
        let said = words(&out);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("--save: ") && said.contains(why), "{said}");
        assert!(!said.contains("serving"), "{said}");
    }
    assert_eq!(std::fs::read(dir.path().join("mine")).unwrap(), b"mine");
    // The state goes on by another name of its own.
    let first = Server::start(
        dir.path(),
        "emmc-odroid-xu4 --size 32 --nbd unix:n --save s",
    );
    first.signal("-TERM");
    first.ended();
    let again = Server::start(dir.path(), "s --nbd unix:n --save ./s");
    again.signal("-TERM");
    again.ended();
}

#[test]
fn statistics_that_nobody_can_print_cost_no_state() {
    let dir = folder();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let words = "serve emmc-odroid-xu4 --size 32 --nbd unix:n --save state";
    let mut child = command()
        .current_dir(dir.path())
        .args(words.split(' '))
        .stdout(writer.try_clone().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(reader);
    out.read_line(&mut String::new()).unwrap();
    let mut client = Client::new(&dir.path().join("n"));
    assert_eq!(client.write(1, 7), Some(0));
    // A pipe that is full, and says so instead of waiting.
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    for bytes in [&[0; 4096][..], &[0]] {
        while writer.write(bytes).is_ok() {}
    }
    let id = child.id().to_string();
    Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let server = Server::start(dir.path(), "state --nbd unix:n");
    let mut client = Client::new(&dir.path().join("n"));
    assert_eq!(client.read(1), vec![7; 4096]);
    server.signal("-TERM");
    server.ended();
}

#[test]
fn a_file_of_a_device_that_is_read_only_cannot_be_changed() {
    use std::os::unix::fs::FileExt;
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: no /dev/fuse");
        return;
    }
    let dir = folder();
    std::fs::create_dir(dir.path().join("at")).unwrap();
    let words = "emmc-odroid-xu4 --size 32 --file at --read-only";
    let server = Server::start(dir.path(), words);
    let path = dir.path().join("at/device");
    if let Ok(file) = File::options().write(true).open(&path) {
        assert!(file.write_all_at(&[9; 512], 0).is_err());
    }
    assert_eq!(File::open(&path).unwrap().read(&mut [1; 1]).unwrap(), 1);
    server.signal("-TERM");
    let said = server.ended();
    assert!(said.contains(" 0 writes"), "{said}");
}
