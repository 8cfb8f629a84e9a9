"""Campaigns from Python: `varve campaign` planned, worked on by an executor, and merged.

The executor is one of `concurrent.futures` or a client of Dask; both only deal out shares of the
plan. What a share makes is in the store before the next share begins, so a worker that is lost
leaves missing results and nothing else, and they are made again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import shutil
import tarfile
import tempfile
import warnings
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from ._results import Comparison, Crashes, Paper, ProgramCrashes, Results, _run_row, _table
from ._native import Table
from ._run import Progress, VarveError, run, run_shown

#: What a campaign is of: a file of TOML, its content as a mapping, or a command line in words.
Spec = Union[str, "os.PathLike[str]", Mapping[str, Any], Sequence[str]]

#: Seconds of work in a share, where no number of shares is given.
SHARE_SECONDS = 60.0
#: How often a share is dealt out that an executor lost.
ROUNDS = 3


class Campaign(Results):
    """The comparisons of a campaign."""

    @property
    def comparisons(self) -> list[Comparison]:
        """Each comparison as `compare` answers it, in the order of the plan."""
        if "comparisons" in self.data:
            return [Comparison(data) for data in self.data["comparisons"]]
        return [Comparison(self.data)]

    @property
    def command(self) -> str:
        """The command line of the first comparison."""
        return self.comparisons[0].command

    @property
    def table(self) -> Table:
        """One row for each run, with the number of its comparison as column `case`."""
        return _table(
            [
                {"case": number, "seed": one.data["seed"], **_run_row(found)}
                for number, one in enumerate(self.comparisons)
                for found in one.data["runs"]
            ]
        )


_KINDS: dict[str, type[Results]] = {"compare": Campaign, "crash": Crashes, "paper": Paper}


def plan(spec: Spec, file: "os.PathLike[str] | str") -> Path:
    """Writes the plan of a campaign (`varve campaign plan`) to `file`.

    `spec` is the path of a file of TOML, its content as a mapping (`{"command": "compare",
    "options": {...}, "sweep": {...}}`), or a command line in words (`["crash", "--workload",
    "ace:1"]`).
    """
    target = Path(file)
    if isinstance(spec, Mapping):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as text:
            text.write(_toml(spec))
            text.flush()
            words = [text.name]
            target.write_bytes(run(["campaign", "plan", *words]))
        return target
    words = [os.fspath(spec)] if isinstance(spec, (str, os.PathLike)) else list(spec)
    target.write_bytes(run(["campaign", "plan", *words]))
    return target


def _toml(spec: Mapping[str, Any]) -> str:
    def value(of: Any) -> str:
        if isinstance(of, (list, tuple)):
            return "[" + ", ".join(value(one) for one in of) + "]"
        if isinstance(of, bool):
            return "true" if of else "false"
        if isinstance(of, (int, float)):
            return repr(of)
        return json.dumps(os.fspath(of) if isinstance(of, os.PathLike) else str(of))

    lines = [f"{key} = {value(of)}" for key, of in spec.items() if not isinstance(of, Mapping)]
    for name, table in spec.items():
        if isinstance(table, Mapping):
            lines.append(f"[{name}]")
            lines += [f"{key.replace('_', '-')} = {value(of)}" for key, of in table.items()]
    return "\n".join(lines) + "\n"


def _read(file: Path) -> tuple[str, int, float]:
    """The command of a plan, the number of its jobs, and the seconds that they take, roughly."""
    command, jobs, cost = "", 0, 0.0
    with file.open("rb") as opened:
        # A plan may be compressed, as for `varve campaign work`.
        packed = opened.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(file, "rt", encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            if "plan" in line:
                command = line["plan"]["command"]
            elif "job" in line:
                jobs += 1
                cost += line["job"]["cost"]
    return command, jobs, cost


def _work(
    plan_file: str, store: str, share: str, workers: Optional[int], progress: Optional[Progress] = None
) -> None:
    words = ["campaign", "work", "--plan", plan_file, "--store", store]
    if share:
        words += ["--share", share]
    if workers:
        words += ["--workers", str(workers)]
    run_shown(words, progress=progress)


def _share(plan_file: str, store: str, share: str, workers: int) -> None:
    """Makes a share in a store that this host sees."""
    _work(plan_file, store, share, workers)


def _share_of_text(plan_text: bytes, share: str, workers: int) -> bytes:
    """Makes a share in a store of its own: its files as an archive."""
    with tempfile.TemporaryDirectory(prefix="varve-") as folder:
        file, store = Path(folder) / "plan.jsonl", Path(folder) / "store"
        file.write_bytes(plan_text)
        try:
            _work(str(file), str(store), share, workers)
        except VarveError as error:
            # Attempts without a result count, too; a refusal is one here as there.
            if error.code != 1 or not store.is_dir():
                raise
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(store, arcname=".")
        return archive.getvalue()


def _text(result: bytes) -> bytes:
    """What a job gave, without the line that says who made it and in what time."""
    return result.partition(b"\n")[2]


def _take_in(archive: bytes, store: Path) -> None:
    """Puts the files of another store into this one, each whole or not at all."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            parts = Path(member.name).parts
            content = tar.extractfile(member) if member.isfile() else None
            if content is None or ".." in parts or os.path.isabs(member.name):
                continue
            target = store.joinpath(*parts)
            if target.exists():
                if parts[0] != "results" or _text(content.read()) == _text(target.read_bytes()):
                    continue
                # Two workers gave one job two results: both are kept, and `merge` names them.
                first, target = target, store.joinpath("again", *parts[1:])
                content.seek(0)
                if target.exists() and _text(target.read_bytes()) != _text(first.read_bytes()):
                    # One that contradicts is there already.
                    continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as part:
                shutil.copyfileobj(content, part)
                part.flush()
                os.fsync(part.fileno())
            os.chmod(part.name, 0o644)
            os.replace(part.name, target)


