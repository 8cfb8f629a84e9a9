"""Stores of others, each as a program that saves and says so.

`stores.py save NAME` puts the keys 0 to 3 into the store in the working directory, one after
another, and prints `key N` when the store has said that N is saved. `stores.py setup NAME` makes the
empty store. The judge (judge.py) opens the store that a cut left and looks for the keys.
"""

import os
import sys

KEYS = 4


def value(number):
    """Large enough for more than one page, different for each key."""
    return ("%d-" % number) * 3000


class TinyDB:
    """JSON in one file, written over in place."""

    modules = ["tinydb"]

    def __init__(self):
        import tinydb

        self.db = tinydb.TinyDB("db.json")

    def put(self, number):
        self.db.insert({"key": number, "value": value(number)})

    def all(self):
        return {row["key"]: row["value"] for row in self.db.all()}


class PickleDB:
    """JSON in one file, replaced as a whole."""

    modules = ["pickledb"]

    def __init__(self):
        import pickledb

        self.db = pickledb.PickleDB("db.json")
        load = getattr(self.db, "load", None)
        if load is not None:
            load()

    def put(self, number):
        self.db.set(str(number), value(number))
        self.db.save()

    def all(self):
        return {int(key): self.db.get(key) for key in self.db.all()}


class Shelf:
    """A shelf of the standard library on dbm.dumb, synced after each key."""

    modules = ["dbm.dumb", "shelve"]

    def __init__(self):
        import dbm.dumb
        import shelve

        self.db = shelve.Shelf(dbm.dumb.open("shelf"))

    def put(self, number):
        self.db[str(number)] = value(number)
        self.db.sync()
        self.db.dict.sync()

    def all(self):
        return {int(key): text for key, text in self.db.items()}


class Lmdb:
    """LMDB as it is by default."""

    modules = ["lmdb"]

    options = {}

    def __init__(self):
        import lmdb

        self.db = lmdb.open("lmdb", map_size=1 << 20, **self.options)

    def put(self, number):
        with self.db.begin(write=True) as transaction:
            transaction.put(b"%d" % number, value(number).encode())

    def all(self):
        with self.db.begin() as transaction:
            return {int(key): text.decode() for key, text in transaction.cursor()}


class LmdbNoSync(Lmdb):
    """LMDB with MDB_NOSYNC."""

    options = {"sync": False}


class LmdbNoMetaSync(Lmdb):
    """LMDB with MDB_NOMETASYNC: the last commit may be lost, and nothing else."""

    options = {"metasync": False}


class LevelDB:
    """LevelDB as it is by default: writes are not synced."""

    modules = ["plyvel"]

    sync = False

    def __init__(self):
        import plyvel

        self.db = plyvel.DB("level", create_if_missing=True)

    def put(self, number):
        self.db.put(b"%d" % number, value(number).encode(), sync=self.sync)

    def all(self):
        return {int(key): text.decode() for key, text in self.db}


class LevelDBSync(LevelDB):
    """LevelDB with sync=True."""

    sync = True


class DiskCache:
    """diskcache: SQLite in WAL with synchronous=NORMAL, large values in files of their own."""

    modules = ["diskcache"]

    def __init__(self):
        import diskcache

        self.db = diskcache.Cache("cache")

    def put(self, number):
        # Above 32 KiB a value is a file.
        self.db[number] = value(number) * 6

    def all(self):
        # A key whose file is gone is a miss here: KeyError.
        return {key: self.db[key][: len(value(key))] for key in self.db}


class PersistQueue:
    """persist-queue: a queue in files."""

    modules = ["persistqueue"]

    def __init__(self):
        import persistqueue

        self.db = persistqueue.Queue("queue")

    def put(self, number):
        self.db.put((number, value(number)))

    def all(self):
        return dict(self.db.get(block=False) for _ in range(self.db.qsize()))


