"""The reference backend: the module itself, called as it is, under the same checks as all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from intonaco.backends.base import Availability, CheckedProgram, ModuleBuilder, Program
from intonaco.backends.spec import Precision, ProgramSpec


class EagerBackend:
    """Runs modules in Python. Compiles nothing, stores nothing, supports every spec."""

    name = "eager"
    is_compiled = False

    def probe(self) -> Availability:
        """Return available: torch is all it needs."""
        return Availability(is_available=True)

    def probe_compiler(self) -> Availability:
        """Return available: there is nothing to compile."""
        return Availability(is_available=True)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the backend's name and torch's version."""
        return {"backend": self.name, "torch": torch.__version__}

    def supports(self, spec: ProgramSpec) -> tuple[str, ...]:
        """Return every reason why `spec` cannot run here."""
        if spec.device == "cuda" and not torch.cuda.is_available():
            return ("device='cuda' needs a CUDA build of torch and a GPU; choose device='cpu'",)
        return ()

    def supports_precision(self, precision: Precision) -> tuple[str, ...]:
        """Return nothing: torch computes in every precision."""
        return ()

    def compile(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> None:
        """Do nothing: the module is the program."""

    def load(self, spec: ProgramSpec, build: ModuleBuilder, folder: Path) -> Program:
        """Return the module that `build` makes, as an unbound program."""
        return _EagerProgram(spec, build())


class _EagerProgram(CheckedProgram):
    def __init__(self, spec: ProgramSpec, module: nn.Module) -> None:
        super().__init__(spec)
        self._module = module

    def _attach(self, constants: Mapping[str, Tensor]) -> None:
        attach_tensors(self._module, constants)

    def _run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        outputs = self._module(*tensors)
        return (outputs,) if isinstance(outputs, Tensor) else outputs


def attach_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put `tensors` in place of the module's own parameters and buffers, without a copy.

    Unlike `load_state_dict` this reaches buffers that a module does not save.
    """
    parameters = dict(module.named_parameters())
    for name, tensor in tensors.items():
        owner_name, _, leaf = name.rpartition(".")
        owner = module.get_submodule(owner_name)
        if name in parameters:
            setattr(owner, leaf, nn.Parameter(tensor, requires_grad=False))
        else:
            setattr(owner, leaf, tensor)
