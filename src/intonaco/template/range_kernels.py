"""The range coder's answers by compiled code: which of the numbers that are asked for become 1.

Reads what `range_coder.py` reads, one vector's questions at a time. Numbers and indices are unsigned where
that saves a check; numba makes floats of signed and unsigned ones together, so constants have types.
"""

import numpy as np
from numpy.typing import NDArray

from intonaco.template.compiling import compiled
from intonaco.template.head_kernels import Bytes
from intonaco.template.range_coder import PROBABILITIES_256

Places = NDArray[np.uint32]
Coder = tuple[np.uint64, np.uint64, np.uint64]
"""Its point above the range's lower end, the range's size, and where the next word lies."""

ONE, FOUR, EIGHT = (np.uint64(n) for n in (1, 4, 8))
NONE = np.uint64(0)
PROBABILITY_BITS = np.uint64(24)
WHOLE_PROBABILITY = np.uint64(1 << 24)
WORD_BITS = np.uint64(32)
SMALLEST_SIZE = np.uint64(1 << 32)
WHOLE_SIZE = np.uint64((1 << 64) - 1)
# The table is in 256ths, the coder's probabilities in 2^24ths.
YES = np.array(PROBABILITIES_256, np.uint64) << np.uint64(16)
FIRST_LIKELY = 12
"""Probabilities from this index on are so likely that a branch on the answer would be guessed wrong."""


@compiled
def word_at(content: Bytes, at: np.uint64, limit: np.uint64) -> np.uint64:
    """Return the 32-bit word at `at`; 0 from `limit` on."""
    if at >= limit:
        return NONE
    low = np.uint64(content[at]) | np.uint64(content[at + ONE]) << EIGHT
    at += np.uint64(2)
    high = np.uint64(content[at]) | np.uint64(content[at + ONE]) << EIGHT
    return low | high << np.uint64(16)


@compiled
def start_coder(content: Bytes, words: np.uint64, limit: np.uint64) -> Coder:
    """Return the coder of the words that lie from `words` to `limit`."""
    offset = word_at(content, words, limit) << WORD_BITS
    offset |= word_at(content, words + FOUR, limit)
    return offset, WHOLE_SIZE, words + EIGHT


@compiled
def ask_unlikely(
    content: Bytes, limit: np.uint64, coder: Coder, yes: np.uint64, asked: Places, becoming: Places
) -> tuple[Coder, np.uint64, np.bool_]:
    """Ask the range coder of each place; list those that become 1. Guesses "no" each time.

    Returns the coder, how many became 1, and whether any answer is one that no writer makes.
    """
    offset, size, next_word = coder
    no = WHOLE_PROBABILITY - yes
    count, is_bad = NONE, np.bool_(False)
    for place in asked:
        share = size >> PROBABILITY_BITS
        border = share * no
        if offset >= border:
            offset -= border
            size = share * yes
            is_bad |= offset >= size
            becoming[count] = place
            count += ONE
        else:
            size = border
        if size < SMALLEST_SIZE:
            size <<= WORD_BITS
            offset = (offset << WORD_BITS) | word_at(content, next_word, limit)
            next_word += FOUR
    return (offset, size, next_word), count, is_bad


@compiled
def ask_likely(
    content: Bytes, limit: np.uint64, coder: Coder, yes: np.uint64, asked: Places, becoming: Places
) -> tuple[Coder, np.uint64, np.bool_]:
    """Do what `ask_unlikely` does, without a branch that depends on the answer."""
    offset, size, next_word = coder
    no = WHOLE_PROBABILITY - yes
    count, is_bad = NONE, np.bool_(False)
    for place in asked:
        share = size >> PROBABILITY_BITS
        border = share * no
        is_yes = offset >= border
        becoming[count] = place
        count += np.uint64(is_yes)
        size = share * yes if is_yes else border
        offset -= border if is_yes else NONE
        is_bad |= offset >= size
        if size < SMALLEST_SIZE:
            size <<= WORD_BITS
            offset = (offset << WORD_BITS) | word_at(content, next_word, limit)
            next_word += FOUR
    return (offset, size, next_word), count, is_bad


@compiled
def ask(
    content: Bytes, limit: np.uint64, coder: Coder, index: int, asked: Places, becoming: Places
) -> tuple[Coder, np.uint64, np.bool_]:
    """Do what `ask_unlikely` does, the way that suits the probability."""
    if index < FIRST_LIKELY:
        return ask_unlikely(content, limit, coder, YES[index], asked, becoming)
    return ask_likely(content, limit, coder, YES[index], asked, becoming)
