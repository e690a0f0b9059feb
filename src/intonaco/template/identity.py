"""What a template's state belongs to: model, picture, mask, size, steps, noise, prompt.

State that was captured under one identity draws a silently wrong picture under another, so every use
compares first. Knows nothing of how the state is stored.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from intonaco.errors import TemplateIdentityError
from intonaco.families.base import EditableFamily
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.reading import picture_digest

SCHEMA_VERSION = 1
SHOWN_CHARACTERS = 40
REMEDIES = {
    "model_digest": "load the model that the template was captured with",
    "family": "load the model that the template was captured with",
    "dtype": "load the model with the dtype that the template was captured with",
    "width": "edit the template's own picture",
    "height": "edit the template's own picture",
    "num_steps": "draw with the template's number of steps, or capture it again for this one",
    "sigmas": "use the scheduler settings that the template was captured with",
    "picture_sha256": "edit the template's own picture",
    "latents_sha256": "fetch the template again",
    "mask_sha256": "use the template's own mask",
}


class TemplateIdentity(BaseModel):
    """Everything that a template's keys and values depend on. Frozen.

    Attributes:
        dtype: of activations, "float32" or "bfloat16".
        sigmas: the noise levels, num_steps + 1 of them.
        seed, image_index: of the capture's noise.
        prompt: of the capture: what the template itself shows.
        picture_sha256: over the template's decoded pixels.
        latents_sha256: over its clean latents; see `latents_digest`.
        mask_sha256: over the tokens that it leaves to edits; see `mask_digest`.
        references: which pictures the capture saw beside the template: none.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    schema_version: Literal[1] = SCHEMA_VERSION
    model_digest: str
    family: str
    dtype: str
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    num_steps: int = Field(ge=1)
    sigmas: tuple[FiniteFloat, ...]
    seed: int = Field(ge=0)
    image_index: int = Field(default=0, ge=0)
    prompt: str
    picture_sha256: str
    latents_sha256: str
    mask_sha256: str
    references: Literal["none"] = "none"

    @property
    def digest(self) -> str:
        """sha256 over all fields: the template's name."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def make_identity(
    family: EditableFamily,
    request: GenerateRequest,
    *,
    model_digest: str,
    picture: Image,
    clean: torch.Tensor,
    tokens_YX: NDArray[np.bool_],
) -> TemplateIdentity:
    """Return the identity of state that `request` captures for `picture` outside `tokens_YX`."""
    return TemplateIdentity(
        model_digest=model_digest,
        family=family.name,
        dtype=dtype_name(family),
        width=request.width,
        height=request.height,
        num_steps=request.num_steps,
        sigmas=family.sigmas(request),
        seed=request.seed,
        image_index=request.image_index,
        prompt=request.prompt,
        picture_sha256=picture_digest(picture),
        latents_sha256=latents_digest(clean),
        mask_sha256=mask_digest(tokens_YX),
    )


def check_identity(
    identity: TemplateIdentity,
    family: EditableFamily,
    request: GenerateRequest,
    *,
    model_digest: str,
    picture: Image,
    clean: torch.Tensor,
    tokens_YX: NDArray[np.bool_],
) -> None:
    """Raise TemplateIdentityError unless `request` is an edit of the template of `identity`.

    Seed and prompt are an edit's own; all else must agree. The message names the first field that
    differs.
    """
    require_same(
        identity,
        {
            "model_digest": model_digest,
            "family": family.name,
            "dtype": dtype_name(family),
            "width": request.width,
            "height": request.height,
            "num_steps": request.num_steps,
            "sigmas": family.sigmas(request),
            "picture_sha256": picture_digest(picture),
            "latents_sha256": latents_digest(clean),
            "mask_sha256": mask_digest(tokens_YX),
        },
    )


def require_same(identity: TemplateIdentity, found: Mapping[str, object]) -> None:
    """Raise TemplateIdentityError naming the first field of `found` that differs."""
    for field, value in found.items():
        recorded = getattr(identity, field)
        if recorded != value:
            raise TemplateIdentityError(
                f"{field}: the template was captured with {_shortened(recorded)}, this edit has "
                f"{_shortened(value)}; {REMEDIES[field]}"
            )


def dtype_name(family: EditableFamily) -> str:
    """Return the dtype of a family's activations, as in "float32"."""
    return str(family.dtype).removeprefix("torch.")


def latents_digest(clean: torch.Tensor) -> str:
    """Return sha256 over the shape and the numbers, float32, little-endian, of clean latents."""
    numbers = clean.detach().to("cpu", torch.float32).contiguous().numpy()
    return _digest(numbers.shape, numbers.astype("<f4").tobytes())


def mask_digest(tokens_YX: NDArray[np.bool_]) -> str:
    """Return sha256 over the shape and the bits, row by row, of a mask of tokens."""
    return _digest(tokens_YX.shape, np.packbits(tokens_YX.reshape(-1)).tobytes())


def _digest(shape: tuple[int, ...], content: bytes) -> str:
    return hashlib.sha256(repr(tuple(shape)).encode() + content).hexdigest()


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
