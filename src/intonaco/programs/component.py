"""A pipeline's component over one program per shape, loaded at the first use of that shape.

Named tensors in, one tensor out, as an eager module would; a request leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from intonaco.backends.base import Program
from intonaco.backends.spec import ProgramSpec
from intonaco.programs.library import ProgramLibrary

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramComponent:
    """Calls the program whose spec `spec_of` gives for the shapes of the inputs."""

    library: ProgramLibrary
    tensors: Mapping[str, Tensor]
    spec_of: Callable[[Mapping[str, tuple[int, ...]]], ProgramSpec]
    _programs: dict[Shapes, Program] = field(default_factory=dict[Shapes, Program])

    def __call__(self, inputs: Mapping[str, Tensor], /) -> Tensor:
        """Return the program's only output."""
        program = self.program({name: tuple(tensor.shape) for name, tensor in inputs.items()})
        return program(*(inputs[item.name].contiguous() for item in program.spec.inputs))[0]

    def program(self, shapes: Mapping[str, tuple[int, ...]]) -> Program:
        """Return the bound program for inputs of `shapes`."""
        key = tuple(sorted(shapes.items()))
        if key not in self._programs:
            (program,) = self.library.load([self.spec_of(shapes)])
            program.bind(self.tensors)
            self._programs[key] = program
        return self._programs[key]
