"""Dense masked edit: the host loop of `generate`, with the template kept outside the mask.

Definition, in the order it happens (`docs/edit-definition.md` compares it with diffusers):

1. A token may change if any pixel of its square is in the mask.
2. One noise draw serves the start and every re-noising. Before the first step and after each, tokens
   that may not change are set to the template's clean latents at that noise level:
   (1 - sigma) * clean + sigma * noise. After the last step that is the clean template.
3. The drawn picture is blended over the template by a feather that lies inside the mask. A pixel
   outside the mask is the template's own, exactly.

An empty mask draws nothing and returns the template. A mask that covers every token is `generate`.

With a prepared template (`TemplateReuse`) the definition is the same; tokens outside the template's
own mask are then not computed, and attention reads their keys and values from the template's state.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image

from intonaco.errors import PictureError, RequestError
from intonaco.families.base import EditableFamily, Prepared
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.families.template_state import StateSource
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.generate import GenerateResult, ProgressCallback, StepEvent, generate
from intonaco.pipelines.interrupting import IsCancelled
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
class TemplateReuse:
    """What an edit takes from a prepared template.

    Attributes:
        source: keys and values of the tokens outside `tokens_YX`; None = compute them (dense).
        tokens_YX: the tokens that the template leaves to edits. All of them are computed; the mask
            of an edit lies inside them.
        clean: the template's latents, in the family's layout.
        seed, image_index: of the noise that tokens which may not change have.
    """

    source: StateSource | None
    tokens_YX: NDArray[np.bool_]
    clean: torch.Tensor
    seed: int
    image_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepTemplate:
    """The constraint of an edit: tokens that may not change follow the template's noise path.

    Attributes:
        clean: the template's latents, in the family's layout.
        changes: bool, broadcasts over `clean`; True where the edit may change.
        noise: of the tokens that may not change; None = that of the request.
    """

    clean: torch.Tensor
    changes: torch.Tensor
    noise: torch.Tensor | None = None

    def __call__(self, prepared: Prepared, latents: torch.Tensor, sigma_index: int) -> torch.Tensor:
        noise = prepared.noise if self.noise is None else self.noise
        kept = prepared.schedule.renoise(self.clean, noise, sigma_index)
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
    is_cancelled: IsCancelled | None = None,
    reuse: TemplateReuse | None = None,
) -> EditResult:
    """Redraw `template` inside the mask as `request` says.

    Args:
        request: of the template's size.
        template: RGB.
        mask_HW: (H, W) bool, True where pixels may change; see `intonaco.pipelines.mask.read_mask`.
        feather_pixels: width of the blend inside the mask; 0 = a hard border.
        has_source_reference: also give the whole template to the model, as its first reference.
        reuse: the template's state, where it was prepared for edits.

    Raises InputError before any work, GenerationCancelled between steps.
    """
    if template.size != (request.width, request.height):
        raise PictureError(
            f"template must be {request.width} x {request.height} pixels, got {template.width} x "
            f"{template.height}; request its own size"
        )
    if has_source_reference and reuse is not None:
        raise RequestError(
            "has_source_reference must be False with a prepared template, got True; its state was "
            "captured without one"
        )
    if has_source_reference:
        request = replace(request, references=(template, *request.references))
    # Here too, not only in the loop: token counts are taken from the size before it starts.
    warnings = family.check(request)
    if not mask_HW.any():
        return _unchanged(template, warnings)
    weight_HW = feather(mask_HW, width_pixels=feather_pixels)
    tokens_YX = token_mask(mask_HW, token_pixels=family.token_pixels)
    if reuse is not None:
        check_inside(tokens_YX, reuse.tokens_YX)
    result = generate(
        _denoising_family(family, reuse),
        request,
        progress=_blend_previews(progress, template, weight_HW),
        constraint=_constraint(family, request, template, tokens_YX, reuse),
        step_cache=step_cache,
        is_cancelled=is_cancelled,
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


def check_inside(tokens_YX: NDArray[np.bool_], editable_YX: NDArray[np.bool_]) -> None:
    """Raise PictureError unless all tokens of a mask are ones that the template leaves to edits."""
    if tokens_YX.shape != editable_YX.shape:
        raise PictureError(
            f"mask must cover {editable_YX.shape} tokens (rows, columns) like the template's, got "
            f"{tokens_YX.shape}; use the template's own picture and mask"
        )
    num_outside = int((tokens_YX & ~editable_YX).sum())
    if num_outside:
        raise PictureError(
            f"mask must lie inside the template's editable mask, {num_outside} of its "
            f"{int(tokens_YX.sum())} tokens do not; make it smaller, or build a template for it"
        )


def _denoising_family(family: EditableFamily, reuse: TemplateReuse | None) -> EditableFamily:
    if reuse is None or reuse.source is None:
        return family
    return state_runs(family).reusing(reuse.source, reuse.tokens_YX.reshape(-1))


def _constraint(
    family: EditableFamily,
    request: GenerateRequest,
    template: Image,
    tokens_YX: NDArray[np.bool_],
    reuse: TemplateReuse | None,
) -> KeepTemplate | None:
    if tokens_YX.all():
        return None
    changes = family.spread_mask(tokens_YX)
    if reuse is None:
        return KeepTemplate(clean=family.encode_picture(template), changes=changes)
    captured = replace(request, seed=reuse.seed, image_index=reuse.image_index)
    return KeepTemplate(
        clean=reuse.clean.to(family.device, family.dtype),
        changes=changes,
        noise=family.draw_noise(captured),
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
