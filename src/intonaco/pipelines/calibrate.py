"""Finds out what step caching costs on one model, and writes down the settings worth offering.

    record reference runs -> fit the probe's curve -> make candidates at several budgets
    -> draw the same prompts with each, and with fewer steps at as many calls -> offer what is better

The prompts here must not be used to judge the result: evaluation takes others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from intonaco.errors import CalibrationError, GenerationCancelled, RequestError
from intonaco.families.base import Family
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.compare import Mode, ModeResult, compare_modes
from intonaco.pipelines.generate import generate
from intonaco.pipelines.probes import make_change_probe
from intonaco.stepcache.calibration import Offer, Signal
from intonaco.stepcache.candidates import Candidate, make_candidates
from intonaco.stepcache.controller import relative_change
from intonaco.stepcache.estimators import Sample
from intonaco.stepcache.fitting import (
    ScoredRun,
    best_degree,
    gate_mode,
    lag_1_autocorrelation,
    pairs,
    pearson,
)
from intonaco.stepcache.planning import PlanningData, gram_of

HELD_OUT_SHARE = 0.25
MIN_PROMPTS = 4
BUDGET_SHARES = (0.6, 0.4, 0.3)
QUANTITIES = ("output", "clean")
RELIABLE_SHARE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked for: a speedup of the denoising loop, or a quality that most prompts reach."""

    speedup: float | None = None
    psnr_db: float | None = None
    share: float = RELIABLE_SHARE

    def __post_init__(self) -> None:
        if (self.speedup is None) == (self.psnr_db is None):
            raise RequestError("a target is either a speedup or a PSNR; pass one of the two")
        if self.speedup is not None and not 1.0 < self.speedup <= 10.0:
            raise RequestError(
                f"speedup must be above 1 and at most 10, got {self.speedup}; 1.6 is modest"
            )
        if not 0.0 < self.share <= 1.0:
            raise RequestError(
                f"share must be above 0 and at most 1, got {self.share}; 0.95 is usual"
            )

    @property
    def text(self) -> str:
        if self.speedup is not None:
            return f"a speedup of {self.speedup:g}"
        return f"at least {self.psnr_db:g} dB for {self.share:.0%} of prompts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One reference run: what the probe scored, how outputs changed, and inner products for plans."""

    scored: ScoredRun
    sigmas: tuple[float, ...]
    grams: dict[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateResult:
    """All that calibration measured; `offers` are the candidates that beat fewer steps.

    Attributes:
        results, baselines: one of each per candidate, in one order.
        runs: the recorded reference runs, held-out ones last.
    """

    signal: Signal | None
    runs: tuple[ScoredRun, ...]
    results: tuple[ModeResult, ...]
    baselines: tuple[ModeResult, ...]
    offers: tuple[Offer, ...]
    chosen: str | None
    notes: tuple[str, ...]


CalibrateProgress = Callable[[str, int, int], bool | None]
"""Called with what is being done, how many pictures of it are done, how many there are."""


def calibrate(
    family: Family,
    requests: Sequence[GenerateRequest],
    target: Target,
    *,
    progress: CalibrateProgress | None = None,
) -> CalibrateResult:
    """Calibrate `family` on `requests`, which share one step count and size.

    Raises RequestError for too few prompts or different step counts, GenerationCancelled.
    """
    num_steps = _check(requests)
    recordings = _record_all(family, requests, progress)
    runs = tuple(recording.scored for recording in recordings)
    has_probe = make_change_probe(family) is not None
    signal = measure_signal(runs) if has_probe else None
    candidates = make_candidates(
        num_steps=num_steps,
        budgets=_budgets(num_steps, target),
        runs=runs,
        curve=signal.curve if signal else None,
        plans=[planning_data(recordings, quantity) for quantity in QUANTITIES],
    )
    results, baselines = measure_candidates(family, requests, candidates, progress)
    offers = make_offers(candidates, results, baselines)
    chosen = choose(offers, results, target)
    return CalibrateResult(
        signal=signal,
        runs=runs,
        results=results,
        baselines=baselines,
        offers=offers,
        chosen=chosen,
        notes=_notes(signal, offers, chosen, target),
    )


def record(family: Family, request: GenerateRequest) -> Recording:
    """Draw `request` in full steps only, and keep what calibration needs of it."""
    samples: list[Sample] = []
    scores: list[float] = []

    def observe(
        step: int, latents: torch.Tensor, output: torch.Tensor, score: float | None
    ) -> None:
        scores.append(math.nan if score is None else score)
        samples.append(
            Sample(
                sigma=0.0,
                next_sigma=0.0,
                latents=latents.detach().to("cpu", torch.float32, copy=True),
                output=output.detach().to("cpu", torch.float32, copy=True),
            )
        )

    has_probe = make_change_probe(family) is not None
    result = generate(
        family, request, step_cache=StepCacheRequest(observe=observe, has_probe=has_probe)
    )
    sigmas = result.sigmas
    placed = [
        replace(sample, sigma=sigma, next_sigma=following)
        for sample, sigma, following in zip(samples, sigmas[:-1], sigmas[1:], strict=True)
    ]
    changes = [math.nan] + [
        relative_change(new.output, old.output) for old, new in pairwise(placed)
    ]
    return Recording(
        scored=ScoredRun(scores=tuple(scores), changes=tuple(changes)),
        sigmas=sigmas,
        grams={quantity: gram_of(placed, quantity) for quantity in QUANTITIES},
    )


def measure_signal(runs: Sequence[ScoredRun]) -> Signal | None:
    """Return how well scores predict changes, or None where no score is a number."""
    num_held_out = max(1, round(HELD_OUT_SHARE * len(runs)))
    fit, held_out = pairs(runs[:-num_held_out]), pairs(runs[-num_held_out:])
    try:
        curve, r2_fit, r2_held_out = best_degree(fit, held_out)
    except CalibrationError:
        return None
    correlation, autocorrelation = pearson(*pairs(runs)), lag_1_autocorrelation(runs)
    return Signal(
        r2_fit=r2_fit,
        r2_held_out=r2_held_out,
        pearson=correlation,
        autocorrelation=autocorrelation,
        gated_mode=gate_mode(correlation, autocorrelation),
        curve=curve,
    )


def make_offers(
    candidates: Sequence[Candidate],
    results: Sequence[ModeResult],
    baselines: Sequence[ModeResult],
) -> tuple[Offer, ...]:
    """Return the candidates that beat fewer steps at equal calls in the mean, as offers."""
    offers: list[Offer] = []
    for candidate, result, baseline in zip(candidates, results, baselines, strict=True):
        if result.psnr_mean_db <= baseline.psnr_mean_db or result.ceiling <= 1.0:
            continue
        offers.append(
            Offer(
                name=candidate.name,
                settings=candidate.settings,
                num_steps=result.mode.num_steps,
                num_calls=result.num_calls_mean,
                ceiling=result.ceiling,
                psnr_mean_db=result.psnr_mean_db,
                psnr_worst_db=result.psnr_worst_db,
                psnr_p5_db=result.psnr_reached_db(RELIABLE_SHARE),
                fewer_steps_psnr_mean_db=baseline.psnr_mean_db,
                share_above_fewer_steps=result.share_above(baseline),
            )
        )
    return tuple(offers)


def choose(offers: Sequence[Offer], results: Sequence[ModeResult], target: Target) -> str | None:
    """Return the offer that meets `target`: the best at a speedup, the fastest at a quality."""
    if target.speedup is not None:
        # Calls come in whole numbers, so the ceiling nearest below may miss by half a call.
        fast_enough = [o for o in offers if o.ceiling >= target.speedup * (1 - 0.5 / o.num_calls)]
        return max(fast_enough, key=lambda o: o.psnr_mean_db).name if fast_enough else None
    assert target.psnr_db is not None
    reached = {r.mode.name: r.psnr_reached_db(target.share) for r in results}
    good = [offer for offer in offers if reached[offer.name] >= target.psnr_db]
    return max(good, key=lambda o: (o.ceiling, o.psnr_mean_db)).name if good else None


def _check(requests: Sequence[GenerateRequest]) -> int:
    if len(requests) < MIN_PROMPTS:
        raise RequestError(
            f"calibrate needs at least {MIN_PROMPTS} prompts, got {len(requests)}; 16 are usual"
        )
    counts = {request.num_steps for request in requests}
    if len(counts) != 1:
        raise RequestError(
            f"calibrate needs one step count for all prompts, got {sorted(counts)}; choose one"
        )
    return counts.pop()


def _record_all(
    family: Family, requests: Sequence[GenerateRequest], progress: CalibrateProgress | None
) -> list[Recording]:
    recordings: list[Recording] = []
    for request in requests:
        recordings.append(record(family, request))
        _report(progress, "recording", len(recordings), len(requests))
    return recordings


def _budgets(num_steps: int, target: Target) -> tuple[int, ...]:
    """Return numbers of calls to try: the target's own, or a ladder of them for a quality."""
    if target.speedup is not None:
        return (max(4, math.floor(num_steps / target.speedup + 0.5)),)
    return tuple(max(4, round(share * num_steps)) for share in BUDGET_SHARES)


def planning_data(recordings: Sequence[Recording], quantity: str) -> PlanningData:
    """Return what a search for a plan needs of `recordings`."""
    grams = [recording.grams[quantity] for recording in recordings]
    return PlanningData(sigmas=recordings[0].sigmas, gram=np.mean(grams, axis=0), quantity=quantity)


def measure_candidates(
    family: Family,
    requests: Sequence[GenerateRequest],
    candidates: Sequence[Candidate],
    progress: CalibrateProgress | None = None,
) -> tuple[tuple[ModeResult, ...], tuple[ModeResult, ...]]:
    """Return the result of each candidate, and of fewer steps at as many calls."""
    num_steps = requests[0].num_steps
    modes = [
        Mode(
            name=candidate.name,
            num_steps=num_steps,
            step_cache=StepCacheRequest(settings=candidate.settings),
        )
        for candidate in candidates
    ]
    reference = Mode(name="reference", num_steps=num_steps)
    results = compare_modes(
        family, requests, reference, modes, has_ssim=False, progress=_named(progress, "drawing")
    )
    counts = sorted({max(1, round(result.num_calls_mean)) for result in results} - {num_steps})
    fewer = compare_modes(
        family,
        requests,
        reference,
        [Mode(name=f"{count} steps", num_steps=count) for count in counts],
        has_ssim=False,
        progress=_named(progress, "drawing with fewer steps"),
        originals=results[0].references,
    )
    by_count = dict(zip(counts, fewer, strict=True))
    baselines = [by_count.get(max(1, round(r.num_calls_mean)), r) for r in results]
    return tuple(results), tuple(baselines)


def _notes(
    signal: Signal | None, offers: Sequence[Offer], chosen: str | None, target: Target
) -> tuple[str, ...]:
    notes: list[str] = []
    if signal is None:
        notes.append("no usable change score: adaptive is not offered")
    if not offers:
        notes.append("no mode was better than fewer steps at equal calls: none is offered")
    elif chosen is None:
        fastest = max(offers, key=lambda offer: offer.ceiling)
        best = max(offers, key=lambda offer: offer.psnr_p5_db)
        notes.append(
            f"no offer meets {target.text}; the fastest is {fastest.name} ({fastest.ceiling:.2f}x), "
            f"the best {best.name} ({best.psnr_p5_db:.1f} dB for 95 % of prompts)"
        )
    return tuple(notes)


def _named(
    progress: CalibrateProgress | None, phase: str
) -> Callable[[int, int], bool | None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(phase, done, total)


def _report(progress: CalibrateProgress | None, phase: str, done: int, total: int) -> None:
    if progress is not None and progress(phase, done, total) is False:
        raise GenerationCancelled(f"cancelled while {phase}, after {done} of {total}")
