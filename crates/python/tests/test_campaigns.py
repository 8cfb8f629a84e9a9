"""Campaigns by executors: what they make is what one process makes, also where a worker is lost."""

import concurrent.futures
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest

import varve

SMALL = {"schemes": ["jbd2", "emmc"], "size": 64, "workload": "sqlite:insert=12,update=6,delete=4"}
SWEEP = {"command": "compare", "options": SMALL, "sweep": {"seed": "1-3"}}
CASES = ["crash", "--schemes", "jbd2,none", "--workload", "ace:1,every=8"]


def done(plan, store):
    """How many results a store has."""
    words = ["campaign", "status", "--plan", str(plan), "--store", str(store), "--json"]
    return json.loads(varve._run.run(words))


def alone(tmp_path):
    """What one process makes of the cases."""
    varve._run.run([*CASES, "--out", str(tmp_path / "alone")], good=(0, 1))
    return (tmp_path / "alone" / "results.json").read_bytes()


def test_a_sweep_is_one_table(tmp_path):
    found = varve.campaign(SWEEP, store=tmp_path / "store", out=tmp_path / "out")
    assert isinstance(found, varve.Campaign)
    assert found.table.column("seed") == [1, 1, 2, 2, 3, 3]
    assert found.table.column("case") == [0, 0, 1, 1, 2, 2]
    assert len(found.comparisons) == 3
    assert (tmp_path / "out" / "runs.parquet").is_file()
    second = varve.compare(seed=2, **SMALL)
    assert found.comparisons[1].data == second.data
    # What is in the store is taken.
    said = []
    results = sorted(p for p in (tmp_path / "store" / "results").rglob("*") if p.is_file())
    before = [p.stat().st_mtime_ns for p in results]
    again = varve.campaign(SWEEP, store=tmp_path / "store", progress=said.append)
    assert again.data == found.data
    assert [p.stat().st_mtime_ns for p in results] == before


def test_campaigns_at_one_time_in_one_store_are_kept_apart(tmp_path):
    def one(schemes, seeds):
        options = {**SMALL, "schemes": schemes}
        spec = {"command": "compare", "options": options, "sweep": {"seed": seeds}}
        return varve.campaign(spec, store=tmp_path / "store").table

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tables = [pool.submit(one, ["jbd2"], "1-4"), pool.submit(one, ["emmc"], "1-3")]
        first, second = [table.result() for table in tables]
    assert (first.column("scheme"), second.column("scheme")) == (["jbd2"] * 4, ["emmc"] * 3)


def test_two_results_of_one_job_are_both_kept(tmp_path):
    def archive(text):
        found = io.BytesIO()
        with tarfile.open(fileobj=found, mode="w") as tar:
            content = b'{"by": "%s"}\n' % os.urandom(4).hex().encode() + text
            info = tarfile.TarInfo("results/ab/ab01")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        return found.getvalue()

    (tmp_path / "again" / "ab").mkdir(parents=True)
    (tmp_path / "again" / "ab" / "ab01").write_bytes(b'{"by": "the second run"}\none')
    for text in [b"one", b"one", b"other", b"third"]:
        varve.campaigns._take_in(archive(text), tmp_path)
    kept = {p.relative_to(tmp_path).parts[0]: p.read_bytes() for p in tmp_path.rglob("ab01")}
    assert {name: content.split(b"\n")[1] for name, content in kept.items()} == {"results": b"one", "again": b"other"}


