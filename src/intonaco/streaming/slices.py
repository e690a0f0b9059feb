"""How much of what a shard should get is asked for at once. Pure."""

from intonaco.streaming.requests import FileRange, Holdings

# A request for less than this part of the smallest slice costs more in headers than it brings.
CRUMBS_PER_SLICE = 8


def next_slice(
    holdings: Holdings, shard: int, level: int, *, slice_bytes: int | None
) -> tuple[FileRange, ...]:
    """Return what to ask for next on the way to `level`, the floor by itself first.

    Args:
        slice_bytes: about how much; None for all of it.
    """
    floor = holdings.table.shards[shard].floor
    if holdings.unpromised_bytes(shard, floor) > 0:
        level = floor
    if slice_bytes is not None and holdings.unpromised_bytes(shard, level) > slice_bytes:
        level = min(level, _slice_level(holdings, shard, slice_bytes))
    return holdings.ranges_to(shard, level)


def is_worth_asking(holdings: Holdings, shard: int, level: int, *, smallest_bytes: int) -> bool:
    """A request for crumbs costs more in headers than it brings, unless it completes a shard."""
    missing = holdings.unpromised_bytes(shard, level)
    is_crumb = missing < smallest_bytes // CRUMBS_PER_SLICE
    is_full = level >= len(holdings.table.shards[shard].levels) - 1
    return missing > 0 and (is_full or not is_crumb)


def _slice_level(holdings: Holdings, shard: int, slice_bytes: int) -> int:
    """Return the highest level within a slice, or the next one that asks for any byte."""
    level = holdings.highest_within(shard, slice_bytes)
    while holdings.unpromised_bytes(shard, level) <= 0:
        level += 1
    return level
