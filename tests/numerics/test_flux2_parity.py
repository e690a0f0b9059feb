"""Our loop against diffusers' own pipeline: the same weights, seed and prompt, the same bytes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline
from PIL import Image

from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2 import Flux2Family, shift_exponent
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.generate import GenerateResult, generate
from tests.support.comparison import assert_close
from tests.support.tiny_flux2 import MAX_SEQUENCE_LENGTH, OUT_LAYERS, build_tiny_flux2

PROMPT = "a tall girl with red hair"


def noise_picture(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def load_pair(folder: Path, dtype: torch.dtype) -> tuple[Flux2Family, Flux2KleinPipeline]:
    pipeline = Flux2KleinPipeline.from_pretrained(folder, dtype=dtype)
    pipeline.set_progress_bar_config(disable=True)
    family = load_flux2(read_checkpoint(folder), dtype=dtype, device=torch.device("cpu"))
    return family, pipeline


def draw_by_pipeline(pipeline: Flux2KleinPipeline, request: GenerateRequest, **more):
    if "latents" not in more:
        more["generator"] = torch.Generator().manual_seed(request.seed)
    return pipeline(
        prompt=request.prompt,
        image=list(request.references) or None,
        width=request.width,
        height=request.height,
        num_inference_steps=request.num_steps,
        guidance_scale=1.0 if request.guidance_scale is None else request.guidance_scale,
        max_sequence_length=MAX_SEQUENCE_LENGTH,
        text_encoder_out_layers=OUT_LAYERS,
        **more,
    ).images[0]


def final_latents(pipeline: Flux2KleinPipeline, request: GenerateRequest) -> torch.Tensor:
    kept: list[torch.Tensor] = []

    def keep(_pipeline, _step, _timestep, tensors):
        kept.append(tensors["latents"])
        return tensors

    draw_by_pipeline(pipeline, request, callback_on_step_end=keep)
    return kept[-1]


@pytest.fixture(scope="module")
def pair(tiny_flux2_folder: Path):
    return load_pair(tiny_flux2_folder, torch.float32)


def request_of(**changes) -> GenerateRequest:
    settings = {"prompt": PROMPT, "seed": 7, "width": 64, "height": 64, "num_steps": 4}
    return GenerateRequest(**{**settings, **changes})


REQUESTS = {
    "square": request_of(),
    "another seed": request_of(seed=2**40 + 3),
    "wide": request_of(width=128, height=64),
    "tall, one step": request_of(width=64, height=96, num_steps=1),
    "many steps": request_of(num_steps=11),
    "empty prompt": request_of(prompt=""),
    "reference": request_of(references=(noise_picture(64, 64),)),
    "references of odd sizes": request_of(
        width=96, references=(noise_picture(100, 70), noise_picture(64, 130, seed=1))
    ),
    "reference above a megapixel": request_of(num_steps=1, references=(noise_picture(1200, 900),)),
}


@pytest.mark.usefixtures("each_number_of_threads")
@pytest.mark.parametrize("name", REQUESTS)
def test_float32_picture_is_the_pipelines_byte_for_byte(pair, name: str):
    family, pipeline = pair

    drawn = generate(family, REQUESTS[name]).image

    assert drawn.tobytes() == draw_by_pipeline(pipeline, REQUESTS[name]).tobytes()


@pytest.mark.parametrize("name", ["square", "references of odd sizes"])
def test_float32_latents_are_the_pipelines_exactly(pair, name: str):
    family, pipeline = pair

    drawn = generate(family, REQUESTS[name]).latents

    assert torch.equal(drawn, final_latents(pipeline, REQUESTS[name]))


def test_shifted_schedule_draws_the_pipelines_picture(tmp_path: Path):
    family, pipeline = load_pair(
        build_tiny_flux2(tmp_path / "shifted", use_dynamic_shifting=True), torch.float32
    )

    drawn = generate(family, request_of()).image

    assert drawn.tobytes() == draw_by_pipeline(pipeline, request_of()).tobytes()


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_guided_model_draws_the_pipelines_picture(tmp_path: Path, scale: float):
    family, pipeline = load_pair(
        build_tiny_flux2(tmp_path / "guided", is_distilled=False), torch.float32
    )
    request = request_of(guidance_scale=scale)

    drawn = generate(family, request).image

    assert drawn.tobytes() == draw_by_pipeline(pipeline, request).tobytes()


def test_bfloat16_picture_is_the_pipelines_given_the_same_noise(tiny_flux2_folder: Path):
    family, pipeline = load_pair(tiny_flux2_folder, torch.bfloat16)
    request = request_of(references=(noise_picture(64, 64),))
    noise = family.prepare(request, family.encode(request)).noise
    latents = noise.permute(0, 2, 1).reshape(1, -1, 4, 4)

    drawn = generate(family, request).image

    assert drawn.tobytes() == draw_by_pipeline(pipeline, request, latents=latents).tobytes()


def test_prompt_and_reference_change_the_picture(pair):
    # Without this, parity could be that of two loops which ignore what they are given.
    family, _ = pair
    drawn = {
        generate(family, request_of(**changes)).image.tobytes()
        for changes in (
            {},
            {"prompt": "a short boy"},
            {"seed": 8},
            {"image_index": 1},
            {"references": (noise_picture(64, 64),)},
            {"references": (noise_picture(64, 64, seed=1),)},
        )
    }

    assert len(drawn) == 6


def test_shift_exponent_equals_the_pipelines():
    from diffusers.pipelines.flux2.pipeline_flux2_klein import compute_empirical_mu

    for num_tokens in (16, 144, 1024, 4096, 4300, 4301, 16384):
        for num_steps in (1, 4, 8, 50, 200, 1000):
            ours = shift_exponent(num_tokens, num_steps)
            assert_close(
                ours,
                compute_empirical_mu(num_tokens, num_steps),
                atol=1e-12,
                why="one sum in another order, float64 rounding",
            )


def test_result_reports_the_noise_levels_and_times_of_each_step(pair):
    result: GenerateResult = generate(pair[0], request_of(num_steps=3))

    assert (len(result.sigmas), result.sigmas[0], result.sigmas[-1]) == (4, 1.0, 0.0)
    assert len(result.step_ms) == 3
