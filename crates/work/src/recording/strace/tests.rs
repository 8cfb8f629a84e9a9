//! The rules, on texts as strace prints them.

use super::super::{Op, Recording, read_from};
use super::*;

fn read_text(text: &str) -> (Recording, Reading) {
    read_from("test.strace", text.as_bytes(), true).expect("the recording reads")
}

/// The calls in short, with the thread.
fn words(recording: &Recording) -> Vec<String> {
    let calls = recording.calls.iter().map(|call| {
        let what = match &call.op {
            Op::Open { path, create, .. } => {
                format!("open {path}{}", if *create { " +" } else { "" })
            }
            Op::Write { offset, bytes, .. } => format!("write {offset}+{bytes}"),
            Op::Read { offset, bytes, .. } => format!("read {offset}+{bytes}"),
            Op::Sync { data_only, .. } => format!("sync {data_only}"),
            Op::SyncAll => "sync all".into(),
            Op::Truncate { size, .. } => format!("size {size}"),
            Op::Close { .. } => "close".into(),
            Op::Unlink { path } => format!("unlink {path}"),
            Op::Rename { from, to } => format!("rename {from} {to}"),
            Op::Mkdir { path } => format!("mkdir {path}"),
            Op::Rmdir { path } => format!("rmdir {path}"),
        };
        format!("{} {what}", call.thread)
    });
    calls.collect()
}

/// Lines with a time each, from thread 1 unless they begin with a number.
fn lines(texts: &[&str]) -> String {
    let line = |(n, text): (usize, &&str)| {
        let (pid, text) = match text.split_once(' ') {
            Some((pid, rest)) if pid.parse::<u32>().is_ok() => (pid, rest),
            _ => ("1", *text),
        };
        format!("{pid} 00:00:00.{n:06} {text}\n")
    };
    texts.iter().enumerate().map(line).collect()
}

#[test]
fn a_file_is_replaced_and_its_folder_synced() {
    let (recording, reading) = read_text(&lines(&[
        "execve(\"/usr/bin/app\", [\"app\"], 0x7ffe /* 20 vars */) = 0",
        "openat(AT_FDCWD, \"/lib/libc.so.6\", O_RDONLY|O_CLOEXEC) = 3",
        "read(3, \"\\177ELF\"..., 832) = 832",
        "close(3) = 0",
        "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f00",
        "getcwd(\"/home/a\", 4096) = 8",
        "openat(AT_FDCWD, \"c.tmp\", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3",
        "write(3, \"{}\", 2) = 2",
        "write(3, \"x\"..., 5000) = 5000",
        "fsync(3) = 0",
        "close(3) = 0",
        "rename(\"c.tmp\", \"c.json\") = 0",
        "openat(AT_FDCWD, \".\", O_RDONLY) = 3",
        "fsync(3) = 0",
        "close(3) = 0",
    ]));
    let expected = [
        "0 open /home/a/c.tmp +",
        "0 write 0+2",
        "0 write 2+5000",
        "0 sync false",
        "0 close",
        "0 rename /home/a/c.tmp /home/a/c.json",
        "0 open /home/a",
        "0 sync false",
        "0 close",
    ];
    assert_eq!(words(&recording), expected);
    assert_eq!(recording.folders, ["/home", "/home/a"]);
    assert!(recording.files.is_empty());
    assert_eq!(reading.left_out["files that nothing changes"], 3);
    assert!(!reading.rules.contains_key(super::follow::BENT));
}

#[test]
fn descriptors_are_shared_and_closed_as_in_the_kernel() {
    let (recording, _) = read_text(&lines(&[
        "openat(AT_FDCWD, \"/log\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3",
        "write(3, \"ab\", 2) = 2",
        "dup2(3, 9) = 9",
        "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 2",
        "2 write(3, \"cd\", 2) = 2",
        "close(3) = 0",
        "write(9, \"ef\", 2) = 2",
        "2 execve(\"/bin/x\", [], 0x7ffe) = 0",
        "2 openat(AT_FDCWD, \"/new\", O_RDWR|O_CREAT|O_EXCL, 0666) = 3",
        "2 write(3, \"z\", 1) = 1",
        "2 write(9, \"gh\", 2) = 2",
        "2 +++ exited with 0 +++",
        "close(9) = 0",
    ]));
    let expected = [
        "0 open /log +",
        "0 write 0+2",
        "1 write 2+2",
        "0 write 4+2",
        "1 open /new +",
        "1 write 0+1",
        "1 write 6+2",
        "1 close",
        "0 close",
    ];
    assert_eq!(words(&recording), expected);
}

