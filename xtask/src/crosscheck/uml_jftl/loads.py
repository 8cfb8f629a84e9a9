"""The loads of `cargo xtask crosscheck uml-jftl`, run in the guest: DIRECTORY LOAD.

The load `digest` prints a digest of all names and contents below the directory.
"""
import hashlib, mmap, os, random, shutil, sys, time

KIB, MIB = 1 << 10, 1 << 20
root, what = sys.argv[1:3]
rng = random.Random(7)


def path(name):
    return os.path.join(root, name)


def sequential():
    with open(path("seq"), "wb", buffering=0) as f:
        for _ in range(1024):
            f.write(rng.randbytes(64 * KIB))
        os.fsync(f.fileno())


def records(record):
    """Write and rewrite, each record synced; everything goes home in between."""
    for _ in range(2):
        with open(path("rec"), "r+b" if os.path.exists(path("rec")) else "wb", buffering=0) as f:
            for _ in range(4 * MIB // record):
                f.write(rng.randbytes(record))
                os.fsync(f.fileno())
        os.sync()


def overwrites():
    with open(path("rnd"), "w+b", buffering=0) as f:
        for _ in range(512):
            f.write(rng.randbytes(64 * KIB))
        for n in range(4000):
            os.pwrite(f.fileno(), rng.randbytes(4 * KIB), rng.randrange(8192) * 4 * KIB)
            if n % 8 == 7:
                os.fsync(f.fileno())


def small_files():
    for n in range(3000):
        with open(path(f"f{n}"), "wb", buffering=0) as f:
            f.write(rng.randbytes(4 * KIB - n % 500))
        if n % 50 == 49:
            os.sync()
    for n in range(0, 3000, 3):
        os.unlink(path(f"f{n}"))


def churn():
    for _ in range(13):
        for d in range(8):
            os.makedirs(path(f"d{d}"))
            for n in range(26):
                with open(path(f"d{d}/{n}"), "wb", buffering=0) as f:
                    f.write(rng.randbytes(12 * KIB))
        os.sync()
        for d in range(8):
            shutil.rmtree(path(f"d{d}"))


def each(count, work):
    """Runs so many processes to their end."""
    children = []
    for n in range(count):
        child = os.fork()
        if child == 0:
            work(n)
            os._exit(0)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"process {child} failed")


def processes():
    def one(n):
        mine = random.Random(n)
        fd = os.open(path(f"p{n}"), os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(fd, 0, 16 * MIB)
        for nr, block in enumerate(mine.sample(range(4096), 4096)):
            os.pwrite(fd, mine.randbytes(4 * KIB), block * 4 * KIB)
            if nr % 4 == 3:
                os.fsync(fd)

    each(4, one)


def mapped():
    """Two processes store into a mapping of 8 MiB while the file is synced each 50 ms."""
    fd = os.open(path("map"), os.O_RDWR | os.O_CREAT)
    for _ in range(128):
        os.write(fd, rng.randbytes(64 * KIB))
    os.fsync(fd)
    view = mmap.mmap(fd, 8 * MIB)

    def one(n):
        if n == 2:
            for _ in range(20):
                time.sleep(0.05)
                os.fsync(fd)
            view[8 * MIB - 1] = 1
            return
        view[8 * MIB - 1] = 0
        mine = random.Random(n)
        while view[8 * MIB - 1] == 0:
            for _ in range(256):
                at = mine.randrange(1 * MIB - 1) * 8
                view[at : at + 8] = mine.randbytes(8)

    view[8 * MIB - 1] = 0
    each(3, one)
    view.flush()
    os.fsync(fd)


def digest():
    found = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            full = os.path.join(folder, name)
            found.update(os.path.relpath(full, root).encode() + b"\0")
            with open(full, "rb") as f:
                found.update(f.read())
    print("digest", found.hexdigest())


LOADS = {
    "sequential": sequential,
    "records-4k": lambda: records(4 * KIB),
    "records-1m": lambda: records(MIB),
    "overwrites": overwrites,
    "small-files": small_files,
    "churn": churn,
    "processes": processes,
    "mapped": mapped,
    "digest": digest,
}
LOADS[what]()
