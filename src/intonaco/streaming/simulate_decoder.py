"""A modelled decoder beside a modelled run: it works through what arrived, in order, at one rate."""

from collections.abc import Sequence

from intonaco.streaming.decode_queue import DecodeQueue
from intonaco.streaming.requests import Due, Holdings
from intonaco.streaming.tables import ShardTable


class SimulatedDecoder:
    """What is decoded of an edit's bytes.

    Args:
        bytes_per_s: of the decoder; None decodes in no time.
    """

    def __init__(self, table: ShardTable, bytes_per_s: float | None) -> None:
        self._decoded = Holdings(table)
        self._queue = DecodeQueue(bytes_per_s=bytes_per_s, at=0.0)
        self._num_arrived = 0
        self._num_decoded = 0

    def add(self, pieces: Sequence[Due], now: float) -> None:
        """Take what arrived."""
        self._advance(now)
        self._decoded.due.extend(pieces)
        num_bytes = sum(piece.range.num_bytes for piece in pieces)
        self._num_arrived += num_bytes
        self._queue = self._queue.add(num_bytes, now)

    def level(self, shard: int, now: float) -> int | None:
        """Return the level of `shard` that is decoded at `now`, None below the lowest."""
        self._advance(now)
        return self._decoded.level(shard)

    def ready_at(self, shard: int, level: int, now: float) -> float:
        """Return when `level` of `shard`, which has arrived, is decoded; `now` if it is already."""
        self._advance(now)
        rows = self._decoded.table.shards[shard]
        wanted = rows.levels[level]
        num_before, needed = 0, 0
        for piece in self._decoded.due:
            part = piece.range
            if part.part == "basis":
                stop = wanted.basis_bytes if part.group == rows.group else 0
            else:
                stop = wanted.coefficient_bytes if piece.shard == shard else 0
            left = self._decoded.left_bytes(piece)
            start = part.stop - left
            if start < stop:
                needed = num_before + min(part.stop, stop) - start
            num_before += left
        done = self._num_arrived - self._queue.left_at(now) - self._num_decoded
        return now + self._queue.seconds_for(max(0.0, needed - done))

    def _advance(self, now: float) -> None:
        """Count what was decoded by `now`, in whole bytes."""
        # Rounded, so that a byte which is due at `now` is not lost to the last digit of a float.
        total = int(self._num_arrived - self._queue.left_at(now) + 1e-6)
        self._decoded.receive(total - self._num_decoded)
        self._num_decoded = max(self._num_decoded, total)
