"""A wheel that was just installed works: the least of each part, with no other package but pytest."""

import ctypes
import json

import pytest

import varve

SMALL = {"schemes": ["jbd2", "emmc"], "workload": "sqlite:insert=12,update=6,delete=4", "size": "64"}


def test_a_comparison_is_a_table():
    comparison = varve.compare(**SMALL)
    assert comparison.table.column("scheme") == ["jbd2", "emmc"]
    assert all(rate > 0 for rate in comparison.table.column("ops_per_s"))


def test_a_table_hands_out_capsules():
    """What pandas, polars and DuckDB ask for: capsules of Arrow's stream, by their names."""
    capsule = varve.Table({"a": [1, None, 3]}).__arrow_c_stream__()
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    assert name(capsule) == b"arrow_array_stream"


def test_a_case_is_cut_and_judged(tmp_path):
    crashes = varve.crash(workload="ace:1,every=80", schemes=["jbd2"], states=8, out=tmp_path)
    assert crashes.violations == 0
    assert sum(crashes.table.column("judged")) > 0
    assert json.loads((tmp_path / "results.json").read_text())["command"] == "crash"


def test_an_image_is_made_and_read(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"one")
    image = varve.Image.make(tmp_path / "x.img", size="64M", from_dir=tmp_path / "tree")
    assert image.read("/a") == b"one"


def test_a_refusal_has_the_words_of_the_program():
    with pytest.raises(varve.VarveError, match="unknown scheme `foo`") as error:
        varve.compare(schemes=["foo"])
    assert error.value.code == 2
