"""Draws a list of requests in several modes and measures each against the picture of a reference mode.

A mode is a step count and a step cache. Modes are interleaved request by request, so a machine that
slows down slows all of them; times are only meant as ratios to the reference's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL.Image import Image

from intonaco.errors import GenerationCancelled, RequestError
from intonaco.families.base import Family
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.generate import generate
from intonaco.quality.metrics import psnr, ssim

# Equal pictures have no finite PSNR; this stands for them in means. One value of a 192 x 192 picture
# off by one gives 98.6 dB.
MAX_PSNR_DB = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to draw a request: its step count, and the step cache or None."""

    name: str
    num_steps: int
    step_cache: StepCacheRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One request drawn in one mode.

    Attributes:
        loop_ms: wall time of the denoising steps, and `cached_step_ms` of the cached ones alone.
        is_cached: one per step.
    """

    psnr_db: float
    ssim: float
    num_calls: int
    loop_ms: float
    cached_step_ms: tuple[float, ...]
    num_invalid_scores: int
    is_cached: tuple[bool, ...]
    image: Image


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeResult:
    """All trials of one mode, in the order of the requests."""

    mode: Mode
    trials: tuple[Trial, ...]
    references: tuple[Trial, ...]

    @property
    def psnr_mean_db(self) -> float:
        return float(np.mean([trial.psnr_db for trial in self.trials]))

    @property
    def psnr_worst_db(self) -> float:
        return min(trial.psnr_db for trial in self.trials)

    def psnr_reached_db(self, share: float) -> float:
        """Return the PSNR that `share` of the requests reach at least."""
        ordered = sorted((trial.psnr_db for trial in self.trials), reverse=True)
        return ordered[max(0, int(np.ceil(share * len(ordered))) - 1)]

    @property
    def ssim_mean(self) -> float:
        return float(np.mean([trial.ssim for trial in self.trials]))

    @property
    def num_calls_mean(self) -> float:
        return float(np.mean([trial.num_calls for trial in self.trials]))

    @property
    def ceiling(self) -> float:
        """Calls of the reference over calls of this mode."""
        return float(np.mean([trial.num_calls for trial in self.references])) / self.num_calls_mean

    @property
    def speedup(self) -> float:
        """Median over requests of the reference's loop time over this mode's."""
        pairs = zip(self.references, self.trials, strict=True)
        return float(np.median([before.loop_ms / after.loop_ms for before, after in pairs]))

    @property
    def cached_step_ms(self) -> float:
        """Median wall time of a cached step; NaN where there is none."""
        times = [ms for trial in self.trials for ms in trial.cached_step_ms]
        return float(np.median(times)) if times else float("nan")

    def share_above(self, other: "ModeResult") -> float:
        """Return the share of requests whose PSNR here is above that of `other`."""
        pairs = zip(self.trials, other.trials, strict=True)
        return float(np.mean([ours.psnr_db > theirs.psnr_db for ours, theirs in pairs]))


CompareProgress = Callable[[int, int], bool | None]
"""Called with pictures drawn and pictures in all; False cancels."""


def compare_modes(
    family: Family,
    requests: Sequence[GenerateRequest],
    reference: Mode,
    modes: Sequence[Mode],
    *,
    progress: CompareProgress | None = None,
    has_ssim: bool = True,
    originals: Sequence[Trial] | None = None,
) -> list[ModeResult]:
    """Return the result of each of `modes`, in order.

    Args:
        has_ssim: measure SSIM too; needs the extra `quality`.
        originals: the reference's trials of an earlier comparison, which spares drawing them again;
            times are then no longer interleaved with the reference's.

    Raises RequestError without requests or with two modes of one name; GenerationCancelled.
    """
    names = [mode.name for mode in (reference, *modes)]
    if len(set(names)) != len(names):
        raise RequestError(f"modes must have different names, got {names}; rename one")
    if not requests:
        raise RequestError("compare needs at least one prompt, got none; pass a list")
    drawn_modes = modes if originals is not None else (reference, *modes)
    total = len(requests) * len(drawn_modes)
    drawn: dict[str, list[Trial]] = {name: [] for name in names}
    drawn[reference.name] += originals or ()
    num_drawn = 0
    for index, request in enumerate(requests):
        original = None if originals is None else originals[index]
        for mode in drawn_modes:
            trial = _draw(family, request, mode, original, has_ssim=has_ssim)
            original = original or trial
            drawn[mode.name].append(trial)
            num_drawn += 1
            if progress is not None and progress(num_drawn, total) is False:
                raise GenerationCancelled(f"cancelled after {num_drawn} of {total} pictures")
    references = tuple(drawn[reference.name])
    return [
        ModeResult(mode=mode, trials=tuple(drawn[mode.name]), references=references)
        for mode in modes
    ]


def _draw(
    family: Family, request: GenerateRequest, mode: Mode, original: Trial | None, *, has_ssim: bool
) -> Trial:
    request = replace(request, num_steps=mode.num_steps)
    result = generate(family, request, step_cache=mode.step_cache)
    report = result.step_cache
    records = report.records if report else ()
    is_cached = tuple(record.kind == "cached" for record in records)
    target = result.image if original is None else original.image
    return Trial(
        psnr_db=min(MAX_PSNR_DB, psnr(result.image, target)),
        ssim=ssim(result.image, target) if has_ssim and original is not None else 1.0,
        num_calls=report.num_calls if report else mode.num_steps,
        loop_ms=sum(result.step_ms),
        cached_step_ms=tuple(
            ms for ms, cached in zip(result.step_ms, is_cached, strict=False) if cached
        ),
        is_cached=is_cached or (False,) * mode.num_steps,
        num_invalid_scores=report.num_invalid_scores if report else 0,
        image=result.image,
    )
