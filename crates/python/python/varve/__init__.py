"""Varve: compare journaling schemes for flash storage on your workload, and try their crashes.

    import varve
    found = varve.compare(workload="sqlite", schemes=["jbd2", "emmc"])
    pandas.DataFrame.from_arrow(found.table)

Every function runs the program `varve`, which this package carries; keywords are its options
(`docs/use/cli.md`), and results are the same bytes as from the command line. Times are virtual, so
the same seed gives the same figures on any machine.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Iterable, Optional, Type, TypeVar

from ._native import Table, __version__
from ._results import Comparison, Crashes, Paper, ProgramCrashes, Results, Trace, to_html
from ._results import _run_row
from ._results import _table as table_of
from ._run import Progress, VarveError, options, program, run, run_shown
from .campaigns import Campaign, campaign, plan, work_on
from .image import Image

__all__ = [
    "Campaign",
    "Comparison",
    "Crashes",
    "Image",
    "Paper",
    "ProgramCrashes",
    "Results",
    "Table",
    "Trace",
    "VarveError",
    "__version__",
    "campaign",
    "compare",
    "compare_many",
    "crash",
    "crash_program",
    "paper",
    "plan",
    "program",
    "replay",
    "schema",
    "table_of",
    "to_html",
    "work_on",
]

_R = TypeVar("_R", bound=Results)


def _made(
    kind: Type[_R], words: list[str], more: dict[str, Any], progress: Optional[Progress], good: tuple[int, ...] = (0,)
) -> _R:
    out = more.pop("out", None)
    folder = Path(out) if out else Path(tempfile.mkdtemp(prefix="varve-"))
    try:
        run_shown([*words, *options(more), "--out", str(folder)], progress=progress, good=good)
        loaded = kind.load(folder)
        assert isinstance(loaded, kind)
        return loaded
    finally:
        if not out:
            shutil.rmtree(folder, ignore_errors=True)


def compare(workload: str = "sqlite", *, progress: Optional[Progress] = None, **more: Any) -> Comparison:
    """Runs a workload on several schemes over a modelled device (`varve compare`).

    Keywords are the options of the command: `schemes=["jbd2", "emmc"]`, `fs=`, `device=`, `seed=`,
    `size=`, `jobs=`, `out=`. `progress` gets each line that the program says of its progress.

    Raises `VarveError` with the program's words if it refuses.
    """
    return _made(Comparison, ["compare"], {"workload": workload, **more}, progress)


def paper(name: str, *, progress: Optional[Progress] = None, **more: Any) -> Paper:
    """Measures a publication again (`varve paper`): `emmc`, `jftl` or `f2fsj`.

    Keywords: `quick=True`, `only=["fig13"]`, `objects=`, `seed=`, `out=`.
    """
    return _made(Paper, ["paper", name], more, progress)


def crash(*, progress: Optional[Progress] = None, **more: Any) -> Crashes:
    """Cuts the power of modelled devices and judges what is left (`varve crash`).

    Keywords: `workload="ace:1,every=20"`, `schemes=`, `fs=`, `device=`, `states=`, `out=`. A
    broken promise is in the result and no exception.
    """
    return _made(Crashes, ["crash"], more, progress, good=(0, 1))


def crash_program(command: str, *, progress: Optional[Progress] = None, **more: Any) -> ProgramCrashes:
    """Records what a program writes and tells what a power cut may take of it (`varve crash --dir`).

    Keywords: `check="..."`, `setup="..."`, `from_=FOLDER`, `model=["ext4", "posix"]`, `suggest=True`.
    """
    if "from_" in more:
        more["from"] = more.pop("from_")
    return _made(ProgramCrashes, ["crash", "--dir", "--run", command], more, progress, good=(0, 1))


def replay(file: "Path | str", *, progress: Optional[Progress] = None, **more: Any) -> Results:
    """Replays a recording (`varve replay`): a `Comparison` of schemes for one of file calls, a
    `Trace` for one of block requests."""
    out = more.pop("out", None)
    folder = Path(out) if out else Path(tempfile.mkdtemp(prefix="varve-"))
    try:
        run_shown(["replay", str(file), *options(more), "--out", str(folder)], progress=progress)
        kind: Type[Results] = Trace if (folder / Trace.FILE).is_file() else Comparison
        return kind.load(folder)
    finally:
        if not out:
            shutil.rmtree(folder, ignore_errors=True)


def schema(of: str) -> dict[str, Any]:
    """The JSON Schema of a result file (`varve schema`): `compare`, `crash`, `crash-dir`, `paper`,
    `campaign` or `campaign-status`."""
    found: dict[str, Any] = json.loads(run(["schema", of]))
    return found


def _one(case: dict[str, Any]) -> dict[str, Any]:
    return compare(**case).data


def compare_many(cases: Iterable[dict[str, Any]], executor: Optional[Executor] = None) -> Table:
    """Runs `compare` for each case (keywords of `compare`) and answers one table of all runs, with
    the number of its case as column `case`.

    `executor` is one of `concurrent.futures`, or a client of Dask (`dask.distributed.Client`), which
    has the same `map`; without one, cases run one after another.
    """
    cases = list(cases)
    if executor is None:
        results = [_one(case) for case in cases]
    else:
        results = [
            found.result() if hasattr(found, "result") else found for found in executor.map(_one, cases)
        ]
    rows = [
        {"case": number, "seed": data["seed"], **_run_row(run)}
        for number, data in enumerate(results)
        for run in data["runs"]
    ]
    return table_of(rows)
