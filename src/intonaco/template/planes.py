"""Vectors to entropy-coded bit-planes and back.

A strand is R vectors of length L. Its numbers are coded as sign and magnitude on a grid of powers of
two: plane k holds bit k of every magnitude, most significant first, and may be the last one there.
What a plane adds is of two kinds. *Significance*, whether a number that was zero so far is zero no
longer, is rare at first: a range coder takes it, with a probability per vector that the plane
carries. *Signs and refinement bits* are as good as random: they are stored as they are.

Payload of an increment, numbers as in `increments.py`:

    only where it starts at plane 0:
        int8            exponent of plane 0's step: 2 ** exponent
        int8 x R        exponents that each vector is divided by, all 0 for coefficients
    per plane:
        4 bits x R      which probability each vector's significance has, high half first, to a byte
        number          32-bit words of the range coder
        words           little-endian, in order
        bits            signs of what became significant, then refinement bits, vector by vector,
                        bit 7 first, to a byte

The grid's cell around zero is twice as wide as the others (a dead zone), so that codes of fewer
planes are the same codes cut short. Source: the embedded code streams of JPEG 2000, without its
context models.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackDamagedError
from intonaco.template.halves import pack_halves
from intonaco.template.increments import encode_number
from intonaco.template.plane_decoding import DecodePlane, Flags, Magnitudes, decode_plane
from intonaco.template.range_coder import PROBABILITIES, range_encode

WITHIN_CELL = 0.46
"""Where in its cell a number is put back: below the middle, since small numbers are likelier."""
MAX_EXPONENT = 60

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """What is known of a strand: R vectors of length L, some planes of them.

    Attributes:
        magnitudes_RL: in units of the last plane's step.
        is_negative_RL: where a magnitude is not 0.
        exponent: of plane 0's step.
        vector_exponents_R: each vector is divided by 2 ** this.
        num_planes: how many planes are there.
    """

    magnitudes_RL: Magnitudes
    is_negative_RL: Flags
    exponent: int
    vector_exponents_R: NDArray[np.int8]
    num_planes: int

    def values(self) -> Floats:
        """Return the numbers (R, L) as this many planes know them."""
        step = 2.0 ** (self.exponent - self.num_planes + 1)
        steps_R = step * 2.0 ** -self.vector_exponents_R.astype(np.float64)
        numbers = (self.magnitudes_RL + WITHIN_CELL) * steps_R[:, None]
        np.negative(numbers, out=numbers, where=self.is_negative_RL)
        numbers[self.magnitudes_RL == 0] = 0.0
        return numbers


def first_exponent(scaled_RL: Floats) -> int:
    """Return the exponent of the first plane that is not all zero."""
    largest = float(np.abs(scaled_RL).max(initial=0.0))
    if largest == 0:
        return -MAX_EXPONENT
    return int(np.clip(np.floor(np.log2(largest)), -MAX_EXPONENT, MAX_EXPONENT))


def codes_of(
    values_RL: Floats, *, exponent: int, vector_exponents_R: NDArray[np.int8], num_planes: int
) -> Codes:
    """Return the codes of `values_RL` cut to `num_planes` planes.

    A number of 2 ** (exponent + 1) or more, after its vector's exponent, is cut to what fits.
    """
    scaled = values_RL * 2.0 ** vector_exponents_R.astype(np.float64)[:, None]
    step = 2.0 ** (exponent - num_planes + 1)
    most = (1 << num_planes) - 1
    magnitudes = np.minimum(np.floor(np.abs(scaled) / step), most).astype(np.int32)
    return Codes(
        magnitudes_RL=magnitudes,
        is_negative_RL=(scaled < 0) & (magnitudes > 0),
        exponent=exponent,
        vector_exponents_R=vector_exponents_R,
        num_planes=num_planes,
    )


def encode_planes(codes: Codes, *, first_plane: int) -> bytes:
    """Return the payload that takes a reader from `first_plane` planes to those of `codes`."""
    parts: list[bytes] = []
    if first_plane == 0:
        exponents = [codes.exponent, *codes.vector_exponents_R.tolist()]
        parts.append(np.array(exponents, dtype=np.int8).tobytes())
    for plane in range(first_plane, codes.num_planes):
        shift = codes.num_planes - 1 - plane
        parts.append(
            _encode_plane(codes.magnitudes_RL >> shift, codes.is_negative_RL, is_first=plane == 0)
        )
    return b"".join(parts)


def decode_planes(
    payload: bytes,
    before: Codes | None,
    *,
    shape: tuple[int, int],
    num_planes: int,
    decode: DecodePlane = decode_plane,
) -> Codes:
    """Return the codes after `num_planes` more planes; `before` stays as it is.

    Args:
        before: what is known so far; None at plane 0.
        shape: R, L.
        decode: reads one plane; every way to do it gives the same codes.

    Raises PackDamagedError unless the payload holds exactly that.
    """
    at = 0
    if before is None:
        exponent, exponents_R, at = read_exponents(payload, shape[0])
        before = Codes(
            magnitudes_RL=np.zeros(shape, np.int32),
            is_negative_RL=np.zeros(shape, np.bool_),
            exponent=exponent,
            vector_exponents_R=exponents_R,
            num_planes=0,
        )
    magnitudes, is_negative = before.magnitudes_RL.copy(), before.is_negative_RL.copy()
    for _ in range(num_planes):
        at = decode(payload, at, magnitudes, is_negative)
    if at != len(payload):
        raise PackDamagedError(f"a payload of {len(payload)} bytes holds planes of {at} bytes")
    return Codes(
        magnitudes_RL=magnitudes,
        is_negative_RL=is_negative,
        exponent=before.exponent,
        vector_exponents_R=before.vector_exponents_R,
        num_planes=before.num_planes + num_planes,
    )


def read_exponents(payload: bytes, num_vectors: int) -> tuple[int, NDArray[np.int8], int]:
    """Return a strand's exponent, those of its vectors, and where they end. Raises PackDamagedError."""
    end = 1 + num_vectors
    if len(payload) < end:
        raise PackDamagedError(f"a strand's start needs {end} bytes, got {len(payload)}")
    exponents = np.frombuffer(payload[:end], dtype=np.int8)
    if np.abs(exponents.astype(np.int64)).max() > MAX_EXPONENT:
        raise PackDamagedError(
            f"exponents of a strand must lie in -{MAX_EXPONENT}..{MAX_EXPONENT}, got "
            f"{exponents.tolist()[:8]}"
        )
    return int(exponents[0]), exponents[1:], end