class Zodb:
    """ZODB on a FileStorage."""

    modules = ["ZODB.FileStorage", "transaction"]

    def __init__(self):
        import transaction
        import ZODB
        import ZODB.FileStorage

        self.transaction = transaction
        self.db = ZODB.DB(ZODB.FileStorage.FileStorage("data.fs"))
        self.root = self.db.open().root()

    def put(self, number):
        self.root[number] = value(number)
        self.transaction.commit()

    def all(self):
        return dict(self.root)


class AtomicWrites:
    """One file a key by atomicwrites, which syncs the file and its directory."""

    modules = ["atomicwrites"]

    def __init__(self):
        os.makedirs("files", exist_ok=True)

    def put(self, number):
        import atomicwrites

        with atomicwrites.atomic_write("files/%d" % number, overwrite=True) as file:
            file.write(value(number))

    def all(self):
        names = [name for name in os.listdir("files") if name.isdigit()]
        return {int(name): open("files/" + name).read() for name in names}


class RocksDB:
    """RocksDB as it is by default: its log is not synced."""

    modules = ["rocksdict"]
    sync = False

    def __init__(self):
        import rocksdict

        self.options = rocksdict.WriteOptions()
        self.options.sync = self.sync
        self.db = rocksdict.Rdict("rocks", rocksdict.Options(raw_mode=True))

    def put(self, number):
        self.db.put(str(number).encode(), value(number).encode(), write_opt=self.options)

    def all(self):
        return {int(key): text.decode() for key, text in self.db.items()}


class RocksDBSync(RocksDB):
    """RocksDB with sync of each write."""

    sync = True


class SqliteDict:
    """A dictionary on SQLite, which a thread of its own runs with synchronous=OFF."""

    modules = ["sqlitedict"]

    def __init__(self):
        self.db = None

    def put(self, number):
        import sqlitedict

        self.db = self.db or sqlitedict.SqliteDict("dict.db")
        self.db[number] = value(number)
        self.db.commit()

    def all(self):
        # Not through its thread: where SQLite fails, that ends, and its caller waits for ever.
        import sqlitedict
        import sqlite3

        db = sqlite3.connect("dict.db")
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'unnamed'").fetchall():
            return {}
        rows = db.execute("SELECT key, value FROM unnamed")
        return {int(key): sqlitedict.decode(text) for key, text in rows}


class Gdbm:
    """GDBM through the standard library, synced after each key."""

    modules = ["dbm.gnu"]

    def __init__(self):
        import dbm.gnu

        self.db = dbm.gnu.open("gdbm.db", "c")

    def put(self, number):
        self.db[str(number)] = value(number)
        self.db.sync()

    def all(self):
        return {int(key): self.db[key].decode() for key in self.db.keys()}


class SqliteNormal:
    """SQLite with a rollback journal and synchronous=NORMAL."""

    modules = ["sqlite3"]
    journal = "DELETE"

    def __init__(self):
        import sqlite3

        self.db = sqlite3.connect("rows.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=" + self.journal)
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS t(k INTEGER PRIMARY KEY, v)")

    def put(self, number):
        self.db.execute("INSERT INTO t VALUES (?, ?)", (number, value(number)))

    def all(self):
        if self.db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise RuntimeError("integrity_check finds damage")
        return dict(self.db.execute("SELECT k, v FROM t"))


class SqliteWalNormal(SqliteNormal):
    """SQLite with a write-ahead log and synchronous=NORMAL: the log is synced at checkpoints only."""

    journal = "WAL"


STORES = {
    store.__name__: store
    for store in [
        TinyDB, PickleDB, Shelf, Lmdb, LmdbNoSync, LmdbNoMetaSync, LevelDB, LevelDBSync, DiskCache,
        PersistQueue, Zodb, AtomicWrites, RocksDB, RocksDBSync, SqliteDict,
        Gdbm, SqliteNormal, SqliteWalNormal,
    ]
}

if __name__ == "__main__":
    how, name = sys.argv[1:]
    store = STORES[name]()
    for number in range(KEYS if how == "save" else 0):
        store.put(number)
        print("key", number, flush=True)
    # The store is not closed: the power goes while it is open. A close would write more.
    sys.stdout.flush()
    os._exit(0)
