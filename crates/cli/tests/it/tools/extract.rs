//! `varve extract` and `cp` out of hostile images.

use super::{empty, fails, is_root, made, tool};
use crate::program::{folder, good, run, text, varve_in as varve};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;

/// A user other than root.
const NOBODY: u32 = 65534;

/// An image of mke2fs, filled by these commands of debugfs; false, said aloud, without e2fsprogs.
fn image(dir: &Path, options: &str, commands: &str) -> bool {
    empty(dir, "image", 32);
    fs::write(dir.join("script"), commands).unwrap();
    made(dir, &format!("mke2fs -q -F {options} image")) && made(dir, "debugfs -w -f script image")
}

/// Runs the program as another user, in a folder of that user.
fn as_nobody(dir: &Path, line: &str) -> Output {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = varve(dir);
    command.args(line.split_whitespace());
    command.uid(NOBODY).gid(NOBODY).output().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Files of root with set-user-ID and set-group-ID, made and extracted by whom.
#[test]
fn rights_go_only_with_their_owner() {
    let dir = folder();
    let dir = dir.path();
    fs::write(dir.join("f"), "#!/bin/sh\n").unwrap();
    let commands = "write f f\nsif f mode 0106755\nmkdir d\nsif d mode 042777\nwrite f plain\n\
                    sif plain mode 0100666\n";
    if !image(dir, "-t ext4", commands) {
        return;
    }
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let out = as_nobody(dir, "extract image user");
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("set-user-ID") && said.contains("2 files"),
        "{said}"
    );
    assert_eq!(mode(&dir.join("user/f")), 0o755);
    // The umask of the tests, 022 as a rule, is obeyed.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rustix::process::umask(umask);
    let left = 0o777 & !umask.as_raw_mode();
    assert_eq!(mode(&dir.join("user/d")), left);
    assert_eq!(mode(&dir.join("user/plain")), left & 0o666);
    let out = as_nobody(dir, "extract -p image exact");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(mode(&dir.join("exact/plain")), 0o666);
    assert_eq!(mode(&dir.join("exact/f")), 0o755);

    good(dir, "extract image root");
    assert_eq!(mode(&dir.join("root/f")), 0o6755);
    assert_eq!(mode(&dir.join("root/d")), 0o2777);
    good(dir, "extract --no-same-permissions image masked");
    assert_eq!(mode(&dir.join("masked/plain")), left & 0o666);
}

/// What root can leave out.
#[test]
fn root_makes_devices_and_owners_unless_told() {
    let dir = folder();
    let dir = dir.path();
    fs::write(dir.join("f"), "x").unwrap();
    let commands = "write f f\nsif f mode 0104755\nsif f uid 1234\nsif f gid 4321\nmknod null c 1 3\nmknod pipe p\n";
    if !image(dir, "-t ext4", commands) {
        return;
    }
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    good(dir, "extract image all");
    let f = fs::metadata(dir.join("all/f")).unwrap();
    assert_eq!((f.uid(), f.gid(), f.mode() & 0o7777), (1234, 4321, 0o4755));
    assert_eq!(fs::metadata(dir.join("all/null")).unwrap().rdev(), 0x103);

    let out = run(dir, "extract --no-devices --no-same-owner image some");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("1 devices left out"));
    let f = fs::metadata(dir.join("some/f")).unwrap();
    assert_eq!((f.uid(), f.gid(), f.mode() & 0o7777), (0, 0, 0o755));
    assert!(!dir.join("some/null").exists() && dir.join("some/pipe").exists());
}

