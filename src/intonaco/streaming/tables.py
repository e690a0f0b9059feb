"""What the stream controller may choose from: per shard, how many bytes buy which error.

Knows nothing of links, clocks or files. A shard of state, (step, block group), is read from two
progressive files: a coefficient file of its own and its group's basis file, which all steps share.
A *level* of a shard is one pair of prefix lengths; levels rise together in both files, so choosing a
quality is choosing one index. Basis bytes that came with an earlier step cost nothing again.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from intonaco.errors import StreamSettingsError

MAX_GRADES = 96
# The first quarter of an edit's steps adds so little to its error that its floor may lie lower.
# Measured by benchmarks/streaming_steps.py.
FIRST_STEPS_PART = 4


def num_first_steps(num_steps: int) -> int:
    """Return how many steps at the start may run at the lower floor."""
    return num_steps // FIRST_STEPS_PART


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One choice for one shard.

    Attributes:
        coefficient_bytes: prefix of the shard's own file.
        basis_bytes: prefix of its group's basis file; 0 where a codec shares nothing over steps.
        error: predicted squared error of the shard, in any unit that can be added over shards.
    """

    coefficient_bytes: int
    basis_bytes: int
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLevels:
    """The levels of one shard, fewest bytes first.

    Below its floor a shard runs only where waiting would not bring the floor; below the first level
    it never runs: the device waits, or takes another shard's state instead.

    Attributes:
        floor: the level that an edit is promised.

    Raises StreamSettingsError unless both lengths never fall, their sum rises, the error never
    rises from level to level and the floor is one of them.
    """

    step: int
    group: int
    levels: tuple[Level, ...]
    floor: int = 0

    def __post_init__(self) -> None:
        where = f"shard (step {self.step}, group {self.group})"
        if not self.levels:
            raise StreamSettingsError(f"{where} needs at least one level, its floor; got none")
        if not 0 <= self.floor < len(self.levels):
            raise StreamSettingsError(
                f"the floor of {where} must be one of its levels, 0 to {len(self.levels) - 1}, got "
                f"{self.floor}"
            )
        for lower, upper in pairwise(self.levels):
            coefficients = upper.coefficient_bytes - lower.coefficient_bytes
            basis = upper.basis_bytes - lower.basis_bytes
            if min(coefficients, basis) < 0 or coefficients + basis <= 0:
                raise StreamSettingsError(
                    f"levels of {where} must grow in bytes, got {lower} before {upper}; sort them "
                    "by prefix length and drop duplicates"
                )
            if upper.error > lower.error:
                raise StreamSettingsError(
                    f"levels of {where} must not grow in error, got {lower} before {upper}; drop "
                    "the longer prefix"
                )

    @property
    def full(self) -> Level:
        return self.levels[-1]

    def cost_bytes(self, level: int, *, coefficient_bytes: int, basis_bytes: int) -> int:
        """Return the bytes still missing for `level` when the given prefixes are there."""
        wanted = self.levels[level]
        return max(0, wanted.coefficient_bytes - coefficient_bytes) + max(
            0, wanted.basis_bytes - basis_bytes
        )

    def highest_within(
        self, budget_bytes: float, *, coefficient_bytes: int, basis_bytes: int
    ) -> int:
        """Return the highest level whose missing bytes fit the budget; the floor if none does."""
        fitting = bisect_right(
            range(len(self.levels)),
            budget_bytes,
            key=lambda level: self.cost_bytes(
                level, coefficient_bytes=coefficient_bytes, basis_bytes=basis_bytes
            ),
        )
        return max(self.floor, fitting - 1)

    def level_of(self, *, coefficient_bytes: int, basis_bytes: int) -> int | None:
        """Return the level that the given prefixes reach, or None below the first one."""
        by_coefficients = bisect_right(
            self.levels, coefficient_bytes, key=lambda level: level.coefficient_bytes
        )
        by_basis = bisect_right(self.levels, basis_bytes, key=lambda level: level.basis_bytes)
        reached = min(by_coefficients, by_basis) - 1
        return reached if reached >= 0 else None


