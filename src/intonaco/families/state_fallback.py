"""A step on template state that computes everything itself once the state is gone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from intonaco.errors import StateGoneError
from intonaco.families.base import Component, NamedTensors, StepComponent
from intonaco.programs.library import Interruptible


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

    def interruptible(self, check: Callable[[], None], /) -> "FallbackDenoiser":
        """Return the same, with `check` between the calls of those parts that have several."""
        parts: dict[str, Any] = {"sparse": self.sparse, "dense": self.dense}
        found = {
            name: part.interruptible(check)
            for name, part in parts.items()
            if isinstance(part, Interruptible)
        }
        return replace(self, **found)
