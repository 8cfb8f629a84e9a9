"""A judge server for log.py, which reads as a careful program does: up to the first line that is not
whole. Each acknowledged line has to be among those."""

import os
import sys
import zlib


def lines(path):
    if not os.path.exists(path):
        return
    for line in open(path, "rb").read().split(b"\n")[:-1]:
        text, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            return
        yield text.decode()


for line in sys.stdin:
    folder, acked = line.rstrip("\n").split("\t")
    have = list(lines(folder + "/log"))
    lost = [line for line in open(acked).read().splitlines() if line not in have]
    print("bad %s was acknowledged and is not there" % lost[0] if lost else "ok", flush=True)
