"""Coding a template: exact errors, ladders that never get worse, prefixes that decode."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intonaco.errors import RequestError
from intonaco.template.coded import CodedTemplate
from intonaco.template.decoder import StateDecoder, decode_all
from intonaco.template.encode import CodingSettings, encode
from intonaco.template.factorize import factorize
from intonaco.template.ladder import HEAD_BYTES, UnitToCode, build_ladder
from intonaco.template.weights import CodingWeights, from_attention, uniform
from tests.support.comparison import assert_close
from tests.support.states import BLOCKS, ROWS, STEPS, WIDTH, make_states

KEYS, VALUES = make_states()
ONE_GROUP = CodingSettings(block_groups=((0, 1),), smallest_ratio=1.5)


def _weights(seed: int = 1) -> CodingWeights:
    random = np.random.default_rng(seed)
    rows = random.lognormal(size=(2, BLOCKS, ROWS))
    return CodingWeights(
        rows_UBN=rows / rows.mean(axis=-1, keepdims=True),
        units_USB=random.lognormal(size=(2, STEPS, BLOCKS)),
    )


WEIGHTS = _weights()


@cache
def _coded() -> CodedTemplate:
    return encode(KEYS, VALUES, WEIGHTS, ONE_GROUP)


@pytest.fixture
def coded() -> CodedTemplate:
    return _coded()


def _decoder() -> StateDecoder:
    return StateDecoder(num_steps=STEPS, num_blocks=BLOCKS, num_rows=ROWS, width=WIDTH)


def _states(decoder: StateDecoder) -> np.ndarray:
    found = np.zeros((2, STEPS, BLOCKS, ROWS, WIDTH))
    for step, block in np.ndindex(STEPS, BLOCKS):
        found[:, step, block] = decoder.read(step, block)
    return found


def _relative_error(states: np.ndarray) -> float:
    truth = np.stack([KEYS, VALUES])
    return float(((states - truth) ** 2).sum() / (truth**2).sum())


def test_all_of_a_ladder_is_nearly_the_state(coded: CodedTemplate) -> None:
    decoder = decode_all(_decoder(), coded.bases[0].increments)
    assert _relative_error(_states(decoder)) < 1e-4


def test_error_never_rises_along_a_ladder(coded: CodedTemplate) -> None:
    ladder = coded.bases[0]
    errors = [ladder.start_error, *(increment.error for increment in ladder.increments)]
    assert errors == sorted(errors, reverse=True)


def test_a_ladder_falls_most_per_byte_first(coded: CodedTemplate) -> None:
    increments = coded.bases[0].increments
    half = next(
        index
        for index, increment in enumerate(increments)
        if increment.error < 0.05 * coded.bases[0].start_error
    )
    first, rest = increments[: half + 1], increments[half + 1 :]
    assert sum(len(one.payload) for one in first) < sum(len(one.payload) for one in rest)


@settings(max_examples=12, deadline=None)
@given(st.floats(0, 1))
def test_the_recorded_error_is_that_of_the_decoded_state(share: float) -> None:
    ladder = _coded().bases[0]
    count = max(ladder.floor, round(share * len(ladder.increments)))
    decoder = decode_all(_decoder(), ladder.increments[:count])
    truth = np.stack([KEYS, VALUES]).astype(np.float64)
    error = 0.0
    for kind, block in np.ndindex(2, BLOCKS):
        factors = factorize(
            truth[kind, :, block],
            row_weights_N=WEIGHTS.rows_UBN[kind, block],
            step_weights_S=WEIGHTS.units_USB[kind, :, block],
        )
        scales = np.outer(factors.frame.step_scales, factors.frame.row_scales) ** 2
        difference = _states(decoder)[kind, :, block] - truth[kind, :, block]
        error += float((scales[:, :, None] * difference**2).sum())
    recorded = ladder.increments[count - 1].error if count else ladder.start_error
    allowed = 0.03 * ladder.start_error if count < 20 else 0.1 * recorded
    assert_close(
        recorded,
        error,
        atol=allowed + 1e-6,
        why="mean and rest count as independent, profiles in 127ths are not quite orthonormal",
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 400))
def test_every_prefix_decodes_to_finite_numbers(count: int) -> None:
    decoder = decode_all(_decoder(), _coded().bases[0].increments[:count])
    assert np.isfinite(_states(decoder)).all()


def test_feeding_on_from_a_prefix_is_feeding_it_all(coded: CodedTemplate) -> None:
    increments = coded.bases[0].increments
    decoder = decode_all(_decoder(), increments[:30])
    decoder.read(0, 0)
    decode_all(decoder, increments[30:])
    assert np.array_equal(_states(decoder), _states(decode_all(_decoder(), increments)))


def test_nothing_at_all_decodes_to_zeros() -> None:
    assert not _states(_decoder()).any()


def test_equal_states_give_equal_bytes() -> None:
    assert encode(KEYS, VALUES, WEIGHTS, ONE_GROUP) == _coded()


def test_steps_that_share_everything_need_no_bytes_of_their_own(coded: CodedTemplate) -> None:
    assert not any(ladder.increments for row in coded.coefficients for ladder in row)


def test_exponent_zero_is_no_weighting_bit_for_bit() -> None:
    importance = np.random.default_rng(3).lognormal(size=(STEPS, BLOCKS, ROWS))
    flat = from_attention(importance, exponent=0.0)
    none = uniform(num_steps=STEPS, num_blocks=BLOCKS, num_rows=ROWS)
    small = CodingSettings(block_groups=((0, 1),), smallest_ratio=10)
    assert encode(KEYS, VALUES, flat, small) == encode(KEYS, VALUES, none, small)


def test_sharing_coefficients_over_steps_leaves_less_error_at_equal_bytes() -> None:
    shared, apart = (
        encode(
            KEYS,
            VALUES,
            WEIGHTS,
            CodingSettings(
                block_groups=((0, 1),), smallest_ratio=12, shares_coefficients=shares_coefficients
            ),
        )
        for shares_coefficients in (True, False)
    )
    assert shared.bases[0].increments[-1].error < apart.bases[0].increments[-1].error


def test_a_ladder_ends_at_the_smallest_ratio() -> None:
    settings = CodingSettings(block_groups=((0, 1),), smallest_ratio=10)
    ladder = encode(KEYS, VALUES, WEIGHTS, settings).bases[0]
    num_bytes = sum(len(one.payload) for one in ladder.increments)
    assert num_bytes <= 2 * 2 * KEYS.size / 10


def test_the_floor_is_what_fits_its_bytes_and_every_frame() -> None:
    units = [
        UnitToCode(
            block=0,
            kind=kind,
            factors=factorize(
                states[:, 0], row_weights_N=np.ones(ROWS), step_weights_S=np.ones(STEPS)
            ),
        )
        for kind, states in enumerate((KEYS, VALUES))
    ]
    small, large = (
        build_ladder(units, finest_exponent=-4, floor_bytes=floor_bytes) for floor_bytes in (0, 600)
    )
    used = sum(len(one.payload) + HEAD_BYTES for one in large.increments[: large.floor])
    beyond = used + len(large.increments[large.floor].payload) + HEAD_BYTES
    assert (small.floor, used <= 600 < beyond) == (2, True)


def test_rows_of_weight_come_back_better_when_weighted() -> None:
    settings = CodingSettings(block_groups=((0, 1),), smallest_ratio=8)
    plain = uniform(num_steps=STEPS, num_blocks=BLOCKS, num_rows=ROWS)
    rows = np.where(np.arange(ROWS) < ROWS // 4, 1.0, 0.01) * np.ones((2, BLOCKS, 1))
    weighted = CodingWeights(rows_UBN=rows, units_USB=plain.units_USB)
    errors: list[float] = []
    for weights in (weighted, plain):
        ladder = encode(KEYS, VALUES, weights, settings).bases[0]
        difference = _states(decode_all(_decoder(), ladder.increments)) - np.stack([KEYS, VALUES])
        errors.append(float((rows[:, None, :, :, None] * difference**2).sum()))
    assert errors[0] < errors[1]


def test_states_that_are_not_finite_are_refused() -> None:
    broken = KEYS.copy()
    broken[0, 0, 0, 0] = np.nan
    with pytest.raises(RequestError, match="must be finite"):
        encode(broken, VALUES, WEIGHTS, ONE_GROUP)


def test_states_of_two_shapes_are_refused() -> None:
    with pytest.raises(RequestError, match="of one shape"):
        encode(KEYS[:2], VALUES, WEIGHTS, ONE_GROUP)


def test_a_ratio_below_one_is_refused() -> None:
    with pytest.raises(RequestError, match="smallest_ratio must be at least 1"):
        CodingSettings(block_groups=((0,),), smallest_ratio=0.5)


def test_what_more_steps_than_profiles_lose_counts_as_error() -> None:
    many = np.random.default_rng(0).standard_normal((12, 10, 6))
    factors = factorize(many, row_weights_N=np.ones(10), step_weights_S=np.ones(12))
    kept = np.einsum(
        "qs,qrn,rd->snd", factors.frame.profiles, factors.coefficients_QRN, factors.basis_Rd
    )
    rest = float(((many - factors.mean_d - kept) ** 2).sum())
    assert_close(factors.lost, rest, atol=1e-9, why="float64 sums of 720 numbers")


def test_unshared_coefficients_of_many_steps_are_refused() -> None:
    many = np.ones((9, 5, 4))
    with pytest.raises(RequestError, match="shares_coefficients must be True"):
        factorize(
            many,
            row_weights_N=np.ones(5),
            step_weights_S=np.ones(9),
            shares_coefficients=False,
        )


def test_states_of_fewer_rows_than_a_component_group_ends_with_can_be_read() -> None:
    """Three rows of two steps span six components; a reader takes the group of the fifth as four."""
    states = KEYS[:2, 0, :3]
    factors = factorize(states, row_weights_N=np.ones(3), step_weights_S=np.ones(2))
    ladder = build_ladder([UnitToCode(block=0, kind=0, factors=factors)], finest_exponent=-12)
    decoder = StateDecoder(num_steps=2, num_blocks=1, num_rows=3, width=WIDTH)
    got, _ = decode_all(decoder, ladder.increments).read(0, 0)
    assert ((got - states[0]) ** 2).sum() < 1e-4 * (states[0] ** 2).sum()
