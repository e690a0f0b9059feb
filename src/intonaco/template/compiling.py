"""Compiles kernels with numba and keeps the machine code on disk, a folder per state of their sources.

numba by itself looks only at the file of the function that it compiles, while machine code also holds
kernels and constants of other files: they could change and the old code would go on being used. So the
folder is named by a digest of every source beside the kernel and of what compiles it; which processor
machine code is for stands within, see `numba.core.caching`.

Importing this module imports numba, which the extra `fast` installs, so nothing imports it but kernels.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar

from filelock import FileLock

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_FOLDERS = 4
"""Kept on disk, the most recently used: a megabyte each, one per version in use."""
FOLDER_NAME = re.compile(r"[0-9a-f]{32}")
# Writing takes milliseconds; whoever waits longer than this goes without.
LOCK_S = 10.0
# What reading raises for a file that a crash of the machine has left without its end.
CUT_SHORT = (EOFError, UnpicklingError)
COMPILERS = ("numba", "llvmlite", "numpy")

caching: Any = import_module("numba.core.caching")


def compiled(function: Function) -> Function:
    """Return `function` as machine code, kept on disk if there is a place for it.

    Compiled at its first call with arguments of each type; holds no lock of the interpreter.
    """
    njit: Any = import_module("numba").njit
    machine_code = njit(nogil=True)(function)
    # Without a cache that can be written (or a home) every process compiles anew.
    with suppress(RuntimeError):
        machine_code._cache = KernelCache(function)
    return machine_code


def default_kernel_folder() -> Path:
    """Return $INTONACO_KERNELS, or a folder of the user's cache. Raises RuntimeError without a home."""
    chosen = os.environ.get("INTONACO_KERNELS")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "intonaco" / "kernels"


@cache
def digest_of(sources: Path) -> str:
    """Return the digest of all that machine code of kernels in folder `sources` comes from.

    Raises RuntimeError where there are no sources to look at, as in an archive.
    """
    paths = sorted(sources.glob("*.py"))
    if not paths:
        raise RuntimeError(f"{sources} holds no sources that kernels could be told apart by")
    digest = sha256(repr((sys.version, *map(version, COMPILERS))).encode())
    # NUMBA_BOUNDSCHECK, for one, changes what is compiled.
    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    digest.update(repr(settings).encode())
    for path in paths:
        digest.update(f"{path.name}\0{sha256(path.read_bytes()).hexdigest()}\0".encode())
    return digest.hexdigest()[:32]


def prune(root: Path, *, keep: int = MOST_FOLDERS) -> None:
    """Remove all but the most recently used folders. Whoever still uses one goes without it."""
    used: list[tuple[float, Path]] = []
    for folder in root.iterdir():
        # Another process may have removed it since it was listed.
        with suppress(OSError):
            if FOLDER_NAME.fullmatch(folder.name):
                used.append((folder.stat().st_mtime, folder))
    for _, folder in sorted(used, reverse=True)[keep:]:
        shutil.rmtree(folder, ignore_errors=True)


class KernelLocator(caching.UserWideCacheLocator):
    """Says where machine code of a kernel is kept."""

    def get_cache_path(self) -> str:
        return str(default_kernel_folder() / digest_of(Path(self._py_file).parent))

    def ensure_cache_path(self) -> None:
        """Raises OSError where it cannot be written."""
        folder = Path(self.get_cache_path())
        is_new = not folder.exists()
        # What is read from here is run.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().ensure_cache_path()
        os.utime(folder)
        if is_new:
            prune(folder.parent)

    def get_source_stamp(self) -> str:
        """Return nothing: the folder's name says it all."""
        return ""


class KernelFiles(caching.CompileResultCacheImpl):
    """How machine code becomes files."""

    _locator_classes = (KernelLocator,)


class KernelCache(caching.FunctionCache):
    """Machine code of one kernel on disk. What cannot be read or written is compiled again."""

    _impl_class = KernelFiles

    def load_overload(self, sig: object, target_context: object) -> object:
        with suppress(OSError, *CUT_SHORT):
            numbas: Any = super()
            return numbas.load_overload(sig, target_context)
        return None

    def save_overload(self, sig: object, data: object) -> None:
        # numba renames whole files into place, but two processes could give two signatures one name.
        lock = FileLock(Path(self.cache_path) / ".lock", timeout=LOCK_S)
        with suppress(OSError), lock:
            try:
                super().save_overload(sig, data)
            except CUT_SHORT:
                self.flush()
                super().save_overload(sig, data)
