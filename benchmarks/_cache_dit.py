"""The same prompts through cache-dit on diffusers' pipeline, with the same weights.

cache-dit caches inside the denoiser: its first block of each stack runs at every step, and the rest
is taken from the last computed step, or extrapolated from it. Which steps are computed is given by a
mask, so schedules are equal to ours call for call.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import Flux2KleinPipeline
from PIL.Image import Image

from intonaco.families.request import GenerateRequest
from intonaco.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPicture:
    """A picture, and the wall time of its steps after the first, which is always computed."""

    image: Image
    later_steps_ms: float


def load_pipeline(folder: Path) -> Flux2KleinPipeline:
    pipeline = Flux2KleinPipeline.from_pretrained(folder)
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
    import cache_dit

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
        steps_computation_policy="dynamic",
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

    def keep_time(_pipeline, _step, _timestep, tensors):
        times_s.append(time.perf_counter())
        return tensors

    settings = model.checkpoint.settings
    image = pipeline(
        prompt=request.prompt,
        width=request.width,
        height=request.height,
        num_inference_steps=request.num_steps,
        guidance_scale=1.0,
        max_sequence_length=settings.max_sequence_length,
        text_encoder_out_layers=tuple(settings.text_encoder_out_layers),
        generator=torch.Generator().manual_seed(request.seed),
        callback_on_step_end=keep_time,
    ).images[0]
    return PeerPicture(image=image, later_steps_ms=1000 * (times_s[-1] - times_s[0]))