/// A link that the image has in the place of a directory, and two files of one name.
#[test]
fn equal_names_are_told_and_nothing_is_written_through_a_link() {
    let dir = folder();
    let dir = dir.path();
    let outside = dir.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(dir.join("f"), "first").unwrap();
    fs::write(dir.join("g"), "second").unwrap();
    let commands = format!(
        "symlink trap {}\nmkdir trbp\ncd trbp\nwrite f bad\ncd /\nwrite f name\nwrite g namf\n",
        outside.display()
    );
    // Without an index or checksums a changed name is all there is to it.
    if !image(dir, "-t ext2 -O ^dir_index", &commands) {
        return;
    }
    let path = dir.join("image");
    let mut bytes = fs::read(&path).unwrap();
    for (from, to) in [(b"trbp", b"trap"), (b"namf", b"name")] {
        let at = bytes.windows(4).position(|w| w == from).unwrap();
        bytes[at..at + 4].copy_from_slice(to);
    }
    fs::write(&path, bytes).unwrap();
    let said = fails(dir, "extract image out", 1);
    assert_eq!(said.lines().count(), 2, "{said}");
    for word in [
        "image:/name: ",
        "`name.inode-",
        "image:/trap: ",
        "more than once",
    ] {
        assert!(said.contains(word), "{word} in: {said}");
    }
    let read = |name: &str| fs::read_to_string(dir.join("out").join(name)).unwrap();
    assert_eq!(read("name"), "first");
    let (mut dirs, mut files) = (0, 0);
    for entry in fs::read_dir(dir.join("out")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if name.starts_with("name.inode-") {
            assert_eq!(fs::read_to_string(&path).unwrap(), "second");
            files += 1;
        }
        if name.starts_with("trap.inode-") {
            assert_eq!(fs::read_to_string(path.join("bad")).unwrap(), "first");
            dirs += 1;
        }
    }
    assert_eq!((dirs, files), (1, 1));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let listed = good(dir, "ls image");
    assert_eq!(listed.lines().filter(|l| *l == "name").count(), 2);
}

/// One directory that cannot be read, one file of which a block is missing: the rest comes out.
#[test]
fn what_fails_is_named_and_the_rest_goes_on() {
    let dir = folder();
    let dir = dir.path();
    fs::write(dir.join("f"), "content\n").unwrap();
    let commands = "mkdir a\nmkdir b\nmkdir c\ncd a\nwrite f f\ncd /b\nwrite f f\ncd /c\nwrite f f\n\
                    cd /\nwrite f bad\nwrite f good\nsif bad block[0] 99999999\n";
    if !image(dir, "-t ext2 -O ^dir_index -b 4096", commands) {
        return;
    }
    fs::write(dir.join("script"), "bmap /b 0\n").unwrap();
    let out = tool(dir, "debugfs -f script image").unwrap();
    let answer = text(&out.stdout);
    let block: u64 = answer.lines().last().unwrap().trim().parse().unwrap();
    let image = File::options().write(true).open(dir.join("image")).unwrap();
    image.write_all_at(&[0xFF; 512], block * 4096).unwrap();
    let said = fails(dir, "extract image out", 1);
    assert_eq!(said.lines().count(), 2, "{said}");
    for word in ["image:/b: corrupt", "image:/bad: corrupt"] {
        assert!(said.contains(word), "{word} in: {said}");
    }
    for name in ["a/f", "c/f", "good"] {
        assert_eq!(
            fs::read(dir.join("out").join(name)).unwrap(),
            b"content\n",
            "{name}"
        );
    }
    let said = fails(dir, "ls -R image", 1);
    assert!(said.contains("image:/b: corrupt"), "{said}");
    // On the host, too: a file in the way of a directory.
    fs::remove_dir_all(dir.join("out")).unwrap();
    fs::create_dir(dir.join("out")).unwrap();
    symlink("/nowhere", dir.join("out/a")).unwrap();
    let said = fails(dir, "extract image out", 1);
    assert!(said.contains("out/a: File exists"), "{said}");
    assert!(dir.join("out/c/f").exists());
}

/// Paths beyond the 4096 bytes that a system call takes.
#[test]
fn paths_of_any_length() {
    let dir = folder();
    let dir = dir.path();
    let name = "n".repeat(250);
    let mut commands = String::new();
    for _ in 0..20 {
        commands += &format!("mkdir {name}\ncd {name}\n");
    }
    fs::write(dir.join("f"), "deep\n").unwrap();
    // Inodes 12 to 31 are the directories.
    commands += "write f f\ncd /\nln <32> top\nsif <32> links_count 2\n";
    if !image(dir, "-t ext4", &commands) {
        return;
    }
    let said = good(dir, "extract image out");
    assert!(said.contains("1 files, 21 directories"), "{said}");
    assert_eq!(fs::metadata(dir.join("out/top")).unwrap().nlink(), 2);
    assert_eq!(fs::read(dir.join("out/top")).unwrap(), b"deep\n");
    let listed = good(dir, "ls -R image");
    assert!(listed.lines().any(|line| line.len() > 5000), "{listed}");
}

