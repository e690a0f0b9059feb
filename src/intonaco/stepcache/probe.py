"""The change score: how far the denoiser's first features have moved since the last step.

A probe stands where a denoiser would and returns one number. The features of the last step stay on
the device, in the probe; the host resets it at the start of each request, and ignores the first
score, which compares with nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from intonaco.backends.base import Program, torch_dtype
from intonaco.backends.eager import EagerBackend
from intonaco.backends.spec import ProgramSpec, TensorSpec
from intonaco.programs.builders import module_builder
from intonaco.programs.library import ProgramLibrary

TINY = 1e-8
UNDEFINED = float("nan")


class ChangeProbe(Protocol):
    """Named tensors of one denoiser call in, the change score since the last call out."""

    def __call__(self, inputs: Mapping[str, Tensor], /) -> Tensor:
        """Return the score, float32 of shape (1, 1); NaN where it is undefined."""
        ...

    def reset(self) -> None:
        """Forget the features of the last call."""
        ...


class Features(Protocol):
    """The first part of a denoiser, up to the first attention."""

    def __call__(self, **inputs: Tensor) -> Tensor: ...


class ScoredFeatures(nn.Module):
    """Features of a denoiser's first part, scored against those of the call before.

    `previous` is the module's own state and lives where the weights live; zeros mean that there was
    no call yet. `names` are the inputs in the order in which a program takes them.
    """

    def __init__(self, features: nn.Module, names: tuple[str, ...], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.features = features
        self.names = names
        self.previous: Tensor
        self.register_buffer("previous", torch.zeros(shape, dtype=torch.float32), persistent=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the score, (1, 1) float32; undefined, and not finite or zero, at the first call."""
        named = dict(zip(self.names, inputs, strict=True))
        features = self.features(**named).to(torch.float32)
        score = change_score(features, self.previous)
        self.previous.copy_(features)
        return score


def change_score(new: Tensor, old: Tensor) -> Tensor:
    """Return mean |new - old| / max(mean |old|, 1e-8) as (1, 1) float32."""
    scale = old.abs().mean().clamp_min(TINY)
    return ((new - old).abs().mean() / scale).reshape(1, 1)


class EagerProbe:
    """The reference: the family's own first modules, called as they are."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._previous: Tensor | None = None

    def __call__(self, inputs: Mapping[str, Tensor], /) -> Tensor:
        with torch.no_grad():
            features = self._features(**inputs).to(torch.float32)
        previous, self._previous = self._previous, features
        if previous is None or previous.shape != features.shape:
            return torch.full((1, 1), UNDEFINED)
        return change_score(features, previous)

    def reset(self) -> None:
        self._previous = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramProbe:
    """The probe as a program of its own: binds the denoiser's first weights, one scalar out.

    A backend that cannot keep state in a program leaves the probe to the eager one: it is small.
    """

    library: ProgramLibrary
    tensors: Mapping[str, Tensor]
    spec_of: Callable[[Mapping[str, tuple[int, ...]]], ProgramSpec]
    _programs: dict[tuple[int, ...], Program] = field(
        default_factory=dict[tuple[int, ...], Program]
    )

    def __call__(self, inputs: Mapping[str, Tensor], /) -> Tensor:
        shape = tuple(inputs["hidden_states"].shape)
        if shape not in self._programs:
            self._programs[shape] = self._load(inputs)
        program = self._programs[shape]
        return program(*(_as_input(inputs[item.name], item) for item in program.spec.inputs))[0]

    def reset(self) -> None:
        for program in self._programs.values():
            program.reset()

    def _load(self, inputs: Mapping[str, Tensor]) -> Program:
        spec = self.spec_of({name: tuple(tensor.shape) for name, tensor in inputs.items()})
        if self.library.backend.supports(spec):
            program = EagerBackend().load(spec, module_builder(spec), self.library.store.root)
        else:
            (program,) = self.library.load([spec])
        program.bind(self.tensors)
        program.reset()
        return program


def _as_input(tensor: Tensor, spec: TensorSpec) -> Tensor:
    """Return `tensor` as the program takes it; some schedulers count time in integers."""
    return tensor.to(torch_dtype(spec.dtype)).contiguous()
