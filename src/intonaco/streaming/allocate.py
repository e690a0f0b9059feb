"""How a link's next seconds are shared among the shards that are still to come. Pure.

One grade for a stretch of shards is the best use of its bytes, but bytes that arrive late serve no
early shard. So a shard gets the highest grade that it and every stretch of shards after it can reach
in time at the present rate: where a later stretch is dear (the first step carries the basis) the
shards before it save for it; where it is cheap, later shards simply get more.
"""

from collections.abc import Sequence

from intonaco.streaming.requests import Holdings
from intonaco.streaming.tables import ShardTable


def reachable_grade(holdings: Holdings, *, first: int, budgets: Sequence[float]) -> int:
    """Return the highest grade that shards `first`, `first + 1`, ... all reach in time; 0 if none.

    Args:
        holdings: what was asked for counts as there.
        budgets: per shard from `first` on, the bytes that can be there for it if they are asked for
            from now on.
    """
    low, high = 0, len(holdings.table.grades) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _is_reachable(holdings, first, budgets, middle):
            low = middle
        else:
            high = middle - 1
    return low


def urgent_floor(holdings: Holdings, *, first: int, budgets: Sequence[float]) -> int | None:
    """Return the first shard whose floor was not asked for, if any floor is at risk.

    Args:
        budgets: at a rate that the link is thought never to fall below.
    """
    if _is_reachable(holdings, first, budgets, 0):
        return None
    shards = range(first, first + len(budgets))
    floors = ((shard, holdings.table.shards[shard].floor) for shard in shards)
    return next((shard for shard, low in floors if holdings.unpromised_bytes(shard, low) > 0), None)


def uniform_level(table: ShardTable, budget_bytes: float) -> int:
    """Return the highest level at which all shards together stay within the budget; 0 if none."""
    highest = min(len(shard.levels) for shard in table.shards) - 1
    fitting = [
        level
        for level in range(highest + 1)
        if table.bytes_at([level] * table.num_shards) <= budget_bytes
    ]
    return max(fitting, default=0)


def _is_reachable(holdings: Holdings, first: int, budgets: Sequence[float], grade: int) -> bool:
    """Add up what each shard still misses at `grade`; every partial sum must fit its budget."""
    total = 0
    bases = list(holdings.promised_bases)
    num_groups = len(bases)
    wanted = holdings.table.grade_bytes[grade]
    for offset, budget in enumerate(budgets):
        shard = first + offset
        coefficient_bytes, basis_bytes = wanted[shard]
        total += max(0, coefficient_bytes - holdings.promised_coefficients[shard])
        group = shard % num_groups
        if basis_bytes > bases[group]:
            total += basis_bytes - bases[group]
            bases[group] = basis_bytes
        if total > budget:
            return False
    return True
