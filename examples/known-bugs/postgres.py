"""PostgreSQL in single-user mode: `postgres.py setup|save|judge`. One row a commit, each acknowledged
when the server has answered; the judge starts the server on what a cut left, which recovers it.

The server refuses to run as root, and a mount of FUSE refuses other users: so it runs in a user
namespace in which the user of this process has another number."""

import glob
import os
import pwd
import re
import subprocess
import sys

ROWS = 3
QUERY = "select n, v = repeat(n::text, 3000) as same from t order by n\n"
ROW = re.compile(r'n = "(\d+)".*?same = "(.)"', re.S)


def command(program, *options):
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/" + program))
    if not found:
        sys.exit(program + " is not there: install Debian's package postgresql")
    user = pwd.getpwnam("postgres")
    names = ["unshare", "--user", "--map-user=%s" % user.pw_uid, "--map-group=%s" % user.pw_gid]
    return names + [found[-1], *options]


def server(data, *options):
    return command("postgres", "--single", "-D", data, *options, "postgres")


def setup():
    os.mkdir("data", 0o700)
    options = ["-D", "data", "--no-sync", "--wal-segsize=1", "-A", "trust", "--no-instructions"]
    subprocess.run(command("initdb", *options), check=True, stdout=subprocess.DEVNULL)
    table = b"create table t(n int primary key, v text)\n"
    subprocess.run(server("data"), input=table, check=True, stdout=subprocess.DEVNULL)


def save():
    pipe = subprocess.PIPE
    running = subprocess.Popen(server("data"), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)

    def answer():
        text = b""
        while not text.endswith(b"backend> "):
            byte = running.stdout.read(1)
            if not byte or b"ERROR" in text:
                sys.exit("the server said: " + text.decode(errors="replace"))
            text += byte

    answer()
    for n in range(1, ROWS + 1):
        running.stdin.write(b"insert into t values(%d, repeat('%d', 3000))\n" % (n, n))
        running.stdin.flush()
        answer()
        print("row", n, flush=True)
    running.stdin.close()
    sys.exit(running.wait())


def judged(folder, acked):
    wanted = {int(line.split()[1]) for line in open(acked) if line.startswith("row ")}
    # What the judge writes need not outlast anything.
    line = server(os.path.join(folder, "data"), "-c", "fsync=off")
    done = subprocess.run(
        line, input=QUERY.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10
    )
    text = done.stdout.decode(errors="replace")
    fault = re.search(r"(FATAL|PANIC|ERROR): .*", text)
    if done.returncode or fault:
        return "bad it does not start: " + (fault.group(0) if fault else text[-200:])
    rows = {int(n): same for n, same in ROW.findall(text)}
    damaged = [n for n, same in rows.items() if same != "t"]
    if damaged:
        return "bad row %s is damaged" % damaged[0]
    lost = wanted - set(rows)
    return "bad row %s was acknowledged and is not there" % min(lost) if lost else "ok"


def judge():
    for line in sys.stdin:
        try:
            said = judged(*line.rstrip("\n").split("\t"))
        except Exception as error:
            said = "bad it does not start: %r" % error
        print(said.replace("\n", " ")[:300], flush=True)


if __name__ == "__main__":
    {"setup": setup, "save": save, "judge": judge}[sys.argv[1]]()
