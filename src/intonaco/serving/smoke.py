"""The smoke generation: what a model has to draw before it may serve."""

import numpy as np
import torch

from intonaco.errors import ModelProcessError
from intonaco.families.request import GenerateRequest
from intonaco.model import Model
from intonaco.pipelines.generate import GenerateResult, generate

SMOKE_PROMPT = "a"
SMOKE_STEPS = 8
SMOKE_STEP_CACHE = "cadence:2"


def smoke_request(size: tuple[int, int], num_frames: int = 1) -> GenerateRequest:
    """Return what a smoke generation of `size` (width, height) asks for."""
    return GenerateRequest(
        prompt=SMOKE_PROMPT,
        seed=0,
        width=size[0],
        height=size[1],
        num_frames=num_frames,
        num_steps=SMOKE_STEPS,
    )


def smoke_generation(model: Model, request: GenerateRequest) -> GenerateResult:
    """Draw a test picture or film with some steps cached, and check that it is one.

    Raises ModelProcessError: it is not finite, constant, of another size or length, or no step was
    cached.
    """
    result = generate(model.family, request, step_cache=model.step_cache_request(SMOKE_STEP_CACHE))
    faults = {
        "its latents are not finite": not bool(torch.isfinite(result.latents).all()),
        "its size is not the one asked for": result.image.size != (request.width, request.height),
        "its length is not the one asked for": len(result.images) != request.num_frames,
        "its pixels are all the same": bool(np.ptp(np.asarray(result.image)) == 0),
        "no step was cached": result.step_cache is None or result.step_cache.num_cached == 0,
    }
    found = [fault for fault, is_there in faults.items() if is_there]
    if found:
        raise ModelProcessError(f"the smoke generation failed: {'; '.join(found)}")
    return result
