"""One bit-plane of a strand to numbers by compiled code.

Reads what `plane_decoding.py` reads and gives the same numbers; tests compare the two. How code is compiled is
in `compiling.py`; numbers are unsigned where that saves a check, as in `range_kernels.py`.
"""

import numpy as np

from intonaco.template.compiling import compiled
from intonaco.template.head_kernels import BAD_WORDS, CUT_SHORT, NO_WORDS, Bytes, number_at
from intonaco.template.planes import WITHIN_CELL
from intonaco.template.range_kernels import NONE, ONE, Places, ask, start_coder
from intonaco.template.strands import LATER_SIZE
from intonaco.template.unit_numbers import Floats

Where = tuple[int, int, int, int]
"""A strand's first number, numbers from one vector to the next, vectors, and numbers of each."""
Room = tuple[Places, Places, Places]

THREE, SEVEN = np.uint64(3), np.uint64(7)
TOP_BIT = np.uint8(7)
BIT = np.uint8(1)
ZERO = np.float32(0)
JUST_ONE = np.float32(1 + WITHIN_CELL)


@compiled
def bit_at(content: Bytes, place: np.uint64) -> np.uint8:
    """Return the bit at a place counted in bits, a byte's highest first."""
    return (content[place >> THREE] >> (TOP_BIT - np.uint8(place & SEVEN))) & BIT


@compiled
def part_places(
    numbers: Floats,
    start: np.uint64,
    end: np.uint64,
    asked: Places,
    known: Places,
    num_known: np.uint64,
) -> tuple[np.uint64, np.uint64]:
    """List the numbers of a vector that are 0, and behind those of other vectors the others."""
    num_asked = NONE
    for place in range(start, end):
        is_new = np.uint64(numbers[place] == ZERO)
        asked[num_asked] = place
        known[num_known] = place
        num_asked += is_new
        num_known += ONE - is_new
    return num_asked, num_known


@compiled
def all_places(start: np.uint64, end: np.uint64, asked: Places) -> np.uint64:
    """List all numbers of a vector."""
    for place in range(start, end):
        asked[place - start] = place
    return end - start


@compiled
def take_bits(
    content: Bytes, first_bit: int, numbers: Floats, becoming: Places, known: Places
) -> None:
    """Give numbers that become 1 their signs, then known ones their next bit."""
    bit = np.uint64(first_bit)
    for place in becoming:
        numbers[place] = -JUST_ONE if bit_at(content, bit) else JUST_ONE
        bit += ONE
    for place in known:
        number = numbers[place]
        magnitude = 2 * np.int32(abs(number)) + np.int32(bit_at(content, bit))
        finer = np.float32(magnitude + WITHIN_CELL)
        numbers[place] = finer if number > ZERO else -finer
        bit += ONE


@compiled
def plane_head(content: Bytes, at: int, limit: int, num_vectors: int) -> tuple[int, int]:
    """Return how many words a plane has, or an error code, and where they start."""
    end_of_indices = at + (num_vectors + 1) // 2
    if end_of_indices > limit:
        return CUT_SHORT, at
    num_words, words = number_at(content, end_of_indices, limit)
    if num_words >= 0 and words + 4 * num_words > limit:
        return CUT_SHORT, at
    return num_words, words


@compiled
def make_room(places: Places, longest_vector: int) -> Room:
    """Return the three parts of the room that `take_plane` works in."""
    room = LATER_SIZE * longest_vector + 1
    return places[:room], places[room : 2 * room], places[2 * room :]


@compiled
def take_plane(
    content: Bytes, at: int, limit: int, numbers: Floats, where: Where, is_first: bool, room: Room
) -> int:
    """Take one plane into the vectors at `where`; return where it ends, or an error code.

    The decoder of docs/template-codec.md; of its point and lower only the difference is kept, which is
    all that matters. Numbers change only once everything has been found to fit.

    Args:
        limit: where the increment ends.
        where: first number, numbers between two vectors, vectors, length of one.
        room: for places of a vector's asked, all known and all becoming numbers, one more each.
    """
    first, stride, num_vectors, length = where
    asked, known, becoming = room
    num_words, words = plane_head(content, at, limit, num_vectors)
    if num_words < 0:
        return num_words
    bits = words + 4 * num_words
    end_of_words = np.uint64(bits)
    coder = start_coder(content, np.uint64(words), end_of_words)
    num_known, num_becoming, is_bad = NONE, NONE, np.bool_(False)
    for vector in range(num_vectors):
        index = (content[at + vector // 2] >> (0 if vector % 2 else 4)) & 15
        start = np.uint64(first + vector * stride)
        end = start + np.uint64(length)
        num_asked = NONE
        if not is_first:
            num_asked, num_known = part_places(numbers, start, end, asked, known, num_known)
        elif index:
            num_asked = all_places(start, end, asked)
        if index == 0 or num_asked == NONE:
            continue
        if num_words == 0:
            return NO_WORDS
        coder, count, is_wrong = ask(
            content, end_of_words, coder, index, asked[:num_asked], becoming[num_becoming:]
        )
        num_becoming += count
        is_bad |= is_wrong
    if is_bad:
        return BAD_WORDS
    end_of_plane = bits + (int(num_becoming + num_known) + 7) // 8
    if end_of_plane > limit:
        return CUT_SHORT
    take_bits(content, 8 * bits, numbers, becoming[:num_becoming], known[:num_known])
    return end_of_plane
