"""Drives one edit's stream: asks for what the controller wants, checks what comes, answers starts.

Sockets are behind `Store`, decisions are in `StreamController`; here is the loop between them. It
reconnects by itself, resumes where it stopped, fetches a damaged part once more, and gives the link
up for good where the server no longer has what the manifest says.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
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
from intonaco.streaming.late import Borrow, GiveUp, Run, Wait
from intonaco.streaming.protocol import Started
from intonaco.streaming.rate import MIN_BYTES_PER_S
from intonaco.streaming.requests import Abandon, Fetch, FileRange, Finished
from intonaco.streaming.starts import answer, start_without_link
from intonaco.streaming.store import Connection, Piece, Store
from intonaco.streaming.stream_files import StreamFiles

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
        self._num_refusals = 0
        self._was_lost = False
        self._damages: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._retry_s = FIRST_RETRY_S
        # What the device holds from earlier edits.
        files.restore(controller.holdings)

    async def run(self) -> None:
        """Fetch until the controller wants nothing more, or the link is given up."""
        connection = None
        try:
            while not self.is_lost:
                num_bytes, self._was_lost = self.num_bytes, False
                connection = await self._connect()
                if connection is None or await self._follow(connection):
                    return
                self.sent += connection.sent
                await self._leave(connection)
                connection = None
                await self._rest(is_useless=self._was_lost and self.num_bytes == num_bytes)
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
            without = start_without_link(self.controller.plan, shard) if self.is_lost else None
            if without is not None:
                # Nothing will come: what waiting may be weighed against is no question any more.
                start = without
                break
            await self._wait(start.at_most_s)
        if isinstance(start, Run | Borrow):
            self._wake()
        return answer(shard, start, table=self.controller.plan.table, files=self._files)

    def fail(self, error: BaseException) -> None:
        """The loop ended by a fault of ours: no shard shall wait for it."""
        self._give_up(f"the stream ended by a fault: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Answer whoever waits for a start: the edit is over."""
        self._is_closed = True
        self._wake()

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
                await self._pass(asyncio.ensure_future(self._back_off()), grace_until)
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

    async def _rest(self, *, is_useless: bool) -> None:
        """Wait before the next connection; longer every time where the last was lost before a byte."""
        pause = self._back_off() if is_useless else asyncio.sleep(DRAIN_S)
        await self._pass(asyncio.ensure_future(pause), self._clock() + GRACE_S)

    async def _back_off(self) -> None:
        pause_s, self._retry_s = self._retry_s, min(LONGEST_RETRY_S, 2 * self._retry_s)
        await asyncio.sleep(pause_s)

    async def _pass(self, what: "asyncio.Future[Any]", grace_until: float) -> None:
        """Wait for `what`; the controller sees the time pass as silence of the link."""
        try:
            while not what.done():
                await asyncio.wait({what}, timeout=LOOK_S)
                if not what.done() and self._clock() > grace_until:
                    self.controller.decide(self._clock())
                    self._heard()
        finally:
            what.cancel()

    async def _follow(self, connection: Connection) -> bool:
        """Use `connection` until it ends; return whether nothing is missing any more."""
        try:
            return await self._exchange(connection)
        except StoreLostError as error:
            self._was_lost = True
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
                    await connection.ask(self._files.request(each, shard=action.shard))
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
