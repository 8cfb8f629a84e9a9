"""Inserts rows into SQLite: `rows.py JOURNAL SYNCHRONOUS`; `rows.py setup JOURNAL` makes the table."""

import sqlite3
import sys

first, second = sys.argv[1:]
database = sqlite3.connect("rows.db", isolation_level=None)
if first == "setup":
    database.execute("PRAGMA journal_mode=" + second)
    database.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v)")
else:
    database.execute("PRAGMA journal_mode=" + first)
    database.execute("PRAGMA synchronous=" + second)
    for key in range(1, 4):
        database.execute("INSERT INTO t VALUES (?, ?)", (key, "x" * 5000))
        print("row t", key, flush=True)
