"""The artifact store: one folder per digest, written beside and renamed, locked across processes.

    <store>/<digest>/manifest.json, binary      an artifact; complete from the moment it exists
    <store>/.locks/<digest>.lock                held by the process that compiles it
    <store>/.scratch/<id>/                      work in progress, removed when its owner is gone

Finds, checks, lists and prunes. Compiles nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from intonaco.errors import (
    ArtifactDamagedError,
    ArtifactMissingError,
    FingerprintError,
    SaveError,
)
from intonaco.programs.manifest import Manifest, check_files, read_manifest
from intonaco.programs.spec import ProgramKey, key_differences

DIGEST = re.compile(r"[0-9a-f]{32}")
# Without a compiler its version is unknown here; the artifact says with which it was made.
COMPILER_FIELD = "compiler"


def default_store_folder() -> Path:
    """Return $INTONACO_STORE, or a folder of the user's cache."""
    chosen = os.environ.get("INTONACO_STORE")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "intonaco" / "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The stored program that is most like a wanted one, and the key fields that differ."""

    manifest: Manifest
    differences: dict[str, tuple[str, str]]

    def describe(self) -> str:
        """Return the differences in one line: field: wanted, stored."""
        fields = (f"{name}: wanted {a}, stored {b}" for name, (a, b) in self.differences.items())
        return "; ".join(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `verify` found about one artifact; `problem` is empty when all is well."""

    digest: str
    component: str
    problem: str


class ArtifactStore:
    """The artifacts under `root`. The folder is made when the first one is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: ProgramKey) -> Path | None:
        """Return the checked folder of `key`, or None. Raises `ArtifactDamagedError`."""
        folder = self.root / key.digest
        if not folder.is_dir():
            stored = self._find_without_compiler(key)
            if stored is None:
                return None
            folder = self.root / stored.digest
        check_files(folder, read_manifest(folder))
        return folder

    def require(self, key: ProgramKey) -> Path:
        """Return the checked folder of `key`.

        Raises `FingerprintError` when the same program is stored for another machine, and
        `ArtifactMissingError` otherwise; both name the fields that differ.
        """
        folder = self.find(key)
        if folder is not None:
            return folder
        nearest = self.nearest(key)
        component = key.spec.component
        if nearest is None:
            raise ArtifactMissingError(
                f"store {self.root} holds no program {component!r}; "
                "run 'intonaco compile', or allow compiling"
            )
        if all(name.startswith("fingerprint.") for name in nearest.differences):
            raise FingerprintError(
                f"program {component!r} in {self.root} was compiled for another machine "
                f"({nearest.describe()}); compile it here, or on a machine that agrees"
            )
        raise ArtifactMissingError(
            f"store {self.root} holds no program {component!r} of this key; the nearest differs in "
            f"{nearest.describe()}; run 'intonaco compile', or allow compiling"
        )

    def manifests(self) -> list[Manifest]:
        """Return every readable manifest, by component and digest. Damaged ones are left out."""
        found: list[Manifest] = []
        for folder in self._folders():
            try:
                found.append(read_manifest(folder))
            except ArtifactDamagedError:
                continue
        return sorted(found, key=lambda manifest: (manifest.key.spec.component, manifest.digest))

    def nearest(self, key: ProgramKey) -> Nearest | None:
        """Return the stored program with the fewest differing fields, or None for an empty store.

        Programs of the same component and builder come before all others.
        """
        candidates = [
            Nearest(manifest=manifest, differences=key_differences(key, manifest.key))
            for manifest in self.manifests()
        ]
        return min(candidates, key=lambda item: _distance(key, item), default=None)

    def verify(self) -> list[Verdict]:
        """Check every artifact against its checksums, and return what was found."""
        return [self._verdict(folder) for folder in self._folders()]

    def remove(self, digest: str) -> int | None:
        """Remove one artifact and return the bytes freed; None where another process was quicker.

        Readers that have it loaded keep it.
        """
        with self.scratch() as scratch:
            removed = scratch / digest
            try:
                # Renamed first: a folder that is half removed must not look like an artifact.
                (self.root / digest).rename(removed)
            except FileNotFoundError:
                return None
            return sum(path.stat().st_size for path in removed.rglob("*") if path.is_file())

    def remove_damaged(self, digest: str) -> int | None:
        """Remove one artifact if it is damaged; return the bytes freed, or None where it is not.

        Looked at again under its lock, as another process may have compiled it anew meanwhile. One that
        is being compiled is left to who does it.
        """
        with self.lock(digest) as lock:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return None
            return self.remove(digest) if self._verdict(self.root / digest).problem else None

    @contextmanager
    def lock(self, digest: str) -> Generator[FileLock]:
        """Yield the cross-process lock of one digest, not yet acquired. Raises `SaveError`."""
        lock = FileLock(self._folder_to_write(".locks") / f"{digest}.lock")
        try:
            yield lock
        finally:
            lock.release()

    @contextmanager
    def scratch(self) -> Generator[Path]:
        """Yield an own folder on the store's file system; removed at the end, or by a later `sweep`.

        Raises `SaveError` where the store cannot be written.
        """
        parent = self._folder_to_write(".scratch")
        self.sweep()
        name = uuid.uuid4().hex
        lock_path = parent / f"{name}.lock"
        with FileLock(lock_path):
            folder = parent / name
            folder.mkdir()
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                lock_path.unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove scratch folders whose owner is gone, and return how many there were."""
        num_removed = 0
        parent = self.root / ".scratch"
        for lock_path in parent.glob("*.lock") if parent.is_dir() else ():
            try:
                with FileLock(lock_path, timeout=0):
                    shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
                    lock_path.unlink(missing_ok=True)
                    num_removed += 1
            except Timeout:
                continue
        return num_removed

    def _folder_to_write(self, name: str) -> Path:
        """Return a folder of the store, made if it is not there, after a look whether files can be."""
        folder = self.root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            raise SaveError(
                f"the store of programs must be a folder that can be written, {self.root} is not: "
                f"{error.strerror}; choose another with --store or $INTONACO_STORE"
            ) from error

    def _find_without_compiler(self, key: ProgramKey) -> Manifest | None:
        if key.fingerprint.get(COMPILER_FIELD, "?"):
            return None
        field = f"fingerprint.{COMPILER_FIELD}"
        matches = (m for m in self.manifests() if key_differences(key, m.key).keys() == {field})
        return next(matches, None)

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        # By their names, not by their manifests: one whose manifest is gone is damaged, and is found so.
        return sorted(path for path in self.root.iterdir() if DIGEST.fullmatch(path.name))

    def _verdict(self, folder: Path) -> Verdict:
        component, problem = "?", ""
        try:
            manifest = read_manifest(folder)
            component = manifest.key.spec.component
            check_files(folder, manifest)
        except ArtifactDamagedError as error:
            problem = str(error)
        return Verdict(digest=folder.name, component=component, problem=problem)


def _distance(key: ProgramKey, item: Nearest) -> tuple[bool, bool, int, str]:
    stored = item.manifest.key.spec
    return (
        stored.component != key.spec.component,
        stored.builder != key.spec.builder,
        len(item.differences),
        item.manifest.digest,
    )
