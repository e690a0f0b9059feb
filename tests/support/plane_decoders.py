"""Both ways to decode planes, for tests that hold them to the same thing."""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from intonaco.errors import PackDamagedError
from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.plane_decoder import MakeDecoder
from intonaco.template.plane_decoding import DecodePlane, Flags, Magnitudes, decode_plane
from intonaco.template.planes import WITHIN_CELL

WAYS = ("plain", "compiled")
needs_numba = pytest.mark.skipif(
    find_spec("numba") is None, reason="numba is not installed: pip install 'intonaco[fast]'"
)


def decoder_of(way: str) -> MakeDecoder:
    """Return the decoder of a way; skips the test where it cannot be had."""
    if way == "plain":
        return PlainDecoder
    if find_spec("numba") is None:
        pytest.skip("numba is not installed: pip install 'intonaco[fast]'")
    return import_module("intonaco.template.compiled_decoder").CompiledDecoder


def plane_of(way: str) -> DecodePlane:
    """Return what reads one plane; skips the test where it cannot be had."""
    decoder_of(way)
    return decode_plane if way == "plain" else _compiled_plane


def _compiled_plane(
    payload: bytes, at: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags
) -> int:
    kernels = import_module("intonaco.template.plane_kernels")
    num_vectors, length = magnitudes_RL.shape
    numbers = np.where(magnitudes_RL > 0, magnitudes_RL + WITHIN_CELL, 0.0).astype(np.float32)
    np.negative(numbers, out=numbers, where=is_negative_RL)
    end = kernels.take_plane(
        np.frombuffer(payload, np.uint8),
        at,
        len(payload),
        numbers.reshape(-1),
        (0, length, num_vectors, length),
        not magnitudes_RL.any(),
        kernels.make_room(np.empty(3 * (16 * length + 1), np.uint32), length),
    )
    if end < 0:
        raise PackDamagedError(f"code {end}: words that no writer makes, or another damage")
    magnitudes_RL[:] = np.abs(numbers)
    is_negative_RL[:] = np.signbit(numbers)
    return end
