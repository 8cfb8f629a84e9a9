#!/usr/bin/env python3
"""What the running kernel's ext4 with the feature `fast_commit` leaves of changes that it has
acknowledged: each case syncs, ends the power (a shutdown of the file system without a flush of its
log), and looks at what a mount shows, and at what `e2fsck -fy` leaves instead.

Root, e2fsprogs 1.46 or later. Prints one line a case; works in a temporary folder. With `--check` it
compares what is left with the table of docs/results/fast-commit.md: a loss where that has "all as
synced" is an error (exit code 1), and of each known loss it tells whether that is still so. A kernel
that has no fast commits is told, and nothing is compared.
"""

import ctypes
import fcntl
import glob
import os
import struct
import subprocess
import sys
import tempfile

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
NO_LOG_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH
FREEZE, THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW
MKFS = ["-q", "-t", "ext4", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
# The default area of such a volume has 16 blocks; in a larger one no full commit comes between.
SMALL, LARGE = "size=8", "size=8,fast_commit_size=1"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def write(path, content, sync=True):
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, content)
    if sync:
        os.fsync(fd)
    os.close(fd)


class Volume:
    """A volume on a loop device, mounted without timers."""

    def __init__(self, folder, features, journal):
        self.image, self.dir = os.path.join(folder, "image"), os.path.join(folder, "mount")
        # Files that are open at the cut.
        self.open = []
        os.makedirs(self.dir, exist_ok=True)
        with open(self.image, "wb") as file:
            file.truncate(64 << 20)
        run("mke2fs", *MKFS, "-J", journal, "-O", features, self.image)
        assert self.mount(), "a fresh volume mounts"

    def at(self, name):
        return os.path.join(self.dir, name)

    def mount(self):
        return run("mount", "-o", "loop,commit=600", self.image, self.dir).returncode == 0

    def settle(self):
        """A full commit."""
        fd = os.open(self.dir, os.O_RDONLY)
        os.syncfs(fd) if hasattr(os, "syncfs") else ctypes.CDLL(None).syncfs(fd)
        os.close(fd)

    def cut(self):
        fd = os.open(self.dir, os.O_RDONLY)
        fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        os.close(fd)
        # Unmounting writes the superblock home, which a power cut does not.
        left = self.image + ".left"
        run("cp", "--sparse=always", self.image, left)
        for fd in self.open:
            os.close(fd)
        self.open = []
        run("umount", self.dir)
        os.replace(left, self.image)

    def show(self, look):
        """What a mount shows, and whether e2fsck finds faults behind it."""
        if not self.mount():
            return "the mount is refused"
        try:
            seen = look(self)
        except OSError as error:
            seen = f"{error.strerror}"
        run("umount", self.dir)
        faults = run("e2fsck", "-fn", self.image)
        return seen if faults.returncode == 0 else f"{seen}; e2fsck finds faults behind it"


def full_area(v):
    """Appends with an fsync each, until the area of fast commits is full to the last block."""
    write(v.at("f"), b"x" * 4096)
    v.settle()
    blocks = int(run("sh", "-c", f"dumpe2fs -h {v.image} 2>/dev/null | sed -n 's/Fast commit length: *//p'").stdout)
    fd = os.open(v.at("f"), os.O_RDWR)
    # The first one begins the transaction; a block of the area is not used.
    for n in range(blocks - 1):
        os.pwrite(fd, b"y" * 100, 4096 + 100 * n)
        os.fsync(fd)
    os.close(fd)
    size = 4096 + 100 * (blocks - 1)
    return lambda v: "all as synced" if os.stat(v.at("f")).st_size == size else f"{os.stat(v.at('f')).st_size} of {size} bytes are left"


def attributes_of_a_former_file(v):
    """A file with an attribute is removed, and a new one gets its number."""
    write(v.at("old"), b"")
    os.setxattr(v.at("old"), "user.secret", b"of the old file")
    v.settle()
    number = os.stat(v.at("old")).st_ino
    os.unlink(v.at("old"))
    write(v.at("new"), b"new")
    same = os.stat(v.at("new")).st_ino == number
    look = lambda v: f"the new file has {os.listxattr(v.at('new'))}" if os.listxattr(v.at("new")) else "all as synced"
    return look if same else (lambda v: "not reached: another number")


def new_directory(v):
    """A file in a new directory."""
    v.settle()
    write(v.at("begin"), b"")
    os.mkdir(v.at("d"))
    write(v.at("d/f"), b"content")
    return lambda v: "all as synced" if open(v.at("d/f"), "rb").read() == b"content" else "other content"


