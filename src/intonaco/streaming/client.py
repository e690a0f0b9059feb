"""Drives one edit's stream: asks for what the controller wants, checks what comes, answers starts.

Sockets are behind `Store`, decisions are in `StreamController`; here is the loop between them. It
reconnects by itself, resumes where it stopped, fetches a damaged part once more, and gives the link
up for good where the server no longer has what the manifest says.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from intonaco.errors import (
    PackDamagedError,
    PackError,
    StoreAnswerError,
    StoreChangedError,
    StoreLostError,
    StoreTrustError,
)
from intonaco.streaming.controller import StreamController
from intonaco.streaming.late import Borrow, GiveUp, GoDense, Run, Start, Wait
from intonaco.streaming.protocol import Started, StartWord
from intonaco.streaming.rate import MIN_BYTES_PER_S
from intonaco.streaming.requests import Abandon, Fetch, FileRange, Finished
from intonaco.streaming.shared_files import CheckedFile
from intonaco.streaming.store import Connection, Piece, RangeRequest, Store

FIRST_RETRY_S = 0.05
LONGEST_RETRY_S = 1.0
LOOK_S = 0.05
# A connection that takes longer than this to make is a sign of a slow link, not of a cold start.
GRACE_S = 0.25
# What was on its way may still fill a queue; an answer to a new connection that finds no room in it
# comes a second later.
DRAIN_S = 0.02
MAX_TROUBLES = 100
MAX_DAMAGES_PER_FILE = 1
MAX_REFUSALS = 3
WORDS: dict[type[Start], StartWord] = {
    Run: "run",
    Borrow: "borrow",
    GoDense: "dense",
    GiveUp: "give-up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFiles:
    """The progressive files of a template as they fill up.

    Attributes:
        folder: of the template below the store's URL, "" for none.
        coefficients: [step][group].
        tags: entity tags by file name, as the server gave them first.
    """

    folder: str
    bases: tuple[CheckedFile, ...]
    coefficients: tuple[tuple[CheckedFile, ...], ...]
    tags: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, part: FileRange) -> CheckedFile:
        if part.step is None:
            return self.bases[part.group]
        return self.coefficients[part.step][part.group]

    def path(self, file: CheckedFile) -> str:
        return f"{self.folder}/{file.record.name}" if self.folder else file.record.name

    def all(self) -> list[CheckedFile]:
        return [*self.bases, *(file for row in self.coefficients for file in row)]


class StreamClient:
    """One edit's stream. `run` fetches until nothing is missing; `start` answers the device.

    Args:
        heard: called, without arguments, whenever something arrived or went wrong.
    """

    def __init__(
        self,
        *,
        store: Store,
        controller: StreamController,
        files: StreamFiles,
        heard: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.controller = controller
        self.num_bytes = 0
        self.num_connections = 0
        self.sent: list[str] = []
        self.troubles: list[str] = []
        self.is_lost = False
        self._is_closed = False
        self._store = store
        self._files = files
        self._heard = heard
        self._clock = clock
        self._due: deque[FileRange] = deque()
        # Per shard, the end of all that was ever asked for it, by file.
        self._asked: dict[int, dict[str, int]] = {}
        self._num_refusals = 0
        self._damages: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._retry_s = FIRST_RETRY_S
        self._restore()

    async def run(self) -> None:
        """Fetch until the controller wants nothing more, or the link is given up."""
        connection = None
        try:
            while not self.is_lost:
                connection = await self._connect()
                if connection is None or await self._follow(connection):
                    return
                self.sent += connection.sent
                await self._leave(connection)
                connection = None
                await asyncio.sleep(DRAIN_S)
        finally:
            if connection is not None:
                self.sent += connection.sent
                await self._leave(connection)

    async def start(self, shard: int) -> Started:
        """Return how `shard` starts, once that is decided; bounded by the late settings."""
        while True:
            start = self.controller.start(shard, self._clock())
            if not isinstance(start, Wait):
                break
            if self._is_closed:
                start = GiveUp()
                break
            if self.is_lost and self._is_boundary(shard):
                # Nothing will come: what waiting may be weighed against is no question any more.
                can_run_dense = self.controller.plan.dense_step_s is not None
                start = GoDense() if can_run_dense else GiveUp()
                break
            await self._wait(start.at_most_s)
        if isinstance(start, Run | Borrow):
            self._wake()
        return self._answer(shard, start)

    def fail(self, error: BaseException) -> None:
        """The loop ended by a fault of ours: no shard shall wait for it."""
        self._give_up(f"the stream ended by a fault: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Answer whoever waits for a start: the edit is over."""
        self._is_closed = True
        self._wake()

    def _answer(self, shard: int, start: Start) -> Started:
        rows = self.controller.plan.table.shards[shard]
        floor = rows.levels[rows.floor]
        is_running = isinstance(start, Run)
        return Started(
            shard=shard,
            word=WORDS[type(start)],
            level=start.level if isinstance(start, Run) else None,
            coefficient_bytes=(
                self._files.coefficients[rows.step][rows.group].num_verified_bytes
                if is_running
                else 0
            ),
            basis_bytes=self._files.bases[rows.group].num_verified_bytes if is_running else 0,
            coefficient_floor_bytes=floor.coefficient_bytes,
            basis_floor_bytes=floor.basis_bytes,
            is_cut=isinstance(start, Run) and (start.is_below_floor or self._is_cut(shard)),
        )

    def _is_cut(self, shard: int) -> bool:
        """Return whether something that was asked for this shard is not here, lost or late."""
        here = {file.record.name: file.num_verified_bytes for file in self._files.all()}
        return any(here[name] < stop for name, stop in self._asked.get(shard, {}).items())

    def _is_boundary(self, shard: int) -> bool:
        """Return whether a dense run may begin here: with a step, or in the first one."""
        rows = self.controller.plan.table.shards[shard]
        is_first_step = rows.step == 0
        has_other_way = self.controller.plan.dense_step_s is not None
        return is_first_step or (rows.group == 0 and has_other_way)

    def _restore(self) -> None:
        """Tell the controller what the device holds from earlier edits."""
        self.controller.holdings.restore(
            coefficients=[
                file.num_verified_bytes for row in self._files.coefficients for file in row
            ],
            bases=[file.num_verified_bytes for file in self._files.bases],
        )

    async def _connect(self) -> Connection | None:
        """Return a connection, however long that takes; None if nothing needs to be fetched."""
        grace_until = self._clock() + GRACE_S
        if isinstance(self.controller.decide(self._clock()), Finished):
            return None
        while True:
            attempt = asyncio.ensure_future(self._store.connect())
            try:
                await self._pass(attempt, grace_until)
                connection = attempt.result()
            except StoreLostError as error:
                self._note(str(error))
                pause = asyncio.ensure_future(asyncio.sleep(self._retry_s))
                self._retry_s = min(LONGEST_RETRY_S, 2 * self._retry_s)
                await self._pass(pause, grace_until)
            except StoreTrustError as error:
                self._give_up(str(error))
                return None
            else:
                # What was promised while there was no connection was never sent.
                self.controller.disconnected(self._clock())
                self.num_connections += 1
                return connection
            finally:
                attempt.cancel()

    async def _pass(self, what: "asyncio.Future[Any]", grace_until: float) -> None:
        """Wait for `what`; the controller sees the time pass as silence of the link."""
        try:
            while not what.done():
                await asyncio.wait({what}, timeout=LOOK_S)
                if not what.done() and self._clock() > grace_until:
                    self.controller.decide(self._clock())
                    self._tell()
        finally:
            what.cancel()

    async def _follow(self, connection: Connection) -> bool:
        """Use `connection` until it ends; return whether nothing is missing any more."""
        try:
            return await self._exchange(connection)
        except StoreLostError as error:
            self._note(str(error))
        except PackError as error:
            self._note(str(error))
            self._rewind()
        except StoreChangedError as error:
            self._give_up(str(error))
        except StoreAnswerError as error:
            self._num_refusals += 1
            if self._num_refusals < MAX_REFUSALS:
                self._note(str(error))
            else:
                self._give_up(str(error))
        return False

    async def _exchange(self, connection: Connection) -> bool:
        reading: asyncio.Task[Piece] | None = None
        try:
            while True:
                pause_s = await self._ask(connection)
                if pause_s is None:
                    return False
                if reading is None and self._due:
                    reading = asyncio.create_task(connection.read())
                if reading is None and pause_s == float("inf"):
                    return True
                woken = asyncio.create_task(self._changed.wait())
                waits: set[asyncio.Task[Piece] | asyncio.Task[bool]] = {woken}
                if reading is not None:
                    waits.add(reading)
                await asyncio.wait(
                    waits, timeout=min(pause_s, 10.0), return_when=asyncio.FIRST_COMPLETED
                )
                woken.cancel()
                if reading is not None and reading.done():
                    self._take(reading.result())
                    reading = None
        finally:
            if reading is not None:
                reading.cancel()
                # Its error, if it has one, is that of a connection that is left anyway.
                await asyncio.gather(reading, return_exceptions=True)

    async def _ask(self, connection: Connection) -> float | None:
        """Send what the controller wants; return how long it may rest, None to leave."""
        while True:
            action = self.controller.decide(self._clock())
            if isinstance(action, Fetch):
                for each in action.ranges:
                    self._due.append(each)
                    file = self._files.of(each)
                    self._asked.setdefault(action.shard, {})[file.record.name] = each.stop
                    await connection.ask(
                        RangeRequest(
                            name=self._files.path(file),
                            start=each.start,
                            stop=each.stop,
                            tag=self._files.tags.get(file.record.name) or None,
                        )
                    )
            elif isinstance(action, Abandon):
                return None
            elif isinstance(action, Finished):
                return float("inf")
            else:
                return max(0.0, action.until - self._clock())

    def _take(self, piece: Piece) -> None:
        """Keep what arrived and tell the controller. Raises PackError where it is damaged."""
        now = self._clock()
        self._retry_s = FIRST_RETRY_S
        current = self._due[0]
        file = self._files.of(current)
        if piece.tag:
            self._files.tags.setdefault(file.record.name, piece.tag)
        if piece.round_trip_s is not None:
            self.controller.measured_round_trip(piece.round_trip_s)
        self.num_bytes += len(piece.content)
        file.add(piece.content)
        self.controller.received(len(piece.content), now)
        if file.num_bytes >= current.stop:
            # A damaged length can hide a chunk's end; ranges end where chunks end.
            if file.num_verified_bytes != file.num_bytes:
                raise PackDamagedError(
                    f"{file.record.name}: no chunk ends at byte {file.num_bytes}; it is fetched again"
                )
            self._due.popleft()
        self._wake()

    def _rewind(self) -> None:
        """Drop the damaged end of the file that was being read; give up where it is damaged again."""
        if not self._due:
            return
        current = self._due[0]
        file = self._files.of(current)
        kept = file.rewind()
        holdings = self.controller.holdings
        if current.step is None:
            holdings.bases[current.group] = kept
        else:
            shard = current.step * self.controller.plan.table.num_groups + current.group
            holdings.coefficients[shard] = kept
        name = file.record.name
        self._damages[name] = self._damages.get(name, 0) + 1
        if self._damages[name] > MAX_DAMAGES_PER_FILE:
            self._give_up(f"{name} arrives damaged again and again; the store's copy is bad")

    def _give_up(self, reason: str) -> None:
        """Count on nothing more from this link in this edit."""
        self._note(reason)
        self.is_lost = True
        self.controller.rate = replace(
            self.controller.rate, fast=MIN_BYTES_PER_S, slow=MIN_BYTES_PER_S
        )
        self._wake()

    async def _leave(self, connection: Connection) -> None:
        self._due.clear()
        self.controller.disconnected(self._clock())
        self._wake()
        await connection.close()

    def _note(self, trouble: str) -> None:
        if len(self.troubles) < MAX_TROUBLES:
            self.troubles.append(trouble)
        self._heard()

    def _tell(self) -> None:
        self._heard()

    def _wake(self) -> None:
        """Let everybody who waits look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._heard()

    async def _wait(self, at_most_s: float) -> None:
        changed = self._changed
        try:
            async with asyncio.timeout(at_most_s):
                await changed.wait()
        except TimeoutError:
            return
