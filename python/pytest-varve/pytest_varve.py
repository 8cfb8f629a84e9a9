"""Crash tests in pytest, thin over `varve crash --dir`.

    def test_config_survives(varve_crash):
        varve_crash("python3 app.py", judge="same-or-old=config.json")

fails with what a power cut may leave, in words of system calls. The program is `$VARVE`, or `varve`
on the path; without it the test is skipped.
"""

import json
import os
import shutil
import subprocess
import tempfile

import pytest


class Broken(Exception):
    """The test came to no verdict: its command failed, its judge crashed, a call that was to fail was
    never made. No finding: correct the test."""


class Result:
    """What was found: `results.json` of the command as `data`, and its folder as `out`."""

    def __init__(self, data, out):
        self.data = data
        self.out = out

    @property
    def findings(self):
        return self.data["findings"]

    def bad(self, model):
        """Number of bad trees that a model leaves."""
        return sum(of["bad"] for of in self.data["models"] if of["name"].split(":")[0] == model)


def crash(run, out, check=True, **options):
    """Runs `varve crash --dir --run RUN` with options by their names: `judge="sqlite"`,
    `model=["posix", "ext4"]`, `allow_failure=True`. Fails if a tree is bad and `check` is true; raises `Broken` if the test
    came to no verdict."""
    varve = os.environ.get("VARVE") or shutil.which("varve")
    if varve is None:
        pytest.skip("varve is not installed: put it on the path, or name it in $VARVE")
    words = [varve, "crash", "--dir", "--json", "--out", str(out), "--run", run]
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if one is True:
                words.append(option)
            elif one is not False and one is not None:
                words += [option, str(one)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    said = done.stderr.strip()
    try:
        data = json.loads(done.stdout)
    except ValueError:
        # Words, as of `lint=True`.
        data = None
    if done.returncode not in (0, 1):
        error = data.get("error") if isinstance(data, dict) else None
        raise Broken("varve crash: " + (error or said or done.stdout.strip()))
    if check and done.returncode == 1 and not isinstance(data, dict):
        pytest.fail("varve crash: " + "\n".join([said, done.stdout.strip()]), pytrace=False)
    result = Result(data, str(out))
    if check and done.returncode == 1:
        pytest.fail(told(result), pytrace=False)
    return result


def told(result):
    """The findings in words."""
    lines = ["a power cut may leave what the judge rejects (%s)" % result.out]
    for finding in result.findings:
        models = ", ".join(of["model"] for of in finding["models"])
        lines.append("%d. %s [%s]" % (finding["number"], finding["sentence"], models))
        lines.append("   " + finding["why"].replace("\n", "\n   "))
        lines.append("   " + finding["again"])
    return "\n".join(lines)


@pytest.fixture
def varve_crash():
    """`crash` with a folder of its own for the results. The folder stays if the test fails there."""
    out = tempfile.mkdtemp(prefix="varve-crash-")
    failed = False

    def run(command, **options):
        nonlocal failed
        failed = True
        result = crash(command, out, **options)
        failed = False
        return result

    yield run
    if not failed:
        shutil.rmtree(out, ignore_errors=True)
