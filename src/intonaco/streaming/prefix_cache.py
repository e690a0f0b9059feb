"""Prefixes of a template's files kept on the device, so that a second edit fetches less.

A folder of files named as the template names them, each with the prefix that was fetched and
verified. Written whole or not at all; the least recently used ones go when the bound is passed.
Whoever reads a prefix checks it again: a disk is no more to be trusted than a link.
"""

import contextlib
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from intonaco.errors import StreamSettingsError

DEFAULT_MAX_BYTES = 1 << 30
NAME = re.compile(r"[a-z0-9.-]{1,90}")
SUFFIX = ".part"
SCRATCH_SUFFIX = ".partial"
# No write takes so long: whoever began it was killed.
SCRATCH_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCache:
    """One folder of prefixes; several processes may use it at once.

    Attributes:
        max_bytes: what the folder holds at most.
    """

    folder: Path
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        if self.max_bytes < 0:
            raise StreamSettingsError(
                f"max_bytes of the cache must not be below 0, got {self.max_bytes}; 0 keeps nothing"
            )

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Return the prefix that is kept of `name`, b"" if there is none that can be read."""
        path = self._path(name)
        # Opening a pipe would wait for whoever writes to it.
        if not path.is_file():
            return b""
        try:
            with path.open("rb") as file:
                content = file.read(max_bytes)
            os.utime(path)
        except OSError:
            return b""
        return content

    def length(self, name: str) -> int:
        """Return how many bytes are kept of `name`."""
        try:
            return self._path(name).stat().st_size
        except OSError:
            return 0

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Keep `content` as the prefix of `name`. Raises OSError; nothing half-written is left."""
        if len(content) > self.max_bytes:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=".", suffix=SCRATCH_SUFFIX, dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(scratch).replace(self._path(name))
        finally:
            Path(scratch).unlink(missing_ok=True)
        self.trim()

    def forget(self, name: str) -> None:
        """Drop what is kept of `name`."""
        with contextlib.suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def trim(self) -> None:
        """Drop the least recently used prefixes until the rest fits `max_bytes`.

        What a killed process left half-written goes, too.
        """
        for scratch in self.folder.glob(f".*{SCRATCH_SUFFIX}"):
            with contextlib.suppress(OSError):
                if time.time() - scratch.stat().st_mtime > SCRATCH_S:
                    scratch.unlink()
        kept: list[tuple[float, int, Path]] = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            # Another process may have dropped it since it was listed.
            with contextlib.suppress(OSError):
                status = path.stat()
                kept.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self.max_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _path(self, name: str) -> Path:
        if NAME.fullmatch(name) is None or name.startswith("."):
            raise StreamSettingsError(f"name of a file of a template, got {name!r:.100}")
        return self.folder / f"{name}{SUFFIX}"


def default_cache_folder() -> Path:
    """Return the folder of prefixes: $INTONACO_PREFIXES, or one in the user's cache."""
    chosen = os.environ.get("INTONACO_PREFIXES")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "intonaco" / "prefixes"
