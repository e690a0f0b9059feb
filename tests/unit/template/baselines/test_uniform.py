"""Integers and CacheGen: grids, and bytes that count what travels beside the codes."""

import numpy as np
import pytest

from intonaco.template.baselines.uniform import LEVELS, Level, cachegen, integers
from tests.support.states import make_states

STATES = np.stack(make_states())


def test_integers_count_the_range_of_every_row() -> None:
    rows = STATES[..., 0].size
    assert integers(STATES, bits=2).num_bytes == STATES.size // 4 + 4 * rows


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_integers_err_by_half_a_step_at_most(bits: int) -> None:
    found = integers(STATES, bits=bits).states
    step = np.ptp(STATES, axis=-1, keepdims=True) / (2**bits - 1)
    # Ranges are float16: an end may be off by a thousandth of the largest number.
    slack = 2e-3 * float(np.abs(STATES).max())
    assert (np.abs(found - STATES) <= step / 2 + slack).all()


def test_a_state_of_one_value_costs_no_entropy() -> None:
    flat = np.ones((2, 1, 3, 4, 8), np.float32)
    level = Level(key_bins=(4, 4, 4), value_bins=(4, 4, 4))
    # Tables of 4 bins for 2 kinds x 3 blocks x 8 channels, and 24 largest magnitudes.
    assert cachegen(flat, level).num_bytes == 4 * 2 * 3 * 8 + 2 * 24


def test_coarser_levels_are_smaller() -> None:
    sizes = [cachegen(STATES, level).num_bytes for level in LEVELS]
    assert sizes == sorted(sizes, reverse=True)


def test_a_level_keeps_the_largest_number_of_a_row() -> None:
    found = cachegen(STATES, LEVELS[0]).states
    largest = np.abs(STATES).max(axis=-1)
    assert np.allclose(np.abs(found).max(axis=-1), largest, rtol=1e-3)
