"""Increments as bytes: short heads, because an increment of a small template is a few dozen bytes.

A head says which unit an increment belongs to and at which plane it starts. The rest it says only
where it is not what a reader expects: the next component of that unit at that plane, and as many
components, planes and payload bytes as the last increment of that plane and kind of place had.
Writer and reader keep the same books, so what is expected never has to be sent.
Knows nothing of what payloads mean.

    head    number: (unit * (planes_per_component + 1) + first_plane) * 3 + form
    form 0  nothing follows: all as expected
    form 1  number: payload bytes
    form 2  numbers: first component, components, planes, payload bytes
    then the payload

A number is one byte up to 247; 248 + n (n = 1, 2, 3) announces n little-endian bytes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from intonaco.errors import PackBoundsError
from intonaco.template.coded import MAX_COMPONENTS, Increment

NUM_FORMS = 3
AS_EXPECTED, OTHER_LENGTH, OTHER_PLACE = range(NUM_FORMS)
LARGEST_BYTE = 247
MAX_NUMBER_BYTES = 3
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    first_component: int
    num_components: int
    num_planes: int


@dataclass(slots=True)
class _Books:
    """What has come so far: planes per component and unit, and the shape of the last increment.

    Payload lengths are remembered per shape and starting plane: with plain planes they are then
    always as expected, whatever the order of units.
    """

    units: UnitRange
    planes: list[list[int]] = field(default_factory=list[list[int]])
    shapes: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    lengths: dict[tuple[int, int, int], int] = field(
        default_factory=dict[tuple[int, int, int], int]
    )

    def __post_init__(self) -> None:
        self.planes = [[] for _ in range(self.units.num_units)]

    def expected_place(self, unit: int, first_plane: int) -> _Place | None:
        """Return where the next increment of `unit` at `first_plane` should lie, None if unknown."""
        if first_plane not in self.shapes:
            return None
        planes = self.planes[unit]
        if first_plane in planes:
            first_component = planes.index(first_plane)
        elif first_plane == 0:
            first_component = len(planes)
        else:
            return None
        num_components, num_planes = self.shapes[first_plane]
        return _Place(
            first_component=first_component, num_components=num_components, num_planes=num_planes
        )

    def expected_length(self, first_plane: int, place: _Place) -> int:
        """Return the payload bytes that follow an expected place."""
        return self.lengths[(first_plane, place.num_components, place.num_planes)]

    def enter(self, unit: int, first_plane: int, place: _Place, num_bytes: int) -> None:
        """Take note of an increment. Raises PackBoundsError where it cannot follow what came."""
        end = place.first_component + place.num_components
        planes = self.planes[unit]
        if end > MAX_COMPONENTS or first_plane + place.num_planes > self.units.max_planes:
            raise PackBoundsError(
                f"an increment reaches component {end} and plane {first_plane + place.num_planes}; "
                f"a unit has at most {MAX_COMPONENTS} components of {self.units.max_planes} planes"
            )
        if place.first_component - len(planes) > MAX_SKIPPED_COMPONENTS:
            raise PackBoundsError(
                f"an increment starts at component {place.first_component} of a unit with "
                f"{len(planes)}; at most {MAX_SKIPPED_COMPONENTS} may be left out on the way"
            )
        planes += [0] * (end - len(planes))
        found = set(planes[place.first_component : end])
        if found - {first_plane}:
            raise PackBoundsError(
                f"an increment starts at plane {first_plane} of components "
                f"{place.first_component}..{end - 1}, which have {sorted(found)} planes; planes "
                "come in order"
            )
        planes[place.first_component : end] = [first_plane + place.num_planes] * (
            place.num_components
        )
        self.shapes[first_plane] = (place.num_components, place.num_planes)
        self.lengths[(first_plane, place.num_components, place.num_planes)] = num_bytes


class IncrementWriter:
    """Turns the increments of one ladder, in order, into bytes."""

    def __init__(self, units: UnitRange) -> None:
        self._units = units
        self._books = _Books(units)

    def write(self, increment: Increment) -> bytes:
        """Return head and payload. Raises PackBoundsError for what a reader would refuse."""
        unit = (increment.block - self._units.first_block) * NUM_KINDS + increment.kind
        if not (0 <= unit < self._units.num_units and 0 <= increment.kind < NUM_KINDS):
            raise PackBoundsError(
                f"an increment of block {increment.block}, kind {increment.kind} lies outside the "
                f"file's {self._units.num_blocks} blocks from {self._units.first_block}"
            )
        first_plane, num_bytes = increment.first_plane, len(increment.payload)
        place = _Place(
            first_component=increment.first_component,
            num_components=increment.num_components,
            num_planes=increment.num_planes,
        )
        if place != self._books.expected_place(unit, first_plane):
            form, rest = OTHER_PLACE, [increment.first_component, increment.num_components]
            rest += [increment.num_planes, num_bytes]
        elif num_bytes != self._books.expected_length(first_plane, place):
            form, rest = OTHER_LENGTH, [num_bytes]
        else:
            form, rest = AS_EXPECTED, []
        self._books.enter(unit, first_plane, place, num_bytes)
        start = (unit * (self._units.max_planes + 1) + first_plane) * NUM_FORMS + form
        return b"".join(encode_number(number) for number in (start, *rest)) + increment.payload


class IncrementReader:
    """Turns the chunks of one ladder, in order, back into increments."""

    def __init__(self, units: UnitRange) -> None:
        self._units = units
        self._books = _Books(units)

    def read(self, chunk: bytes) -> Iterator[Increment]:
        """Yield the increments of a chunk. Raises PackBoundsError where they break the format.

        `error` is infinite: files do not carry it, manifests do.
        """
        at = 0
        while at < len(chunk):
            start, at = decode_number(chunk, at)
            place_code, form = divmod(start, NUM_FORMS)
            unit, first_plane = divmod(place_code, self._units.max_planes + 1)
            if unit >= self._units.num_units:
                raise PackBoundsError(
                    f"an increment names unit {unit}, the file has {self._units.num_units}"
                )
            place, num_bytes, at = self._read_rest(chunk, at, unit, first_plane, form)
            if num_bytes > len(chunk) - at:
                raise PackBoundsError(
                    f"an increment's payload of {num_bytes} bytes is longer than the "
                    f"{len(chunk) - at} bytes left in its chunk"
                )
            self._books.enter(unit, first_plane, place, num_bytes)
            yield Increment(
                block=self._units.first_block + unit // NUM_KINDS,
                kind=unit % NUM_KINDS,
                first_component=place.first_component,
                num_components=place.num_components,
                first_plane=first_plane,
                num_planes=place.num_planes,
                payload=chunk[at : at + num_bytes],
                error=math.inf,
            )
            at += num_bytes

    def _read_rest(
        self, chunk: bytes, at: int, unit: int, first_plane: int, form: int
    ) -> tuple[_Place, int, int]:
        """Return place, payload bytes and where the payload starts."""
        if form == OTHER_PLACE:
            numbers: list[int] = []
            for _ in range(4):
                number, at = decode_number(chunk, at)
                numbers.append(number)
            if numbers[1] < 1 or numbers[2] < 1:
                raise PackBoundsError(
                    f"an increment has at least 1 component and 1 plane, got {numbers[1]} and "
                    f"{numbers[2]}"
                )
            place = _Place(
                first_component=numbers[0], num_components=numbers[1], num_planes=numbers[2]
            )
            return place, numbers[3], at
        expected = self._books.expected_place(unit, first_plane)
        if expected is None:
            raise PackBoundsError(
                f"an increment at plane {first_plane} of unit {unit} leaves its place out, and none "
                "follows from what came before"
            )
        if form == OTHER_LENGTH:
            num_bytes, at = decode_number(chunk, at)
            return expected, num_bytes, at
        return expected, self._books.expected_length(first_plane, expected), at


def encode_number(number: int) -> bytes:
    """Return the bytes of 0 .. 2**24 - 1."""
    if 0 <= number <= LARGEST_BYTE:
        return bytes([number])
    num_bytes = (number.bit_length() + 7) // 8
    if number < 0 or num_bytes > MAX_NUMBER_BYTES:
        raise PackBoundsError(
            f"a number must lie in 0..{(1 << 8 * MAX_NUMBER_BYTES) - 1}, got {number}; code fewer "
            "blocks in one file, or smaller increments"
        )
    return bytes([LARGEST_BYTE + num_bytes]) + number.to_bytes(num_bytes, "little")


def decode_number(chunk: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and where the next byte lies. Raises PackBoundsError."""
    end = at + 1
    first = chunk[at] if at < len(chunk) else None
    if first is not None and first <= LARGEST_BYTE:
        return first, end
    num_bytes = 0 if first is None else first - LARGEST_BYTE
    if first is None or num_bytes > MAX_NUMBER_BYTES or end + num_bytes > len(chunk):
        raise PackBoundsError(
            f"the number at byte {at} of a chunk of {len(chunk)} bytes is cut short, or longer than "
            f"{MAX_NUMBER_BYTES} bytes"
        )
    return int.from_bytes(chunk[end : end + num_bytes], "little"), end + num_bytes
