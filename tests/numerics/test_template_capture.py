"""Capture on a tiny random model: to a folder as in memory, and what profiling sees."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from intonaco.errors import PictureError, RequestError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.request import GenerateRequest
from intonaco.template.capture import capture_in_memory, capture_to_folder
from intonaco.template.importance import profile

REQUEST = GenerateRequest(prompt="a girl in red", seed=3, width=64, height=64, num_steps=2)
TOKENS = np.zeros((4, 4), dtype=bool)
TOKENS[1:3, 1:3] = True


@pytest.fixture(scope="module")
def family(tiny_flux2_folder):
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_flux2(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def picture():
    pixels = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def state(family, picture):
    return capture(family, picture)


def capture(family, picture, request=REQUEST, tokens_YX=TOKENS):
    return capture_in_memory(
        family, request, picture=picture, tokens_YX=tokens_YX, model_digest="0" * 64
    )


def test_a_folder_holds_what_memory_holds(family, picture, state, tmp_path):
    stored = capture_to_folder(
        family, REQUEST, tmp_path, picture=picture, tokens_YX=TOKENS, model_digest="0" * 64
    )

    assert stored.identity == state.identity
    shape = state.source.shape
    for step in range(shape.num_steps):
        for block in range(shape.num_blocks):
            for got, kept in zip(
                stored.source.read(step, block), state.source.read(step, block), strict=True
            ):
                assert torch.equal(got, kept)


def test_state_has_a_row_per_kept_token(state):
    shape = state.source.shape

    assert (shape.num_steps, shape.num_blocks, shape.num_rows, shape.width) == (2, 3, 12, 64)
    assert state.num_bytes == 2 * 2 * 3 * 12 * 64 * 4


def test_another_prompt_captures_other_state_under_another_identity(family, picture, state):
    other = capture(family, picture, replace(REQUEST, prompt="a tall boy"))

    assert other.identity.digest != state.identity.digest
    assert not torch.equal(other.source.read(1, 2)[0], state.source.read(1, 2)[0])


def test_the_first_block_of_a_template_knows_no_prompt(family, picture, state):
    other = capture(family, picture, replace(REQUEST, prompt="a tall boy"))

    # Kept tokens have met nothing else there yet: its state is right for every edit.
    assert torch.equal(other.source.read(1, 0)[0], state.source.read(1, 0)[0])


def test_profiling_weighs_every_kept_token_in_every_block(family, state):
    found = profile(family, state, [replace(REQUEST, seed=8), replace(REQUEST, seed=9)])

    assert found.per_request_RSBN.shape == (2, 2, 3, 12)
    assert (found.per_request_RSBN > 0).all()
    assert (found.per_request_RSBN[0] != found.per_request_RSBN[1]).any()


def test_profiling_needs_a_request(family, state):
    with pytest.raises(RequestError, match="requests must hold one profiling request or more"):
        profile(family, state, [])


def test_references_are_refused_in_a_capture(family, picture):
    with pytest.raises(RequestError, match="references must be empty in a capture, got 1"):
        capture(family, picture, replace(REQUEST, references=(picture,)))


def test_a_template_that_leaves_nothing_to_edits_is_refused(family, picture):
    with pytest.raises(PictureError, match="must leave tokens to edits"):
        capture(family, picture, tokens_YX=np.zeros((4, 4), dtype=bool))


def test_a_mask_of_another_grid_is_refused(family, picture):
    with pytest.raises(PictureError, match=r"mask must have \(4, 4\) tokens"):
        capture(family, picture, tokens_YX=np.ones((4, 6), dtype=bool))
