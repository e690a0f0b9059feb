"""Captures a template's state: one dense edit with the template's own prompt, through a tap.

The run is exactly `intonaco.pipelines.edit` with the template's prompt and noise: tokens that edits may
change are drawn, all others follow the template's noise path. So an edit that repeats the capture
reads the very keys and values that it would have computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from torch import Tensor

from intonaco.errors import PictureError, RequestError
from intonaco.families.base import EditableFamily
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.families.template_state import KeyValueTap, StateShape, StateSource
from intonaco.pipelines.edit import KeepTemplate, TemplateReuse
from intonaco.pipelines.generate import GenerateResult, ProgressCallback, generate
from intonaco.template.identity import TemplateIdentity, check_identity, make_identity
from intonaco.template.state_store import MemoryState, StateWriter


class CaptureTap(KeyValueTap, Protocol):
    """A tap that becomes a source once the run is over."""

    def close(self) -> StateSource:
        """Return what was written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateState:
    """A template as edits use it, whatever its state is read from.

    Attributes:
        tokens_YX: the tokens that it leaves to edits.
        clean: its clean latents, in the family's layout.
        is_exact: `source` holds what the capture computed, nothing less.
        num_bytes: how much of the template's stored state `source` reads.
        mask_HW: the pixels that it leaves to edits; None = all pixels of its tokens.
    """

    identity: TemplateIdentity
    picture: Image
    tokens_YX: NDArray[np.bool_]
    clean: Tensor
    source: StateSource
    is_exact: bool
    num_bytes: int
    mask_HW: NDArray[np.bool_] | None = None

    def editable_pixels(self) -> NDArray[np.bool_]:
        """Return the (H, W) pixels that edits may change."""
        if self.mask_HW is not None:
            return self.mask_HW
        rows, columns = self.tokens_YX.shape
        square = (self.identity.height // rows, self.identity.width // columns)
        return np.kron(self.tokens_YX, np.ones(square, dtype=np.bool_))

    def reuse(self) -> TemplateReuse:
        """Return what `intonaco.pipelines.edit` takes."""
        return TemplateReuse(
            source=self.source,
            tokens_YX=self.tokens_YX,
            clean=self.clean,
            seed=self.identity.seed,
            image_index=self.identity.image_index,
        )

    def check(
        self, family: EditableFamily, request: GenerateRequest, picture: Image, model_digest: str
    ) -> None:
        """Raise TemplateIdentityError unless `request` edits this template's `picture`."""
        check_identity(
            self.identity,
            family,
            request,
            model_digest=model_digest,
            picture=picture,
            clean=self.clean,
            tokens_YX=self.tokens_YX,
        )


def capture_in_memory(
    family: EditableFamily,
    request: GenerateRequest,
    *,
    picture: Image,
    tokens_YX: NDArray[np.bool_],
    model_digest: str,
    progress: ProgressCallback | None = None,
) -> TemplateState:
    """Return the state of `picture` outside `tokens_YX`, all of it in memory.

    Args:
        request: the template's own prompt, size, steps and noise seed; no references.
        picture: RGB, of the request's size.
        tokens_YX: the tokens that edits may change.

    Raises InputError before any work.
    """

    def open_tap(shape: StateShape, rows_N: Tensor) -> MemoryState:
        return MemoryState(shape=shape, rows_N=rows_N)

    return _capture(family, request, picture, tokens_YX, model_digest, progress, open_tap)


def capture_to_folder(
    family: EditableFamily,
    request: GenerateRequest,
    folder: Path,
    *,
    picture: Image,
    tokens_YX: NDArray[np.bool_],
    model_digest: str,
    progress: ProgressCallback | None = None,
) -> TemplateState:
    """As `capture_in_memory`, the state written to `folder` a step at a time.

    Besides what the dense run itself needs, memory holds the units of one step,
    2 x num_blocks x N x d numbers, twice while they are written.
    """

    def open_tap(shape: StateShape, rows_N: Tensor) -> StateWriter:
        return StateWriter(folder, shape=shape, rows_N=rows_N)

    return _capture(family, request, picture, tokens_YX, model_digest, progress, open_tap)


def run_dense(
    family: EditableFamily,
    denoising: EditableFamily,
    request: GenerateRequest,
    *,
    clean: Tensor,
    tokens_YX: NDArray[np.bool_],
    noise: Tensor | None = None,
    progress: ProgressCallback | None = None,
) -> GenerateResult:
    """Run `request` on `denoising` with all tokens outside `tokens_YX` on the template's path.

    `noise` is that of these tokens; None = that of the request.
    """
    changes = family.spread_mask(tokens_YX)
    constraint = KeepTemplate(clean=clean, changes=changes, noise=noise)
    return generate(denoising, request, constraint=constraint, progress=progress)


def _capture(
    family: EditableFamily,
    request: GenerateRequest,
    picture: Image,
    tokens_YX: NDArray[np.bool_],
    model_digest: str,
    progress: ProgressCallback | None,
    open_tap: Callable[[StateShape, Tensor], CaptureTap],
) -> TemplateState:
    check_capture(family, request, picture, tokens_YX)
    runs = state_runs(family)
    rows_N = torch.from_numpy(np.flatnonzero(~tokens_YX))
    shape = StateShape(
        num_steps=request.num_steps,
        num_blocks=runs.num_blocks,
        num_rows=len(rows_N),
        width=runs.width,
    )
    clean = family.encode_picture(picture)
    tap = open_tap(shape, rows_N)
    tapped = runs.tapped(tokens_YX.size, tap=tap)
    run_dense(family, tapped, request, clean=clean, tokens_YX=tokens_YX, progress=progress)
    return TemplateState(
        identity=make_identity(
            family,
            request,
            model_digest=model_digest,
            picture=picture,
            clean=clean,
            tokens_YX=tokens_YX,
        ),
        picture=picture,
        tokens_YX=tokens_YX,
        clean=clean,
        source=tap.close(),
        is_exact=True,
        num_bytes=shape.num_values * family.dtype.itemsize,
    )


def check_capture(
    family: EditableFamily,
    request: GenerateRequest,
    picture: Image,
    tokens_YX: NDArray[np.bool_],
) -> None:
    """Raise InputError unless `request` can capture `picture` outside `tokens_YX`."""
    if picture.size != (request.width, request.height):
        raise PictureError(
            f"template must be {request.width} x {request.height} pixels, got {picture.width} x "
            f"{picture.height}; request its own size"
        )
    if request.references:
        raise RequestError(
            f"references must be empty in a capture, got {len(request.references)}; they are an "
            "edit's own, and the template is for all edits"
        )
    family.check(request)
    side = family.token_pixels
    grid = (request.height // side, request.width // side)
    if tokens_YX.shape != grid:
        raise PictureError(
            f"mask must have {grid} tokens (rows, columns), got {tokens_YX.shape}; make it from a "
            "mask of the template's size"
        )
    if not tokens_YX.any():
        raise PictureError(
            "mask of a template must leave tokens to edits, got an empty one; mark what may change"
        )
