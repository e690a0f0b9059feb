"""Loads programs for components: finds or compiles them, then hands them out unbound.

The one place where store, backend and compiling rights of a process meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from intonaco.backends.base import Backend, Program
from intonaco.backends.spec import ProgramSpec
from intonaco.programs.builders import module_builder
from intonaco.programs.compiler import CompileProgress, check_supported, ensure_programs
from intonaco.programs.store import ArtifactStore


@runtime_checkable
class Interruptible(Protocol):
    """A component of several calls, between which a generation can be cancelled."""

    def interruptible(self, check: Callable[[], None], /) -> Any:
        """Return the same component with `check` called between its calls; it raises to cancel."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLibrary:
    """A store, a backend, and whether this process may compile what the store lacks.

    `between_calls` is called before every call of a block-group program. A call of a compiled
    program holds the interpreter's lock, so this is where a generation can be cancelled within a
    step: let it raise `GenerationCancelled`.
    """

    store: ArtifactStore
    backend: Backend
    may_compile: bool = True
    progress: CompileProgress | None = None
    between_calls: Callable[[], None] | None = None

    def interruptible(self, check: Callable[[], None]) -> ProgramLibrary:
        """Return this library with `check` called between calls too; it may raise."""
        before = self.between_calls

        def both() -> None:
            if before is not None:
                before()
            check()

        return replace(self, between_calls=both)

    @property
    def weights_folder(self) -> Path:
        """Where presharded weights lie, beside the artifacts."""
        return self.store.root / "weights"

    def ensure(self, specs: Sequence[ProgramSpec]) -> list[Path]:
        """Return the folder of each spec, compiled if need be; see `ensure_programs`."""
        if not self.backend.is_compiled:
            check_supported(self.backend, specs)
            return [self.store.root] * len(specs)
        return ensure_programs(
            self.store, self.backend, specs, may_compile=self.may_compile, progress=self.progress
        )

    def load(self, specs: Sequence[ProgramSpec]) -> list[Program]:
        """Return one unbound program per spec; equal specs share an artifact, not a program."""
        folders = self.ensure(specs)
        return [
            self.backend.load(spec, module_builder(spec), folder)
            for spec, folder in zip(specs, folders, strict=True)
        ]
