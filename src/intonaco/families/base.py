"""The contract between the one host loop and a model family.

The loop (`intonaco.pipelines.generate`) knows only what stands here:

    check -> encode -> prepare -> for each step: denoise, guide, schedule.advance -> decode

A family turns a request into named tensors and back; it holds its components (text encoder,
denoiser, decoder) as plain callables over named tensors, so each can be an eager module, a compiled
program or a chain of block-group programs, swapped by `dataclasses.replace`. What needs the inside
of the denoiser (keys and values per block, features for a change score) wraps that one callable; the
loop never sees it. Families differ in layout (packed tokens, planes, frames), in guidance (none,
distilled, two branches) and in text (padding masked or attended to); none of that leaves the family.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from intonaco.families.request import GenerateRequest
from intonaco.families.schedule import Schedule

NamedTensors = Mapping[str, torch.Tensor]


class Component(Protocol):
    """A text encoder, denoiser or decoder: named tensors in, one tensor out, no state kept."""

    def __call__(self, inputs: NamedTensors, /) -> torch.Tensor: ...


class StepComponent(Protocol):
    """A denoiser that is also told the step; what it reads or writes may depend on it."""

    def __call__(self, inputs: NamedTensors, step: int, /) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a request gets where it leaves a setting out."""

    width: int
    height: int
    num_steps: int
    num_frames: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything of one generation that no step changes, and the latents it starts from.

    Attributes:
        latents: start latents in the family's layout, on its device, in its latent dtype.
        noise: the same draw as in `latents`, unscaled, same layout, device and dtype.
        branches: the denoiser's fixed inputs, one mapping per guidance branch; the conditional
            branch first, the unconditional one second where guidance is on.
        guidance_scale: weight of the branches' difference; 1 where there is one branch.
        schedule: this generation's own.
    """

    latents: torch.Tensor
    noise: torch.Tensor
    branches: tuple[NamedTensors, ...]
    guidance_scale: float
    schedule: Schedule
    width: int
    height: int
    num_frames: int = 1


class Family(Protocol):
    """A loaded model of one family. Frozen: nothing of a request stays in it."""

    @property
    def name(self) -> str: ...

    @property
    def defaults(self) -> Defaults: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def backend(self) -> str:
        """What runs the components: "eager", or the backend of their programs."""
        ...

    @property
    def precision(self) -> str:
        """The dtype's name, or "w8a16" or "w8a8" where layers have 8 bits."""
        ...

    def check(self, request: GenerateRequest) -> tuple[str, ...]:
        """Return warnings about `request`; raise an InputError if it cannot be done.

        Nothing is rewritten: a setting that will have no effect is a warning, one that cannot be
        kept (a size, a prompt too long, too many references) is an error.
        """
        ...

    def encode(self, request: GenerateRequest) -> tuple[NamedTensors, ...]:
        """Return the encoded prompts, one mapping per guidance branch, conditional first."""
        ...

    def prepare(self, request: GenerateRequest, conditioning: tuple[NamedTensors, ...]) -> Prepared:
        """Return start latents, schedule and the denoiser's fixed inputs."""
        ...

    def denoise(
        self, prepared: Prepared, latents: torch.Tensor, step: int
    ) -> tuple[torch.Tensor, ...]:
        """Return one prediction per branch for `step`, each in the layout of `latents`."""
        ...

    def guide(self, prepared: Prepared, predictions: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return the one prediction that the sampler follows."""
        ...

    def decode(self, prepared: Prepared, latents: torch.Tensor) -> tuple[Image, ...]:
        """Return the RGB picture of `latents`, or one per frame."""
        ...


class EditableFamily(Family, Protocol):
    """A family whose pictures can be edited under a mask."""

    @property
    def token_pixels(self) -> int:
        """Side, in pixels, of the square that one token stands for."""
        ...

    def encode_picture(self, picture: Image) -> torch.Tensor:
        """Return the clean latents of an RGB picture, in the layout of `Prepared.latents`."""
        ...

    def spread_mask(self, token_mask: NDArray[np.bool_]) -> torch.Tensor:
        """Return a (rows, columns) mask of tokens as bool that broadcasts over the latents."""
        ...

    def draw_noise(self, request: GenerateRequest) -> torch.Tensor:
        """Return `Prepared.noise` of `request`, without encoding anything."""
        ...

    def sigmas(self, request: GenerateRequest) -> tuple[float, ...]:
        """Return the noise levels of `request`, num_steps + 1 of them, without encoding anything."""
        ...


def guide_branches(predictions: tuple[torch.Tensor, ...], scale: float) -> torch.Tensor:
    """Return the guided prediction: uncond + scale * (cond - uncond), or the only one there is."""
    if len(predictions) == 1:
        return predictions[0]
    conditional, unconditional = predictions
    return unconditional + scale * (conditional - unconditional)
