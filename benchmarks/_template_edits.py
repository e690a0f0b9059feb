"""Edits of one template on any state, each encoded and drawn as the product does it, and compared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from intonaco.families.base import Component, EditableFamily, NamedTensors
from intonaco.families.request import GenerateRequest
from intonaco.families.template_state import StateShape, StateSource
from intonaco.pipelines.edit import TemplateReuse, edit
from intonaco.quality.metrics import psnr, ssim

HIGHEST_DB = 99.0
"""Stands for equal pictures, whose PSNR is infinite."""


class Remembering:
    """A component that computes each input once: all methods edit with the same prompts."""

    def __init__(self, inner: Component) -> None:
        self._inner = inner
        self._known: dict[bytes, torch.Tensor] = {}

    def __call__(self, inputs: NamedTensors, /) -> torch.Tensor:
        key = b"".join(inputs[name].contiguous().numpy().tobytes() for name in sorted(inputs))
        if key not in self._known:
            self._known[key] = self._inner(inputs)
        return self._known[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayState:
    """A source over (U, S, B, N, d)."""

    states: NDArray[np.float32]

    @property
    def shape(self) -> StateShape:
        _, steps, blocks, rows, width = self.states.shape
        return StateShape(num_steps=steps, num_blocks=blocks, num_rows=rows, width=width)

    def read(self, step: int, block: int, /) -> tuple[torch.Tensor, torch.Tensor]:
        key, value = (torch.from_numpy(unit) for unit in self.states[:, step, block])
        return key, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One edit beside its reference, in dB and 0..1."""

    mask_psnr_db: float
    picture_psnr_db: float
    ssim: float


def draw(
    family: EditableFamily,
    requests: Sequence[GenerateRequest],
    *,
    picture: Image,
    mask_HW: NDArray[np.bool_],
    reuse: TemplateReuse | None,
) -> list[Image]:
    """Return one edit per request; dense where `reuse` is None."""
    return [
        edit(family, request, template=picture, mask_HW=mask_HW, reuse=reuse).image
        for request in requests
    ]


def with_source(reuse: TemplateReuse, source: StateSource) -> TemplateReuse:
    return TemplateReuse(
        source=source,
        tokens_YX=reuse.tokens_YX,
        clean=reuse.clean,
        seed=reuse.seed,
        image_index=reuse.image_index,
    )


def compare(
    pictures: Sequence[Image], references: Sequence[Image], mask_HW: NDArray[np.bool_]
) -> list[Comparison]:
    return [
        Comparison(
            mask_psnr_db=min(psnr(one, other, mask_HW=mask_HW), HIGHEST_DB),
            picture_psnr_db=min(psnr(one, other), HIGHEST_DB),
            ssim=ssim(one, other),
        )
        for one, other in zip(pictures, references, strict=True)
    ]
