"""What has arrived of one unit, in place: numbers that planes are written into and products read.

A unit is a matrix of *lines*. Line 0 holds the mean; line 1 + r holds component r, its basis vector (d)
and then its coefficients in each temporal profile (Q x N). A number is kept in units of its last plane's
step, sign included: m + 0.46 for a magnitude of m > 0, else 0. Steps are powers of two, so they go into
the factors that coefficients are mixed with, and nothing is written twice.

Shape letters: S steps, N rows, d width, Q temporal profiles, C lines there is room for.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError
from intonaco.template.frames import Frame
from intonaco.template.strands import (
    FIRST_GROUP,
    MAX_GROUPS,
    Strand,
    group_range,
    num_profiles,
)

FIRST_ROOM = 17
"""Lines that a unit starts with: the mean's and those of the first five component groups."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSizes:
    """S, N, d of a unit."""

    num_steps: int
    num_rows: int
    width: int

    @property
    def num_profiles(self) -> int:
        return num_profiles(self.num_steps)

    @property
    def line_length(self) -> int:
        return self.width + self.num_profiles * self.num_rows

    @property
    def num_strands(self) -> int:
        return FIRST_GROUP + MAX_GROUPS * (1 + self.num_profiles)

    @property
    def longest_vector(self) -> int:
        return max(self.width, self.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Where a strand's vectors lie: lines from the first to the last, and their numbers in a line.

    Attributes:
        part: 0 the mean or a basis, 1 + q coefficients of profile q.
    """

    first_line: int
    end_line: int
    first_number: int
    end_number: int
    part: int

    @property
    def num_vectors(self) -> int:
        return self.end_line - self.first_line


def region_of(strand: Strand, sizes: UnitSizes) -> Region:
    """Return where `strand`, which is no frame, lies. Raises PackBoundsError for too many components."""
    if strand.part == "mean":
        return Region(first_line=0, end_line=1, first_number=0, end_number=sizes.width, part=0)
    start, end = group_range(strand.group)
    # A unit cannot have more components than its basis has dimensions.
    end = min(end, sizes.width)
    if end <= start:
        raise PackBoundsError(
            f"a unit of width {sizes.width} has no component group {strand.group}"
        )
    is_basis = strand.part == "basis"
    first_number = 0 if is_basis else sizes.width + strand.profile * sizes.num_rows
    return Region(
        first_line=1 + start,
        end_line=1 + end,
        first_number=first_number,
        end_number=first_number + (sizes.width if is_basis else sizes.num_rows),
        part=0 if is_basis else 1 + strand.profile,
    )


@dataclass(slots=True, kw_only=True)
class UnitNumbers:
    """One unit's numbers and what they mean.

    Attributes:
        lines_CW: (C, d + Q N) float32, see above.
        steps_CP: (C, 1 + Q) float64, of each line's basis and of its coefficients; 0 = nothing is there.
        planes: of each strand.
        used: lines that strands have reached; an array of one, so that compiled code can raise it.
        time_SQ: temporal profiles with step scales taken out; 0 until the frame is there.
        row_factors_N: 1 / row scale.
    """

    sizes: UnitSizes
    lines_CW: Floats = field(init=False)
    steps_CP: NDArray[np.float64] = field(init=False)
    planes: NDArray[np.uint8] = field(init=False)
    used: NDArray[np.int64] = field(init=False)
    time_SQ: NDArray[np.float64] = field(init=False)
    row_factors_N: Floats = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.sizes
        room = min(FIRST_ROOM, 1 + sizes.width)
        self.lines_CW = np.zeros((room, sizes.line_length), np.float32)
        self.steps_CP = np.zeros((room, 1 + sizes.num_profiles))
        self.planes = np.zeros(sizes.num_strands, np.uint8)
        self.used = np.zeros(1, np.int64)
        self.time_SQ = np.zeros((sizes.num_steps, sizes.num_profiles))
        self.row_factors_N = np.ones(sizes.num_rows, np.float32)

    def set_frame(self, frame: Frame) -> None:
        self.time_SQ[:] = (frame.profiles / frame.step_scales).T
        self.row_factors_N[:] = 1 / frame.row_scales

    def reserve(self, num_lines: int) -> None:
        """Make room for so many lines, and for as many again so that it is rarely asked for."""
        have = len(self.lines_CW)
        if num_lines <= have:
            return
        room = min(max(num_lines, 2 * have), 1 + self.sizes.width)
        # Pages of zeros that nothing is written to cost no memory.
        lines_CW = np.zeros((room, self.sizes.line_length), np.float32)
        steps_CP = np.zeros((room, self.steps_CP.shape[1]))
        lines_CW[:have], steps_CP[:have] = self.lines_CW, self.steps_CP
        self.lines_CW, self.steps_CP = lines_CW, steps_CP
