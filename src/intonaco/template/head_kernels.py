"""Heads of a chunk's increments by compiled code: what `increments.py` reads.

How code is compiled is in `compiling.py`. Nothing checks an index for it: what a file says is compared
with what is there before it is used.
"""

import numpy as np
from numpy.typing import NDArray

from intonaco.template.coded import MAX_COMPONENTS
from intonaco.template.compiling import compiled
from intonaco.template.increments import (
    END,
    FIRST_COMPONENT,
    FIRST_PLANE,
    MAX_SKIPPED_COMPONENTS,
    NUM_COMPONENTS,
    NUM_PLANES,
    ONE_BYTE,
    START,
    TWO_BYTES,
    UNIT,
)

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

# What functions return instead of a place.
CUT_SHORT, NO_NUMBER, NO_WORDS, BAD_WORDS, NO_UNIT, PAST_CHUNK, NO_PLANE = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
)
TOO_FAR, UNEVEN, NOT_ONE, NO_GROUP, OUT_OF_ORDER, BAD_EXPONENTS, LEFT_OVER = (
    -8,
    -9,
    -10,
    -11,
    -12,
    -13,
    -14,
)
IS_FRAME, NEEDS_ROOM = -15, -16


@compiled
def number_at(content: Bytes, at: int, limit: int) -> tuple[int, int]:
    """Return the number at `at`, or an error code, and where the next byte lies."""
    if at >= limit:
        return NO_NUMBER, at
    first = int(content[at])
    if first < ONE_BYTE:
        return first, at + 1
    if first > TWO_BYTES:
        return NO_NUMBER, at
    end = at + (2 if first < TWO_BYTES else 4)
    if end > limit:
        return NO_NUMBER, at
    if first < TWO_BYTES:
        return ONE_BYTE + (first - ONE_BYTE) * 256 + int(content[at + 1]), end
    low, middle, high = int(content[at + 1]), int(content[at + 2]), int(content[at + 3])
    return low + middle * 256 + high * 65536, end


@compiled
def read_heads(
    chunk: Bytes, planes_UC: NDArray[np.uint8], lengths_U: Integers, max_planes: int, rows: Integers
) -> tuple[int, int]:
    """Write the heads of a chunk into `rows`; return how many, and an error code or where they end.

    Args:
        planes_UC: of each component of each unit, brought up to date; `lengths_U`: components reached.
    """
    at, count = 0, 0
    while 0 <= at < len(chunk):
        row = rows[count]
        at = read_head(chunk, at, row)
        if at < 0:
            return count, at
        if row[UNIT] >= len(lengths_U):
            return count, NO_UNIT
        if row[END] > len(chunk):
            return count, PAST_CHUNK
        at = enter(planes_UC[row[UNIT]], lengths_U, max_planes, row)
        count += at >= 0
    return count, at


@compiled
def read_head(chunk: Bytes, at: int, row: Integers) -> int:
    """Write the numbers of one head into `row`; return where it ends, or an error code."""
    start, at = number_at(chunk, at, len(chunk))
    row[UNIT], row[NUM_COMPONENTS], row[NUM_PLANES] = start // 2, 1, 1
    row[FIRST_COMPONENT], at = number_after(chunk, start, at)
    last = row[FIRST_COMPONENT]
    if start % 2:
        row[NUM_COMPONENTS], at = number_after(chunk, last, at)
        row[NUM_PLANES], at = number_after(chunk, row[NUM_COMPONENTS], at)
        last = row[NUM_PLANES]
    num_bytes, at = number_after(chunk, last, at)
    row[START], row[END] = at, at + num_bytes
    return at if num_bytes >= 0 else num_bytes


@compiled
def number_after(chunk: Bytes, before: int, at: int) -> tuple[int, int]:
    """Return what `number_at` does, or the error code of the number before."""
    if before < 0:
        return before, at
    return number_at(chunk, at, len(chunk))


@compiled
def enter(planes_C: NDArray[np.uint8], lengths_U: Integers, max_planes: int, row: Integers) -> int:
    """Take note of an increment and of its first plane; return where it ends, or an error code."""
    unit, first, num_planes = row[UNIT], row[FIRST_COMPONENT], row[NUM_PLANES]
    end = first + row[NUM_COMPONENTS]
    if end <= first or num_planes < 1 or end > MAX_COMPONENTS:
        return NO_PLANE
    if first - lengths_U[unit] > MAX_SKIPPED_COMPONENTS:
        return TOO_FAR
    lengths_U[unit] = max(lengths_U[unit], end)
    first_plane = int(planes_C[first])
    for component in range(first, end):
        if planes_C[component] != first_plane:
            return UNEVEN
    if first_plane + num_planes > max_planes:
        return UNEVEN
    planes_C[first:end] = first_plane + num_planes
    row[FIRST_PLANE] = first_plane
    return row[END]