def test_one_comparison_and_a_file_are_specs(tmp_path):
    one = varve.campaign(["compare", "--schemes", "jbd2", "--size", "64", "--workload", SMALL["workload"]])
    assert len(one.table) == 1
    assert one.command.startswith("varve compare")
    file = tmp_path / "sweep.toml"
    file.write_text(
        'command = "compare"\n[options]\nschemes = "jbd2"\nsize = 64\n'
        f'workload = "{SMALL["workload"]}"\n[sweep]\nseed = "1-2"\n'
    )
    assert len(varve.campaign(file).table) == 2


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="programs are recorded on a mount of FUSE")
def test_a_program_is_judged_in_shares(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torn = "cd $VARVE_DIR; echo good > new; mv new f"
    check = "f=$VARVE_DIR/f; [ ! -e $f ] || grep -q good $f"
    options = ["--model", "posix", "--check", check]
    found = varve.campaign(["crash", "--dir", "--run", torn, *options])
    assert isinstance(found, varve.ProgramCrashes)
    assert found.table.column("name") == ["posix"] and len(found.findings) == 1
    (recording,) = tmp_path.glob("*.recording")
    # A recording that is named makes the same again, and what is in the store is taken.
    spec = ["crash", "--dir", "--recording", recording.name, *options]
    again = [varve.campaign(spec, store=tmp_path / "store").data for _ in range(2)]
    # It knows nothing of the command.
    assert [data.pop("run") for data in again] == ["a recording"] * 2
    assert found.data.pop("run") == torn
    # The command line that makes the state again names a file that is there.
    (line,) = [finding.pop("again") for finding in found.data["findings"]]
    assert f"--recording '{recording.resolve()}'" in line
    assert [[of.pop("again") for of in data["findings"]] for data in again] == [
        [line.replace(str(recording.resolve()), recording.name)]
    ] * 2
    assert again == [found.data, found.data]


@pytest.mark.parametrize("shared", [True, False])
def test_threads_and_processes_deal_shares(tmp_path, shared):
    wanted = alone(tmp_path)
    kind = concurrent.futures.ThreadPoolExecutor if shared else concurrent.futures.ProcessPoolExecutor
    said = []
    with kind(2) as pool:
        found = varve.campaign(
            CASES, executor=pool, shares=4, shared=shared, out=tmp_path / "out", progress=said.append
        )
    assert isinstance(found, varve.Crashes)
    assert (tmp_path / "out" / "results.json").read_bytes() == wanted
    assert sum("is done" in line for line in said) == 4


def test_a_pool_whose_process_is_killed_loses_nothing(tmp_path):
    wanted = alone(tmp_path)
    store, said, killed = tmp_path / "store", [], []
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        victim = pool.submit(os.getpid).result()

        def tell(line):
            said.append(line)
            # The first share is done, the next is under way.
            if not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(line)

        varve.campaign(CASES, store=store, executor=pool, shares=6, out=tmp_path / "out", progress=tell)
    assert "is done" in killed[0]
    assert any("was lost" in line or "takes no more work" in line for line in said), said
    assert (tmp_path / "out" / "results.json").read_bytes() == wanted


def test_a_spec_that_is_wrong_is_refused_in_the_words_of_the_program(tmp_path):
    with pytest.raises(varve.VarveError, match="unknown scheme `foo`"):
        varve.campaign(["compare", "--schemes", "foo"])
    with pytest.raises(varve.VarveError, match="a campaign is of compare, crash or paper"):
        varve.campaign(["fsck", "-n"])
    with pytest.raises(varve.VarveError, match="is for compare"):
        varve.campaign({"command": "crash", "sweep": {"seed": [1]}})
    # A plan that was edited is refused before anything runs, and no share is dealt out again.
    plan = varve.plan(CASES, tmp_path / "plan.jsonl")
    plan.write_text(plan.read_text().replace('"cost":', '"cost":1'))
    said = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(varve.VarveError, match="lines above were changed") as error:
            varve.work_on(plan, tmp_path / "store", pool, shares=2, progress=said.append)
    assert error.value.code == 2
    assert said == [], "no share was told of, or dealt out again"


def test_an_archive_puts_nothing_outside_of_the_store(tmp_path):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("results/ab/good", "../outside", str(tmp_path / "absolute")):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("results/ab/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    store = tmp_path / "store"
    store.mkdir()
    varve.campaigns._take_in(archive.getvalue(), store)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir())
    assert found == ["store/results/ab/good"]


class Cluster:
    """A scheduler of Dask and two workers, each a process of its own."""

    def __init__(self, folder):
        self.file = folder / "scheduler.json"
        self.log = (folder / "dask.log").open("w")
        self.processes = []
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        while not self.file.exists():
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        for _ in range(2):
            self.start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def start(self, what, *more):
        words = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self.file), *more]
        self.processes.append(subprocess.Popen(words, stdout=self.log, stderr=self.log))

    def kill_a_worker(self):
        self.processes[-1].kill()
        self.processes.pop().wait()

    def end(self):
        for process in self.processes:
            process.terminate()
            process.wait()
        self.log.close()


@pytest.fixture
def cluster(tmp_path):
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


@pytest.mark.parametrize("send", [False, True])
def test_a_worker_of_dask_is_killed_and_the_merge_is_that_of_one_process(tmp_path, cluster, send):
    wanted = alone(tmp_path)
    plan = varve.plan(CASES, tmp_path / "plan.jsonl")
    store = tmp_path / "store"
    line = [str(varve.program()), "campaign", "submit", "--dask", cluster.address, "--python", sys.executable]
    line += ["--plan", str(plan), "--store", str(store), "--tasks", "8"]
    line += ["--send"] if send else []
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as submitted:
        told = [submitted.stdout.readline() for _ in range(2)]
        assert all("is done" in line for line in told), told + submitted.stdout.readlines()
        before = done(plan, store)
        cluster.kill_a_worker()
        told += submitted.stdout.readlines()
    assert submitted.returncode == 0, told
    assert 0 < before["done"] < before["jobs"], before
    after = done(plan, store)
    assert (after["done"], after["second_runs_missing"]) == (after["jobs"], 0), after
    words = ["campaign", "merge", "--plan", str(plan), "--store", str(store), "--out", str(tmp_path / "out")]
    varve._run.run(words, good=(0, 1))
    assert (tmp_path / "out" / "results.json").read_bytes() == wanted


def test_a_scheduler_that_does_not_answer_is_named(tmp_path):
    pytest.importorskip("distributed")
    plan = varve.plan(CASES, tmp_path / "plan.jsonl")
    line = [str(varve.program()), "campaign", "submit", "--dask", "tcp://127.0.0.1:1", "--python", sys.executable]
    line += ["--plan", str(plan), "--store", str(tmp_path / "store")]
    said = subprocess.run(line, capture_output=True, text=True)
    assert said.returncode == 1
    assert "no scheduler of Dask answers at tcp://127.0.0.1:1" in said.stderr
    line[line.index("--python") + 1] = str(tmp_path / "none")
    said = subprocess.run(line, capture_output=True, text=True)
    assert said.returncode == 1 and "none: " in said.stderr, said
