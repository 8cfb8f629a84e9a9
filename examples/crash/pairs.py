"""Puts pairs into LMDB: `pairs.py sync|nosync|setup`."""

import sys

import lmdb

how = sys.argv[1]
with lmdb.open("pairs", map_size=1 << 20, sync=how != "nosync") as pairs:
    for number in range(0 if how == "setup" else 4):
        with pairs.begin(write=True) as transaction:
            transaction.put(b"%d" % number, b"x" * 500)
        print("pair", number, flush=True)
