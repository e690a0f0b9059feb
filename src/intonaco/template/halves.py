"""Numbers of 0..15, two to a byte, the high half first."""

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackDamagedError


def pack_halves(numbers: NDArray[np.uint8]) -> bytes:
    """Return ceil(n / 2) bytes; an odd count is filled with 0."""
    padded = np.append(numbers, np.zeros(len(numbers) % 2, np.uint8))
    return ((padded[0::2] << 4) | padded[1::2]).astype(np.uint8).tobytes()


def unpack_halves(payload: bytes, at: int, count: int) -> tuple[NDArray[np.uint8], int]:
    """Return `count` numbers from byte `at`, and where they end. Raises PackDamagedError."""
    end = at + (count + 1) // 2
    if end > len(payload):
        raise PackDamagedError(
            f"{count} numbers of 4 bits end at byte {end}, the payload at {len(payload)}"
        )
    raw = np.frombuffer(payload, np.uint8, end - at, at)
    both = np.empty(2 * len(raw), np.uint8)
    both[0::2] = raw >> 4
    both[1::2] = raw & np.uint8(15)
    return both[:count], end
