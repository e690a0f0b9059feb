"""What could have been had at the same times by one who knew the link's future.

Used to judge the controller, never to stream. The oracle keeps the begin times of a given edit and
chooses every shard's level with all arrivals known. The problem couples shards through their basis;
it is searched from several starts, so the result is a lower bound of the best, and `error_bound` an
upper bound of what any choice could reach.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intonaco.streaming.link import LinkModel
from intonaco.streaming.quality_curve import step_weights
from intonaco.streaming.settings import EditPlan

Floats = NDArray[np.float64]
Levels = NDArray[np.int64]
NUM_COARSE_LEVELS = 9


class Oracle:
    """The best levels for one edit whose shards begin at `begins` over a known link.

    All shards of the plan's table must have as many levels as each other. No shard is given less
    than its floor.

    Args:
        step_shares: which part of an evenly coded edit's error each step adds; None = all alike.
    """

    def __init__(
        self,
        plan: EditPlan,
        link: LinkModel,
        begins: Sequence[float],
        *,
        step_shares: Sequence[float] | None = None,
    ) -> None:
        table = plan.table
        self.table = table
        self._coefficients = np.array(
            [[x.coefficient_bytes for x in s.levels] for s in table.shards]
        )
        self._bases = np.array([[x.basis_bytes for x in s.levels] for s in table.shards])
        weights = step_weights(step_shares, table.num_steps)
        self._errors = np.array(
            [[weights[s.step] * x.error for x in s.levels] for s in table.shards]
        )
        self._floors: Levels = np.array([s.floor for s in table.shards], np.int64)
        self._capacity: Floats = np.array(
            [
                link.bytes_between(link.round_trip_s, begin - reconstruct_s)
                for begin, reconstruct_s in zip(begins, plan.reconstruct_s, strict=True)
            ]
        )

    @property
    def num_levels(self) -> int:
        return self._errors.shape[1]

    def error(self, levels: Levels) -> float:
        return float(self._errors[np.arange(len(levels)), levels].sum())

    def is_feasible(self, levels: Levels) -> bool:
        return bool(self._feasible(levels[None])[0])

    def best(self, known: Sequence[int] | None) -> float | None:
        """Return the least error found, or None where not even every floor could have arrived.

        `known` are levels that did arrive, to begin the search from as well.
        """
        starts = [*self._coarse_starts(), self._floors]
        if known is not None:
            starts.append(np.array(known, np.int64))
        feasible = [start for start in starts if self.is_feasible(start)]
        if not feasible:
            return None
        feasible.sort(key=self.error)
        chosen = feasible[:3] if known is None else [*feasible[:3], starts[-1]]
        return min(self.error(self._climb(start)) for start in chosen if self.is_feasible(start))

    def error_bound(self) -> float:
        """Return an error that no choice can be below: only the last arrival's limit is kept."""
        totals = [
            self.table.bytes_at([level] * self.table.num_shards) for level in range(self.num_levels)
        ]
        last = float(self._capacity.max())
        # The first uniform level that is too large is above what any mix could reach.
        reached = min(self.num_levels - 1, bisect_left(totals, last))
        return float(self._errors[:, reached].sum())

    def _coarse_starts(self) -> list[Levels]:
        """Return levels that never fall from step to step, on a coarse grid, and are feasible."""
        num_steps, num_groups = self.table.num_steps, self.table.num_groups
        grid = np.unique(np.linspace(0, self.num_levels - 1, NUM_COARSE_LEVELS).astype(np.int64))
        first, second = np.meshgrid(grid, grid, indexing="ij")
        ramps = np.linspace(0, 1, num_steps)
        per_step = np.rint(first.reshape(-1, 1) + ramps * (second - first).reshape(-1, 1)).astype(
            np.int64
        )
        levels = np.maximum(np.repeat(per_step, num_groups, axis=1), self._floors)
        return list(levels[self._feasible(levels)])

    def _feasible(self, levels: Levels) -> NDArray[np.bool_]:
        """Return which rows of levels (n, P) arrive in time, shard after shard."""
        places: Levels = np.arange(levels.shape[1], dtype=np.int64)
        costs = self._coefficients[places, levels].astype(np.float64)
        wanted = self._bases[places, levels]
        num_groups = self.table.num_groups
        for group in range(num_groups):
            column = wanted[:, group::num_groups]
            held = np.maximum.accumulate(column, axis=1)
            costs[:, group::num_groups] += np.diff(held, axis=1, prepend=0)
        in_time: NDArray[np.bool_] = np.cumsum(costs, axis=1) <= self._capacity
        return np.all(in_time, axis=1, keepdims=True)[:, 0]

    def _climb(self, levels: Levels) -> Levels:
        """Raise one shard, or one group from a step on, as long as something fits."""
        num_shards, num_groups = len(levels), self.table.num_groups
        singles = np.eye(num_shards, dtype=np.int64)
        chains = [
            np.where(
                (np.arange(num_shards) % num_groups == group) & (np.arange(num_shards) >= first),
                1,
                0,
            )
            for group in range(num_groups)
            for first in range(group, num_shards, num_groups)
        ]
        moves = np.concatenate([singles, np.array(chains, np.int64)])
        while True:
            candidates = np.minimum(levels + moves, self.num_levels - 1)
            errors = self._errors[np.arange(num_shards), candidates].sum(axis=1)
            gains = self.error(levels) - errors
            usable = self._feasible(candidates) & (gains > 0)
            if not usable.any():
                return levels
            spent = self._spent(candidates) - self._spent(levels[None])
            worth = np.where(usable, gains / np.maximum(spent, 1.0), -np.inf)
            levels = candidates[int(worth.argmax())]

    def _spent(self, levels: Levels) -> Floats:
        places: Levels = np.arange(levels.shape[1], dtype=np.int64)
        num_groups = self.table.num_groups
        bases = self._bases[places, levels].reshape(len(levels), -1, num_groups).max(axis=1)
        return (self._coefficients[places, levels].sum(axis=1) + bases.sum(axis=1)).astype(float)
