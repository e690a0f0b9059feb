"""Strands as planes: exact codes, every cut decodes, the coder is the one that the docs describe."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from intonaco.errors import PackDamagedError, PackError
from intonaco.template.planes import (
    Codes,
    codes_of,
    decode_planes,
    encode_planes,
    first_exponent,
    split_planes,
)

NUMBERS = st.floats(-100, 100, allow_nan=False, width=32)


def _codes(values: np.ndarray, num_planes: int = 8) -> Codes:
    exponents = np.zeros(len(values), np.int8)
    return codes_of(
        values,
        exponent=first_exponent(values),
        vector_exponents_R=exponents,
        num_planes=num_planes,
    )


def _same(left: Codes, right: Codes) -> bool:
    return (
        np.array_equal(left.magnitudes_RL, right.magnitudes_RL)
        and np.array_equal(left.is_negative_RL, right.is_negative_RL)
        and left.exponent == right.exponent
        and left.num_planes == right.num_planes
    )


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 40)), elements=NUMBERS))
def test_planes_bring_back_the_codes(values: np.ndarray) -> None:
    codes = _codes(values)
    payload = encode_planes(codes, first_plane=0)
    assert _same(decode_planes(payload, None, shape=values.shape, num_planes=8), codes)


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=NUMBERS),
    st.integers(1, 7),
)
def test_planes_in_two_increments_are_planes_in_one(values: np.ndarray, first: int) -> None:
    codes = _codes(values)
    cut = list(split_planes(codes))[first - 1]
    known = decode_planes(
        encode_planes(cut, first_plane=0), None, shape=values.shape, num_planes=first
    )
    rest = encode_planes(codes, first_plane=first)
    whole = decode_planes(rest, known, shape=values.shape, num_planes=8 - first)
    assert _same(whole, codes)


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=NUMBERS))
def test_a_cut_of_the_codes_is_the_coarser_code(values: np.ndarray) -> None:
    finest = _codes(values, 10)
    for cut in split_planes(finest):
        assert _same(cut, _codes(values, cut.num_planes))


def test_each_plane_brings_numbers_nearer() -> None:
    values = np.random.default_rng(0).laplace(size=(6, 200))
    errors = [float(((cut.values() - values) ** 2).sum()) for cut in split_planes(_codes(values))]
    assert errors == sorted(errors, reverse=True)


def test_zeros_cost_a_few_bytes_and_come_back_as_zeros() -> None:
    codes = _codes(np.zeros((4, 100)))
    payload = encode_planes(codes, first_plane=0)
    # 1 + 4 exponents, then 8 planes of 2 bytes of probabilities and a word count.
    assert len(payload) == 5 + 8 * 3
    known = decode_planes(payload, None, shape=(4, 100), num_planes=8)
    assert not known.values().any()


def test_a_payload_with_bytes_left_over_is_refused() -> None:
    payload = encode_planes(_codes(np.ones((1, 3))), first_plane=0)
    with pytest.raises(PackDamagedError, match="holds planes of"):
        decode_planes(payload + b"\0", None, shape=(1, 3), num_planes=8)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_codes_or_are_refused(payload: bytes) -> None:
    try:
        codes = decode_planes(payload, None, shape=(3, 17), num_planes=2)
    except PackError:
        return
    assert np.isfinite(codes.values()).all()
