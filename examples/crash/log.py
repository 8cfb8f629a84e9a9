"""Appends to a log: `log.py sync|nosync`. Each line is acknowledged."""

import os
import sys

with open("log", "a") as log:
    if sys.argv[1] == "sync":
        os.fsync(log.fileno())
        directory = os.open(".", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    for number in range(5):
        log.write("line %d\n" % number)
        log.flush()
        if sys.argv[1] == "sync":
            os.fdatasync(log.fileno())
        print("line", number, flush=True)
