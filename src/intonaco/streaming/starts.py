"""What the device is told of a shard's start. How a shard starts is decided in `late.py`."""

from intonaco.streaming.late import Borrow, GiveUp, GoDense, Run, Start
from intonaco.streaming.protocol import Started, StartWord
from intonaco.streaming.settings import EditPlan
from intonaco.streaming.stream_files import StreamFiles
from intonaco.streaming.tables import ShardTable

WORDS: dict[type[Start], StartWord] = {
    Run: "run",
    Borrow: "borrow",
    GoDense: "dense",
    GiveUp: "give-up",
}


def answer(shard: int, start: Start, *, table: ShardTable, files: StreamFiles) -> Started:
    """Return the message to the device: how `shard` starts, and which prefixes are there for it."""
    rows = table.shards[shard]
    floor = rows.levels[rows.floor]
    is_running = isinstance(start, Run)
    own, basis = files.coefficients[rows.step][rows.group], files.bases[rows.group]
    return Started(
        shard=shard,
        word=WORDS[type(start)],
        level=start.level if isinstance(start, Run) else None,
        coefficient_bytes=own.num_verified_bytes if is_running else 0,
        basis_bytes=basis.num_verified_bytes if is_running else 0,
        coefficient_floor_bytes=floor.coefficient_bytes,
        basis_floor_bytes=floor.basis_bytes,
        is_cut=isinstance(start, Run) and (start.is_below_floor or files.is_cut(shard)),
    )


def start_without_link(plan: EditPlan, shard: int) -> GoDense | GiveUp | None:
    """Return how `shard` starts where nothing more will come; None where no dense run may begin.

    It may with any step, and anywhere in the first one. Where the device cannot run dense at all,
    the edit ends in the first step.
    """
    rows = plan.table.shards[shard]
    if plan.dense_step_s is None:
        return GiveUp() if rows.step == 0 else None
    return GoDense() if rows.step == 0 or rows.group == 0 else None
