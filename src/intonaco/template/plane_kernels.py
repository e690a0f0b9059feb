"""Increments of one unit to numbers by compiled code.

Reads what `plain_decoder.py` reads and gives the same numbers; tests compare the two. How code is compiled is
in `compiling.py`.

Numbers and indices are unsigned where that saves a check; numba makes floats of signed and unsigned ones
together, so constants have types.
"""

from math import ldexp

import numpy as np
from numpy.typing import NDArray

from intonaco.template.compiling import compiled
from intonaco.template.head_kernels import (
    BAD_EXPONENTS,
    BAD_WORDS,
    CUT_SHORT,
    IS_FRAME,
    LEFT_OVER,
    NEEDS_ROOM,
    NO_GROUP,
    NO_WORDS,
    NOT_ONE,
    OUT_OF_ORDER,
    Bytes,
    Integers,
    number_at,
)
from intonaco.template.increments import (
    END,
    FIRST_COMPONENT,
    FIRST_PLANE,
    NUM_COMPONENTS,
    NUM_PLANES,
    START,
    UNIT,
)
from intonaco.template.planes import MAX_EXPONENT, WITHIN_CELL
from intonaco.template.range_coder import PROBABILITIES_256
from intonaco.template.strands import FIRST_GROUP, FIRST_SIZES, FRAME, LATER_SIZE, MAX_GROUPS, MEAN
from intonaco.template.unit_numbers import Floats

Places = NDArray[np.uint32]
Coder = tuple[np.uint64, np.uint64, np.uint64]
"""Its point above the range's lower end, the range's size, and where the next word lies."""
Where = tuple[int, int, int, int]
"""A strand's first number, numbers from one vector to the next, vectors, and numbers of each."""
Room = tuple[Places, Places, Places]

ONE, THREE, FOUR, SEVEN, EIGHT = (np.uint64(n) for n in (1, 3, 4, 7, 8))
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
TOP_BIT = np.uint8(7)
BIT = np.uint8(1)
ZERO = np.float32(0)
JUST_ONE = np.float32(1 + WITHIN_CELL)
FIRST_STARTS = np.cumsum([0, *FIRST_SIZES])


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
    offset = word_at(content, np.uint64(words), end_of_words) << WORD_BITS
    offset |= word_at(content, np.uint64(words) + FOUR, end_of_words)
    coder = offset, WHOLE_SIZE, np.uint64(words) + EIGHT
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


@compiled
def signed_at(content: Bytes, at: int) -> int:
    """Return the int8 at `at`."""
    return np.int64(np.int8(content[at]))  # type: ignore[return-value]


@compiled
def start_strand(content: Bytes, at: int, limit: int, steps_R: NDArray[np.float64]) -> int:
    """Read a strand's exponents into its vectors' steps; return where they end, or an error code."""
    end = at + 1 + len(steps_R)
    if end > limit:
        return CUT_SHORT
    for place in range(at, end):
        if abs(signed_at(content, place)) > MAX_EXPONENT:
            return BAD_EXPONENTS
    first = 1 + signed_at(content, at)
    for vector in range(len(steps_R)):
        steps_R[vector] = ldexp(1.0, first - signed_at(content, at + 1 + vector))
    return end


@compiled
def region_of(
    number: int, num_profiles: int, num_rows: int, width: int
) -> tuple[int, int, int, int, int]:
    """Return first line, end line, first number, length and part of a strand; no line if there is none."""
    if number == MEAN:
        return 0, 1, 0, width, 0
    group, part = divmod(number - FIRST_GROUP, 1 + num_profiles)
    num_first = len(FIRST_STARTS) - 1
    if group < num_first:
        start, end = FIRST_STARTS[group], FIRST_STARTS[group + 1]
    else:
        start = FIRST_STARTS[num_first] + (group - num_first) * LATER_SIZE
        end = start + LATER_SIZE
    end = min(end, width)
    if group >= MAX_GROUPS or end <= start:
        return 0, 0, 0, 0, 0
    if part == 0:
        return 1 + start, 1 + end, 0, width, 0
    return 1 + start, 1 + end, width + (part - 1) * num_rows, num_rows, part


@compiled
def take_increments(
    content: Bytes,
    rows: Integers,
    row: int,
    unit: int,
    num_rows: int,
    width: int,
    lines_CW: Floats,
    steps_CP: NDArray[np.float64],
    planes: NDArray[np.uint8],
    used: Integers,
    places: Places,
) -> tuple[int, int]:
    """Take a chunk's increments of one unit from `row` on.

    Returns a code and a row: 0 at the end, IS_FRAME at a frame, which is not taken, NEEDS_ROOM with
    `used` raised to the lines that are wanted, or an error code.
    """
    stride, num_profiles = lines_CW.shape[1], steps_CP.shape[1] - 1
    numbers = lines_CW.reshape(-1)
    room = make_room(places, max(num_rows, width))
    while row < len(rows):
        if rows[row, UNIT] == unit:
            number = rows[row, FIRST_COMPONENT]
            if rows[row, NUM_COMPONENTS] != 1:
                return NOT_ONE, row
            if number == FRAME:
                return IS_FRAME, row
            start, end, column, length, part = region_of(number, num_profiles, num_rows, width)
            if end == 0:
                return NO_GROUP, row
            if planes[number] != rows[row, FIRST_PLANE]:
                return OUT_OF_ORDER, row
            used[0] = max(used[0], end)
            if end > len(lines_CW):
                return NEEDS_ROOM, row
            where = start * stride + column, stride, end - start, length
            code = take_strand(
                content, rows[row], numbers, steps_CP[start:end, part], planes, where, room
            )
            if code < 0:
                return code, row
        row += 1
    return 0, row


@compiled
def make_room(places: Places, longest_vector: int) -> Room:
    """Return the three parts of the room that `take_plane` works in."""
    room = LATER_SIZE * longest_vector + 1
    return places[:room], places[room : 2 * room], places[2 * room :]


@compiled
def take_strand(
    content: Bytes,
    row: Integers,
    numbers: Floats,
    steps_R: NDArray[np.float64],
    planes: NDArray[np.uint8],
    where: Where,
    room: Room,
) -> int:
    """Take the planes of one increment; return where they end, or an error code."""
    number, at, limit = row[FIRST_COMPONENT], row[START], row[END]
    if planes[number] == 0:
        at = start_strand(content, at, limit, steps_R)
    for _ in range(row[NUM_PLANES]):
        if at < 0:
            return at
        at = take_plane(content, at, limit, numbers, where, planes[number] == 0, room)
        if at >= 0:
            planes[number] += BIT
            steps_R /= 2
    return LEFT_OVER if 0 <= at != limit else at
