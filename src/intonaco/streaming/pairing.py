"""How the two progressive files of a shard become its levels.

A ladder is what is known of one file: prefixes of it, and what is left of its error at each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from intonaco.errors import StreamSettingsError
from intonaco.streaming.tables import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A prefix of one progressive file and what is left of its error there."""

    num_bytes: int
    error: float


def pair_ladders(
    coefficients: Sequence[Rung], basis: Sequence[Rung], *, basis_share: float
) -> tuple[Level, ...]:
    """Return the levels of one shard from its two progressive files.

    Both files are cut where one more byte buys the same error, which is the best pair for its bytes
    when errors add; the first level is the pair of first rungs, the two floors.

    Args:
        coefficients: prefixes of the shard's own file, the floor first.
        basis: prefixes of the group's basis file, the floor first; its error sums over the steps.
        basis_share: which part of the basis' error falls on this shard, 1 / num_steps.

    Raises StreamSettingsError for an empty ladder.
    """
    if not coefficients or not basis:
        raise StreamSettingsError(
            "pair_ladders needs a floor in both files, got "
            f"{len(coefficients)} and {len(basis)} rungs"
        )
    rises = [(slope, 0, index) for index, slope in enumerate(_slopes(coefficients), start=1)]
    rises += [(slope, 1, index) for index, slope in enumerate(_slopes(basis), start=1)]
    at = [0, 0]
    levels: list[Level] = []
    for step in [None, *sorted(rises, key=lambda rise: (-rise[0], rise[1], rise[2]))]:
        if step is not None:
            at[step[1]] = step[2]
        own, shared = coefficients[at[0]], basis[at[1]]
        error = own.error + basis_share * shared.error
        levels.append(
            Level(
                coefficient_bytes=own.num_bytes,
                basis_bytes=shared.num_bytes,
                error=min(error, levels[-1].error) if levels else error,
            )
        )
    return tuple(levels)


def _slopes(rungs: Sequence[Rung]) -> list[float]:
    """Return the error that a byte buys at each rise, made non-increasing so that order is kept."""
    slopes: list[float] = []
    for lower, upper in pairwise(rungs):
        slope = (lower.error - upper.error) / max(1, upper.num_bytes - lower.num_bytes)
        slopes.append(min(slope, slopes[-1]) if slopes else slope)
    return slopes