#[test]
fn what_was_there_is_concluded_from_what_calls_show() {
    let (recording, reading) = read_text(&lines(&[
        "newfstatat(AT_FDCWD, \"/db\", {st_mode=S_IFREG|0644, st_size=12288, ...}, 0) = 0",
        "openat(AT_FDCWD, \"/db\", O_RDWR|O_CREAT, 0644) = 3",
        "pwrite64(3, \"x\"..., 4096, 12288) = 4096",
        "openat(AT_FDCWD, \"/log\", O_WRONLY|O_CREAT|O_APPEND|O_DSYNC, 0644) = 4",
        "fstat(4, {st_mode=S_IFREG|0644, st_size=100, ...}) = 0",
        "write(4, \"line\\n\", 5) = 5",
        "pwrite64(5</old, name>, \"y\", 1, 7) = 1",
        "write(6<pipe:[77]>, \"z\", 1) = 1",
        "access(\"/gone\", F_OK) = -1 ENOENT (No such file or directory)",
        "openat(AT_FDCWD, \"/gone\", O_RDWR|O_CREAT, 0644) = 7",
        "fallocate(7, 0, 0, 65536) = 0",
        "unlink(\"/never-opened\") = 0",
    ]));
    let expected = [
        "0 open /db +",
        "0 write 12288+4096",
        "0 open /log +",
        "0 write 100+5",
        "0 sync true",
        "0 open /old, name",
        "0 write 7+1",
        "0 open /gone +",
        "0 size 65536",
        "0 unlink /never-opened",
    ];
    assert_eq!(words(&recording), expected);
    let size = |path: &str| recording.files.iter().find(|f| f.0 == path).map(|f| f.1);
    assert_eq!(size("/db"), Some(12288));
    assert_eq!(size("/log"), Some(100));
    assert_eq!(size("/gone"), None);
    assert_eq!(size("/old, name"), Some(4096), "one block");
    for rule in [2, 5, 6, 7] {
        let words = format!("strace-S{rule} ");
        assert!(
            reading.rules.keys().any(|r| r.starts_with(&words)),
            "{words}"
        );
    }
}

#[test]
fn links_renames_and_folders_keep_their_files() {
    let (recording, reading) = read_text(&lines(&[
        "chdir(\"/w\") = 0",
        "mkdir(\"d\", 0777) = 0",
        "openat(AT_FDCWD, \"d/t\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3",
        "write(3, \"x\", 1) = 1",
        "close(3) = 0",
        "link(\"d/t\", \"d/o\") = 0",
        "unlink(\"d/t\") = 0",
        "rename(\"d\", \"e\") = 0",
        "openat(AT_FDCWD, \"e\", O_RDONLY|O_DIRECTORY) = 4",
        "unlinkat(4, \"o\", 0) = 0",
        "link(\"/w/a\", \"/w/b\") = 0",
        "unlinkat(AT_FDCWD, \"e\", AT_REMOVEDIR) = 0",
    ]));
    let expected = [
        "0 mkdir /w/d",
        "0 open /w/d/t +",
        "0 write 0+1",
        "0 close",
        "0 rename /w/d/t /w/d/o",
        "0 rename /w/d /w/e",
        "0 unlink /w/e/o",
        "0 rmdir /w/e",
    ];
    assert_eq!(words(&recording), expected);
    assert_eq!(reading.left_out["links"], 1);
    assert_eq!(reading.rules["strace-S8 link taken as a rename"], 1);
    assert!(!reading.rules.contains_key(super::follow::BENT));
}

