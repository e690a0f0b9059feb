"""A request can be cancelled from outside, between its steps at the latest."""

import numpy as np
import pytest
from PIL import Image

import intonaco
from intonaco.errors import GenerationCancelled


@pytest.fixture(scope="module")
def model(tiny_flux2_folder):
    return intonaco.load(tiny_flux2_folder)


def draw(model, **arguments):
    return model.generate("a hat", seed=1, width=64, height=64, num_steps=3, **arguments)


def edit(model, **arguments):
    mask = np.zeros((64, 64), dtype=bool)
    mask[:32] = True
    template = Image.new("RGB", (64, 64))
    return model.edit(template, mask, prompt="a hat", seed=1, num_steps=3, **arguments)


@pytest.mark.parametrize("work", [draw, edit])
@pytest.mark.parametrize("num_done", [0, 1, 2])
def test_no_step_is_begun_after_a_cancel(model, work, num_done):
    steps = []
    with pytest.raises(GenerationCancelled, match=f"within step {num_done + 1} of 3"):
        work(model, progress=steps.append, is_cancelled=lambda: len(steps) >= num_done)
    assert len(steps) == num_done


def test_a_request_that_nobody_cancels_draws_the_same_bytes(model):
    asked = draw(model, is_cancelled=lambda: False)
    assert asked.image.tobytes() == draw(model).image.tobytes()
