"""Dense masked edit: the host loop of `generate`, with the template kept outside the mask.

Definition, in the order it happens (`docs/edit-definition.md` compares it with diffusers):

1. A token may change if any pixel of its square is in the mask.
2. One noise draw serves the start and every re-noising. Before the first step and after each, tokens
   that may not change are set to the template's clean latents at that noise level:
   (1 - sigma) * clean + sigma * noise. After the last step that is the clean template.
3. The drawn picture is blended over the template by a feather that lies inside the mask. A pixel
   outside the mask is the template's own, exactly.

An empty mask draws nothing and returns the template. A mask that covers every token is `generate`.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from intonaco.errors import PictureError
from intonaco.families.base import EditableFamily, Prepared
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.generate import GenerateResult, ProgressCallback, StepEvent, generate
from intonaco.pipelines.mask import blend, feather, token_mask

DEFAULT_FEATHER_PIXELS = 6
MAX_FEATHER_PIXELS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult:
    """What an edit drew.

    Attributes:
        image: RGB, the template outside the mask.
        generation: the run of the loop, its image not yet blended; None for an empty mask.
    """

    image: Image
    generation: GenerateResult | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepTemplate:
    """The constraint of an edit: tokens that may not change follow the template's noise path.

    Attributes:
        clean: the template's latents, in the family's layout.
        changes: bool, broadcasts over `clean`; True where the edit may change.
    """

    clean: torch.Tensor
    changes: torch.Tensor

    def __call__(self, prepared: Prepared, latents: torch.Tensor, sigma_index: int) -> torch.Tensor:
        kept = prepared.schedule.renoise(self.clean, prepared.noise, sigma_index)
        return torch.where(self.changes, latents, kept)


def edit(
    family: EditableFamily,
    request: GenerateRequest,
    *,
    template: Image,
    mask_HW: NDArray[np.bool_],
    feather_pixels: int = DEFAULT_FEATHER_PIXELS,
    has_source_reference: bool = False,
    progress: ProgressCallback | None = None,
    step_cache: StepCacheRequest | None = None,
) -> EditResult:
    """Redraw `template` inside the mask as `request` says.

    Args:
        request: of the template's size.
        template: RGB.
        mask_HW: (H, W) bool, True where pixels may change; see `intonaco.pipelines.mask.read_mask`.
        feather_pixels: width of the blend inside the mask; 0 = a hard border.
        has_source_reference: also give the whole template to the model, as its first reference.

    Raises InputError before any work, GenerationCancelled between steps.
    """
    if template.size != (request.width, request.height):
        raise PictureError(
            f"template must be {request.width} x {request.height} pixels, got {template.width} x "
            f"{template.height}; request its own size"
        )
    if has_source_reference:
        request = replace(request, references=(template, *request.references))
    # Here too, not only in the loop: token counts are taken from the size before it starts.
    warnings = family.check(request)
    if not mask_HW.any():
        return _unchanged(template, warnings)
    weight_HW = feather(mask_HW, width_pixels=feather_pixels)
    tokens_YX = token_mask(mask_HW, token_pixels=family.token_pixels)
    result = generate(
        family,
        request,
        progress=_blend_previews(progress, template, weight_HW),
        constraint=_constraint(family, template, tokens_YX),
        step_cache=step_cache,
    )
    return EditResult(
        image=blend(template, result.image, weight_HW),
        generation=result,
        warnings=(*result.warnings, *_warn_of_thin_mask(weight_HW, feather_pixels)),
    )


def _blend_previews(
    progress: ProgressCallback | None, template: Image, weight_HW: NDArray[np.float64]
) -> ProgressCallback | None:
    """Return `progress`, its previews laid over the template as the finished picture is."""
    if progress is None:
        return None

    def report(event: StepEvent) -> bool | None:
        drawn = event.preview
        if drawn is None:
            return progress(event)
        return progress(replace(event, preview=lambda: blend(template, drawn(), weight_HW)))

    return report


def _constraint(
    family: EditableFamily, template: Image, tokens_YX: NDArray[np.bool_]
) -> KeepTemplate | None:
    if tokens_YX.all():
        return None
    return KeepTemplate(
        clean=family.encode_picture(template), changes=family.spread_mask(tokens_YX)
    )


def _unchanged(template: Image, warnings: tuple[str, ...]) -> EditResult:
    empty = (
        "mask is empty: the template is returned as it is (alpha 0 = edit where the mask has an "
        "alpha channel, white = edit where it has none)"
    )
    return EditResult(image=template.copy(), generation=None, warnings=(*warnings, empty))


def _warn_of_thin_mask(weight_HW: NDArray[np.float64], feather_pixels: int) -> tuple[str, ...]:
    if weight_HW.max() == 1.0:
        return ()
    return (
        f"mask is thinner than twice feather_pixels {feather_pixels}: the edit shows at "
        f"{weight_HW.max():.0%} at most; choose a wider mask or a smaller feather",
    )
