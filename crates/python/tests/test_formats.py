"""What Varve writes for programs of others is read by those programs."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import varve

SCHEMES = ["jbd2", "emmc"]
SMALL = {"workload": "sqlite:insert=200,update=60,delete=40", "size": "64"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    found = varve.compare(
        schemes=SCHEMES, fio_json=folder / "fio", hdr_log=folder / "runs.hdr", out=folder / "out", **SMALL
    )
    return folder, found


def test_fio_json_says_what_the_results_say(run):
    folder, found = run
    for scheme, row in zip(SCHEMES, found.data["runs"]):
        fio = json.loads((folder / "fio" / f"ext4-{scheme}" / "run.json").read_text())
        (job,) = fio["jobs"]
        write, sync = job["write"], job["sync"]
        assert write["total_ios"] == row["ops"] == sum(write["clat_ns"]["bins"].values())
        assert write["iops"] == pytest.approx(row["ops_per_s"], rel=1e-5)
        assert write["lat_ns"]["mean"] / 1e3 == pytest.approx(row["latency_us"]["op"]["mean"], rel=1e-5)
        assert write["io_bytes"] == row["blocks"]["data"] * 4096
        percentile = sync["lat_ns"]["percentile"]["99.000000"] / 1e3
        assert percentile == pytest.approx(row["latency_us"]["fsync"]["p99"], rel=0.01)
        shares = [share for unit in ("ns", "us", "ms") for share in job[f"latency_{unit}"].values()]
        assert sum(shares) == pytest.approx(100)


def test_fio_plot_draws_it(run, tmp_path):
    pytest.importorskip("fio_plot")
    folder, _ = run
    # Bars of both runs side by side, and a histogram of one.
    both = [str(folder / "fio" / f"ext4-{scheme}") for scheme in SCHEMES]
    for name, more in (("compare", ["-C", "-i", *both]), ("bars", ["-l", "-i", both[0]])):
        target = tmp_path / f"{name}.png"
        line = [shutil.which("fio-plot", path=f"{sys.prefix}/bin") or "fio-plot", *more]
        line += ["-T", "Varve", "-r", "write", "-d", "1", "-n", "1", "-o", str(target), "--disable-fio-version"]
        drawn = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
        assert drawn.returncode == 0, drawn.stdout + drawn.stderr
        assert target.read_bytes().startswith(b"\x89PNG"), drawn.stdout


def test_the_tool_of_fio_makes_tables_of_its_bins(run, tmp_path):
    tool = shutil.which("fio_jsonplus_clat2csv")
    if tool is None:
        pytest.skip("fio is not installed")
    pytest.importorskip("six")
    folder, found = run
    source = folder / "fio" / "ext4-jbd2" / "run.json"
    target = tmp_path / "latency.csv"
    for more in ([], ["--validate"]):
        said = subprocess.run([sys.executable, tool, str(source), str(target), *more], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
    assert "validated" in said.stdout
    lines = (tmp_path / "latency_job0.csv").read_text().splitlines()
    column = [name.strip() for name in lines[0].split(",")].index("write_clat_ns_cumulative")
    cumulative = [int(line.split(",")[column]) for line in lines[1:] if line.split(",")[column].strip()]
    assert cumulative[-1] == found.data["runs"][0]["ops"]


def test_hdrhistogram_reads_the_log(run):
    log = pytest.importorskip("hdrh.log")
    histogram = pytest.importorskip("hdrh.histogram")
    folder, found = run
    reader = log.HistogramLogReader(str(folder / "runs.hdr"), histogram.HdrHistogram(1, 1 << 42, 3))
    sums = {}
    while True:
        interval = reader.get_next_interval_histogram()
        if interval is None:
            break
        tag = interval.get_tag()
        into = sums.setdefault(tag, histogram.HdrHistogram(1, 1 << 42, 3))
        into.add(interval)
    tags = {f"ext4/{scheme}:{what}" for scheme in SCHEMES for what in ("op", "sync")}
    assert set(sums) == tags
    for scheme, row in zip(SCHEMES, found.data["runs"]):
        ops, syncs = sums[f"ext4/{scheme}:op"], sums[f"ext4/{scheme}:sync"]
        assert ops.get_total_count() == row["ops"]
        for percentile, name in ((50, "p50"), (99, "p99"), (99.9, "p99_9")):
            for values, kind in ((ops, "op"), (syncs, "fsync")):
                us = values.get_value_at_percentile(percentile) / 1e3
                assert us == pytest.approx(row["latency_us"][kind][name], rel=0.002), (scheme, kind, name)


def test_the_formats_are_refused_with_a_store(tmp_path):
    with pytest.raises(varve.VarveError, match="cannot be used with"):
        varve.compare(schemes=["jbd2"], store=tmp_path / "s", hdr_log=tmp_path / "log", **SMALL)
    with pytest.raises(varve.VarveError, match="nowhere"):
        varve.compare(schemes=["jbd2"], hdr_log=tmp_path / "nowhere" / "log", **SMALL)
    with pytest.raises(varve.VarveError, match="--fio-json is not for a plan"):
        varve.campaign(["compare", "--fio-json", "x"])


def outputs(folder):
    """A real output for each schema."""
    small = {"schemes": ["jbd2"], **SMALL}
    yield "compare", varve.compare(**small).data
    yield "compare", varve.compare(device="raw-slc", schemes=["jftl"], workload=SMALL["workload"]).data
    yield "compare", varve.compare(fs="f2fs", **{**small, "schemes": ["checkpoint-60"]}).data
    # Findings with steps, of the scheme that promises nothing.
    yield "crash", varve.crash(workload="ace:1,every=30", schemes=["jbd2", "none"]).data
    yield "crash", varve.crash(workload="mix:ops=4", device="nand", schemes=["none"], moments=20).data
    yield "paper", varve.paper("emmc", quick=True, only=["table4"]).data
    yield "paper", varve.paper("jftl", quick=True, only=["counts"]).data
    if os.path.exists("/dev/fuse"):
        # One that is whole, and one with a finding: what the program prints, as it prints it.
        whole = "echo x > $VARVE_DIR/f"
        torn = "cd $VARVE_DIR; echo good > new; mv new f"
        check = "f=$VARVE_DIR/f; [ ! -e $f ] || grep -q good $f"
        for line in (["--run", whole], ["--run", torn, "--check", check, "--suggest"]):
            words = ["crash", "--dir", *line, "--json", "--out", str(folder / "dir")]
            out = subprocess.run([varve.program(), *words], capture_output=True, text=True)
            assert out.returncode in (0, 1), out.stderr
            yield "crash-dir", json.loads(out.stdout)
    store = folder / "store"
    spec = {"command": "compare", "options": small, "sweep": {"seed": [1, 2]}}
    yield "campaign", varve.campaign(spec, store=store).data
    (plan,) = (store / "plans").glob("*.jsonl")
    words = ["campaign", "status", "--plan", str(plan), "--store", str(store), "--json"]
    yield "campaign-status", json.loads(varve._run.run(words))


def objects(value):
    """All objects in a value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from objects(one)


