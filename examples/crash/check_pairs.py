"""A judge server for pairs.py: each acknowledged pair is there, and whole. LMDB may crash on what it
finds, so each state is looked at by a child."""

import os
import resource
import signal
import sys

import lmdb


def judge(folder, acked):
    with lmdb.open(folder + "/pairs", map_size=1 << 20) as pairs:
        with pairs.begin() as transaction:
            for line in open(acked):
                key = line.split()[1].encode()
                if transaction.get(key) != b"x" * 500:
                    return "bad pair %s was acknowledged and is not there" % key.decode()
            if any(value != b"x" * 500 for _, value in transaction.cursor()):
                return "bad a value is damaged"
    return "ok"


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            print(judge(*line.rstrip("\n").split("\t")), flush=True)
        except lmdb.Error as error:
            print("bad", error, flush=True)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended < 0:
        print("bad LMDB crashed:", signal.Signals(-ended).name, flush=True)
