"""Runs the program `varve`."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path
from typing import Callable, Optional, Sequence

from . import _notebook

Progress = Callable[[str], None]


class VarveError(Exception):
    """The program refused, or failed. `code` is its exit code, the text is what it said."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type["VarveError"], tuple[int, str]]:
        # Executors send it from another process.
        return type(self), (self.code, str(self))


def program() -> Path:
    """The program `varve`: that of the variable `VARVE`, of this package, or in the search path."""
    named = os.environ.get("VARVE")
    if named:
        return Path(named)
    own = Path(__file__).parent / "bin" / "varve"
    if own.is_file():
        mode = own.stat().st_mode
        if not mode & stat.S_IXUSR:
            own.chmod(mode | stat.S_IXUSR)
        return own
    found = shutil.which("varve")
    if found:
        return Path(found)
    raise VarveError(127, "there is no program varve: set the variable VARVE to its path, or install a wheel that has it")


def run(
    args: Sequence[str],
    *,
    progress: Optional[Progress] = None,
    good: Sequence[int] = (0,),
    cwd: Optional[os.PathLike[str]] = None,
) -> bytes:
    """Runs `varve ARGS` to its end and answers what it printed. Each line that it says of its
    progress goes to `progress`. Interrupting Python interrupts the program, which then keeps what
    it has.

    Raises `VarveError` if its exit code is not among `good`.
    """
    command = [str(program()), *args]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd
    )
    assert child.stdout is not None and child.stderr is not None
    said: list[str] = []

    def listen() -> None:
        assert child.stderr is not None
        for raw in child.stderr:
            line = raw.decode(errors="replace").rstrip()
            # A bar's lines are no words of an error.
            if _notebook.read(line) is None:
                said.append(line)
            if progress is not None and line:
                progress(line)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        out = child.stdout.read()
        code = child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise
    finally:
        listener.join(timeout=10)
        child.stdout.close()
    if code not in good:
        text = "\n".join(line for line in said if line) or out.decode(errors="replace")
        raise VarveError(code, text.removeprefix("varve: "))
    return out


def run_shown(args: Sequence[str], *, progress: Optional[Progress] = None, good: Sequence[int] = (0,)) -> bytes:
    """As `run`; without `progress` a notebook shows a bar in the cell that runs."""
    bar = _notebook.bar() if progress is None else None
    if bar is None:
        return run(args, progress=progress, good=good)
    return run([*_notebook.OPTION, *args], progress=bar, good=good)


def options(words: dict[str, object]) -> list[str]:
    """Keyword arguments as options of the command line: `jobs=2` is `--jobs 2`, a list is joined
    by commas, `True` is the option alone, `None` and `False` are left out."""
    args: list[str] = []
    for name, value in words.items():
        if value is None or value is False:
            continue
        args.append("--" + name.replace("_", "-"))
        if value is True:
            continue
        if isinstance(value, (list, tuple)):
            args.append(",".join(str(one) for one in value))
        else:
            args.append(os.fspath(value) if isinstance(value, os.PathLike) else str(value))
    return args
