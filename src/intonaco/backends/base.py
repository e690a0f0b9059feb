"""The one protocol behind which every backend stands, and the checks that all programs share.

A compiled program trusts its caller: a wrong shape gives garbage, an unbound weight a segmentation
fault. So `CheckedProgram` compares every tensor with the spec before the backend sees it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from intonaco.backends.spec import Precision, ProgramSpec, TensorSpec
from intonaco.errors import CompileError, ProgramBindError, ProgramCallError, ProgramStateError

ModuleBuilder = Callable[[], nn.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a backend can run here; if not, why, and what would help."""

    is_available: bool
    reason: str = ""
    remedy: str = ""


class Program(Protocol):
    """A compiled component, callable with tensors of fixed shapes."""

    @property
    def spec(self) -> ProgramSpec:
        """What the program was compiled for."""
        ...

    def bind(self, tensors: Mapping[str, Tensor]) -> None:
        """Attach weights and derived tensors by name, without a copy; keeps them alive."""
        ...

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run on tensors in the order of `spec.inputs`; return tensors as in `spec.outputs`."""
        ...

    def reset(self) -> None:
        """Zero every state tensor; a program with state must be reset before its first call."""
        ...


class Backend(Protocol):
    """Compiles, loads and calls programs on one kind of device."""

    @property
    def name(self) -> str:
        """The word that selects the backend in Python and on the command line."""
        ...

    @property
    def is_compiled(self) -> bool:
        """False when there is nothing to compile or store (the eager reference)."""
        ...

    def probe(self) -> Availability:
        """Say whether the backend can load programs on this machine."""
        ...

    def probe_compiler(self) -> Availability:
        """Say whether the backend can compile programs on this machine."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Return everything about backend and machine that compiled code depends on."""
        ...

    def supports(self, spec: ProgramSpec) -> tuple[str, ...]:
        """Return every reason why `spec` cannot be compiled here; empty means that it can."""
        ...

    def supports_precision(self, precision: Precision) -> tuple[str, ...]:
        """Return every reason why no program of `precision` should run here; `supports` has them too.

        Asked before a model's weights are written down in that precision.
        """
        ...

    def compile(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> None:
        """Write the binary of `spec` into `folder`. `build` returns the module on the meta device."""
        ...

    def load(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> Program:
        """Return the unbound program. Only a backend without a binary calls `build`."""
        ...


class CheckedProgram(ABC):
    """Holds the tensors of one loaded program and refuses everything that its spec does not allow."""

    def __init__(self, spec: ProgramSpec) -> None:
        self._spec = spec
        self._inputs = tuple(_Expected.of(item) for item in spec.inputs)
        self._outputs = tuple(_Expected.of(item) for item in spec.outputs)
        self._constants: dict[str, Tensor] | None = None
        self._is_reset = not spec.state

    @property
    def spec(self) -> ProgramSpec:
        """What the program was compiled for."""
        return self._spec

    @property
    def state(self) -> Mapping[str, Tensor]:
        """The program's own tensors, by name. Raises `ProgramBindError` before `bind`."""
        constants = self._require_constants()
        return {item.name: constants[item.name] for item in self._spec.state}

    def bind(self, tensors: Mapping[str, Tensor]) -> None:
        """Attach constants by name, without a copy, and allocate the state.

        `tensors` may hold more than is needed. Raises `ProgramBindError` naming the tensor that is
        missing, or whose shape, dtype, device or stride is not that of the spec.
        """
        bound: dict[str, Tensor] = {}
        for item in self._spec.bound:
            if item.name not in tensors:
                raise ProgramBindError(
                    f"program {self._spec.component!r} needs the {item.role} {item.name!r}, which is "
                    f"not among the {len(tensors)} tensors given; pass {describe(item)}"
                )
            fault = _Expected.of(item).fault(tensors[item.name], self._spec.device)
            if fault:
                raise ProgramBindError(f"program {self._spec.component!r}: {item.role} {fault}")
            bound[item.name] = tensors[item.name]
        for item in self._spec.state:
            bound[item.name] = torch.zeros(
                item.shape, dtype=torch_dtype(item.dtype), device=self._spec.device
            )
        self._attach(bound)
        self._constants = bound
        self._is_reset = not self._spec.state

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run on tensors in the order of `spec.inputs`.

        Raises `ProgramBindError` when unbound, `ProgramStateError` when the state was never reset,
        `ProgramCallError` naming the input that is missing, no tensor, or of the wrong kind.
        """
        self._require_constants()
        if not self._is_reset:
            names = ", ".join(repr(item.name) for item in self._spec.state)
            raise ProgramStateError(
                f"program {self._spec.component!r} has state {names} that was never set; "
                "call reset() at the start of each request"
            )
        self._check(self._inputs, tensors, "input")
        with torch.no_grad():
            outputs = tuple(self._run(tensors))
        self._check(self._outputs, outputs, "output")
        return outputs

    def reset(self) -> None:
        """Zero every state tensor. Raises `ProgramBindError` before `bind`."""
        for tensor in self.state.values():
            tensor.zero_()
        self._is_reset = True

    @abstractmethod
    def _attach(self, constants: Mapping[str, Tensor]) -> None:
        """Hand checked constants to the backend's own loader."""

    @abstractmethod
    def _run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Run on checked inputs."""

    def _require_constants(self) -> Mapping[str, Tensor]:
        if self._constants is None:
            names = [item.name for item in self._spec.bound]
            first = f", {names[0]!r} first" if names else ""
            raise ProgramBindError(
                f"program {self._spec.component!r} is not bound; call bind() with its "
                f"{len(names)} constants{first}, before calling it"
            )
        return self._constants

    def _check(self, expected: Sequence[_Expected], tensors: Sequence[object], what: str) -> None:
        if len(tensors) != len(expected):
            names = ", ".join(item.spec.name for item in expected)
            raise ProgramCallError(
                f"program {self._spec.component!r} takes {len(expected)} {what}s ({names}), "
                f"got {len(tensors)}"
            )
        for item, tensor in zip(expected, tensors, strict=True):
            fault = item.fault(tensor, self._spec.device)
            if fault:
                raise ProgramCallError(f"program {self._spec.component!r}: {what} {fault}")


@dataclass(frozen=True, slots=True)
class _Expected:
    """A tensor spec with torch's own dtype and shape, ready for a comparison at every call."""

    spec: TensorSpec
    shape: torch.Size
    dtype: torch.dtype

    @classmethod
    def of(cls, spec: TensorSpec) -> _Expected:
        return cls(spec, torch.Size(spec.shape), torch_dtype(spec.dtype))

    def fault(self, value: object, device: str) -> str:
        """Return what is wrong with `value`, or an empty string."""
        if not isinstance(value, Tensor):
            return (
                f"{self.spec.name!r} must be a tensor, got {type(value).__name__} {value!r:.40}; "
                f"only tensors cross the edge of a program: pass {describe(self.spec)}"
            )
        if value.shape == self.shape and value.dtype == self.dtype:
            if value.device.type != device:
                return f"{self.spec.name!r} must be on {device}, got {value.device}"
            if value.is_contiguous():
                return ""
            return (
                f"{self.spec.name!r} must be contiguous, got stride {tuple(value.stride())} for "
                f"shape {tuple(value.shape)}; pass {self.spec.name}.contiguous()"
            )
        got = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
        return f"{self.spec.name!r} must be {describe(self.spec)}, got {got}"


def describe(spec: TensorSpec) -> str:
    """Return dtype and shape in words, as in "float32 (1, 144, 32)"."""
    return f"{spec.dtype} {tuple(spec.shape)}"


def torch_dtype(name: str) -> torch.dtype:
    """Return torch's dtype for a dtype name of a spec."""
    return getattr(torch, name)


def example_inputs(spec: ProgramSpec) -> tuple[Tensor, ...]:
    """Return tensors of the right kind to trace with; their values mean nothing."""
    return tuple(
        torch.ones(item.shape, dtype=torch_dtype(item.dtype), device=spec.device)
        for item in spec.inputs
    )


def check_declared(spec: ProgramSpec, names: Iterable[str]) -> None:
    """Raise `CompileError` if a module has constants that its spec does not declare.

    Programs are compiled without weights: what is not bound later would hold unwritten memory.
    """
    unknown = sorted(set(names) - {item.name for item in spec.constants})
    if unknown:
        raise CompileError(
            f"program {spec.component!r}: the module has constants that the spec does not declare: "
            f"{', '.join(unknown[:5])}; declare them, or pass them as inputs"
        )
