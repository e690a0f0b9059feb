"""The one host loop: every picture of every family is drawn here.

Knows no family and no device. What acts once per step (progress, cancelling, the step cache, a
constraint on the latents) acts here; all state is made in the call and ends with it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Protocol

import torch
from PIL.Image import Image

from intonaco.errors import GenerationCancelled
from intonaco.families.base import Family, Prepared
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest, start_step_cache
from intonaco.pipelines.interrupting import IsCancelled, interruptible
from intonaco.stepcache.report import StepCacheReport, make_report


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent:
    """Step `index` of `num_steps` is done, `elapsed_s` seconds after the first one began.

    Attributes:
        preview: decodes what the step expects the clean picture to be; costs one decode, so call it
            only for a picture that someone looks at. None where an event is made without a loop.
    """

    index: int
    num_steps: int
    elapsed_s: float
    preview: Callable[[], Image] | None = field(default=None, compare=False, repr=False)


ProgressCallback = Callable[[StepEvent], bool | None]
"""Called after each step; False, or raising GenerationCancelled, stops the generation."""


class Constraint(Protocol):
    """Holds part of the latents to something; applied before the first step and after each."""

    def __call__(
        self, prepared: Prepared, latents: torch.Tensor, sigma_index: int, /
    ) -> torch.Tensor:
        """Return `latents`, which are at noise level `prepared.schedule.sigmas[sigma_index]`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateResult:
    """What a generation drew, and how.

    Attributes:
        images: RGB; one, or one per frame.
        latents: the clean latents in the family's layout, as the decoder read them.
        sigmas: the noise levels, num_steps + 1 of them.
        step_ms: wall time of each step in milliseconds.
        warnings: what the caller should know, one line each.
        step_cache: which steps were full and which cached; None where caching was off.
    """

    images: tuple[Image, ...]
    latents: torch.Tensor
    sigmas: tuple[float, ...]
    step_ms: tuple[float, ...]
    warnings: tuple[str, ...]
    step_cache: StepCacheReport | None = None

    @property
    def image(self) -> Image:
        return self.images[0]


def generate(
    family: Family,
    request: GenerateRequest,
    *,
    progress: ProgressCallback | None = None,
    constraint: Constraint | None = None,
    step_cache: StepCacheRequest | None = None,
    is_cancelled: IsCancelled | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> GenerateResult:
    """Draw `request`.

    Raises InputError before any work, GenerationCancelled: after a step by `progress`, before one
    and between the block groups of a compiled denoiser by `is_cancelled`.
    """
    # 1. Check: an impossible request costs nothing.
    warnings = family.check(request)

    # 2. Encode the prompt, once per guidance branch.
    conditioning = family.encode(request)

    # 3. Prepare noise, schedule and everything that no step changes.
    prepared = family.prepare(request, conditioning)
    schedule = prepared.schedule
    latents = _constrained(constraint, prepared, prepared.latents, 0)
    cache = start_step_cache(family, prepared, step_cache)

    # 4. Walk down the noise levels.
    times_s = [clock()]
    for step in range(schedule.num_steps):
        stepping = interruptible(family, is_cancelled, step, schedule.num_steps)
        full = partial(_predict, stepping, prepared, latents, step)
        prediction = full() if cache is None else cache.predict(step, latents, full)
        latents = schedule.advance(prediction, latents, step)
        latents = _constrained(constraint, prepared, latents, step + 1)
        times_s.append(clock())
        preview = partial(_preview, family, prepared, prediction, latents, step + 1)
        _report(progress, step, schedule.num_steps, times_s[-1] - times_s[0], preview)

    # 5. Decode.
    report = None if cache is None else make_report(cache.settings, cache.records)
    return GenerateResult(
        images=family.decode(prepared, latents),
        latents=latents,
        sigmas=tuple(float(sigma) for sigma in schedule.sigmas),
        step_ms=tuple(1000 * (after - before) for before, after in pairwise(times_s)),
        warnings=warnings + (() if report is None else report.warnings),
        step_cache=report,
    )


def _predict(family: Family, prepared: Prepared, latents: torch.Tensor, step: int) -> torch.Tensor:
    """Return the guided prediction of a full step."""
    return family.guide(prepared, family.denoise(prepared, latents, step))


def _constrained(
    constraint: Constraint | None, prepared: Prepared, latents: torch.Tensor, sigma_index: int
) -> torch.Tensor:
    return latents if constraint is None else constraint(prepared, latents, sigma_index)


def _preview(
    family: Family,
    prepared: Prepared,
    prediction: torch.Tensor,
    latents: torch.Tensor,
    sigma_index: int,
) -> Image:
    """Return the picture that a straight path from here leads to: latents - sigma * velocity."""
    sigma = float(prepared.schedule.sigmas[sigma_index])
    return family.decode(prepared, latents - sigma * prediction.to(latents.dtype))[0]


def _report(
    progress: ProgressCallback | None,
    step: int,
    num_steps: int,
    elapsed_s: float,
    preview: Callable[[], Image],
) -> None:
    if progress is None:
        return
    event = StepEvent(index=step, num_steps=num_steps, elapsed_s=elapsed_s, preview=preview)
    if progress(event) is False:
        raise GenerationCancelled(f"cancelled after step {step + 1} of {num_steps}")
