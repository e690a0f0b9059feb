"""Increments of one unit to numbers by compiled code.

Reads what `plain_decoder.py` reads and gives the same numbers; tests compare the two. How code is compiled is
in `compiling.py`.
"""

from math import ldexp

import numpy as np
from numpy.typing import NDArray

from intonaco.template.compiling import compiled
from intonaco.template.head_kernels import (
    BAD_EXPONENTS,
    CUT_SHORT,
    IS_FRAME,
    LEFT_OVER,
    NEEDS_ROOM,
    NO_GROUP,
    NOT_ONE,
    OUT_OF_ORDER,
    Bytes,
    Integers,
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
from intonaco.template.plane_kernels import BIT, Room, Where, make_room, take_plane
from intonaco.template.planes import MAX_EXPONENT
from intonaco.template.range_kernels import Places
from intonaco.template.strands import FIRST_GROUP, FIRST_SIZES, FRAME, LATER_SIZE, MAX_GROUPS, MEAN
from intonaco.template.unit_numbers import Floats

FIRST_STARTS = np.cumsum([0, *FIRST_SIZES])


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
