"""Makes sure that programs are in the store: looks, locks, looks again, compiles, publishes.

Two processes that need the same program compile it once. The compiler runs in a child process with
a scratch folder of its own; nothing it leaves behind can be taken for an artifact.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import Timeout

from intonaco.backends.base import Backend
from intonaco.backends.spec import Precision, ProgramSpec
from intonaco.errors import (
    ArtifactDamagedError,
    BackendUnavailableError,
    UnsupportedProgramError,
)
from intonaco.programs.compile_process import CompileProcess, started_process
from intonaco.programs.manifest import Manifest, record_files, write_manifest
from intonaco.programs.spec import ProgramKey, make_key
from intonaco.programs.store import ArtifactStore
from intonaco.programs.worker import CompileRequest

Phase = Literal["found", "waiting", "damaged", "compiling", "compiled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileEvent:
    """One line of progress: program `index` of `num_programs` is in `phase`."""

    component: str
    digest: str
    index: int
    num_programs: int
    phase: Phase
    elapsed_s: float = 0.0
    reason: str = ""


CompileProgress = Callable[[CompileEvent], None]


def ensure_programs(
    store: ArtifactStore,
    backend: Backend,
    specs: Iterable[ProgramSpec],
    *,
    may_compile: bool = True,
    progress: CompileProgress | None = None,
) -> list[Path]:
    """Return the checked folder of each spec, compiling those that the store does not hold.

    Equal specs are compiled once. Raises `UnsupportedProgramError` with every reason before anything is
    compiled; `FingerprintError` or `ArtifactMissingError` when `may_compile` is false;
    `BackendUnavailableError` without a compiler; `CompileError`.
    """
    specs = list(specs)
    # Also where nothing may compile: "run 'intonaco compile'" would be no help.
    check_supported(backend, specs)
    fingerprint = backend.fingerprint()
    keys = [make_key(spec, fingerprint) for spec in specs]
    distinct = {key.digest: key for key in keys}
    folders: dict[str, Path] = {}
    with _Compiler(store, backend) as compiler:
        for index, (digest, key) in enumerate(distinct.items()):
            report = _reporter(progress, key, index, len(distinct))
            if may_compile:
                folders[digest] = _ensure_one(store, key, compiler, report)
            else:
                folders[digest] = store.require(key)
                report("found", 0.0, "")
    return [folders[key.digest] for key in keys]


def check_supported(backend: Backend, specs: Iterable[ProgramSpec]) -> None:
    """Raise `UnsupportedProgramError` with the reasons of every spec, unless there are none."""
    components: dict[str, dict[str, None]] = {}
    for spec in specs:
        for reason in backend.supports(spec):
            components.setdefault(reason, {})[spec.component] = None
    if components:
        reasons = (f"{', '.join(names)}: {reason}" for reason, names in components.items())
        raise UnsupportedProgramError(
            f"backend {backend.name!r} cannot compile {'; '.join(reasons)}"
        )


def check_precision(backend: Backend, precision: Precision) -> None:
    """Raise `UnsupportedProgramError` with every reason why `backend` should not run `precision` here."""
    reasons = backend.supports_precision(precision)
    if reasons:
        raise UnsupportedProgramError(f"backend {backend.name!r}: {'; '.join(reasons)}")


_Report = Callable[[Phase, float, str], None]


def _reporter(
    progress: CompileProgress | None, key: ProgramKey, index: int, num_programs: int
) -> _Report:
    def report(phase: Phase, elapsed_s: float = 0.0, reason: str = "") -> None:
        if progress is not None:
            progress(
                CompileEvent(
                    component=key.spec.component,
                    digest=key.digest,
                    index=index,
                    num_programs=num_programs,
                    phase=phase,
                    elapsed_s=elapsed_s,
                    reason=reason,
                )
            )

    return report


def _ensure_one(
    store: ArtifactStore, key: ProgramKey, compiler: _Compiler, report: _Report
) -> Path:
    folder = _find(store, key)
    if folder is not None:
        report("found", 0.0, "")
        return folder
    with store.lock(key.digest) as lock:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            report("waiting", 0.0, "another process compiles it")
            lock.acquire()
        folder = _find_or_discard(store, key, report)
        if folder is not None:
            report("found", 0.0, "")
            return folder
        report("compiling", 0.0, "")
        manifest = compiler.compile(key)
        report("compiled", manifest.compile_s, "")
        return store.root / manifest.digest


def _find(store: ArtifactStore, key: ProgramKey) -> Path | None:
    """Return the artifact, or None, also when it is damaged."""
    try:
        return store.find(key)
    except ArtifactDamagedError:
        return None


def _find_or_discard(store: ArtifactStore, key: ProgramKey, report: _Report) -> Path | None:
    """Return the artifact, or None; a damaged one is removed, as compiling makes it anew.

    The caller holds the lock, so that no other process finds or removes it meanwhile.
    """
    try:
        return store.find(key)
    except ArtifactDamagedError as error:
        if not (store.root / key.digest).is_dir():
            # It was found under the digest of another compiler, and there is none here.
            raise
        report("damaged", 0.0, str(error))
        store.remove(key.digest)
        return None


class _Compiler:
    """Compiles in a process that is started at the first program, and ended with the block."""

    def __init__(self, store: ArtifactStore, backend: Backend) -> None:
        self._store = store
        self._backend = backend
        self._stack = ExitStack()
        self._process: CompileProcess | None = None

    def __enter__(self) -> _Compiler:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def compile(self, key: ProgramKey) -> Manifest:
        """Compile and publish one program; return its manifest. The caller holds its lock."""
        if self._process is None:
            _require_compiler(self._backend)
            self._process = self._stack.enter_context(started_process(self._store))
        started = time.monotonic()
        folder = self._process.scratch / key.digest
        folder.mkdir()
        self._process.compile(
            CompileRequest(spec=key.spec, backend=self._backend.name, folder=folder)
        )
        manifest = Manifest(
            digest=key.digest,
            key=key,
            files=record_files(folder),
            compile_s=round(time.monotonic() - started, 2),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_manifest(folder, manifest)
        folder.rename(self._store.root / key.digest)
        return manifest


def _require_compiler(backend: Backend) -> None:
    availability = backend.probe_compiler()
    if not availability.is_available:
        raise BackendUnavailableError(
            f"backend {backend.name!r} cannot compile here: {availability.reason}; "
            f"{availability.remedy}"
        )
