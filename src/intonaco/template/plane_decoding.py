"""One bit-plane from bytes, with numpy and constriction: needs nothing to be compiled.

The format is that of `planes.py`; `plane_kernels.py` reads the same bytes faster where they are many.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackDamagedError
from intonaco.template.halves import unpack_halves
from intonaco.template.increments import decode_number
from intonaco.template.range_coder import WORD_BYTES, Runs, range_decode

Magnitudes = NDArray[np.int32]
Flags = NDArray[np.bool_]

DecodePlane = Callable[[bytes, int, Magnitudes, Flags], int]
"""Takes a payload, where its next plane starts, magnitudes and signs (R, L), both C-contiguous, which it
brings up to date in place. Returns where the plane ends. Raises PackError; then the arrays are of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneHead:
    """What comes before a plane's bits.

    Attributes:
        indices_R: each vector's probability.
        words: of the range coder.
        end: where the bits start.
    """

    indices_R: NDArray[np.uint8]
    words: bytes
    end: int


def read_head(payload: bytes, at: int, num_vectors: int) -> PlaneHead:
    """Return the head of the plane at byte `at`. Raises PackError."""
    indices_R, at = unpack_halves(payload, at, num_vectors)
    num_words, at = decode_number(payload, at)
    end = at + WORD_BYTES * num_words
    return PlaneHead(indices_R=indices_R, words=payload[at:end], end=end)


def end_of_bits(payload: bytes, start: int, num_bits: int) -> int:
    """Return where bits from byte `start` end. Raises PackDamagedError beyond the payload."""
    end = start + (num_bits + 7) // 8
    if end > len(payload):
        raise PackDamagedError(f"a plane needs {end} bytes of a payload of {len(payload)}")
    return end


def decode_plane(payload: bytes, at: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags) -> int:
    """Take one plane, as `DecodePlane` says."""
    head = read_head(payload, at, len(magnitudes_RL))
    magnitudes, is_negative = magnitudes_RL.reshape(-1), is_negative_RL.reshape(-1)
    is_known = magnitudes != 0
    known = is_known.nonzero()[0]
    becoming = _becoming(head, is_known.reshape(magnitudes_RL.shape))
    num_signs = len(becoming)
    num_bits = num_signs + len(known)
    end = end_of_bits(payload, head.end, num_bits)
    raw = np.frombuffer(payload, np.uint8, end - head.end, head.end)
    bits = np.unpackbits(raw, count=num_bits)
    np.left_shift(magnitudes, 1, out=magnitudes)
    magnitudes[known] += bits[num_signs:]
    magnitudes[becoming] = 1
    is_negative[becoming] = bits[:num_signs]
    return end


def _becoming(head: PlaneHead, is_known_RL: Flags) -> NDArray[np.intp]:
    """Return where numbers become 1, counted through all vectors."""
    is_asked_RL = ~is_known_RL
    indices = head.indices_R.tolist()
    if 0 in indices:
        is_asked_RL[head.indices_R == 0] = False
    asked = is_asked_RL.reshape(-1).nonzero()[0]
    return asked[range_decode(head.words, _runs(indices, asked, is_known_RL.shape[1]))]


def _runs(indices: list[int], asked: NDArray[np.intp], length: int) -> Runs:
    """Return runs of equal probability; `asked` are places of answers, rising."""
    last = len(indices) - 1
    ends = [r for r in range(last + 1) if r == last or indices[r] != indices[r + 1]]
    places = np.searchsorted(asked, [(r + 1) * length for r in ends]).tolist()
    starts = [0, *places[:-1]]
    return [
        (indices[r], end - start)
        for r, start, end in zip(ends, starts, places, strict=True)
        if end > start
    ]