/// A folder of a thousand things, renamed a thousand and one times.
fn renamed_often(thing: impl Fn(usize) -> String) -> (Recording, Reading) {
    let mut texts = vec!["mkdir(\"/a\", 0777) = 0".to_string()];
    texts.extend((0..1000).map(thing));
    texts.push("close(3) = 0".into());
    for n in 0..1001 {
        let (from, to) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        texts.push(format!("rename(\"/{from}\", \"/{to}\") = 0"));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (recording, reading) = read_text(&lines(&texts));
    let renames = recording
        .calls
        .iter()
        .filter(|call| matches!(call.op, Op::Rename { .. }));
    assert_eq!(renames.count(), 1000);
    (recording, reading)
}

#[test]
fn a_recording_cannot_ask_for_the_square_of_its_length() {
    let file = |n| format!("openat(AT_FDCWD, \"/a/{n}\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3");
    let (_, reading) = renamed_often(file);
    let many = "renames of directories that move too many names";
    assert_eq!(reading.left_out[many], 1);
    let (_, reading) = renamed_often(|n| format!("mkdir(\"/a/{n}\", 0777) = 0"));
    assert_eq!(reading.rules[super::follow::BENT], 1);
}

#[test]
fn programs_of_32_bits_are_read() {
    let (recording, _) = read_text(&lines(&[
        "open(\"/a\", O_RDWR|O_CREAT|O_LARGEFILE, 0644) = 3",
        "_llseek(3, 8192, [8192], SEEK_SET) = 0",
        "write(3, \"x\"..., 512) = 512",
        "ftruncate64(3, 4096) = 0",
        "fcntl64(3, F_DUPFD_CLOEXEC, 10) = 10",
        "fdatasync(10) = 0",
    ]));
    let expected = [
        "0 open /a +",
        "0 write 8192+512",
        "0 size 4096",
        "0 sync true",
    ];
    assert_eq!(words(&recording), expected);
}

#[test]
fn copies_within_the_kernel_are_reads_and_writes() {
    let (recording, reading) = read_text(&lines(&[
        "openat(AT_FDCWD, \"/from\", O_RDONLY) = 3",
        "fstat(3, {st_mode=S_IFREG|0644, st_size=9020, ...}) = 0",
        "openat(AT_FDCWD, \"/to\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4",
        "ioctl(4</to>, BTRFS_IOC_CLONE or FICLONE, 3</from>) = -1 EOPNOTSUPP (Operation not supported)",
        "copy_file_range(3</from>, NULL, 4</to>, NULL, 9223372035781033984, 0) = 5000",
        "copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 4000",
        "copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 0",
        "copy_file_range(3, [100] => [150], 4, [20000 => 20050], 50, 0) = 50",
        "sendfile(4, 3, [8000] => [8010], 10) = 10",
        "sendfile(4, 3, NULL, 10) = 10",
        "splice(7<pipe:[77]>, NULL, 4, NULL, 65536, SPLICE_F_MOVE) = 600",
        "sendfile(9<socket:[5]>, 3, NULL, 10) = 10",
        "openat(AT_FDCWD, \"/shared\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 5",
        "ioctl(5, FICLONE, 3) = 0",
        "write(4, \"x\", 1) = 1",
    ]));
    let writes: Vec<String> = words(&recording)
        .into_iter()
        .filter(|line| line.contains("write"))
        .map(|line| line[2..].into())
        .collect();
    let expected = [
        "write 0+5000",
        "write 5000+4000",
        "write 20000+50",
        "write 9000+10",
        "write 9010+10",
        "write 9020+600",
        "write 0+9020",
        "write 9620+1",
    ];
    assert_eq!(writes, expected);
    let rule = "strace-S11 copy within the kernel taken as read and write";
    assert_eq!(reading.rules[rule], 7);
    assert!(!reading.rules.contains_key(super::follow::BENT));
}

#[test]
fn a_sync_of_the_whole_volume_is_one() {
    let (recording, _) = read_text(&lines(&[
        "openat(AT_FDCWD, \"/a\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3",
        "write(3, \"x\", 1) = 1",
        "2 sync() = 0",
        "openat(AT_FDCWD, \"/\", O_RDONLY) = 4",
        "syncfs(4</>) = 0",
    ]));
    let expected = ["0 open /a +", "0 write 0+1", "1 sync all", "0 sync all"];
    assert_eq!(words(&recording), expected);
}

#[test]
fn what_more_options_of_strace_print_is_no_fault() {
    let plain = [
        "openat(AT_FDCWD, \"/a\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3",
        "write(3, \"x\"..., 5) = 5",
        "fsync(3 <unfinished ...>",
        "<... fsync resumed>) = 0",
        "close(3) = 0",
    ];
    let wanted = words(&read_text(&lines(&plain)).0);
    assert_eq!(wanted.len(), 4);
    // -Y, with a name that looks like more than one; -k; -n and -i.
    let named = |text: &str| text.replace("1 00:", "1<Web> [pid 7]> 00:");
    let placed = |text: &str| {
        text.replace(
            '\n',
            "\n > /usr/lib/libc.so.6(fsync+0x4e) [0xf8b5e]\n > ./app() [0x1]\n",
        )
    };
    let marked = |text: &str| {
        let call = |line: &str| match line.split_once(' ').unwrap().1.split_once(' ') {
            Some((time, rest)) => format!("1 {time} [  74] [00007f0c12ab34cd] {rest}\n"),
            None => unreachable!("each line has a time"),
        };
        text.lines().map(call).collect::<String>()
    };
    let text = lines(&plain);
    let bracketed = text.replace("1 00:", "[pid     1<app>] 00:");
    for text in [named(&text), placed(&text), marked(&text), bracketed] {
        assert_eq!(words(&read_text(&text).0), wanted, "{text}");
    }
}

#[test]
fn a_recording_without_times_is_refused_with_what_to_do() {
    let e = read_from("x", &b"1 close(3) = 0\n"[..], false).unwrap_err();
    assert!(e.to_string().contains("varve record"), "{e}");
}

/// strace-S6: flags of a single write. That it is not torn is no sync.
#[test]
fn a_write_may_be_synced_by_its_own_flags() {
    let (recording, _) = read_text(&lines(&[
        "openat(AT_FDCWD, \"/db\", O_WRONLY|O_CREAT, 0644) = 3",
        "pwritev2(3, [{iov_base=\"x\"..., iov_len=4096}], 1, 0, RWF_DSYNC) = 4096",
        "pwritev2(3, [{iov_base=\"x\"..., iov_len=4096}], 1, 4096, RWF_HIPRI|RWF_SYNC) = 4096",
        "pwritev2(3, [{iov_base=\"x\"..., iov_len=4096}], 1, 8192, RWF_ATOMIC) = 4096",
    ]));
    let expected = [
        "0 open /db +",
        "0 write 0+4096",
        "0 sync true",
        "0 write 4096+4096",
        "0 sync false",
        "0 write 8192+4096",
    ];
    assert_eq!(words(&recording)[..6], expected);
}
