"""FLUX.2 klein and template state: which tokens are computed, and who computes them.

Shape letters: I image tokens, E edited tokens, N = I - E template rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from intonaco.errors import RequestError, UnsupportedError
from intonaco.families.flux2 import Flux2Family
from intonaco.families.flux2_programs import ProgramDenoiser
from intonaco.families.state_fallback import FallbackDenoiser
from intonaco.families.template_state import (
    AttentionTap,
    KeyValueTap,
    StateRuns,
    StateShape,
    StateSource,
)


def make_runs(family: Flux2Family) -> StateRuns:
    """Return the denoisers of `family` for template state."""
    denoiser: Any = family.denoiser
    if isinstance(denoiser, ProgramDenoiser):
        return ProgramRuns(family=family, denoiser=denoiser)
    transformer = getattr(getattr(denoiser, "module", None), "transformer", None)
    if transformer is None:
        raise UnsupportedError(
            f"template state cannot be had from a {type(denoiser).__name__}; load the model with "
            "backend='eager' or on programs"
        )
    # Imported here: a process that draws on programs starts without diffusers' modules.
    from intonaco.families.flux2_state_modules import share_weights

    return EagerRuns(family=family, transformer=share_weights(transformer))


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerRuns:
    """Template state of the eager family; see `intonaco.families.template_state.StateRuns`."""

    family: Flux2Family
    transformer: Any

    @property
    def num_blocks(self) -> int:
        return num_blocks(self.transformer.config)

    @property
    def stack_sizes(self) -> tuple[int, ...]:
        return stack_sizes(self.transformer.config)

    @property
    def width(self) -> int:
        return width(self.transformer.config)

    def tapped(
        self,
        num_image_tokens: int,
        /,
        *,
        tap: KeyValueTap | None = None,
        attention_tap: AttentionTap | None = None,
    ) -> Flux2Family:
        from intonaco.families.flux2_state_modules import TappedDenoiser

        denoiser = TappedDenoiser(
            transformer=self.transformer,
            num_image_tokens=num_image_tokens,
            tap=tap,
            attention_tap=attention_tap,
        )
        return replace(self.family, step_denoiser=denoiser)

    def reusing(self, source: StateSource, is_edited_I: NDArray[np.bool_], /) -> Flux2Family:
        from intonaco.families.flux2_state_modules import SparseDenoiser

        check_source(source.shape, is_edited_I, num_blocks=self.num_blocks, width=self.width)
        slots_E, rows_N = split_tokens(is_edited_I)
        denoiser = SparseDenoiser(
            transformer=self.transformer,
            source=source,
            slots_E=slots_E.to(self.family.device),
            rows_N=rows_N.to(self.family.device),
        )
        return replace(
            self.family, step_denoiser=FallbackDenoiser(sparse=denoiser, dense=self.family.denoiser)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRuns:
    """Template state of the family on programs: edits only, captured by the eager family."""

    family: Flux2Family
    denoiser: ProgramDenoiser

    @property
    def num_blocks(self) -> int:
        return num_blocks(self.denoiser.weights.config)

    @property
    def stack_sizes(self) -> tuple[int, ...]:
        return stack_sizes(self.denoiser.weights.config)

    @property
    def width(self) -> int:
        return width(self.denoiser.weights.config)

    def tapped(
        self,
        num_image_tokens: int,
        /,
        *,
        tap: KeyValueTap | None = None,
        attention_tap: AttentionTap | None = None,
    ) -> Flux2Family:
        raise UnsupportedError(
            f"template state is captured on eager modules, the model runs on {self.family.backend}; "
            "load it with backend='eager' to capture, and edit on programs"
        )

    def reusing(self, source: StateSource, is_edited_I: NDArray[np.bool_], /) -> Flux2Family:
        from intonaco.families.flux2_state_programs import ProgramSparseDenoiser

        check_source(source.shape, is_edited_I, num_blocks=self.num_blocks, width=self.width)
        slots_E, rows_N = split_tokens(is_edited_I)
        denoiser = ProgramSparseDenoiser(
            denoiser=self.denoiser,
            source=source,
            slots_E=slots_E.to(self.family.device),
            rows_N=rows_N.to(self.family.device),
        )
        return replace(
            self.family, step_denoiser=FallbackDenoiser(sparse=denoiser, dense=self.family.denoiser)
        )


def num_blocks(config: Any) -> int:
    """Return how many blocks the chain has: double-stream ones, then single-stream ones."""
    return sum(stack_sizes(config))


def stack_sizes(config: Any) -> tuple[int, ...]:
    """Return how many double-stream and how many single-stream blocks there are."""
    return config["num_layers"], config["num_single_layers"]


def width(config: Any) -> int:
    """Return d, heads x head dim."""
    return config["num_attention_heads"] * config["attention_head_dim"]


def split_tokens(is_edited_I: NDArray[np.bool_]) -> tuple[Tensor, Tensor]:
    """Return the edited tokens and the template rows, int64, both in raster order."""
    return (
        torch.from_numpy(np.flatnonzero(is_edited_I)),
        torch.from_numpy(np.flatnonzero(~is_edited_I)),
    )


def check_source(
    shape: StateShape, is_edited_I: NDArray[np.bool_], *, num_blocks: int, width: int
) -> None:
    """Raise RequestError unless the state fits the model and the tokens; all reasons at once."""
    wanted = {
        "num_blocks": (shape.num_blocks, num_blocks),
        "num_rows": (shape.num_rows, int((~is_edited_I).sum())),
        "width": (shape.width, width),
    }
    wrong = [f"{name} {got} (needs {need})" for name, (got, need) in wanted.items() if got != need]
    if not is_edited_I.any():
        wrong.append("no edited token (needs 1 or more)")
    if wrong:
        raise RequestError(
            f"template state does not fit this edit: {', '.join(wrong)}; use the model and the "
            "mask that the template was built with"
        )