def _encode_plane(
    magnitudes_RL: Magnitudes, is_negative_RL: NDArray[np.bool_], *, is_first: bool
) -> bytes:
    """Return one plane: the lowest bit of `magnitudes_RL`, of which a reader knows the higher ones."""
    known_RL = np.zeros_like(magnitudes_RL) if is_first else magnitudes_RL >> 1
    is_new_RL = known_RL == 0
    becomes_RL = is_new_RL & (magnitudes_RL > 0)
    indices_R = _probability_indices(becomes_RL.sum(axis=1), is_new_RL.sum(axis=1))
    is_asked_RL = is_new_RL & (indices_R > 0)[:, None]
    counts = is_asked_RL.sum(axis=1).tolist()
    runs = [(index, n) for index, n in zip(indices_R.tolist(), counts, strict=True) if n]
    words = range_encode(becomes_RL[is_asked_RL], runs)
    bits = np.concatenate(
        [is_negative_RL[becomes_RL], (magnitudes_RL[~is_new_RL] & 1).astype(np.bool_)]
    )
    count = encode_number(len(words) // 4)
    return pack_halves(indices_R) + count + words + np.packbits(bits).tobytes()


def _probability_indices(
    num_becoming_R: NDArray[np.int64], num_new_R: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return for each vector the index whose probability codes its significance in fewest bits."""
    table = PROBABILITIES[1:]
    becoming, staying = num_becoming_R[:, None], (num_new_R - num_becoming_R)[:, None]
    bits = -(becoming * np.log2(table) + staying * np.log2(1 - table))
    best = 1 + bits.argmin(axis=1)
    return np.where(num_becoming_R == 0, 0, best).astype(np.uint8)


def split_planes(codes: Codes) -> Iterator[Codes]:
    """Yield the codes cut to 1, 2, ... planes."""
    for num_planes in range(1, codes.num_planes + 1):
        magnitudes = codes.magnitudes_RL >> (codes.num_planes - num_planes)
        yield Codes(
            magnitudes_RL=magnitudes,
            is_negative_RL=codes.is_negative_RL & (magnitudes > 0),
            exponent=codes.exponent,
            vector_exponents_R=codes.vector_exponents_R,
            num_planes=num_planes,
        )