/// A file of a terabyte with a few blocks, and a directory without index: neither takes time by its
/// size.
#[test]
fn neither_holes_nor_lists_take_time() {
    let dir = folder();
    let dir = dir.path();
    let source = dir.join("tree");
    fs::create_dir_all(source.join("d")).unwrap();
    let sparse = File::create(source.join("sparse")).unwrap();
    let tib = 1u64 << 40;
    sparse.set_len(tib).unwrap();
    for at in [0, tib / 2, tib - 4] {
        sparse.write_all_at(b"data", at).unwrap();
    }
    for n in 0..6000 {
        File::create(source.join(format!("d/with-a-name-{n}"))).unwrap();
    }
    empty(dir, "image", 64);
    let line = "mke2fs -q -F -t ext4 -O ^dir_index -N 8000 -d tree image";
    if !made(dir, line) {
        return;
    }
    let since = std::time::Instant::now();
    good(dir, "extract image out");
    assert_eq!(good(dir, "ls -R -l image").lines().count(), 6003);
    // A build without optimisation on a busy machine takes a second; the old walks took hours and
    // half a minute.
    assert!(since.elapsed().as_secs() < 20, "{:?}", since.elapsed());
    let out = File::open(dir.join("out/sparse")).unwrap();
    let mut bytes = [0; 4];
    for at in [0, tib / 2, tib - 4] {
        out.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(&bytes, b"data");
    }
    let meta = out.metadata().unwrap();
    assert!(
        meta.len() == tib && meta.blocks() < 1000,
        "{}",
        meta.blocks()
    );
}

/// A file that is private in the image is so from its first moment on.
#[test]
fn a_private_file_is_private_while_it_is_written() {
    let dir = folder();
    let dir = dir.path();
    fs::write(dir.join("f"), vec![7; 100_000]).unwrap();
    if !image(dir, "-t ext4", "write f f\nsif f mode 0100600\n") {
        return;
    }
    let line = "strace -f -e trace=openat,fchmod,chmod,fchmodat -o log";
    let Some(probe) = tool(dir, "strace -V") else {
        return;
    };
    assert!(probe.status.success());
    let program = env!("CARGO_BIN_EXE_varve");
    assert!(made(dir, &format!("{line} {program} extract image out")));
    let log = fs::read_to_string(dir.join("log")).unwrap();
    let made = log.lines().find(|l| l.contains("\"f\"")).unwrap();
    assert!(made.contains("O_EXCL") && made.contains("0600"), "{made}");
    assert_eq!(mode(&dir.join("out/f")), 0o600);
}

/// As cp(1): a copy has a place to go to, or there is none.
#[test]
fn cp_makes_no_folder_above_its_target() {
    let dir = folder();
    let dir = dir.path();
    fs::write(dir.join("f"), "x").unwrap();
    if !image(dir, "-t ext4", "mkdir docs\ncd docs\nwrite f f\n") {
        return;
    }
    for source in ["-r image:/docs", "image:/docs/f"] {
        let said = fails(dir, &format!("cp {source} nonexist/x"), 1);
        assert!(
            said.contains("nonexist") && said.contains("No such file"),
            "{said}"
        );
        assert!(!dir.join("nonexist").exists());
    }
    let said = fails(dir, "cp -r image:/docs/.. out", 2);
    assert!(said.contains("without dots"), "{said}");
    // The second source fails, the others are there.
    fs::create_dir(dir.join("out")).unwrap();
    let said = fails(dir, "cp -r image:/docs image:/none image:/docs/f out", 1);
    assert!(said.contains("image:/none: no such file"), "{said}");
    assert!(dir.join("out/docs/f").exists() && dir.join("out/f").exists());
}

/// What a name or a label does to a terminal, if it is let.
#[test]
fn names_and_labels_drive_no_terminal() {
    let dir = folder();
    let dir = dir.path();
    let source = dir.join("tree");
    fs::create_dir(&source).unwrap();
    let evil = "a\u{1b}]0;t\u{7}\u{202e}gpj.exe";
    fs::write(source.join(evil), "x").unwrap();
    empty(dir, "image", 16);
    let line = "mke2fs -q -F -t ext4 -L \u{1b}[2Jx\u{7} -d tree image";
    if !made(dir, line) {
        return;
    }
    let mut command = varve(dir);
    let cat = command
        .args(["cat", &format!("image:/none{evil}")])
        .output()
        .unwrap();
    assert_eq!(cat.status.code(), Some(1));
    for out in [
        text(&cat.stderr),
        good(dir, "ls -R -l image"),
        good(dir, "info image"),
        good(dir, "info --json image"),
    ] {
        let driven = out
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(driven, None, "{out}");
    }
    assert!(good(dir, "info image").contains("\\x1b[2Jx\\x07"));
    assert!(good(dir, "ls image").contains("a\\x1b]0;t\\x07\\u{202e}gpj.exe"));
}
