//! The spy that tests put between a front door and a file system does what its faults say.

use fscore::{
    Creds, Errno, FallocateMode, FileFlags, FileKind, FileSystem, FsError, FsResult, RenameMode,
    SetAttr, XattrMode,
};
use testkit::model::ModelFs;
use testkit::spy::{Fault, SpyFs};

/// Every call that changes something, on a file `f` and an empty directory `d`.
fn changes(fs: &SpyFs) -> Vec<(&'static str, FsResult<()>)> {
    let root = fs.root();
    let file = fs.lookup(root, b"f").unwrap();
    let creds = Creds::default();
    let (kind, mode) = (FileKind::File, XattrMode::Any);
    let size = SetAttr {
        size: Some(5),
        ..SetAttr::default()
    };
    vec![
        ("setattr", fs.setattr(file, &size).map(drop)),
        (
            "create",
            fs.create(root, b"n", kind, 0o644, 0, creds).map(drop),
        ),
        ("mkdir", fs.mkdir(root, b"m", 0o755, creds).map(drop)),
        ("symlink", fs.symlink(root, b"s", b"f", creds).map(drop)),
        ("link", fs.link(file, root, b"l").map(drop)),
        (
            "rename",
            fs.rename(root, b"f", root, b"g", RenameMode::Replace),
        ),
        ("unlink", fs.unlink(root, b"f")),
        ("rmdir", fs.rmdir(root, b"d")),
        ("write", fs.write(file, 0, b"x").map(drop)),
        ("setxattr", fs.setxattr(file, b"user.a", b"x", mode)),
        ("removexattr", fs.removexattr(file, b"user.b")),
        (
            "fallocate",
            fs.fallocate(file, FallocateMode::Allocate, 0, 9),
        ),
        ("tmpfile", fs.tmpfile(root, 0o600, creds).map(drop)),
        ("trim", fs.trim(0..1 << 20, 1).map(drop)),
        (
            "set_file_flags",
            fs.set_file_flags(file, FileFlags::default()),
        ),
        ("set_project", fs.set_project(file, 0)),
    ]
}

#[test]
fn a_read_only_file_system_refuses_every_change_and_nothing_else() {
    let fs = SpyFs::new(ModelFs::new());
    let (root, creds) = (fs.root(), Creds::default());
    let file = fs
        .create(root, b"f", FileKind::File, 0o644, 0, creds)
        .unwrap();
    fs.setxattr(file.ino, b"user.b", b"y", XattrMode::Any)
        .unwrap();
    fs.mkdir(root, b"d", 0o755, creds).unwrap();
    let refused = |result: &FsResult<()>| matches!(result, Err(FsError::Posix(Errno::RoFs)));
    fs.take();
    fs.plant(Some(Fault::ReadOnly));
    for (call, result) in changes(&fs) {
        assert!(refused(&result), "{call}: {result:?}");
    }
    assert_eq!(fs.take(), [], "nothing was changed");
    fs.fsync(file.ino, false).unwrap();
    assert_eq!(fs.read(file.ino, 0, &mut [0]).unwrap(), 0);
    fs.plant(None);
    for (call, result) in changes(&fs) {
        assert!(!refused(&result), "{call}: {result:?}");
    }
}