def _is_dask(executor: Any) -> bool:
    return type(executor).__module__.split(".")[0] in ("distributed", "dask")


def _ended(executor: Any, futures: Sequence[Any]) -> Iterator[Any]:
    if _is_dask(executor):
        from distributed import as_completed

        return iter(as_completed(list(futures)))
    from concurrent.futures import as_completed as ended

    return iter(ended(futures))


def _deal(
    executor: Any,
    shares: Sequence[str],
    submit: Callable[[str], Any],
    take: Callable[[Any], None],
    progress: Optional[Progress],
) -> list[str]:
    """Deals out shares: those that were lost."""
    futures = {submit(share): share for share in shares}
    lost: list[str] = []
    done = 0
    try:
        for future in _ended(executor, list(futures)):
            share = futures[future]
            try:
                take(future.result())
                done += 1
                said = f"share {share} is done: {done} of {len(shares)}"
            except VarveError as error:
                if error.code == 2:
                    raise
                # Its jobs were tried; the merge tells which gave no result.
                said = f"share {share}: {error}"
            except Exception as error:  # a worker that died, in the words of the executor
                lost.append(share)
                said = f"share {share} was lost: {error}"
            if progress is not None:
                progress(said)
    finally:
        for future in futures:
            if not future.done():
                future.cancel()
    return lost


def work_on(
    file: "os.PathLike[str] | str",
    store: "os.PathLike[str] | str",
    executor: "Executor | Any",
    *,
    shares: Optional[int] = None,
    workers: int = 1,
    shared: bool = True,
    progress: Optional[Progress] = None,
) -> None:
    """Makes the results of a plan by an executor: one of `concurrent.futures`, or a client of Dask.

    The plan is dealt out in `shares` (without it one for each minute of work), and each runs
    `workers` jobs at once. With `shared` the hosts of the executor see plan and store under the
    same paths; without it they get the plan's text and send their results back. A share that is
    lost is dealt out again. In the end this host makes what is still missing, and the second runs
    that test determinism.
    """
    file, store = Path(file).resolve(), Path(store).resolve()
    _, jobs, cost = _read(file)
    if not jobs:
        raise VarveError(2, f"{file}: it has no job")
    wanted = shares or math.ceil(cost / SHARE_SECONDS / workers)
    count = max(1, min(jobs, wanted))
    left = [f"{n}/{count}" for n in range(1, count + 1)]
    store.mkdir(parents=True, exist_ok=True)
    more = {"pure": False} if _is_dask(executor) else {}
    text: Any = b""
    if not shared:
        text = file.read_bytes()
        if _is_dask(executor):
            # Sent to each worker once, and not with each share.
            text = executor.scatter(text, broadcast=True)

    def submit(share: str) -> Any:
        if shared:
            return executor.submit(_share, str(file), str(store), share, workers, **more)
        return executor.submit(_share_of_text, text, share, workers, **more)

    def take(found: Optional[bytes]) -> None:
        if found is not None:
            _take_in(found, store)

    for _ in range(ROUNDS):
        try:
            left = _deal(executor, left, submit, take, progress)
        except VarveError:
            raise
        except Exception as error:
            # The executor itself is gone, as a pool whose process was killed.
            if progress is not None:
                progress(f"the executor takes no more work: {error}")
            break
        if not left:
            break
    _work(str(file), str(store), "", None)


