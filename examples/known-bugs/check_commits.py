"""A judge server for commits.sh: Git finds no damage, and each acknowledged commit is in the branch."""

import subprocess
import sys


def git(folder, *words):
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *words], cwd=folder, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


for line in sys.stdin:
    folder, acked = line.rstrip("\n").split("\t")
    code, said = git(folder, "fsck", "--full", "--no-dangling", "--no-reflogs")
    _, branch = git(folder, "log", "--format=%H")
    wanted = [ack.split()[1] for ack in open(acked)]
    lost = [commit for commit in wanted if commit not in branch.split()]
    if code != 0:
        print("bad git fsck:", said.strip().replace("\n", "; ")[:200], flush=True)
    elif lost:
        print("bad commit", lost[0][:12], "was acknowledged and is not in the branch", flush=True)
    else:
        print("ok", flush=True)
