"""Increments as bytes: short heads, because an increment of a small template is a few dozen bytes.

    number    unit * 2 + 1 if a shape follows
    number    first component
    number    only with a shape: components
    number    only with a shape: planes; without one it is one plane of one component
    number    payload bytes
    payload

An increment starts at the plane where its components' last one ended, so that is never said. A number
is one byte up to 191, two up to 12,479, else four. Knows nothing of what payloads mean.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError
from intonaco.template.coded import MAX_COMPONENTS, Increment

ONE_BYTE, TWO_BYTES = 192, 240
"""First bytes below the one are a number; below the other they start one of two bytes."""
LARGEST_OF_TWO = ONE_BYTE + ((TWO_BYTES - ONE_BYTE) << 8) - 1
LARGEST_NUMBER = (1 << 24) - 1
NUM_KINDS = 2
# Bounds what a few hostile bytes can make a reader hold.
MAX_SKIPPED_COMPONENTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRange:
    """The units of one file: the keys and values of neighbouring blocks.

    Attributes:
        max_planes: most planes that a component of this file has.
    """

    first_block: int
    num_blocks: int
    max_planes: int

    @property
    def num_units(self) -> int:
        return self.num_blocks * NUM_KINDS


@dataclass(slots=True)
class _Planes:
    """How many planes each component of each unit has so far."""

    units: UnitRange
    of_unit: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def enter(self, unit: int, first_component: int, num_components: int, num_planes: int) -> int:
        """Take note of an increment and return its first plane.

        Raises PackBoundsError where it cannot follow what came before.
        """
        planes = self.of_unit.setdefault(unit, [])
        end = first_component + num_components
        if num_components < 1 or num_planes < 1 or end > MAX_COMPONENTS:
            raise PackBoundsError(
                f"an increment brings 1 plane or more of components 0..{MAX_COMPONENTS - 1}, got "
                f"{num_planes} planes of {num_components} components from {first_component}"
            )
        if first_component - len(planes) > MAX_SKIPPED_COMPONENTS:
            raise PackBoundsError(
                f"an increment starts at component {first_component} of a unit with {len(planes)}; "
                f"at most {MAX_SKIPPED_COMPONENTS} may be left out on the way"
            )
        planes += [0] * (end - len(planes))
        found = set(planes[first_component:end])
        first_plane = found.pop()
        if found or first_plane + num_planes > self.units.max_planes:
            raise PackBoundsError(
                f"an increment adds {num_planes} planes to components {first_component}..{end - 1}, "
                f"which have {sorted({first_plane, *found})}; they must have equally many, and at "
                f"most {self.units.max_planes} in the end"
            )
        planes[first_component:end] = [first_plane + num_planes] * num_components
        return first_plane


class IncrementWriter:
    """Turns the increments of one ladder, in order, into bytes."""

    def __init__(self, units: UnitRange) -> None:
        self._units = units
        self._planes = _Planes(units)

    def write(self, increment: Increment) -> bytes:
        """Return head and payload. Raises PackBoundsError for what a reader would refuse."""
        unit = (increment.block - self._units.first_block) * NUM_KINDS + increment.kind
        if not (0 <= unit < self._units.num_units and 0 <= increment.kind < NUM_KINDS):
            raise PackBoundsError(
                f"an increment of block {increment.block}, kind {increment.kind} lies outside the "
                f"file's {self._units.num_blocks} blocks from {self._units.first_block}"
            )
        first, shape = increment.first_component, (increment.num_components, increment.num_planes)
        first_plane = self._planes.enter(unit, first, *shape)
        if first_plane != increment.first_plane:
            raise PackBoundsError(
                f"an increment must start at plane {first_plane} of component {first}, where the "
                f"one before it ended, got {increment.first_plane}"
            )
        is_plain = shape == (1, 1)
        head = (unit * 2, first) if is_plain else (unit * 2 + 1, first, *shape)
        numbers = (*head, len(increment.payload))
        return b"".join(encode_number(number) for number in numbers) + increment.payload


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTable:
    """The heads of a chunk's increments, one row each, in the order of the file.

    Attributes:
        rows: int64 (increments, 7); columns are UNIT to END.
        error: what is wrong behind the last of them; None = nothing.
    """

    rows: NDArray[np.int64]
    error: PackBoundsError | None = None


UNIT, FIRST_COMPONENT, NUM_COMPONENTS, FIRST_PLANE, NUM_PLANES, START, END = range(7)
"""Columns of a table of heads: unit of the file, components, planes, and where in its chunk the payload
starts and ends."""
NUM_COLUMNS = END + 1


class IncrementReader:
    """Turns the chunks of one ladder, in order, back into increments."""

    def __init__(self, units: UnitRange) -> None:
        self._units = units
        self._planes = _Planes(units)

    def read(self, chunk: bytes) -> Iterator[Increment]:
        """Yield the increments of a chunk. Raises PackBoundsError where they break the format.

        `error` is infinite: files do not carry it, manifests do.
        """
        for (
            unit,
            first_component,
            num_components,
            first_plane,
            num_planes,
            start,
            end,
        ) in self._heads(chunk):
            yield Increment(
                block=self._units.first_block + unit // NUM_KINDS,
                kind=unit % NUM_KINDS,
                first_component=first_component,
                num_components=num_components,
                first_plane=first_plane,
                num_planes=num_planes,
                payload=chunk[start:end],
                error=math.inf,
            )

    def read_heads(self, chunk: bytes) -> HeadTable:
        """Return the heads of a chunk, as far as they keep to the format."""
        rows: list[tuple[int, ...]] = []
        error: PackBoundsError | None = None
        try:
            rows.extend(self._heads(chunk))
        except PackBoundsError as found:
            error = found
        return HeadTable(rows=np.array(rows, np.int64).reshape(-1, NUM_COLUMNS), error=error)

    def _heads(self, chunk: bytes) -> Iterator[tuple[int, int, int, int, int, int, int]]:
        at = 0
        while at < len(chunk):
            start, at = decode_number(chunk, at)
            unit, has_shape = divmod(start, 2)
            if unit >= self._units.num_units:
                raise PackBoundsError(
                    f"an increment names unit {unit}, the file has {self._units.num_units}"
                )
            first_component, at = decode_number(chunk, at)
            num_components = num_planes = 1
            if has_shape:
                num_components, at = decode_number(chunk, at)
                num_planes, at = decode_number(chunk, at)
            num_bytes, at = decode_number(chunk, at)
            if num_bytes > len(chunk) - at:
                raise PackBoundsError(
                    f"an increment's payload of {num_bytes} bytes is longer than the "
                    f"{len(chunk) - at} bytes left in its chunk"
                )
            first_plane = self._planes.enter(unit, first_component, num_components, num_planes)
            end = at + num_bytes
            yield unit, first_component, num_components, first_plane, num_planes, at, end
            at = end


def encode_number(number: int) -> bytes:
    """Return the bytes of 0 .. 2**24 - 1."""
    if not 0 <= number <= LARGEST_NUMBER:
        raise PackBoundsError(
            f"a number must lie in 0..{LARGEST_NUMBER}, got {number}; code smaller increments"
        )
    if number < ONE_BYTE:
        return bytes([number])
    if number <= LARGEST_OF_TWO:
        high, low = divmod(number - ONE_BYTE, 256)
        return bytes([ONE_BYTE + high, low])
    return bytes([TWO_BYTES]) + number.to_bytes(3, "little")


def decode_number(chunk: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and where the next byte lies. Raises PackBoundsError."""
    first = chunk[at] if at < len(chunk) else TWO_BYTES
    num_bytes = 1 if first < ONE_BYTE else 2 if first < TWO_BYTES else 4
    end = at + num_bytes
    if end > len(chunk) or first > TWO_BYTES:
        raise PackBoundsError(
            f"the number at byte {at} of {len(chunk)} is cut short, or starts with more than "
            f"{TWO_BYTES}"
        )
    if num_bytes == 1:
        return first, end
    if num_bytes == 2:
        return ONE_BYTE + ((first - ONE_BYTE) << 8) + chunk[at + 1], end
    return int.from_bytes(chunk[at + 1 : end], "little"), end