def maps(schema):
    """Fields that hold a map, whose keys are open."""
    names = set()
    for one in objects(schema):
        for name, field in (one.get("properties") or {}).items():
            if isinstance(field, dict) and isinstance(field.get("additionalProperties"), dict):
                names.add(name)
    return names


def test_what_is_written_is_what_the_schemas_say_and_nothing_else(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    closed = 0
    for of, data in outputs(tmp_path):
        schema = varve.schema(of)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        errors = [f"{of}: {list(e.path)}: {e.message[:200]}" for e in validator.iter_errors(data)]
        assert not errors, errors[:5]
        open_maps = [id(v) for o in objects(data) for k, v in o.items() if k in maps(schema)]
        looked = set()
        for one in objects(data):
            # One object of each shape is enough.
            shape = (frozenset(one), id(one) in open_maps)
            if id(one) in open_maps or shape in looked:
                continue
            looked.add(shape)
            one["not_in_the_schema"] = 1
            assert not validator.is_valid(data), f"{of}: a field more in {sorted(one)} is not noticed"
            del one["not_in_the_schema"]
            closed += 1
        for name in schema["required"]:
            assert not validator.is_valid({k: v for k, v in data.items() if k != name}), (of, name)
    assert closed > 20


def test_schemas_speak_of_names_and_not_of_links_in_code():
    for of in ("compare", "crash", "crash-dir", "paper", "campaign", "campaign-status"):
        text = json.dumps(varve.schema(of))
        assert not re.search(r"\[`|`\]", text)
        assert '"additionalProperties": false' in text
