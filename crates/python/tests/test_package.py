"""The package as it is installed: its wheel, and libraries that read its tables."""

import concurrent.futures
import json
import sys
import types

import pytest

import varve

SMALL = {"workload": "sqlite:insert=12,update=6,delete=4", "size": "64"}


@pytest.fixture(scope="module")
def comparison():
    return varve.compare(schemes=["jbd2", "emmc"], **SMALL)


def test_a_comparison_is_a_table_for_others(comparison):
    table = comparison.table
    assert len(table) == 2
    assert table.column("scheme") == ["jbd2", "emmc"]
    assert all(rate > 0 for rate in table.column("ops_per_s"))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.from_arrow(table)
    assert list(frame["scheme"]) == ["jbd2", "emmc"]
    assert frame["ops"].dtype.kind == "i"
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(table).height == 2
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(table).column("scheme").to_pylist() == ["jbd2", "emmc"]


def test_duckdb_reads_tables_by_their_capsules(comparison):
    duckdb = pytest.importorskip("duckdb")
    table = comparison.table
    runs = _with(duckdb, runs=table)
    told = runs.sql("select scheme, ops, ops_per_s from runs order by ops_per_s").fetchall()
    assert {scheme for scheme, _, _ in told} == {"jbd2", "emmc"}
    assert [rate for _, _, rate in told] == sorted(table.column("ops_per_s"))
    assert all(isinstance(ops, int) for _, ops, _ in told)
    nulls = varve.Table({"a": [1, None, 3]})
    con = _with(duckdb, t=nulls)
    assert con.sql("select sum(a), count(*) - count(a) from t").fetchall() == [(4, 1)]


def _with(duckdb, **tables):
    """A connection that knows these tables, each read through its capsule alone."""
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, _Capsules(table))
    return connection


class _Capsules:
    """What a library sees that knows nothing of us but Arrow's interface."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_parts_of_a_comparison_add_up(comparison):
    blocks = comparison.blocks
    by_scheme = {}
    for scheme, count in zip(blocks.column("scheme"), blocks.column("blocks")):
        by_scheme[scheme] = by_scheme.get(scheme, 0) + count
    assert list(by_scheme.values()) == comparison.table.column("blocks")
    last = {}
    latencies = comparison.fsync_latencies
    for scheme, fraction in zip(latencies.column("scheme"), latencies.column("fraction")):
        last[scheme] = fraction
    assert set(last.values()) == {1.0}
    assert "<table>" in comparison._repr_html_()
    assert comparison.page.startswith("<!DOCTYPE html>")
    assert comparison.command.startswith("varve compare")


def test_the_same_seed_gives_the_same_figures(comparison, tmp_path):
    again = varve.compare(schemes=["jbd2", "emmc"], out=tmp_path / "kept", **SMALL)
    assert again.data == comparison.data
    assert json.loads((tmp_path / "kept" / "results.json").read_text()) == again.data


def test_nulls_and_types_of_a_table():
    table = varve.Table({"a": [1, None, 3], "b": [1, 2.5, None], "c": ["x", None, "z"], "d": [True, None, False], "e": [None] * 3})
    assert len(table) == 3
    assert table.column("a") == [1, None, 3]
    assert table.column("b") == [1.0, 2.5, None]
    assert table.column("c") == ["x", None, "z"]
    assert table.column("d") == [True, None, False]
    assert table.column("e") == [None] * 3
    pyarrow = pytest.importorskip("pyarrow")
    back = pyarrow.table(table)
    assert back.column("a").null_count == 1
    assert [str(t) for t in back.schema.types] == ["int64", "double", "string", "bool", "double"]
    with pytest.raises(TypeError, match="mixes"):
        varve.Table({"a": [1, "x"]})
    with pytest.raises(TypeError, match="not dict"):
        varve.Table({"a": [{}]})
    with pytest.raises(KeyError, match="there are: a"):
        varve.Table({"a": [1]}).column("b")
    with pytest.raises(ValueError):
        varve.Table({"a": [1], "b": [1, 2]})
    assert len(varve.Table({})) == 0


def test_many_cases_go_to_an_executor():
    cases = [{"schemes": ["jbd2"], "seed": seed, "jobs": 1, **SMALL} for seed in (1, 2, 3)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        table = varve.compare_many(cases, pool)
    assert table.column("case") == [0, 1, 2]
    assert table.column("seed") == [1, 2, 3]
    alone = varve.compare_many(cases[:1])
    assert alone.column("ops_per_s") == table.column("ops_per_s")[:1]


def test_dask_is_an_executor():
    distributed = pytest.importorskip("dask.distributed")
    cases = [{"schemes": ["jbd2"], "seed": seed, "jobs": 1, **SMALL} for seed in (1, 2)]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert len(varve.compare_many(cases, client)) == 2


def test_a_refusal_is_an_error_with_the_words_of_the_program():
    with pytest.raises(varve.VarveError, match="unknown scheme `foo`") as error:
        varve.compare(schemes=["foo"])
    assert error.value.code == 2


def test_a_notebook_shows_a_bar_in_one_place(monkeypatch):
    class Shown:
        def __init__(self, first):
            self.texts = [first]

        def update(self, text):
            self.texts.append(text)

    shown = []

    def display(first, display_id):
        assert display_id
        shown.append(Shown(first))
        return shown[-1]

    shell = types.SimpleNamespace(kernel=object())
    notebook = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(HTML=str, display=display))
    varve.crash(workload="ace:1,every=20", schemes=["jbd2"], states=8)
    assert len(shown) == 1, "one bar in one place"
    assert "crash" in shown[0].texts[-1] and "<progress value=" in shown[0].texts[-1]
    # Its lines are no words of an error.
    with pytest.raises(varve.VarveError, match="^unknown scheme"):
        varve.crash(schemes=["foo"])
    # A shell without a notebook has none.
    shell.kernel = None
    varve.compare(schemes=["jbd2"], **SMALL)
    assert len(shown) == 1


def test_crashes_are_judged():
    crashes = varve.crash(workload="ace:1,every=80", schemes=["jbd2"], states=8)
    assert crashes.violations == 0
    assert sum(crashes.table.column("judged")) > 0


def test_a_paper_has_rows_with_published_and_measured_values():
    said = []
    paper = varve.paper("jftl", quick=True, only=["counts"], progress=said.append)
    rows = paper.table
    within = [w for w in rows.column("within") if w is not None]
    assert within.count(True) == paper.summary["within"] > 0
    assert "agree" in paper.verdict
    assert set(rows.column("kind")) <= {"predicted", "fitted", "identity", "linux", "beyond"}


def test_images_are_made_and_read(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"one")
    for fs in ("ext4", "f2fs"):
        image = varve.Image.make(tmp_path / f"{fs}.img", fs=fs, size="64M", from_dir=tree)
        assert "a" in image.list("/")
        assert image.read("/a") == b"one"
        image.write("/b", b"two")
        assert image.read("b") == b"two"
        assert image.check()
        assert (image.extract(tmp_path / fs) / "b").read_bytes() == b"two"
        assert isinstance(image.info(), dict)
    with pytest.raises(varve.VarveError):
        varve.Image(tmp_path / "gone.img").list()
