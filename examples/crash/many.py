"""Writes ten files and changes two of them twelve times, without a sync: many states for measuring judges."""

import os
for n in range(10):
    with open("file-%d" % n, "w") as file:
        file.write("x" * 8192)
os.sync()
for turn in range(12):
    for n in (turn % 10, (turn * 3 + 1) % 10):
        with open("file-%d" % n, "r+") as file:
            file.write(str(turn) * 6000)
    print("turn", turn, flush=True)
