"""Appends to a log: `log.py sync|nosync`. Each line has a checksum, and is acknowledged."""

import os
import sys
import zlib

with open("log", "a") as log:
    if sys.argv[1] == "sync":
        os.fsync(log.fileno())
        directory = os.open(".", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    for number in range(5):
        text = "line %d" % number
        log.write("%s %08x\n" % (text, zlib.crc32(text.encode())))
        log.flush()
        if sys.argv[1] == "sync":
            os.fdatasync(log.fileno())
        print(text, flush=True)
