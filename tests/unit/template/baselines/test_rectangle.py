"""The paper's pack: bytes, nested quantizers, additive errors, plain and weighted factors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from intonaco.template.baselines.quantizer import codes, gains, midpoints, quantize
from intonaco.template.baselines.rectangle import (
    choose,
    factorize_unit,
    rectangle_bytes,
    table,
)
from tests.support.comparison import assert_close
from tests.support.states import ROWS, WIDTH, make_states

UNIT = make_states()[0][0, 0].astype(np.float64)
WEIGHTS = np.random.default_rng(5).lognormal(size=ROWS)


@pytest.mark.parametrize(
    ("num_components", "bits_a", "bits_b", "num_bytes"),
    [
        (34, 8, 8, 151_188),
        (64, 4, 4, 143_168),
        (120, 2, 2, 135_624),
        (256, 6, 4, 629_760),
        (512, 8, 8, 2_190_336),
    ],
)
def test_bytes_of_a_unit_of_the_papers_model(
    num_components: int, bits_a: int, bits_b: int, num_bytes: int
) -> None:
    found = rectangle_bytes(num_components, bits_a, bits_b, num_rows=1178, width=3072)
    assert found == num_bytes


@settings(deadline=None)
@given(
    arrays(np.float64, (2, 20), elements=st.floats(-1, 1)),
    st.sampled_from([2, 3, 4, 6]),
)
def test_leading_bits_are_the_code_of_the_coarser_quantizer(values: np.ndarray, bits: int) -> None:
    nested = codes(values, np.ones(2)) >> (8 - bits)
    direct = np.clip(np.floor((values + 1) * 2 ** (bits - 1)), 0, 2**bits - 1)
    assert np.array_equal(nested, direct)


def test_a_gain_is_the_factor_of_least_weighted_error() -> None:
    random = np.random.default_rng(0)
    values, weights = random.standard_normal((1, 200)), random.lognormal(size=200)
    y = midpoints(codes(values, np.array([4.0])), bits=2)
    best = gains(values, y, weights)[0]
    errors = [
        float((weights * (values - g * y) ** 2).sum()) for g in (best, best * 1.01, best * 0.99)
    ]
    assert errors[0] == min(errors)


def test_mid_points_at_two_bits_are_worse_than_a_gain() -> None:
    values = np.random.default_rng(0).standard_t(5, size=(1, 2000))
    peak = np.abs(values).max(axis=1)
    y = midpoints(codes(values, peak), bits=2)
    plain = float(((values - peak[:, None] * y) ** 2).sum())
    assert plain > float((values**2).sum())
    assert quantize(values, np.ones(2000), bits=2).errors[0] < float((values**2).sum())


@pytest.mark.parametrize("bits", [2, 3, 4, 6])
def test_more_bits_never_add_error(bits: int) -> None:
    values = np.random.default_rng(2).laplace(size=(8, 300))
    finer = {2: 3, 3: 4, 4: 6, 6: 8}[bits]
    coarse, fine = (quantize(values, np.ones(300), bits=b).errors for b in (bits, finer))
    assert (fine <= coarse).all()


def test_coefficients_are_left_singular_vectors_without_the_weights() -> None:
    unit = factorize_unit(UNIT, WEIGHTS, max_components=8)
    centred = UNIT - unit.mean_d
    left, singular, _ = np.linalg.svd(np.sqrt(WEIGHTS)[:, None] * centred, full_matrices=False)
    expected = np.abs(left[:, :8] * singular[:8] / np.sqrt(WEIGHTS)[:, None])
    found = np.abs(unit.coefficients[8].values.T)
    # Eight bits clip and round: 40 dB below the numbers themselves is what they keep at least.
    assert float(((found - expected) ** 2).sum()) < 1e-3 * float((expected**2).sum())


def test_equal_weights_give_plain_factors_bit_for_bit() -> None:
    plain = factorize_unit(UNIT, np.ones(ROWS), max_components=8)
    flat = factorize_unit(UNIT, np.full(ROWS, 1.0) ** 0.0, max_components=8)
    assert np.array_equal(plain.basis[8].values, flat.basis[8].values)
    assert np.array_equal(plain.coefficients[8].values, flat.coefficients[8].values)


def test_weighted_factors_are_never_worse_in_weighted_error() -> None:
    plain = factorize_unit(UNIT, np.ones(ROWS), max_components=ROWS)
    weighted = factorize_unit(UNIT, WEIGHTS, max_components=ROWS)
    centred = UNIT - plain.mean_d
    _, _, right = np.linalg.svd(centred, full_matrices=False)
    for r in (1, 2, 4, 8):
        kept = centred @ right[:r].T @ right[:r]
        plain_error = float((WEIGHTS[:, None] * (centred - kept) ** 2).sum())
        assert float(weighted.squared_singular_values[r:].sum()) <= plain_error


def test_weights_are_nowhere_in_the_bytes() -> None:
    sizes = [
        {(c.num_components, c.bits_a, c.bits_b, c.mean_bits): c.num_bytes for c in points}
        for points in (
            table(factorize_unit(UNIT, w, max_components=8), num_rows=ROWS, width=WIDTH)
            for w in (np.ones(ROWS), WEIGHTS)
        )
    ]
    shared = sizes[0].keys() & sizes[1].keys()
    assert shared
    assert all(sizes[0][one] == sizes[1][one] for one in shared)


def test_the_tables_error_is_that_of_the_matrix() -> None:
    unit = factorize_unit(UNIT, WEIGHTS, max_components=8)
    for point in table(unit, num_rows=ROWS, width=WIDTH):
        if min(point.bits_a, point.bits_b) < 6:
            continue
        error = float((WEIGHTS[:, None] * (unit.matrix(point) - UNIT) ** 2).sum())
        assert_close(
            point.error,
            error,
            atol=0.1 * error + 1e-3,
            why="errors of mean, components and sides count as independent; on 20 rows they are not quite",
        )


def test_a_larger_budget_is_never_worse() -> None:
    tables = [
        table(factorize_unit(unit, np.ones(ROWS), max_components=8), num_rows=ROWS, width=WIDTH)
        for unit in make_states()[0][:, 0].astype(np.float64)
    ]
    errors = [
        sum(point.error for point in choose(tables, budget_bytes=budget))
        for budget in (300, 600, 1200, 2400)
    ]
    assert errors == sorted(errors, reverse=True)
