"""Masked edits against plain generation, against the template, and against diffusers' inpainting."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinInpaintPipeline
from PIL import Image

from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2 import Flux2Family
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.edit import EditResult, edit
from intonaco.pipelines.generate import generate
from intonaco.quality.metrics import border_step
from tests.support.border import assert_no_seam
from tests.support.tiny_flux2 import MAX_SEQUENCE_LENGTH, OUT_LAYERS

REQUEST = GenerateRequest(prompt="a girl in red", seed=3, width=96, height=64, num_steps=4)


@pytest.fixture(scope="module")
def family(tiny_flux2_folder: Path) -> Flux2Family:
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_flux2(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def template() -> Image.Image:
    pixels = np.random.default_rng(1).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def mask_of(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    mask_HW = np.zeros((64, 96), dtype=bool)
    mask_HW[top:bottom, left:right] = True
    return mask_HW


def run(family, template, mask_HW, request=REQUEST, **more) -> EditResult:
    return edit(family, request, template=template, mask_HW=mask_HW, **more)


@pytest.mark.parametrize("with_reference", [False, True])
def test_edit_of_whole_tokens_is_diffusers_inpainting_byte_for_byte(
    family, template, tiny_flux2_folder: Path, with_reference: bool
):
    # Where the definitions agree: mask on the token grid, strength 1, the source shown to the
    # model, no paste.
    pipeline = Flux2KleinInpaintPipeline.from_pretrained(tiny_flux2_folder)
    pipeline.set_progress_bar_config(disable=True)
    reference = Image.fromarray(np.full((64, 80, 3), (200, 30, 90), dtype=np.uint8))
    references = (reference,) if with_reference else ()
    mask_HW = mask_of(16, 48, 32, 80)

    ours = run(
        family,
        template,
        mask_HW,
        replace(REQUEST, references=references),
        has_source_reference=True,
    )
    theirs = pipeline(
        prompt=REQUEST.prompt,
        image=template,
        mask_image=Image.fromarray(mask_HW),
        image_reference=reference if with_reference else None,
        strength=1.0,
        num_inference_steps=REQUEST.num_steps,
        guidance_scale=1.0,
        generator=torch.Generator().manual_seed(REQUEST.seed),
        max_sequence_length=MAX_SEQUENCE_LENGTH,
        text_encoder_out_layers=OUT_LAYERS,
    ).images[0]

    assert ours.generation.image.tobytes() == theirs.tobytes()


def test_full_mask_is_plain_generation(family, template):
    edited = run(family, template, mask_of(0, 64, 0, 96))

    assert edited.image.tobytes() == generate(family, REQUEST).image.tobytes()


def test_empty_mask_returns_the_template_without_drawing(family, template):
    edited = run(family, template, mask_of(0, 0, 0, 0))

    assert edited.generation is None
    assert edited.image.tobytes() == template.tobytes()
    assert "mask is empty" in edited.warnings[-1]


def test_pixels_outside_the_mask_are_the_templates(family, template):
    mask_HW = mask_of(10, 41, 21, 70)

    edited = np.asarray(run(family, template, mask_HW).image)

    assert np.array_equal(edited[~mask_HW], np.asarray(template)[~mask_HW])
    assert not np.array_equal(edited[mask_HW], np.asarray(template)[mask_HW])


def test_tokens_outside_the_mask_end_as_the_clean_template(family, template):
    mask_HW = mask_of(16, 48, 32, 80)

    latents = run(family, template, mask_HW).generation.latents[0]

    kept = ~mask_HW[::16, ::16].reshape(-1)
    clean = family.encode_picture(template)[0]
    assert torch.equal(latents[kept], clean[kept])


def test_a_mask_of_one_pixel_changes_its_token_only(family, template):
    latents = run(family, template, mask_of(17, 18, 33, 34)).generation.latents[0]

    clean = family.encode_picture(template)[0]
    changed = (latents != clean).any(dim=1).nonzero().flatten().tolist()
    assert changed == [1 * 6 + 2]  # row 1, column 2 of 4 x 6 tokens


def test_tokens_outside_the_mask_steer_the_drawing(family, template):
    mask_HW = mask_of(16, 48, 32, 80)
    other = Image.fromarray(255 - np.asarray(template))

    first = run(family, template, mask_HW).generation.latents
    second = run(family, other, mask_HW).generation.latents

    assert not torch.equal(first, second)


def test_the_border_steps_little_more_than_the_template_does(family):
    template = Image.new("RGB", (96, 64), (90, 160, 120))
    mask_HW = mask_of(10, 51, 21, 70)

    hard, feathered = (
        border_step(run(family, template, mask_HW, feather_pixels=pixels).image, mask_HW)
        for pixels in (0, 6)
    )

    assert hard > 20  # or there would be no seam to hide
    assert_no_seam(own=0.0, hard=hard, feathered=feathered)


def test_prompt_and_reference_steer_the_edit(family, template):
    mask_HW = mask_of(16, 48, 32, 80)
    requests = (
        REQUEST,
        replace(REQUEST, prompt="a short boy"),
        replace(REQUEST, references=(template.crop((0, 0, 64, 64)),)),
    )

    drawn = {run(family, template, mask_HW, request).image.tobytes() for request in requests}

    assert len(drawn) == 3
