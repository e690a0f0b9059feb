"""Edits on template state against the dense edit: the same picture where the same is computed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from intonaco.errors import PictureError, RequestError, UnsupportedError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.pipelines.edit import edit
from intonaco.pipelines.generate import generate
from intonaco.template.capture import capture_in_memory
from tests.support.comparison import assert_close
from tests.support.tiny_flux2 import build_tiny_flux2

REQUEST = GenerateRequest(prompt="a girl in red", seed=3, width=96, height=64, num_steps=3)
WHY = "float32 sums over other matrix sizes, a few units in the last place per step"


@pytest.fixture(scope="module")
def family(tiny_flux2_folder):
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_flux2(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def picture():
    return random_picture(96, 64, seed=1)


@pytest.fixture(scope="module")
def state(family, picture):
    return capture(family, picture, tokens(slice(1, 3), slice(2, 5)))


def random_picture(width, height, *, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def tokens(rows, columns):
    tokens_YX = np.zeros((4, 6), dtype=bool)
    tokens_YX[rows, columns] = True
    return tokens_YX


def pixels(tokens_YX):
    return np.kron(tokens_YX, np.ones((16, 16), dtype=bool))


def capture(family, picture, tokens_YX, request=REQUEST):
    return capture_in_memory(
        family, request, picture=picture, tokens_YX=tokens_YX, model_digest="0" * 64
    )


def run(family, state, request=REQUEST, mask_HW=None, **more):
    mask_HW = pixels(state.tokens_YX) if mask_HW is None else mask_HW
    reuse = more.pop("reuse", state.reuse())
    return edit(family, request, template=state.picture, mask_HW=mask_HW, reuse=reuse, **more)


def dense(family, state, request=REQUEST, mask_HW=None):
    return run(family, state, request, mask_HW, reuse=replace(state.reuse(), source=None))


def test_a_tapped_run_computes_what_the_plain_one_does(family, picture):
    runs = state_runs(family)

    assert torch.equal(
        generate(runs.tapped(24), REQUEST).latents, generate(family, REQUEST).latents
    )


@pytest.mark.usefixtures("each_number_of_threads")
def test_the_capturing_request_draws_the_dense_edit(family, state):
    actual, expected = (
        run(family, state),
        edit(family, REQUEST, template=state.picture, mask_HW=pixels(state.tokens_YX)),
    )

    assert_close(actual.generation.latents, expected.generation.latents, atol=2e-5, why=WHY)
    assert_close(actual.image, expected.image, atol=1, why="one byte of rounding to a pixel")


def test_kept_latents_end_as_the_templates_own(family, state):
    latents = run(family, state).generation.latents

    kept = torch.from_numpy(~state.tokens_YX.reshape(-1))
    assert torch.equal(latents[:, kept], state.clean[:, kept])


def test_a_pixel_outside_the_mask_is_the_templates_own(family, state):
    request = replace(REQUEST, prompt="a tall boy with green hair", seed=11)
    edited = np.asarray(run(family, state, request).image)

    outside = ~pixels(state.tokens_YX)
    assert (edited[outside] == np.asarray(state.picture)[outside]).all()
    assert (edited[~outside] != np.asarray(state.picture)[~outside]).any()


def test_a_template_that_keeps_nothing_is_plain_generation(family, picture):
    state = capture(family, picture, tokens(slice(None), slice(None)))
    request = replace(REQUEST, prompt="a tall boy", seed=11)

    actual, expected = run(family, state, request), generate(family, request)
    assert state.source.shape.num_rows == 0
    assert_close(actual.generation.latents, expected.latents, atol=2e-5, why=WHY)


def test_an_empty_mask_returns_the_template(family, state):
    edited = run(family, state, mask_HW=np.zeros((64, 96), dtype=bool))

    assert edited.image.tobytes() == state.picture.tobytes()
    assert edited.generation is None


def test_a_mask_inside_the_templates_mask_changes_only_its_own_tokens(family, state):
    mask_HW = pixels(tokens(slice(1, 2), slice(3, 4)))
    latents = run(family, state, mask_HW=mask_HW).generation.latents

    changed = (latents != state.clean).any(dim=-1)[0].reshape(4, 6).numpy()
    assert (changed == tokens(slice(1, 2), slice(3, 4))).all()


def test_a_mask_outside_the_templates_mask_is_refused(family, state):
    with pytest.raises(PictureError, match="1 of its 1 tokens do not"):
        run(family, state, mask_HW=pixels(tokens(slice(0, 1), slice(0, 1))))


def test_references_are_read_beside_the_state(family, state):
    request = replace(REQUEST, references=(random_picture(64, 80, seed=2),))
    actual, expected = run(family, state, request), dense(family, state, request)

    # The state was captured without the reference: near, and not equal.
    difference = (actual.generation.latents - expected.generation.latents).abs().max()
    plain = (run(family, state).generation.latents - actual.generation.latents).abs().max()
    assert 0 < difference < plain


def test_another_seed_draws_other_noise_only_inside_the_mask(family, state):
    # The dense edit takes the template's noise outside the mask, whatever the request's seed.
    request = replace(REQUEST, seed=12)
    recaptured = capture(family, state.picture, state.tokens_YX, request)
    expected = dense(family, recaptured, REQUEST).generation.latents
    actual = edit(
        family, REQUEST, template=state.picture, mask_HW=pixels(state.tokens_YX)
    ).generation.latents

    assert not torch.equal(actual, expected)


def test_a_source_reference_is_refused_with_state(family, state):
    with pytest.raises(RequestError, match="has_source_reference must be False"):
        run(family, state, has_source_reference=True)


def test_state_of_another_shape_is_refused_with_every_reason(family, state):
    is_edited_I = tokens(slice(0, 1), slice(0, 1)).reshape(-1)

    with pytest.raises(RequestError, match=r"num_rows 18 \(needs 23\)"):
        state_runs(family).reusing(state.source, is_edited_I)


def test_guidance_is_refused_with_state(tmp_path, picture):
    folder = build_tiny_flux2(tmp_path / "guided", is_distilled=False)
    family = load_flux2(read_checkpoint(folder), dtype=torch.float32, device=torch.device("cpu"))
    request = replace(REQUEST, guidance_scale=4.0)
    with pytest.raises(RequestError, match="guidance_scale must be at most 1"):
        capture(family, picture, tokens(slice(1, 3), slice(2, 5)), request)


def test_a_family_without_a_tap_is_refused(family):
    class Other:
        name = "other"

    with pytest.raises(UnsupportedError, match="got other"):
        state_runs(Other())
