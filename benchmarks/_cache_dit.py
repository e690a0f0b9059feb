"""The same prompts through cache-dit on diffusers' pipeline, with the same weights.

cache-dit caches inside the denoiser: its first block of each stack runs at every step, and the rest
is taken from the last computed step, or extrapolated from it. Which steps are computed is given by a
mask, so schedules are equal to ours call for call.
"""

import importlib
import importlib.metadata
import logging
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
from PIL.Image import Image

import intonaco
from benchmarks._step_cache_settings import EVALUATION_SEED, Chosen, requests_of, skipped_steps
from intonaco.families.flux2_settings import max_sequence_length, out_layers
from intonaco.families.request import GenerateRequest
from intonaco.model import Model
from intonaco.pipelines.caching import StepCacheRequest
from intonaco.pipelines.compare import MAX_PSNR_DB, Mode, ModeResult, Trial, compare_modes
from intonaco.quality.metrics import psnr
from intonaco.stepcache.planning import plan_full_steps
from intonaco.stepcache.policies import Planned, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPicture:
    """A picture, and the wall time of its steps after the first, which is always computed."""

    image: Image
    later_steps_ms: float


def load_pipeline(folder: Path) -> Flux2KleinPipeline:
    # Without it, weights that are stored in 16 bits are computed with in 16 bits.
    pipeline = Flux2KleinPipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def draw(
    pipeline: Flux2KleinPipeline, model: Model, requests: Sequence[GenerateRequest]
) -> list[PeerPicture]:
    return [_draw_one(pipeline, model, request) for request in requests]


def draw_cached(
    pipeline: Flux2KleinPipeline,
    model: Model,
    requests: Sequence[GenerateRequest],
    *,
    full_steps: Sequence[int],
    taylor_order: int | None,
) -> list[PeerPicture]:
    """Draw with cache-dit; `taylor_order` None holds the last residual, 1 or 2 extrapolates it."""
    # A package of the extra "benchmarks" alone.
    cache_dit: Any = importlib.import_module("cache_dit")
    logging.disable(logging.WARNING)
    num_steps = requests[0].num_steps
    mask = [int(step in full_steps) for step in range(num_steps)]
    config = cache_dit.DBCacheConfig(
        Fn_compute_blocks=1,
        Bn_compute_blocks=0,
        max_warmup_steps=0,
        residual_diff_threshold=1e9,
        num_inference_steps=num_steps,
        steps_computation_mask=mask,
        steps_computation_policy="static",
    )
    calibrator = None
    if taylor_order is not None:
        calibrator = cache_dit.TaylorSeerCalibratorConfig(taylorseer_order=taylor_order)
    try:
        cache_dit.enable_cache(pipeline, cache_config=config, calibrator_config=calibrator)
        return draw(pipeline, model, requests)
    finally:
        cache_dit.disable_cache(pipeline)
        logging.disable(logging.NOTSET)


def _draw_one(pipeline: Flux2KleinPipeline, model: Model, request: GenerateRequest) -> PeerPicture:
    times_s: list[float] = []

    def keep_time(
        _pipeline: object, _step: int, _timestep: object, tensors: dict[str, Any]
    ) -> dict[str, Any]:
        times_s.append(time.perf_counter())
        return tensors

    # Its annotations say less than it takes: one layer, a callback that returns nothing.
    call: Any = pipeline
    image = call(
        prompt=request.prompt,
        width=request.width,
        height=request.height,
        num_inference_steps=request.num_steps,
        guidance_scale=1.0,
        max_sequence_length=max_sequence_length(model.checkpoint),
        text_encoder_out_layers=out_layers(model.checkpoint),
        generator=torch.Generator().manual_seed(request.seed),
        callback_on_step_end=keep_time,
    ).images[0]
    return PeerPicture(image=image, later_steps_ms=1000 * (times_s[-1] - times_s[0]))


def beside_cache_dit(
    model: intonaco.Model,
    chosen: Chosen,
    results: dict[str, ModeResult],
    num_steps: int,
    count: int,
) -> dict[str, object]:
    """Return one table: cache-dit at cadence 2's schedule, ours at equal calls and at equal time."""
    try:
        version = importlib.metadata.version("cache-dit")
    except ImportError as error:
        return {"not_run": f"pip install cache-dit==1.5.3 ({error})"}
    requests = requests_of(model, EVALUATION_SEED, count, num_steps)
    skipped = skipped_steps(chosen.settings["cadence2"], num_steps)
    full_steps = [step for step in range(num_steps) if step not in skipped]
    references = [trial.image for trial in results["cadence2"].references]
    pipeline = load_pipeline(model.checkpoint.folder)
    # Wall time drifts on a shared machine: the uncached loop is timed beside the cached ones.
    timed = min(4, count)
    table: dict[str, object] = {"version": version}
    speedups: list[float] = []
    for name, order in (("held", None), ("taylor_1", 1)):
        uncached = draw(pipeline, model, requests[:timed])
        cached = draw_cached(pipeline, model, requests, full_steps=full_steps, taylor_order=order)
        ratios = [
            a.later_steps_ms / b.later_steps_ms for a, b in zip(uncached, cached, strict=False)
        ]
        values = [
            min(MAX_PSNR_DB, psnr(c.image, r)) for c, r in zip(cached, references, strict=True)
        ]
        speedups.append(statistics.median(ratios))
        table[name] = {
            "calls": len(full_steps),
            "speedup": round(speedups[-1], 3),
            "psnr_mean": round(statistics.fmean(values), 2),
            "psnr_worst": round(min(values), 2),
        }
        if name == "held":
            table["uncached_is_ours"] = all(
                psnr(u.image, r) == math.inf for u, r in zip(uncached, references, strict=False)
            )
    table["ours_at_equal_calls"] = brief(results["best"])
    originals = results["cadence2"].references
    equal_time = at_equal_time(model, requests, chosen, max(speedups), originals)
    table["ours_at_equal_time"] = brief(equal_time)
    return table


def at_equal_time(
    model: intonaco.Model,
    requests: list[GenerateRequest],
    chosen: Chosen,
    speedup: float,
    originals: Sequence[Trial],
) -> ModeResult:
    """Draw with a plan of ours that makes as many calls as fit in cache-dit's time."""
    num_steps = requests[0].num_steps
    estimator = chosen.settings["best"].estimator_rule
    data = next(plan for plan in chosen.plans if plan.quantity == estimator.quantity)
    steps = plan_full_steps(data, estimator, num_calls=math.floor(num_steps / speedup))
    settings = replace(
        chosen.settings["best"],
        policy=Planned(full_steps={num_steps: steps}),
        window=Window(first=estimator.num_real, last=1),
        max_cached_in_row=None,
    )
    mode = Mode(
        name="equal time", num_steps=num_steps, step_cache=StepCacheRequest(settings=settings)
    )
    reference = Mode(name="reference", num_steps=num_steps)
    return compare_modes(
        model.family, requests, reference, [mode], has_ssim=False, originals=originals
    )[0]


def brief(result: ModeResult) -> dict[str, float]:
    return {
        "calls": round(result.num_calls_mean, 1),
        "ceiling": round(result.ceiling, 3),
        "psnr_mean": round(result.psnr_mean_db, 2),
        "psnr_worst": round(result.psnr_worst_db, 2),
    }
