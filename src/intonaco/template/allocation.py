"""Chooses how much of each file of a template to read when all of it together must fit a budget.

Errors of files add, so the best choice takes cuts in the order of error saved per byte, over all
files at once. Pure; knows nothing of files, clocks or links: a stream chooses shard by shard
(`intonaco.streaming`), this one knows the whole budget beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from intonaco.errors import RequestError

BYTES_PER_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A prefix length of one file and what is left of its error there."""

    num_bytes: int
    error: float


def choose_prefixes(files: Sequence[Sequence[Cut]], *, budget_bytes: int) -> tuple[int, ...]:
    """Return a prefix length per file, one of its cuts, together at most `budget_bytes`.

    Each file's first cut is its floor. Raises RequestError if the floors alone are too long.
    """
    floors = sum(cuts[0].num_bytes for cuts in files)
    if floors > budget_bytes:
        raise RequestError(
            f"budget must be at least {floors / BYTES_PER_MB:.3f} MB for this template, got "
            f"{budget_bytes / BYTES_PER_MB:.3f} MB; less than the floor of its files is not used"
        )
    chosen = [cuts[0].num_bytes for cuts in files]
    left = budget_bytes - floors
    for _, index, start, end in _rises(files):
        # A rise that did not fit leaves a gap; later ones of the same file must wait for it.
        if chosen[index] == start and end - start <= left:
            chosen[index] = end
            left -= end - start
    for index, cuts in enumerate(files):
        fitting = [cut.num_bytes for cut in cuts if cut.num_bytes - chosen[index] <= left]
        left -= max(fitting[-1] - chosen[index], 0)
        chosen[index] = max(fitting[-1], chosen[index])
    return tuple(chosen)


def convex_hull(cuts: Sequence[Cut]) -> list[Cut]:
    """Return the cuts at which a byte buys ever less, first and last included."""
    hull: list[Cut] = []
    for cut in cuts:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], cut):
            hull.pop()
        hull.append(cut)
    return hull


def _rises(files: Sequence[Sequence[Cut]]) -> list[tuple[float, int, int, int]]:
    """Return (-error per byte, file, from bytes, to bytes), the best buy first."""
    rises: list[tuple[float, int, int, int]] = []
    for index, cuts in enumerate(files):
        hull = convex_hull(cuts)
        for lower, upper in pairwise(hull):
            rises.append((-_slope(lower, upper), index, lower.num_bytes, upper.num_bytes))
    return sorted(rises)


def _slope(lower: Cut, upper: Cut) -> float:
    return (lower.error - upper.error) / (upper.num_bytes - lower.num_bytes)
