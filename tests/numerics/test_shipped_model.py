"""The model that travels with the package: drawn as diffusers draws it, edits without a seam."""

from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline
from PIL import Image

import intonaco
from intonaco import Model
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_settings import max_sequence_length, out_layers
from intonaco.families.source import shipped_folder
from intonaco.quality.metrics import border_step, psnr
from tests.support.border import assert_no_seam

PROMPT = "a doll with fair skin, short red hair, smiling, a blue shirt, in the park"
SEED = 7


@pytest.fixture(scope="module")
def model() -> Model:
    return intonaco.load()


@pytest.fixture(scope="module")
def drawn(model: Model) -> Image.Image:
    return model.generate(PROMPT, seed=SEED).image


def test_diffusers_draws_the_same_bytes_from_the_shipped_folder(model: Model, drawn: Image.Image):
    folder: Path = shipped_folder()
    checkpoint = read_checkpoint(folder)
    pipeline = Flux2KleinPipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)

    theirs = pipeline(
        prompt=PROMPT,
        width=model.defaults.width,
        height=model.defaults.height,
        num_inference_steps=model.defaults.num_steps,
        guidance_scale=1.0,
        generator=torch.Generator().manual_seed(SEED),
        max_sequence_length=max_sequence_length(checkpoint),
        text_encoder_out_layers=out_layers(checkpoint),
    ).images[0]

    assert drawn.tobytes() == theirs.tobytes()


def test_every_word_of_a_prompt_in_its_vocabulary_is_known(model: Model):
    assert model.generate(PROMPT, seed=SEED, num_steps=1).warnings == ()


def test_bfloat16_draws_nearly_the_same_picture(drawn: Image.Image):
    lower = intonaco.load(dtype="bfloat16").generate(PROMPT, seed=SEED).image

    # 52 dB were measured half-way through training. 8 bits of mantissa over 8 steps and 8 blocks
    # leave well above 40: a wrong cast costs more than that.
    assert psnr(lower, drawn) > 40


def test_an_edit_shows_no_seam_at_the_masks_border(model: Model, drawn: Image.Image):
    width, height = drawn.size
    mask_HW = np.zeros((height, width), dtype=bool)
    mask_HW[height // 3 : 2 * height // 3, width // 4 : 3 * width // 4] = True

    hard, feathered = (
        border_step(
            model.edit(
                drawn,
                mask_HW,
                prompt=PROMPT.replace("blue", "yellow"),
                seed=SEED + 1,
                feather_pixels=pixels,
            ).image,
            mask_HW,
        )
        for pixels in (0, 6)
    )

    assert_no_seam(own=border_step(drawn, mask_HW), hard=hard, feathered=feathered)
