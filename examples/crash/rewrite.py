"""Rewrites a file in place, with all syncs: what is cut off first is gone."""

import os

for version in range(1, 4):
    with open("config.json", "w") as file:
        file.write('{"version": %d}\n' % version)
        file.flush()
        os.fsync(file.fileno())
    print("saved", version, flush=True)
