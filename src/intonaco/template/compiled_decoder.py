"""Units decoded by compiled code, a chunk of a unit at a time; needs numba (`pip install 'intonaco[fast]'`)."""

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError, PackDamagedError, PackError
from intonaco.template import head_kernels as heads
from intonaco.template.coded import MAX_COMPONENTS, MAX_PLANES
from intonaco.template.increments import (
    END,
    FIRST_COMPONENT,
    NUM_COLUMNS,
    START,
    HeadTable,
    UnitRange,
)
from intonaco.template.mix_kernels import mix
from intonaco.template.plain_decoder import take_frame
from intonaco.template.planes import MAX_EXPONENT
from intonaco.template.strand_kernels import take_increments
from intonaco.template.strands import LATER_SIZE
from intonaco.template.unit_numbers import Floats, UnitNumbers, UnitSizes

SMALLEST_INCREMENT = 3
"""Bytes: three numbers and no payload."""
BOUNDS_REASONS = {
    heads.NO_NUMBER: "a number in it is cut short, or starts with a byte that starts none",
    heads.NO_UNIT: "it is of a unit that the file does not have",
    heads.PAST_CHUNK: "its payload is longer than what is left of its chunk",
    heads.NO_PLANE: f"it brings 1 plane or more of components 0..{MAX_COMPONENTS - 1}",
    heads.TOO_FAR: "it leaves out more components than may be left out on the way",
    heads.UNEVEN: (
        f"its components must have equally many planes, and no more in the end than their file or "
        f"{MAX_PLANES}"
    ),
    heads.NOT_ONE: "it must bring one strand",
    heads.NO_GROUP: "its unit has no such component group",
}
DAMAGE_REASONS = {
    heads.CUT_SHORT: "it ends within a plane",
    heads.NO_WORDS: "its range coder needs whole 32-bit words, and has none",
    heads.BAD_WORDS: "its range coder holds words that no writer makes",
    heads.OUT_OF_ORDER: "it does not start at the plane where its strand ends",
    heads.BAD_EXPONENTS: f"exponents of a strand must lie in -{MAX_EXPONENT}..{MAX_EXPONENT}",
    heads.LEFT_OVER: "it has bytes left over behind its last plane",
}


class CompiledHeads:
    """Reads the heads of one ladder's chunks."""

    def __init__(self, units: UnitRange) -> None:
        self._max_planes = units.max_planes
        self._planes_UC = np.zeros((units.num_units, MAX_COMPONENTS), np.uint8)
        self._lengths_U = np.zeros(units.num_units, np.int64)

    def read_heads(self, chunk: bytes) -> HeadTable:
        """Return the heads of a chunk, as far as they keep to the format."""
        rows = np.empty((len(chunk) // SMALLEST_INCREMENT + 1, NUM_COLUMNS), np.int64)
        content = np.frombuffer(chunk, np.uint8)
        count, end = heads.read_heads(
            content, self._planes_UC, self._lengths_U, self._max_planes, rows
        )
        if end >= 0:
            return HeadTable(rows=rows[:count])
        reason = BOUNDS_REASONS[end]
        return HeadTable(
            rows=rows[:count],
            error=PackBoundsError(f"increment {count} of a chunk of {len(chunk)} bytes: {reason}"),
        )


class CompiledDecoder:
    """A `PlaneDecoder` of compiled code."""

    def __init__(self, sizes: UnitSizes) -> None:
        self._sizes = sizes
        # Places of asked, known and becoming numbers of a strand, see `plane_kernels.take_plane`.
        self._places = np.empty(3 * (LATER_SIZE * sizes.longest_vector + 1), np.uint32)
        self._mixed_CN = np.empty((0, sizes.num_rows), np.float32)

    def open_heads(self, units: UnitRange) -> CompiledHeads:
        return CompiledHeads(units)

    def take(
        self, unit: UnitNumbers, chunk: bytes, rows: NDArray[np.int64], file_unit: int
    ) -> None:
        content = np.frombuffer(chunk, np.uint8)
        row = 0
        while True:
            code, row = take_increments(
                content,
                rows,
                row,
                file_unit,
                self._sizes.num_rows,
                self._sizes.width,
                unit.lines_CW,
                unit.steps_CP,
                unit.planes,
                unit.used,
                self._places,
            )
            if code == 0:
                return
            if code == heads.NEEDS_ROOM:
                unit.reserve(int(unit.used[0]))
            elif code == heads.IS_FRAME:
                take_frame(unit, chunk[rows[row, START] : rows[row, END]])
                row += 1
            else:
                raise _refused(code, rows[row])

    def mix(self, unit: UnitNumbers, step: int) -> Floats:
        used = int(unit.used[0])
        if used > len(self._mixed_CN):
            self._mixed_CN = np.empty((len(unit.lines_CW), self._sizes.num_rows), np.float32)
        count = mix(
            unit.time_SQ[step],
            unit.lines_CW,
            unit.steps_CP,
            unit.row_factors_N,
            self._mixed_CN[:used],
        )
        return self._mixed_CN[:count]


def _refused(code: int, row: NDArray[np.int64]) -> PackError:
    what = f"an increment of strand {row[FIRST_COMPONENT]}, {row[END] - row[START]} bytes"
    if code in BOUNDS_REASONS:
        return PackBoundsError(f"{what}: {BOUNDS_REASONS[code]}")
    return PackDamagedError(f"{what}: {DAMAGE_REASONS[code]}")
