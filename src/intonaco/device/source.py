"""Template state as it streams in: receive | reconstruct | execute, one shard ahead of the model.

The network's process receives, the reconstruction processes decode what has arrived. A thread here
settles each shard shortly before its turn (`settling`): how it starts, with which prefix, and its keys
and values, where the model reads them; the model executes and takes what is ready. The three overlap: a
shard is cut at its deadline, in transfer and in decoding, so the model never waits for more than a floor.

    shard    asked -> settled (run | borrow) -> made -> running -> ended
                   -> dense: the state is gone, from this step on the model computes everything
"""

import operator
import threading
import time
from collections.abc import Callable

from intonaco.device.cores import Cores
from intonaco.device.link import TemplateLink
from intonaco.device.reconstruction import BlockState
from intonaco.device.records import ShardRecord
from intonaco.device.settling import Settled, Settler, ShardTimes
from intonaco.device.upload import Blocks, Upload
from intonaco.errors import StateGoneError, StoreLostError, StreamingError
from intonaco.families.template_state import StateShape
from intonaco.streaming.late import LateSettings
from intonaco.template.manifest import LadderRecord

LOOK_S = 0.25


class StreamedSource:
    """The state of one edit; a StateSource and a context manager.

    Args:
        run_s, reconstruct_s: planned seconds per shard.
        start_at: when the first shard is expected to run, on the system's monotonic clock.
        upload: brings what was made to the model's device; outlives this source.
    """

    def __init__(
        self,
        link: TemplateLink,
        *,
        run_s: tuple[float, ...],
        reconstruct_s: tuple[float, ...],
        start_at: float,
        late: LateSettings,
        upload: Upload,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.records: list[ShardRecord] = []
        self.dense_from_step: int | None = None
        self.times = ShardTimes(
            start_at=start_at, run_s=list(run_s), reconstruct_s=list(reconstruct_s)
        )
        self._link = link
        self._sizes = link.manifest.sizes
        self._groups = self._sizes.block_groups
        self._reconstruction = link.reconstruction
        self._late = late
        self._upload = upload
        self._clock = clock
        self._cores = Cores()
        self._changed = threading.Condition()
        self._settler = Settler(link, times=self.times, upload=upload, within_s=late.give_up_s)
        self._settled: dict[int, Settled] = {}
        self._running: Blocks = {}
        self._reached = -1
        self._is_closed = False
        self._has_ended = False
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._reconstruct, name="intonaco-reconstruct", daemon=True
        )

    def __enter__(self) -> "StreamedSource":
        self._cores.leave_one()
        try:
            self._reconstruction.begin()
        except StreamingError as error:
            # Met again at the first shard, which then runs dense.
            self.troubles.append(str(error))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cores.take_all()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._stop_stream()
        self._thread.join(timeout=self._longest_s + 2 * LOOK_S)
        self._reconstruction.rest()

    @property
    def troubles(self) -> list[str]:
        """What went wrong, one line each."""
        return self._settler.troubles

    @property
    def shape(self) -> StateShape:
        sizes = self._sizes
        return StateShape(
            num_steps=sizes.num_steps,
            num_blocks=sizes.num_blocks,
            num_rows=sizes.num_rows,
            width=sizes.width,
        )

    @property
    def num_shards(self) -> int:
        return self._sizes.num_steps * len(self._groups)

    @property
    def num_bytes(self) -> int:
        """Of the coded state: what the shards so far were made from, each byte counted once."""
        longest = dict.fromkeys(range(len(self._groups)), 0)
        for record in self.records:
            longest[record.group] = max(longest[record.group], record.basis_bytes)
        return sum(record.coefficient_bytes for record in self.records) + sum(longest.values())

    def read(self, step: int, block: int, /) -> BlockState:
        """Return keys and values; waits for a late shard, a bounded time.

        Raises StateGoneError where the step has to run dense, StreamingError where nothing can be
        had and the model cannot either.
        """
        if self.dense_from_step is not None:
            raise self._gone(step)
        group = next(index for index, blocks in enumerate(self._groups) if block in blocks)
        shard = step * len(self._groups) + group
        if shard > self._reached:
            self._enter(shard, step, group)
        return self._running[block]

    def finish(self) -> None:
        """The last shard ended: what is left to do, the model does on all cores."""
        if self._reached >= 0 and self.dense_from_step is None:
            self._upload.wait_run()
            self._end(self._reached)
        self._cores.take_all()

    def _enter(self, shard: int, step: int, group: int) -> None:
        """The model reached `shard`: the one before has ended, this one begins once it is ready."""
        # On a GPU a call returns once it is launched: the clock would tell when the host was through
        # with the shard before, which is long before the GPU is.
        self._upload.wait_run()
        reached_at = self._clock()
        if shard:
            self._end(shard - 1)
        with self._changed:
            self._reached = shard
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: shard in self._settled or self._has_ended, self._longest_s
            )
        if shard not in self._settled:
            self.troubles.append(f"shard {shard} was not settled; the rest runs dense")
            raise self._go_dense(step)
        settled = self._settled[shard]
        started = settled.started
        self.records.append(self._record(settled, step, group, self._clock() - reached_at))
        if started.word == "give-up":
            raise settled.error or StreamingError(
                f"the state of step {step} did not come, and this model cannot run without it; check "
                "the network and edit again"
            )
        if started.word == "dense":
            raise self._go_dense(step)
        if started.word == "run":
            self._reconstruction.keep(group)
        self._running = self._upload.take(settled.uploaded)
        self._tell(lambda: self._link.begun(shard, has_borrowed=started.word == "borrow"))
        with self._changed:
            self.times.begun_at[shard] = self._clock()
            self._settled.pop(shard - 1, None)
            self._changed.notify_all()

    def _record(self, settled: Settled, step: int, group: int, stall_s: float) -> ShardRecord:
        started = settled.started
        lengths = (settled.coefficient_bytes, settled.basis_bytes)
        files = (self._link.manifest.coefficients[step][group], self._link.manifest.bases[group])
        is_run = started.word == "run"
        arrived = (started.coefficient_bytes, started.basis_bytes)
        floors = (started.coefficient_floor_bytes, started.basis_floor_bytes)
        return ShardRecord(
            step=step,
            group=group,
            word=started.word,
            level=started.level,
            coefficient_bytes=settled.coefficient_bytes,
            basis_bytes=settled.basis_bytes,
            is_cut=is_run and (started.is_cut or any(map(operator.lt, lengths, arrived))),
            is_below_floor=is_run and any(map(operator.lt, lengths, floors)),
            is_whole=is_run and all(map(_is_whole, lengths, files)),
            stall_s=stall_s,
        )

    def _end(self, shard: int) -> None:
        self.times.end(shard, self._clock())
        self._tell(self._link.ended)

    def _stop_stream(self) -> None:
        """Let nothing more be fetched; the summary follows."""
        if not self._is_stopped:
            self._is_stopped = True
            self._tell(self._link.stop)

    def _tell(self, send: Callable[[], None]) -> None:
        try:
            send()
        except StoreLostError:
            # The thread finds out by itself when it asks for the next shard.
            return

    @property
    def _longest_s(self) -> float:
        """The longest that one shard may keep the model waiting: then the step runs dense."""
        return self._late.give_up_s + self._late.silent_s + 2 * LOOK_S

    def _go_dense(self, step: int) -> StateGoneError:
        self.dense_from_step = step
        self._stop_stream()
        self._cores.take_all()
        return self._gone(step)

    def _gone(self, step: int) -> StateGoneError:
        return StateGoneError(
            f"template state is gone from step {step} on; the model has to compute every token"
        )

    def _reconstruct(self) -> None:
        """Settle shard after shard, each shortly before its turn."""
        try:
            for shard in range(self.num_shards):
                if not self._wait_turn(shard):
                    return
                settled = self._settler.settle(shard)
                with self._changed:
                    self._settled[shard] = settled
                    self._changed.notify_all()
                if settled.started.word in {"dense", "give-up"}:
                    return
        finally:
            # However this thread ends, even by a fault of ours, nobody waits for it any more.
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def _wait_turn(self, shard: int) -> bool:
        """Wait until one reconstruction before `shard` is needed; return False if the edit ended."""
        with self._changed:
            while not self._is_closed and self._reached < shard:
                due_at = self.times.due_at(shard)
                left = LOOK_S if due_at is None else due_at - self._clock()
                if left <= 0:
                    return True
                self._changed.wait(min(left, LOOK_S))
        return not self._is_closed


def _is_whole(num_bytes: int, record: LadderRecord) -> bool:
    """Return whether a prefix holds all of the file that gains anything."""
    return num_bytes >= record.cuts_from_floor()[-1][0]
