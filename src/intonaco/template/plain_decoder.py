"""Units decoded with numpy and constriction alone: the reference for compiled code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError, PackDamagedError
from intonaco.template.frames import frame_from_bytes
from intonaco.template.increments import (
    END,
    FIRST_COMPONENT,
    FIRST_PLANE,
    NUM_COMPONENTS,
    NUM_PLANES,
    START,
    UNIT,
    IncrementReader,
    UnitRange,
)
from intonaco.template.plane_decoding import Flags, Magnitudes, decode_plane
from intonaco.template.planes import WITHIN_CELL, read_exponents
from intonaco.template.strands import FRAME, strand_of
from intonaco.template.unit_numbers import Floats, UnitNumbers, UnitSizes, region_of


@dataclass(frozen=True, slots=True)
class PlainDecoder:
    """A `PlaneDecoder` that needs nothing compiled."""

    sizes: UnitSizes

    def open_heads(self, units: UnitRange) -> IncrementReader:
        return IncrementReader(units)

    def take(
        self, unit: UnitNumbers, chunk: bytes, rows: NDArray[np.int64], file_unit: int
    ) -> None:
        for row in rows[rows[:, UNIT] == file_unit].tolist():
            check_single(row[NUM_COMPONENTS])
            number, payload = row[FIRST_COMPONENT], chunk[row[START] : row[END]]
            if number == FRAME:
                take_frame(unit, payload)
            else:
                take_planes(unit, number, payload, (row[FIRST_PLANE], row[NUM_PLANES]))

    def mix(self, unit: UnitNumbers, step: int) -> Floats:
        used, width = int(unit.used[0]), self.sizes.width
        numbers_CQN = unit.lines_CW[:used, width:].reshape(
            used, self.sizes.num_profiles, self.sizes.num_rows
        )
        factors_CQ = unit.time_SQ[step] * unit.steps_CP[:used, 1:] * unit.steps_CP[:used, :1]
        mixed_CN = np.einsum("cq,cqn->cn", factors_CQ.astype(np.float32), numbers_CQN)
        mixed_CN *= unit.row_factors_N
        mixed_CN[:1] = unit.steps_CP[:1, :1]
        return mixed_CN


def check_single(num_components: int) -> None:
    """Raise PackBoundsError unless an increment brings one strand."""
    if num_components != 1:
        raise PackBoundsError(f"an increment must bring one strand, got {num_components} strands")


def check_order(number: int, have: int, first_plane: int) -> None:
    """Raise PackDamagedError unless an increment starts where its strand ends."""
    if have != first_plane:
        raise PackDamagedError(
            f"an increment starts at plane {first_plane} of strand {number}, which has {have} "
            "planes; planes come in order"
        )


def take_frame(unit: UnitNumbers, payload: bytes) -> None:
    """Take the scales and profiles of a unit. Raises PackDamagedError."""
    sizes = unit.sizes
    unit.set_frame(
        frame_from_bytes(
            payload,
            num_rows=sizes.num_rows,
            num_steps=sizes.num_steps,
            num_profiles=sizes.num_profiles,
        )
    )


def take_planes(unit: UnitNumbers, number: int, payload: bytes, planes: tuple[int, int]) -> None:
    """Take more planes of a strand, from the first on so many. Raises PackError."""
    first_plane, num_planes = planes
    region = region_of(strand_of(number, profiles=unit.sizes.num_profiles), unit.sizes)
    check_order(number, int(unit.planes[number]), first_plane)
    unit.reserve(region.end_line)
    steps_R = unit.steps_CP[region.first_line : region.end_line, region.part]
    at = 0
    if unit.planes[number] == 0:
        exponent, exponents_R, at = read_exponents(payload, region.num_vectors)
        steps_R[:] = np.ldexp(1.0, 1 + exponent - exponents_R.astype(np.int64))
    unit.used[0] = max(unit.used[0], region.end_line)
    numbers_RL = unit.lines_CW[
        region.first_line : region.end_line, region.first_number : region.end_number
    ]
    magnitudes_RL, is_negative_RL = np.abs(numbers_RL).astype(np.int32), np.signbit(numbers_RL)
    for _ in range(num_planes):
        at = decode_plane(payload, at, magnitudes_RL, is_negative_RL)
        put_numbers(numbers_RL, magnitudes_RL, is_negative_RL)
        steps_R /= 2
        unit.planes[number] += 1
    if at != len(payload):
        raise PackDamagedError(f"a payload of {len(payload)} bytes holds planes of {at} bytes")


def put_numbers(numbers_RL: Floats, magnitudes_RL: Magnitudes, is_negative_RL: Flags) -> None:
    """Write magnitudes and signs as `unit_numbers.py` keeps them."""
    np.add(magnitudes_RL, WITHIN_CELL, out=numbers_RL, casting="same_kind")
    np.negative(numbers_RL, out=numbers_RL, where=is_negative_RL)
    numbers_RL[magnitudes_RL == 0] = 0
