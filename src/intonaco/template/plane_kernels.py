"""Bit-planes from bytes by compiled code, for templates of many megabytes.

Reads what `plane_decoding.py` reads and gives the same numbers; a test compares the two. Importing this
module imports numba, which the extra `fast` installs, so nothing imports it but `fast_planes.py`.
Functions here are compiled on their first call and kept on disk where that can be written. They hold no
lock of the interpreter.

Shape letters: R vectors, L their length.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackDamagedError
from intonaco.template.increments import ONE_BYTE, TWO_BYTES
from intonaco.template.plane_decoding import Flags, Magnitudes
from intonaco.template.range_coder import PROBABILITIES_256, WORD_BYTES

Function = TypeVar("Function", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]

CUT_SHORT, NO_NUMBER, NO_WORDS, BAD_WORDS = -1, -2, -3, -4
REASONS = {
    CUT_SHORT: "ends within a plane",
    NO_NUMBER: f"has a number that starts with more than {TWO_BYTES}",
    NO_WORDS: "has no words where its range coder needs some",
    BAD_WORDS: "has words of the range coder that no writer makes",
}
BECOMES_ONE = -1
"""Marks a number between the two passes over a plane."""

PROBABILITY_BITS = np.uint64(24)
ONE = np.uint64(1 << 24)
WORD_BITS = np.uint64(32)
SMALLEST_SIZE = np.uint64(1 << 32)
WHOLE_SIZE = np.uint64((1 << 64) - 1)
# The table is in 256ths, the coder's probabilities in 2^24ths.
YES = np.array(PROBABILITIES_256, np.uint64) << np.uint64(16)


def compiled(function: Function) -> Function:
    """Return `function` as machine code, kept on disk if there is a place for it."""
    njit: Any = import_module("numba").njit
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # numba's word for a package folder and a home that cannot be written.
        return njit(nogil=True)(function)


def decode_plane(payload: bytes, at: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags) -> int:
    """Take one plane, as `DecodePlane` says."""
    content = np.frombuffer(payload, np.uint8)
    end = int(take_plane(content, at, magnitudes_RL, is_negative_RL))
    if end < 0:
        raise PackDamagedError(
            f"a payload of {len(payload)} bytes {REASONS[end]}, in the plane at byte {at}"
        )
    return end


@compiled
def word_at(payload: Bytes, start: int, num_words: int, index: int) -> np.uint64:
    """Return a 32-bit word; 0 beyond the last."""
    word = np.uint64(0)
    if index < num_words:
        for place in range(WORD_BYTES):
            byte = np.uint64(payload[start + WORD_BYTES * index + place])
            word |= byte << np.uint64(8 * place)
    return word


@compiled
def number_at(payload: Bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, or an error code, and where the next byte lies."""
    if at >= len(payload):
        return CUT_SHORT, at
    first = int(payload[at])
    if first < ONE_BYTE:
        return first, at + 1
    if first > TWO_BYTES:
        return NO_NUMBER, at
    end = at + (2 if first < TWO_BYTES else 4)
    if end > len(payload):
        return CUT_SHORT, at
    if first < TWO_BYTES:
        return ONE_BYTE + (first - ONE_BYTE) * 256 + int(payload[at + 1]), end
    low, middle, high = int(payload[at + 1]), int(payload[at + 2]), int(payload[at + 3])
    return low + middle * 256 + high * 65536, end


@compiled
def mark_significant(
    payload: Bytes, halves: int, start: int, num_words: int, magnitudes_RL: Magnitudes
) -> int:
    """Mark the numbers that become 1 and return how many, or an error code.

    The decoder of docs/template-codec.md; only point - lower is kept, which is all that matters.
    """
    offset = (word_at(payload, start, num_words, 0) << WORD_BITS) | word_at(
        payload, start, num_words, 1
    )
    size, next_word, num_marked = WHOLE_SIZE, 2, 0
    for vector in range(magnitudes_RL.shape[0]):
        index = (payload[halves + vector // 2] >> (0 if vector % 2 else 4)) & 15
        yes, no = YES[index], ONE - YES[index]
        row_L = magnitudes_RL[vector]
        if index == 0:
            continue
        for place in range(len(row_L)):
            if row_L[place] != 0:
                continue
            if num_words == 0:
                return NO_WORDS
            share = size >> PROBABILITY_BITS
            border = share * no
            if offset >= border:
                offset, size = offset - border, share * yes
                if offset >= size:
                    return BAD_WORDS
                row_L[place] = BECOMES_ONE
                num_marked += 1
            else:
                size = border
            if size < SMALLEST_SIZE:
                size <<= WORD_BITS
                offset = (offset << WORD_BITS) | word_at(payload, start, num_words, next_word)
                next_word += 1
    return num_marked


@compiled
def count_known(magnitudes_RL: Magnitudes) -> int:
    """Return how many numbers were not 0 before."""
    count = 0
    for row_L in magnitudes_RL:
        for magnitude in row_L:
            count += magnitude > 0
    return count


@compiled
def take_bits(
    payload: Bytes, sign: int, bit: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags
) -> None:
    """Give marked numbers their signs and known ones their next bit; places are counted in bits."""
    for vector in range(magnitudes_RL.shape[0]):
        row_L, is_negative_L = magnitudes_RL[vector], is_negative_RL[vector]
        for place in range(len(row_L)):
            magnitude = row_L[place]
            if magnitude > 0:
                row_L[place] = 2 * magnitude + ((payload[bit >> 3] >> (7 - (bit & 7))) & 1)
                bit += 1
            elif magnitude == BECOMES_ONE:
                row_L[place] = 1
                is_negative_L[place] = ((payload[sign >> 3] >> (7 - (sign & 7))) & 1) != 0
                sign += 1


@compiled
def take_plane(payload: Bytes, at: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags) -> int:
    """Take one plane; return where it ends, or an error code."""
    number = at + (magnitudes_RL.shape[0] + 1) // 2
    num_words, words = number_at(payload, number)
    if num_words < 0:
        return num_words
    bits = words + WORD_BYTES * num_words
    if bits > len(payload):
        return CUT_SHORT
    num_signs = mark_significant(payload, at, words, num_words, magnitudes_RL)
    if num_signs < 0:
        return num_signs
    end = bits + (num_signs + count_known(magnitudes_RL) + 7) // 8
    if end > len(payload):
        return CUT_SHORT
    take_bits(payload, 8 * bits, 8 * bits + num_signs, magnitudes_RL, is_negative_RL)
    return end
