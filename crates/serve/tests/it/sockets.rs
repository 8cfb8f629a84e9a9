//! Names of sockets among the files of the host: what is replaced, and what is left alone.

use crate::device::Spy;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use varve_serve::{Served, nbd, vhost};

/// What each protocol says to a path; none: it listens there.
fn refusals(path: &Path) -> Vec<Option<(ErrorKind, String)>> {
    let told = |e: std::io::Error| (e.kind(), e.to_string());
    let address = nbd::Address::Unix(path.to_path_buf());
    let by_nbd = nbd::Server::bind(&address).err().map(told);
    vec![by_nbd, vhost::Server::bind(path).err().map(told)]
}

#[test]
fn what_is_no_socket_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link, folder) = (
        dir.path().join("image"),
        dir.path().join("link"),
        dir.path().join("folder"),
    );
    fs::write(&file, b"content").unwrap();
    symlink(&file, &link).unwrap();
    fs::create_dir(&folder).unwrap();
    for (path, kind) in [
        (&file, "a file"),
        (&link, "a symbolic link"),
        (&folder, "a folder"),
    ] {
        for refusal in refusals(path) {
            let (error, text) = refusal.expect("it is refused");
            assert_eq!(error, ErrorKind::AlreadyExists);
            assert!(text.contains(kind) && text.contains("left alone"), "{text}");
        }
    }
    assert_eq!(fs::read(&file).unwrap(), b"content");
    assert!(link.is_symlink() && folder.is_dir());
}

#[test]
fn a_link_to_a_socket_that_was_left_behind_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, link) = (dir.path().join("socket"), dir.path().join("link"));
    drop(UnixListener::bind(&socket).unwrap());
    symlink(&socket, &link).unwrap();
    for refusal in refusals(&link) {
        let (_, text) = refusal.expect("it is refused");
        assert!(text.contains("a symbolic link"), "{text}");
    }
    assert!(link.is_symlink() && socket.exists());
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    for refusal in refusals(&path) {
        let (error, text) = refusal.expect("it is refused");
        assert_eq!(error, ErrorKind::AddrInUse);
        assert!(text.contains("somebody listens"), "{text}");
    }
    drop(listener);
    assert_eq!(refusals(&path), [None, None]);
}

/// A server that ends removes its own name only.
#[test]
fn what_took_the_name_of_a_socket_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let served = Arc::new(Served::new(Spy::new(true)).unwrap());
    served.end();
    for replaced in [true, false] {
        let address = nbd::Address::Unix(path.clone());
        let by_nbd = nbd::Server::bind(&address).unwrap();
        replace(&path, replaced);
        by_nbd
            .run(&served, &nbd::Options::default(), |_| ())
            .unwrap();
        assert_eq!(path.exists(), replaced);
        let _ = fs::remove_file(&path);
        let by_vhost = vhost::Server::bind(&path).unwrap();
        assert!(path.symlink_metadata().unwrap().file_type().is_socket());
        replace(&path, replaced);
        by_vhost
            .run(&served, &vhost::Options::default(), &mut |_| ())
            .unwrap();
        assert_eq!(path.exists(), replaced);
        let _ = fs::remove_file(&path);
    }
}

/// Another file takes the place of the socket.
fn replace(path: &Path, really: bool) {
    if really {
        fs::remove_file(path).unwrap();
        fs::write(path, b"mine").unwrap();
    }
}
