"""A judge server for stores.py: `judge.py NAME`. The store that a cut left opens, each key that was
acknowledged is there, and no key has another value than the one that was put. A child looks at each
state, because a store may crash on what it finds, and writes when it is opened."""

import importlib
import os
import resource
import signal
import sys

import stores


def judge(name, folder, acked):
    os.chdir(folder)
    wanted = [int(line.split()[1]) for line in open(acked) if line.startswith("key ")]
    found = stores.STORES[name]().all()
    for key, text in found.items():
        if text != stores.value(key):
            return "bad the value of key %s is damaged" % key
    lost = [key for key in wanted if key not in found]
    if lost:
        return "bad key %s was acknowledged and is not there" % lost[0]
    return "ok"


if __name__ == "__main__":
    for module in stores.STORES[sys.argv[1]].modules:
        # Once, and not in each child.
        importlib.import_module(module)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            # A store that waits for ever for what is not there is no store that opens.
            signal.alarm(3)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                said = judge(sys.argv[1], *line.rstrip("\n").split("\t"))
            except BaseException as error:
                said = "bad it does not open: %s: %s" % (type(error).__name__, error)
            os.write(write, said.replace("\n", " ")[:300].encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read().decode(errors="replace")
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended < 0:
            name = signal.Signals(-ended).name
            said = "bad it hangs" if name == "SIGALRM" else "bad it crashed: " + name
        print(said or "bad it said nothing", flush=True)
