#!/usr/bin/env python3
"""Crash-tests programs of others and compares each verdict with programs.toml.

    python3 examples/known-bugs/run.py [--varve PROGRAM] [--only NAME,..] [--node] [--go] [--rust]
                                        [--postgres]
                                        [--keep DIR]

Installs the pinned versions of requirements.txt into an environment of its own (with --node those of
package.json, with --go and --rust those of these folders; --postgres takes Debian's package), then runs each program through `varve crash --dir`. Needs the network of the registries once,
and FUSE. Exit code 1: a verdict is another than the table says.
"""

import argparse
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["posix", "ext4", "f2fs"]
# What not everybody has.
TOOLS = ["node", "go", "rust", "postgres"]


def environment(kept, node):
    """The interpreter of an environment with the stores."""
    python = kept / "venv" / "bin" / "python3"
    if not python.exists():
        venv.create(kept / "venv", with_pip=True)
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True
    )
    if node:
        shutil.copy(HERE / "package.json", kept)
        subprocess.run(["npm", "install", "--silent"], cwd=kept, check=True)
    return python


def made(kept, given):
    """The programs of the stores of Go and Rust."""
    programs = {
        "go": kept / "go-stores",
        "fixed": kept / "go-stores-fixed",
        "rust": kept / "rust" / "release" / "rust-stores",
    }
    if given.go:
        for name, versions in [("go", "go.mod"), ("fixed", "fixed.mod")]:
            command = ["go", "build", "-modfile", versions, "-o", programs[name], "."]
            subprocess.run(command, cwd=HERE / "go", check=True)
    if given.rust:
        command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", kept / "rust"]
        subprocess.run(command, cwd=HERE / "rust", check=True)
    return programs


def judged(program, varve, python, programs, kept):
    """The number of bad trees of each model, and what the judge said first."""
    out = kept / "reports" / program["name"].replace(" ", "-")
    shutil.rmtree(out, ignore_errors=True)
    names = {
        "here": shlex.quote(str(HERE)),
        "python": shlex.quote(str(python)),
        **{name: shlex.quote(str(path)) for name, path in programs.items()},
        "modules": shlex.quote(str(kept / "node_modules")),
    }
    fill = lambda text: text.format(**names)
    command = [varve, "crash", "--dir", "--json", "--acks", "stdout", "--out", out, "--timeout", "20", "--states", "100"]
    command += ["--run", fill(program["run"]), "--judge", fill(program["judge"])]
    if "setup" in program:
        command += ["--setup", fill(program["setup"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout)
    bad = {model["name"]: model["bad"] for model in found["models"]}
    first = found["findings"][0] if found["findings"] else {}
    return bad, first


def has(python, module):
    """Whether an interpreter has a module that no registry has."""
    done = subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL)
    return done.returncode == 0


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--varve", default="varve")
    words.add_argument("--only")
    for tool in TOOLS:
        words.add_argument("--" + tool, action="store_true")
    words.add_argument("--keep", default="target/known-bugs")
    given = words.parse_args()
    kept = pathlib.Path(given.keep).resolve()
    kept.mkdir(parents=True, exist_ok=True)
    python = environment(kept, given.node)
    stores = made(kept, given)
    programs = tomllib.loads((HERE / "programs.toml").read_text())["program"]
    programs = [p for p in programs if not any(p.get(tool) and not getattr(given, tool) for tool in TOOLS)]
    if given.only:
        programs = [p for p in programs if p["name"] in given.only.split(",")]
    wrong, again = [], []
    print("| program | bad trees: " + ", ".join(MODELS) + " | state of the first finding | what the judge says of it |\n|---|---|---|---|")
    for program in programs:
        if "needs" in program and not has(python, program["needs"]):
            print(f"{program['name']}: left out, {python} has no {program['needs']}", file=sys.stderr)
            continue
        try:
            bad, first = judged(program, given.varve, python, stores, kept)
        except RuntimeError as error:
            wrong.append(f"{program['name']}: {error}")
            continue
        counts = ", ".join(str(bad.get(model, "-")) for model in MODELS)
        state = first.get("again", "").rpartition("--state ")[2].strip("'")
        print(f"| {program['name']} | {counts} | `{state}` | {first.get('why', '')[:110]} |", flush=True)
        if first:
            again.append(f"# {program['name']}\n{first['again']}\n")
        found = [model for model in MODELS if bad.get(model)]
        if found != program["bad"]:
            wrong.append(f"{program['name']}: bad in {found}, the table says {program['bad']}")
    lines = kept / "replay.sh"
    lines.write_text("".join(again))
    print(f"{lines} has the line that makes each of these states again", file=sys.stderr)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