@dataclass(frozen=True, kw_only=True)
class ShardTable:
    """All shards of a template in the order in which an edit needs them.

    A *grade* is one quality for all shards: each is taken up to where one more byte buys the same
    error, which is the best that a sum of bytes can be spent on. Grade 0 is every floor.

    Raises StreamSettingsError unless the shards run step by step through groups 0, 1, 2, ...
    """

    shards: tuple[ShardLevels, ...]

    def __post_init__(self) -> None:
        places = [(shard.step, shard.group) for shard in self.shards]
        num_groups = 1 + max((group for _, group in places), default=-1)
        num_steps = 1 + max((step for step, _ in places), default=-1)
        expected = [(step, group) for step in range(num_steps) for group in range(num_groups)]
        if not places or places != expected:
            raise StreamSettingsError(
                "shards must be every (step, group), step by step, as (0, 0), (0, 1), ..., (1, 0), "
                f"...; got {places[:8]}"
            )

    @cached_property
    def grades(self) -> tuple[tuple[int, ...], ...]:
        """Return, per grade and shard, the level. At most `MAX_GRADES`, the last one all full."""
        floors = [shard.floor for shard in self.shards]
        slopes = [
            _level_slopes(shard.levels[shard.floor :], self.num_steps) for shard in self.shards
        ]
        every = sorted({slope for of_shard in slopes for slope in of_shard}, reverse=True)
        stride = -(-len(every) // (MAX_GRADES - 1)) if every else 1
        chosen = sorted({*every[::stride], *every[-1:]}, reverse=True)
        grades = [tuple(floors)]
        for slope in chosen:
            # Slopes fall from level to level, so those at least as steep come first.
            rises = [bisect_right(of_shard, -slope, key=lambda each: -each) for of_shard in slopes]
            grades.append(tuple(map(sum, zip(floors, rises, strict=True))))
        return tuple(grades)

    @cached_property
    def grade_bytes(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return, per grade and shard, the prefix lengths (coefficients, basis)."""
        return tuple(
            tuple(
                (shard.levels[level].coefficient_bytes, shard.levels[level].basis_bytes)
                for shard, level in zip(self.shards, levels, strict=True)
            )
            for levels in self.grades
        )

    @property
    def num_shards(self) -> int:
        return len(self.shards)

    @property
    def num_groups(self) -> int:
        return 1 + self.shards[-1].group

    @property
    def num_steps(self) -> int:
        return 1 + self.shards[-1].step

    @property
    def floor_bytes(self) -> int:
        """Bytes of an edit that has nothing but every shard's floor."""
        return self._bytes_at([shard.floor for shard in self.shards])

    @property
    def full_bytes(self) -> int:
        return self._bytes_at([len(shard.levels) - 1 for shard in self.shards])

    def with_floor(self, num_bytes: float, *, first_steps_bytes: float) -> "ShardTable":
        """Return the table with the floors of an edit of `num_bytes`.

        A progressive file may be cut very low, where its state is worth little; this sets how low
        an edit may go. In the first steps the floor is that of an edit of `first_steps_bytes`;
        levels below that are left out. Every shard keeps at least its last level.
        """
        floors = self.grades[self._grade_within(num_bytes)]
        lowest = self.grades[self._grade_within(min(num_bytes, first_steps_bytes))]
        num_first = num_first_steps(self.num_steps)
        return ShardTable(
            shards=tuple(
                ShardLevels(
                    step=shard.step,
                    group=shard.group,
                    levels=shard.levels[low:],
                    floor=0 if shard.step < num_first else floor - low,
                )
                for shard, low, floor in zip(self.shards, lowest, floors, strict=True)
            )
        )

    def _grade_within(self, num_bytes: float) -> int:
        """Return the highest grade of which an edit has at most `num_bytes`; 0 if none."""
        totals = [self._bytes_at(levels) for levels in self.grades]
        return max(0, bisect_right(totals, num_bytes) - 1)

    def bytes_at(self, levels: Sequence[int]) -> int:
        """Return the bytes of an edit with these levels, one per shard; a basis counts once."""
        if len(levels) != self.num_shards:
            raise StreamSettingsError(
                f"levels must hold one level per shard, {self.num_shards}, got {len(levels)}"
            )
        return self._bytes_at(levels)

    def _bytes_at(self, levels: Sequence[int]) -> int:
        bases = [0] * self.num_groups
        total = 0
        for shard, index in zip(self.shards, levels, strict=True):
            level = shard.levels[index]
            total += level.coefficient_bytes
            bases[shard.group] = max(bases[shard.group], level.basis_bytes)
        return total + sum(bases)


def _level_slopes(levels: Sequence[Level], num_steps: int) -> list[float]:
    """Return the error that a byte buys on the way to each level but the first, never rising.

    Basis bytes serve all steps, so a step counts its share of them. Where a level buys less than the
    one after it, both count with their mean: nobody would stop between them.
    """
    pools: list[tuple[float, float, int]] = []
    for lower, upper in pairwise(levels):
        own = upper.coefficient_bytes - lower.coefficient_bytes
        num_bytes = own + (upper.basis_bytes - lower.basis_bytes) / num_steps
        pool = (lower.error - upper.error, num_bytes, 1)
        while pools and pool[0] * pools[-1][1] > pools[-1][0] * pool[1]:
            before = pools.pop()
            pool = (before[0] + pool[0], before[1] + pool[1], before[2] + pool[2])
        pools.append(pool)
    return [error / num_bytes for error, num_bytes, count in pools for _ in range(count)]
