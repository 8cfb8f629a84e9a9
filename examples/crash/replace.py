"""Replaces a file three times: `replace.py unsafe|file|right`.

unsafe  writes a new file and renames it
file    syncs the new file first
right   syncs the directory, too, before it says that the file is saved
"""

import os
import sys

how = sys.argv[1]
for version in range(1, 4):
    with open("config.tmp", "w") as new:
        new.write('{"version": %d, "padding": "%s"}\n' % (version, "x" * 5000))
        new.flush()
        if how != "unsafe":
            os.fsync(new.fileno())
    os.rename("config.tmp", "config.json")
    if how == "right":
        directory = os.open(".", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    print("saved", version, flush=True)
