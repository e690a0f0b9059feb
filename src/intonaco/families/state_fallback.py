"""A step on template state that computes everything itself once the state is gone."""

from dataclasses import dataclass

from torch import Tensor

from intonaco.errors import StateGoneError
from intonaco.families.base import Component, NamedTensors, StepComponent


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackDenoiser:
    """Runs `sparse`; a step whose state is gone begins again on `dense`, which needs none.

    A source that has said StateGoneError says so for all later steps: the rest runs dense, too.
    """

    sparse: StepComponent
    dense: Component

    def __call__(self, inputs: NamedTensors, step: int, /) -> Tensor:
        try:
            return self.sparse(inputs, step)
        except StateGoneError:
            return self.dense(inputs)