def _planned(spec: Spec, base: Path) -> Path:
    """The plan in the store, under a name by its content: campaigns at one time may share a store."""
    folder = base / "plans"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as scratch:
        part = plan(spec, Path(scratch) / "plan.jsonl")
        name = hashlib.sha256(part.read_bytes()).hexdigest()[:32]
        return part.replace(folder / f"{name}.jsonl")


def campaign(
    spec: Spec,
    *,
    store: "os.PathLike[str] | str | None" = None,
    executor: "Executor | Any | None" = None,
    shares: Optional[int] = None,
    workers: Optional[int] = None,
    shared: bool = True,
    out: "os.PathLike[str] | str | None" = None,
    progress: Optional[Progress] = None,
) -> Results:
    """Runs a campaign (`varve campaign`): plans it, makes all results, merges them.

    `spec` is as for `plan`. Results are kept in the folder `store`, so the same call goes on where
    it was stopped; without it they are gone afterwards. `executor` does the work (see `work_on`);
    without one this host does, `workers` jobs at once. `out` keeps tables (`runs.parquet`), page
    and result file.

    Answers a `Campaign` for `compare`, `Crashes` for `crash`, `ProgramCrashes` for `crash --dir`
    (which records its command and cuts it into shares anew at each call: to go on, write the plan once by
    `plan`, and give it to `work_on` again), a `Paper` for `paper`. Raises `VarveError` if results differ when
    a job is run twice, or if the program refuses; of jobs that were given up it warns, `data` says
    `incomplete`, and the tables in `out` have them as rows.
    """
    with tempfile.TemporaryDirectory(prefix="varve-") as scratch:
        base = Path(scratch) if store is None else Path(store)
        base.mkdir(parents=True, exist_ok=True)
        file = _planned(spec, base)
        command, _, _ = _read(file)
        target = Path(out) if out is not None else Path(scratch) / "merged"
        # What an earlier merge left would pass for this one's.
        (target / _KINDS[command].FILE).unlink(missing_ok=True)
        tried: Optional[VarveError] = None
        try:
            if executor is None:
                _work(str(file), str(base), "", workers, progress)
            else:
                work_on(
                    file, base, executor, shares=shares, workers=workers or 1, shared=shared, progress=progress
                )
        except VarveError as error:
            # Jobs that were given up are rows of `runs.parquet`; it is no result without a merge.
            if error.code != 1:
                raise
            tried = error
        said: list[str] = []
        words = ["campaign", "merge", "--plan", str(file), "--store", str(base), "--out", str(target)]
        run(words, progress=said.append, good=(0, 1))
        if not (target / _KINDS[command].FILE).is_file():
            raise tried or VarveError(1, "\n".join(line for line in said if line))
        if tried is not None:
            warnings.warn(f"not every job gave a result: {tried}", RuntimeWarning, stacklevel=2)
        loaded = _KINDS[command].load(target)
        # One word of a plan stands for both; they differ in what they tell.
        if loaded.data["command"] != "crash --dir":
            return loaded
        found = ProgramCrashes(loaded.data, loaded.page)
        if out is None:
            _name_what_stays(found, target / "recording", file)
        return found


def _name_what_stays(found: ProgramCrashes, gone: Path, plan_file: Path) -> None:
    """Has the command lines of findings name the recording of the plan, which stays where it was
    made, and not its copy in the folder of the merge, which is removed."""
    jobs = (json.loads(line).get("job") for line in plan_file.read_text("utf-8").splitlines())
    name = next((job["task"]["program"]["recording"] for job in jobs if job), None)
    if name is None:
        return
    stays = os.path.abspath(name)
    for finding in found.data["findings"]:
        finding["again"] = finding["again"].replace(str(gone), stays)
    found.page = found.page and found.page.replace(str(gone), stays)
