"""Where the parts of a coded unit lie: the numbering of its strands.

A unit is (block, kind). Its coded form is a list of *strands*, each a list of bit-planes; files
number strands as *components* (`coded.py`). Strands of a unit, in their order:

    0                               frame: row scales, step scales, temporal profiles
    1                               mean, one vector of length d
    2 + g * (1 + Q) + 0             basis of component group g: vectors of length d
    2 + g * (1 + Q) + 1 + q         coefficients of group g in temporal profile q: vectors of length N

Component groups hold 1, 1, 2, 4, 8, 16, 16, ... components: the first ones carry most.
"""

from dataclasses import dataclass
from typing import Literal

from intonaco.errors import PackBoundsError

Part = Literal["frame", "mean", "basis", "coefficients"]

FRAME, MEAN, FIRST_GROUP = 0, 1, 2
MAX_PROFILES = 8
FIRST_SIZES = (1, 1, 2, 4, 8)
LATER_SIZE = 16
MAX_GROUPS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """One part of a unit.

    Attributes:
        group: component group of a basis or coefficients, else 0.
        profile: temporal profile of coefficients, else 0.
    """

    part: Part
    group: int = 0
    profile: int = 0


def num_profiles(num_steps: int) -> int:
    """Return Q, the temporal profiles of a template of `num_steps` steps."""
    return min(num_steps, MAX_PROFILES)


def group_range(group: int) -> tuple[int, int]:
    """Return the first component of a group and the one after its last."""
    small = len(FIRST_SIZES)
    start = sum(FIRST_SIZES[:group]) + max(0, group - small) * LATER_SIZE
    size = FIRST_SIZES[group] if group < small else LATER_SIZE
    return start, start + size


def group_sizes(num_components: int) -> list[tuple[int, int]]:
    """Return the ranges of the groups that hold `num_components`, the last one cut to fit."""
    ranges: list[tuple[int, int]] = []
    while not ranges or ranges[-1][1] < num_components:
        start, end = group_range(len(ranges))
        ranges.append((start, min(end, num_components)))
    return ranges


def strand_number(strand: Strand, *, profiles: int) -> int:
    """Return the number of `strand` in its unit, which has `profiles` temporal profiles."""
    if strand.part == "frame":
        return FRAME
    if strand.part == "mean":
        return MEAN
    within = 0 if strand.part == "basis" else 1 + strand.profile
    return FIRST_GROUP + strand.group * (1 + profiles) + within


def strand_of(number: int, *, profiles: int) -> Strand:
    """Return the strand of a number. Raises PackBoundsError if no unit has so many."""
    if number == FRAME:
        return Strand(part="frame")
    if number == MEAN:
        return Strand(part="mean")
    group, within = divmod(number - FIRST_GROUP, 1 + profiles)
    if not 0 <= group < MAX_GROUPS:
        raise PackBoundsError(
            f"a unit has strands of at most {MAX_GROUPS} component groups, got strand {number}"
        )
    if within == 0:
        return Strand(part="basis", group=group)
    return Strand(part="coefficients", group=group, profile=within - 1)
