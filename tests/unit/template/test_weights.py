"""Row weights: powers of importance, with mean 1 and nothing free of charge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import RequestError
from intonaco.template.weights import (
    STEP_FLOOR,
    CodingWeights,
    from_attention,
    from_sensitivity,
    row_weights,
)
from tests.support.comparison import assert_close

ROUNDING = "float64 sums of 50 numbers near 1"


@given(st.floats(0, 1), st.integers(0, 5))
def test_row_weights_have_mean_one(exponent: float, seed: int) -> None:
    importance = np.random.default_rng(seed).lognormal(sigma=2, size=(3, 50))
    weights = row_weights(importance, exponent=exponent)
    assert_close(weights.mean(axis=-1), np.ones(3), atol=1e-12, why=ROUNDING)


def test_exponent_zero_weighs_every_row_one() -> None:
    weights = row_weights(np.array([0.0, 1.0, 100.0]), exponent=0.0)
    assert weights.tolist() == [1.0, 1.0, 1.0]


def test_a_row_that_nobody_looks_at_keeps_a_weight() -> None:
    assert row_weights(np.array([0.0, 1.0, 2.0]), exponent=1.0)[0] > 0


def test_no_importance_at_all_weighs_every_row_one() -> None:
    assert row_weights(np.zeros(4), exponent=0.5).tolist() == [1.0] * 4


@pytest.mark.parametrize("exponent", [-0.1, 1.5, np.nan])
def test_an_exponent_outside_its_range_is_refused(exponent: float) -> None:
    with pytest.raises(RequestError, match=r"exponent of row weights must lie in 0\.\.1"):
        row_weights(np.ones(3), exponent=exponent)


def test_attention_weighs_keys_and_values_alike() -> None:
    weights = from_attention(np.random.default_rng(0).lognormal(size=(4, 2, 10)))
    assert np.array_equal(weights.rows_UBN[0], weights.rows_UBN[1])


def test_steps_that_hardly_matter_keep_a_floor() -> None:
    sensitivity = np.ones((2, 3, 1, 10)) * np.array([1e-9, 0.5, 1.0])[None, :, None, None]
    weights = from_sensitivity(sensitivity)
    assert weights.units_USB[0, :, 0].tolist() == [STEP_FLOOR, 0.5, 1.0]


def test_weights_of_zero_are_refused() -> None:
    with pytest.raises(RequestError, match="units_USB must be finite and above 0"):
        CodingWeights(rows_UBN=np.ones((2, 1, 3)), units_USB=np.zeros((2, 1, 1)))
