"""A judge server for pairs.py: each acknowledged pair is there, and whole."""

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


for line in sys.stdin:
    try:
        print(judge(*line.rstrip("\n").split("\t")), flush=True)
    except lmdb.Error as error:
        print("bad", error, flush=True)
