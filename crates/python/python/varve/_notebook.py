"""The progress of the program as a bar in a notebook."""

from __future__ import annotations

import html
import json
import sys
from typing import Any, Optional

# The option with which the program tells its progress in lines of JSON.
OPTION = ("--progress", "json")


def bar() -> "Optional[Bar]":
    """A bar in the output of the cell that runs; none where no notebook does."""
    # Who runs in a notebook has imported it already, and others need not have it.
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import HTML, display

    return Bar(lambda text: HTML(text), lambda first: display(first, display_id=True))


class Bar:
    """Shows the lines of the program's progress, each in the place of the last one."""

    def __init__(self, make: Any, show: Any) -> None:
        self._make, self._show = make, show
        self._shown: Any = None

    def __call__(self, line: str) -> None:
        told = read(line)
        if told is None:
            return
        now = self._make(drawn(told))
        if self._shown is None:
            self._shown = self._show(now)
        else:
            self._shown.update(now)


def read(line: str) -> "Optional[dict[str, Any]]":
    """What a line says of the progress; none if it is another line."""
    if not line.startswith('{"progress"'):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def drawn(told: "dict[str, Any]") -> str:
    """A bar in HTML."""
    done, of = told.get("done", 0), told.get("of")
    size = f' value="{int(done)}" max="{int(of)}"' if of else ""
    count = f"{int(done)}/{int(of)}" if of else f"{int(done)}"
    note = html.escape(str(told.get("note", "")))
    name = html.escape(str(told["progress"]))
    return f"<progress{size}></progress> {name} {count} {note}"