def content_in_the_inode(v):
    """A file so small that its content lies in its inode (feature inline_data)."""
    v.settle()
    write(v.at("small"), b"tiny content")
    return lambda v: "all as synced" if open(v.at("small"), "rb").read() == b"tiny content" else "other content"


def file_without_a_name(v):
    """A file that is made without a name (O_TMPFILE), gets one, and is synced."""
    v.settle()
    fd = os.open(v.dir, os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(fd, b"content")
    here, follow = -100, 0x400  # AT_FDCWD, AT_SYMLINK_FOLLOW
    of = f"/proc/self/fd/{fd}".encode()
    assert ctypes.CDLL(None).linkat(here, of, here, v.at("named").encode(), follow) == 0
    os.fsync(fd)
    os.close(fd)
    return lambda v: "all as synced" if open(v.at("named"), "rb").read() == b"content" else "other content"


def symlinks(v):
    """Symbolic links, short and long, and a file that is synced behind them."""
    v.settle()
    write(v.at("begin"), b"")
    os.symlink("short", v.at("a"))
    os.symlink("long" * 40, v.at("b"))
    write(v.at("f"), b"content")

    def look(v):
        lost = []
        for name, target in (("a", "short"), ("b", "long" * 40)):
            try:
                if os.readlink(v.at(name)) != target:
                    lost.append(f"target of {name}")
            except OSError as error:
                lost.append(f"{name}: {error.strerror}")
        return ", ".join(lost) or "all as synced"

    return look


def plain(v):
    """Control: a new file, an append, a rename over another file."""
    write(v.at("target"), b"old")
    v.settle()
    write(v.at("f"), b"content")
    os.rename(v.at("f"), v.at("target"))
    write(v.at("target"), b"other")
    return lambda v: "all as synced" if open(v.at("target"), "rb").read() == b"othernt" and not os.path.exists(v.at("f")) else "other content"


def behind_a_full_commit(v):
    """Files of a full commit that is not home yet, and then files of fast commits."""
    for name in ("a", "b", "c"):
        write(v.at(name), b"content")
    # An fsync of a directory is a full commit, and unlike syncfs it writes nothing home.
    fd = os.open(v.dir, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    for name in ("d", "e"):
        write(v.at(name), b"content")

    def look(v):
        left = [name for name in "abcde" if os.path.exists(v.at(name))]
        return "all as synced" if len(left) == 5 else f"of a to e only {' '.join(left)} are left"

    return look


def names_behind_a_full_commit(v):
    """A full commit of 30 files and a directory, then a move, a link, and a removal with a new file."""
    for n in range(30):
        write(v.at(f"f{n}"), b"content")
    os.mkdir(v.at("d"))
    fd = os.open(v.dir, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)

    def synced(name):
        fd = os.open(v.at(name), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    os.rename(v.at("f3"), v.at("g3"))
    synced("g3")
    os.link(v.at("f4"), v.at("l4"))
    synced("l4")
    os.unlink(v.at("f5"))
    write(v.at("z"), b"content")
    names = {f"f{n}" for n in range(30)} - {"f3", "f5"} | {"g3", "l4", "z", "d", "lost+found"}

    def look(v):
        lost = sorted(names - set(os.listdir(v.dir)))
        back = sorted(set(os.listdir(v.dir)) - names)
        words = [f"{len(lost)} names are lost ({', '.join(lost[:3])}, ...)"] if lost else []
        words += [f"{', '.join(back)} are back"] if back else []
        return ", ".join(words) or "all as synced"

    return look


def open_file_behind_a_full_commit(v):
    """A file loses its last name while it is open, in a full commit; then a file of a fast commit."""
    write(v.at("f"), b"content")
    open_file = os.open(v.at("open"), os.O_CREAT | os.O_RDWR, 0o644)
    os.write(open_file, b"content")
    os.fsync(open_file)
    os.unlink(v.at("open"))
    fd = os.open(v.dir, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    write(v.at("f"), b"x" * 9000)
    v.open.append(open_file)
    return lambda v: "all as synced" if os.stat(v.at("f")).st_size == 9000 else "other content"


def attributes_in_a_block(v):
    """A file grows whose attributes have a block of their own."""
    write(v.at("f"), b"content")
    os.setxattr(v.at("f"), "user.long", b"v" * 300)
    v.settle()
    write(v.at("f"), b"x" * 9000)
    return lambda v: "all as synced" if os.stat(v.at("f")).st_size == 9000 else "other content"


def directory_that_grows(v):
    """100 new files in the root, each synced; their names do not fit the one block that it has."""
    write(v.at("begin"), b"")
    v.settle()
    names = [f"{n:0>40}" for n in range(100)]
    for name in names:
        write(v.at(name), b"content")

    def look(v):
        left = sum(os.path.exists(v.at(name)) for name in names)
        return "all as synced" if left == len(names) else f"{left} of {len(names)} files are left"

    return look


def after_a_freeze(v):
    """The volume is frozen and thawed, as for a snapshot; then 10 new files, each synced."""
    write(v.at("begin"), b"")
    v.settle()
    fd = os.open(v.dir, os.O_RDONLY)
    fcntl.ioctl(fd, FREEZE, 0)
    fcntl.ioctl(fd, THAW, 0)
    os.close(fd)
    names = [f"f{n}" for n in range(10)]
    for name in names:
        write(v.at(name), b"content")

    def look(v):
        left = sum(os.path.exists(v.at(name)) for name in names)
        return "all as synced" if left == len(names) else f"{left} of {len(names)} files are left"

    return look


SAFE = "all as synced"
FAULTS = "e2fsck finds faults behind it"
REFUSED = "the mount is refused"
# A case, the features of its volume, and what the page says is left of it: after a mount, and after
# `e2fsck -fy`. Several texts: any of them.
CASES = [
    (plain, "fast_commit", [SAFE], [SAFE]),
    (behind_a_full_commit, "fast_commit", [SAFE], [REFUSED, "of a to e only"]),
    (names_behind_a_full_commit, "fast_commit", [SAFE], [REFUSED, "names are lost"]),
    (open_file_behind_a_full_commit, "fast_commit,^orphan_file", [SAFE], [REFUSED]),
    (after_a_freeze, "fast_commit", ["0 of 10 files are left"], ["0 of 10 files are left"]),
    (full_area, "fast_commit", [REFUSED], ["bytes are left"]),
    (attributes_in_a_block, "fast_commit", [FAULTS], [SAFE]),
    (attributes_of_a_former_file, "fast_commit", ["the new file has"], ["the new file has"]),
    (new_directory, "fast_commit", [FAULTS], [REFUSED, "No such file"]),
    (directory_that_grows, "fast_commit", [FAULTS], ["files are left"]),
    (file_without_a_name, "fast_commit", [SAFE], [SAFE]),
    (symlinks, "fast_commit", [SAFE], [SAFE]),
    (content_in_the_inode, "fast_commit,inline_data", [SAFE], [SAFE]),
]


def one(case, features):
    """What a mount shows, and what it shows behind `e2fsck -fy`."""
    with tempfile.TemporaryDirectory() as folder:
        v = Volume(folder, features, LARGE if case == directory_that_grows else SMALL)
        try:
            look = case(v)
            v.cut()
            copy = v.image + ".copy"
            run("cp", "--sparse=always", v.image, copy)
            by_kernel = v.show(look)
            os.replace(copy, v.image)
            run("e2fsck", "-fy", v.image)
            by_e2fsck = v.show(look)
        finally:
            if os.path.ismount(v.dir):
                run("umount", v.dir)
    return by_kernel, by_e2fsck


def kernel_has_fast_commits():
    """True if the running kernel counts the fast commits of a mounted volume."""
    with tempfile.TemporaryDirectory() as folder:
        v = Volume(folder, "fast_commit", SMALL)
        device = os.path.basename(run("findmnt", "-no", "SOURCE", v.dir).stdout.strip())
        counted = glob.glob(f"/proc/fs/ext4/{device}/fc_info")
        run("umount", v.dir)
    return bool(counted)


def judged(seen, known):
    """Whether what was seen is an error, and what there is to say of it beside the page."""
    if known == [SAFE]:
        return (seen != SAFE, f"NOT SAFE ANY MORE: {seen}") if seen != SAFE else (False, "safe, as known")
    if any(words in seen for words in known):
        return False, "lost, as known"
    return False, "not lost any more" if seen == SAFE else f"lost in another way: {seen}"


def main():
    check = "--check" in sys.argv[1:]
    if not kernel_has_fast_commits():
        print(f"skipped: Linux {os.uname().release} writes no fast commits")
        return 0
    e2fsck = run("e2fsck", "-V").stderr.splitlines()[0]
    print(f"{'case':<34}{'behind Linux ' + os.uname().release:<58}behind {e2fsck}")
    wrong = 0
    for case, features, *known in CASES:
        seen = one(case, features)
        told = seen
        if check:
            judgements = [judged(*both) for both in zip(seen, known)]
            wrong += sum(error for error, _ in judgements)
            told = [words for _, words in judgements]
        print(f"{case.__name__.replace('_', ' '):<34}{told[0]:<58}{told[1]}", flush=True)
    if wrong:
        print(f"{wrong} of these should be safe by docs/results/fast-commit.md, and are not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
