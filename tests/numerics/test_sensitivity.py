"""Sensitivity against what it stands for: the change that a small error makes to a finished edit."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from PIL import Image

from intonaco.errors import RequestError
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_modules import load_flux2
from intonaco.families.request import GenerateRequest
from intonaco.families.template_state import StateSource
from intonaco.pipelines.edit import edit
from intonaco.template.capture import capture_in_memory
from intonaco.template.sensitivity import measure_sensitivity

REQUEST = GenerateRequest(prompt="a girl in red", seed=3, width=96, height=64, num_steps=2)
NUM_DIRECTIONS = 24
NOISE = 3e-3


@pytest.fixture(scope="module")
def family(tiny_flux2_folder):
    checkpoint = read_checkpoint(tiny_flux2_folder)
    return load_flux2(checkpoint, dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def state(family):
    pixels = np.random.default_rng(1).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    tokens_YX = np.zeros((4, 6), dtype=bool)
    tokens_YX[1:3, 2:5] = True
    return capture_in_memory(
        family,
        REQUEST,
        picture=Image.fromarray(pixels),
        tokens_YX=tokens_YX,
        model_digest="0" * 64,
    )


@pytest.fixture(scope="module")
def measured(family, state):
    return measure_sensitivity(family, state, [REQUEST], num_directions=NUM_DIRECTIONS)


@dataclass(frozen=True)
class _Disturbed:
    """A source with noise on one unit."""

    inner: StateSource
    place: tuple[int, int, int]
    noise: torch.Tensor

    @property
    def shape(self):
        return self.inner.shape

    def read(self, step, block, /):
        kind = self.place[0]
        unit = list(self.inner.read(step, block))
        if (step, block) == self.place[1:]:
            unit[kind] = unit[kind] + self.noise
        return tuple(unit)


def _latents(family, state, source):
    mask_HW = np.kron(state.tokens_YX, np.ones((16, 16), dtype=bool))
    reuse = replace(state.reuse(), source=source)
    result = edit(family, REQUEST, template=state.picture, mask_HW=mask_HW, reuse=reuse)
    return result.generation.latents[:, torch.from_numpy(state.tokens_YX.reshape(-1))]


@pytest.mark.parametrize("place", [(0, 1, 0), (1, 0, 1), (1, 1, 2)])
def test_noise_changes_an_edit_as_much_as_sensitivity_says(family, state, measured, place):
    shape = state.source.shape
    plain = _latents(family, state, state.source)
    generator = torch.Generator().manual_seed(0)
    changes = []
    for _ in range(12):
        noise = NOISE * torch.randn(shape.num_rows, shape.width, generator=generator)
        disturbed = _Disturbed(state.source, place, noise)
        changes.append(float((_latents(family, state, disturbed) - plain).square().sum()))
    predicted = NOISE**2 * float(measured[place].sum())
    # Both are means over a few random draws; their spread is under a quarter each.
    assert 0.5 < np.mean(changes) / predicted < 2.0


def test_sensitivity_has_a_number_for_every_row_of_every_unit(state, measured):
    shape = state.source.shape
    assert measured.shape == (2, shape.num_steps, shape.num_blocks, shape.num_rows)
    assert np.isfinite(measured).all()
    assert (measured >= 0).all()


def test_measuring_leaves_the_state_without_gradients(state, measured):
    assert not any(unit.requires_grad for unit in state.source.read(0, 0))


def test_no_request_is_refused(family, state):
    with pytest.raises(RequestError, match="1 request and 1 direction"):
        measure_sensitivity(family, state, [])
