"""Results of runs as objects with tables."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Optional, Sequence

from ._native import Table


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    """A table of these rows; a column that a row lacks is null there."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return Table({name: [row.get(name) for row in rows] for name in names})


def to_html(table: Table, rows: int = 40) -> str:
    """A table as HTML, at most so many rows of it."""
    names = table.column_names
    columns = [table.column(name)[:rows] for name in names]

    def cell(value: object) -> str:
        if value is None:
            return "<td></td>"
        return "<td>" + html.escape(f"{value:.4g}" if isinstance(value, float) else str(value)) + "</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = "".join("<tr>" + "".join(cell(v) for v in line) + "</tr>" for line in zip(*columns))
    more = f"<p>{len(table) - rows} more rows</p>" if len(table) > rows else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


class Results:
    """What a command of Varve left: `data` is its result file, `page` its page as HTML."""

    #: Name of the result file.
    FILE = "results.json"

    def __init__(self, data: dict[str, Any], page: Optional[str] = None) -> None:
        self.data = data
        self.page = page

    @classmethod
    def load(cls, folder: "Path | str") -> "Results":
        """The results in a folder that was given to `--out`."""
        folder = Path(folder)
        data = json.loads((folder / cls.FILE).read_text())
        page = folder / "index.html"
        return cls(data, page.read_text() if page.is_file() else None)

    @property
    def command(self) -> str:
        """The command line that makes the same again."""
        return str(self.data.get("reproduce") or self.data.get("command"))

    @property
    def table(self) -> Table:
        """The main table, for `pandas.DataFrame.from_arrow`, `polars.DataFrame`, DuckDB and others."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return f"<p><code>{html.escape(self.command)}</code></p>" + to_html(self.table)

    def __repr__(self) -> str:
        return f"<varve.{type(self).__name__}: {self.command}>"


class Comparison(Results):
    """Runs of one workload on several schemes."""

    @property
    def table(self) -> Table:
        """One row for each run: rates, latencies in microseconds, blocks of 4 KiB, flash."""
        return _table([_run_row(run) for run in self.data["runs"]])

    @property
    def blocks(self) -> Table:
        """Blocks written, by class: one row for each run and class."""
        return _table(
            [
                {"fs": run["fs"], "scheme": run["scheme"], "class": name, "blocks": count}
                for run in self.data["runs"]
                for name, count in run["blocks"].items()
            ]
        )

    @property
    def fsync_latencies(self) -> Table:
        """The distribution of fsync latencies: the fraction of calls at or below each latency."""
        return _table(
            [
                {"fs": run["fs"], "scheme": run["scheme"], "us": us, "fraction": fraction}
                for run in self.data["runs"]
                for us, fraction in run["latency_us"]["fsync_cdf"]
            ]
        )


def _run_row(run: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "fs": run["fs"],
        "scheme": run["scheme"],
        "device": run["device"]["profile"],
        "timing": run["timing"],
        "workload": run["workload"],
        "virtual_seconds": float(run["virtual_seconds"]),
        "ops": run["ops"],
        "ops_per_s": float(run["ops_per_s"]),
    }
    for kind in ("op", "fsync"):
        for name, value in run["latency_us"][kind].items():
            row[f"{kind}_{name}_us"] = float(value)
    row["blocks"] = sum(run["blocks"].values())
    row["journal_block_ratio"] = float(run["journal_block_ratio"])
    for name, value in run["device"].items():
        if name != "profile":
            row[f"device_{name}"] = value
    for name, value in (run.get("flash") or {}).items():
        if isinstance(value, (int, float)):
            row[f"flash_{name}"] = value
    return row


class Paper(Results):
    """A publication measured again: published values beside measured ones."""

    FILE = "paper.json"

    @property
    def table(self) -> Table:
        """One row for each value: `published` (or `low` and `high`), `measured`, `within`."""
        return _table([_paper_row(row) for row in self.data["rows"]])

    @property
    def summary(self) -> dict[str, int]:
        """How many rows agree."""
        return dict(self.data["summary"])

    @property
    def verdict(self) -> str:
        """How many of the published values agree, in a sentence."""
        sums = self.summary
        sound = sums["within"] + sums["outside"] - sums["contradicted"]
        return f"{sums['sound_strictly']} of the {sound} published values that can be compared here agree."


def _paper_row(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row.get("range") or (None, None)
    text = {name: row.get(name) for name in ("figure", "item", "of", "timing", "unit", "kind", "bound")}
    number = {
        name: None if value is None else float(value)
        for name, value in (
            ("published", row.get("published")),
            ("low", low),
            ("high", high),
            ("tolerance", row.get("tolerance")),
            ("measured", row.get("measured")),
        )
    }
    return {**text, **number, "within": row.get("within"), "strictly": row.get("strictly"), "why": row.get("why")}


class Crashes(Results):
    """A campaign of power cuts, judged."""

    @property
    def table(self) -> Table:
        """One row for each case: its workload, and counts of states."""
        names = ("scheme", "device", "class", "workload", "seed")
        return _table(
            [{**{n: case.get(n) for n in names}, **case["counts"]} for case in self.data["cases"]]
        )

    @property
    def violations(self) -> int:
        """States that break a promise."""
        return sum(case["counts"]["violations"] for case in self.data["cases"])


class ProgramCrashes(Results):
    """What a program may lose, by the models of persistence it was judged with."""

    @property
    def table(self) -> Table:
        """One row for each model."""
        return _table([{k: v for k, v in m.items() if not isinstance(v, (dict, list))} for m in self.data["models"]])

    @property
    def findings(self) -> list[str]:
        """A sentence for each thing that may be lost."""
        return [str(finding["sentence"]) for finding in self.data["findings"]]


class Trace(Results):
    """A replayed recording of block requests."""

    FILE = "trace.json"

    @property
    def table(self) -> Table:
        """Latencies of the run on a device, by kind of request; without a run one row a policy."""
        device = self.data.get("device")
        if device:
            return _table(
                [
                    {"request": kind, **{k: float(v) for k, v in values.items() if isinstance(v, (int, float))}}
                    for kind, values in device["latency_us"].items()
                ]
            )
        rows = self.data.get("counted", [])
        return _table([{k: v for k, v in row.items() if not isinstance(v, (dict, list))} for row in rows])
