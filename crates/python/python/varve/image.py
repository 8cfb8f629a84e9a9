"""Images of file systems: made, listed, read, checked, without root and without mounting."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional, Union

from ._run import VarveError, options, run

PathLike = Union[str, "os.PathLike[str]"]


class Image:
    """An image file with ext4, ext3 or F2FS."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    @classmethod
    def make(
        cls,
        path: PathLike,
        *,
        fs: str = "ext4",
        size: Union[int, str] = "64M",
        from_dir: Optional[PathLike] = None,
        **more: Any,
    ) -> "Image":
        """Makes a file system, with the tree of `from_dir` in it. `size` takes suffixes (k, M, G);
        other keywords are options of `varve mkfs` (`label=`, `seed=`, `force=True`)."""
        run(["mkfs", *options({"fs": fs, "size": size, **more}), os.fspath(path)])
        image = cls(path)
        if from_dir is not None:
            entries = sorted(os.fspath(entry) for entry in Path(from_dir).iterdir())
            if entries:
                run(["cp", "-r", *entries, image._at("/")])
        return image

    def _at(self, path: str) -> str:
        return f"{self.path}:{path if path.startswith('/') else '/' + path}"

    def list(self, path: str = "/") -> list[str]:
        """Names in a directory."""
        return run(["ls", self._at(path)]).decode(errors="surrogateescape").splitlines()

    def read(self, path: str) -> bytes:
        """Content of a file."""
        return run(["cat", self._at(path)])

    def write(self, path: str, content: bytes) -> None:
        """Makes or replaces a file."""
        import tempfile

        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            run(["cp", file.name, self._at(path)])

    def extract(self, target: PathLike, path: str = "/") -> Path:
        """Copies a tree out of the image, into the new folder `target`."""
        run(["extract", self._at(path), os.fspath(target)])
        return Path(target)

    def info(self) -> dict[str, Any]:
        """What the superblock says."""
        info: dict[str, Any] = json.loads(run(["info", "--json", str(self.path)]))
        return info

    def check(self) -> bool:
        """True if a check finds nothing; the image is not changed. Raises `VarveError` if it cannot
        be checked."""
        try:
            run(["fsck", "-n", str(self.path)])
        except VarveError as e:
            # Findings are left, as with e2fsck.
            if e.code == 4:
                return False
            raise
        return True

    def __repr__(self) -> str:
        return f"<varve.Image: {self.path}>"
