"""Every way to read a bit-plane gives what docs/template-codec.md says, and refuses the same bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from intonaco.errors import PackDamagedError, PackError
from intonaco.template.fast_planes import MIN_COMPILED_BYTES, plane_decoder_for
from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.plane_decoding import DecodePlane
from intonaco.template.planes import Codes, codes_of, decode_planes, encode_planes, first_exponent
from tests.support.plane_decoders import WAYS, decoder_of, needs_numba, plane_of
from tests.support.plane_reference import RefusedError, reference_plane

NUM_PLANES = 7
VALUES = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 40)),
    elements=st.floats(-100, 100, allow_nan=False, width=32),
)
# Written on 2026-11-30 by the first decoder's encoder; `GOLDEN` and `SIGNS` are what went in.
GOLDEN_PAYLOAD = bytes.fromhex(
    "0300fe0580000116 99b05600a0000190 78e92e4090000120 a6df51b0b00001bb bad13584a0000100"
    "d0a55a34da000143 9e324050c0d80001 682f5773db68"
)
GOLDEN = [[0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89], [0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3], [0] * 11]
SIGNS = [[0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1], [0] * 11]
# One vector of nine numbers: exponents, probability 7, two words at the very end of the range.
WORDS_BEYOND_THE_RANGE = bytes([0, 0, 0x70, 2]) + b"\xff" * 8 + bytes(2)


@pytest.fixture(params=WAYS)
def decode(request: pytest.FixtureRequest) -> DecodePlane:
    return plane_of(request.param)


def _codes(values: np.ndarray) -> Codes:
    return codes_of(
        values,
        exponent=first_exponent(values),
        vector_exponents_R=np.zeros(len(values), np.int8),
        num_planes=NUM_PLANES,
    )


def _reference(payload: bytes, shape: tuple[int, int]) -> tuple[list, list] | None:
    """Return magnitudes and signs, or None where the payload is refused."""
    magnitudes = [[0] * shape[1] for _ in range(shape[0])]
    is_negative = [[False] * shape[1] for _ in range(shape[0])]
    at = 1 + shape[0]
    try:
        for _ in range(NUM_PLANES):
            at = reference_plane(payload, at, magnitudes, is_negative)
    except (RefusedError, PackError, StopIteration):
        return None
    return (magnitudes, is_negative) if at == len(payload) else None


def _decoded(
    payload: bytes, shape: tuple[int, int], decode: DecodePlane
) -> tuple[list, list] | None:
    try:
        codes = decode_planes(payload, None, shape=shape, num_planes=NUM_PLANES, decode=decode)
    except PackError:
        return None
    return codes.magnitudes_RL.tolist(), codes.is_negative_RL.tolist()


def test_golden_planes_are_read_as_ever(decode: DecodePlane) -> None:
    codes = decode_planes(GOLDEN_PAYLOAD, None, shape=(3, 11), num_planes=7, decode=decode)
    assert codes.magnitudes_RL.tolist() == GOLDEN
    assert codes.is_negative_RL.tolist() == np.array(SIGNS, np.bool_).tolist()


def test_golden_planes_are_written_as_ever() -> None:
    codes = Codes(
        magnitudes_RL=np.array(GOLDEN, np.int32),
        is_negative_RL=np.array(SIGNS, np.bool_),
        exponent=3,
        vector_exponents_R=np.array([0, -2, 5], np.int8),
        num_planes=7,
    )
    assert encode_planes(codes, first_plane=0) == GOLDEN_PAYLOAD


def test_planes_are_read_as_the_docs_say(decode: DecodePlane) -> None:
    @settings(max_examples=60, deadline=None)
    @given(VALUES)
    def check(values: np.ndarray) -> None:
        payload = encode_planes(_codes(values), first_plane=0)
        expected = _reference(payload, values.shape)
        assert expected is not None
        assert _decoded(payload, values.shape, decode) == expected

    check()


def test_damaged_planes_are_read_or_refused_as_the_docs_say(decode: DecodePlane) -> None:
    @settings(max_examples=200, deadline=None)
    @given(VALUES, st.data())
    def check(values: np.ndarray, data: st.DataObject) -> None:
        payload = bytearray(encode_planes(_codes(values), first_plane=0))
        start = 1 + len(values)
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(start, len(payload) - 1))
            payload[place] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(start, len(payload)) | st.just(len(payload)))
        damaged = bytes(payload[:cut])
        assert _decoded(damaged, values.shape, decode) == _reference(damaged, values.shape)

    check()


def test_words_beyond_the_range_are_refused(decode: DecodePlane) -> None:
    with pytest.raises(PackDamagedError, match="that no writer makes"):
        decode_planes(WORDS_BEYOND_THE_RANGE, None, shape=(1, 9), num_planes=1, decode=decode)


def test_what_was_known_stays_as_it_is(decode: DecodePlane) -> None:
    whole = _codes(np.random.default_rng(2).laplace(size=(4, 30)))
    first = encode_planes(whole, first_plane=0)
    known = decode_planes(first, None, shape=(4, 30), num_planes=NUM_PLANES, decode=decode)
    before = known.magnitudes_RL.tolist()
    with pytest.raises(PackError):
        decode_planes(bytes(2), known, shape=(4, 30), num_planes=1, decode=decode)
    assert known.magnitudes_RL.tolist() == before


def test_small_templates_are_read_without_compiled_code() -> None:
    assert plane_decoder_for(MIN_COMPILED_BYTES - 1) is PlainDecoder


@needs_numba
def test_large_templates_are_read_by_compiled_code() -> None:
    assert plane_decoder_for(MIN_COMPILED_BYTES) is decoder_of("compiled")


@needs_numba
def test_a_process_that_stays_reads_all_templates_by_compiled_code() -> None:
    assert plane_decoder_for(1, is_resident=True) is decoder_of("compiled")
