"""The loop between store and controller, on a store of the test's: when it connects again."""

import asyncio
from types import SimpleNamespace

from intonaco.errors import StoreLostError
from intonaco.streaming.client import DRAIN_S, FIRST_RETRY_S, StreamClient
from intonaco.streaming.controller import StreamController
from intonaco.streaming.settings import StreamSettings
from intonaco.streaming.store import Piece
from intonaco.streaming.stream_files import StreamFiles
from tests.support.streaming import ENCODE_S, NUM_GROUPS, NUM_STEPS, klein_plan

LONGEST_S = 20.0


class LostConnection:
    """Takes requests; is lost after the bytes that it still had."""

    sent: tuple[str, ...] = ()

    def __init__(self, store: "LosingStore") -> None:
        self._store = store
        self._left = store.num_bytes

    async def ask(self, request) -> None: ...

    async def read(self):
        if self._left == 0:
            raise StoreLostError("the connection is lost")
        self._left -= 1
        return Piece(content=b"x", tag="")

    async def close(self) -> None:
        self._store.closed_at.append(asyncio.get_running_loop().time())


class LosingStore:
    """Loses its first connections, then answers no more; notes when each began and ended.

    Each brings `num_bytes` before.
    """

    def __init__(self, num_losses: int, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.opened_at: list[float] = []
        self.closed_at: list[float] = []
        self.is_through = asyncio.Event()
        self._num_losses = num_losses

    async def connect(self) -> LostConnection:
        self.opened_at.append(asyncio.get_running_loop().time())
        if len(self.opened_at) > self._num_losses:
            self.is_through.set()
            await asyncio.Event().wait()
        return LostConnection(self)


class GrowingFile:
    """A file of the template; what it is given is not checked."""

    def __init__(self, name: str) -> None:
        self.record = SimpleNamespace(name=name)
        self.num_bytes = 0
        self.num_verified_bytes = 0

    def add(self, content: bytes) -> None:
        self.num_bytes += len(content)


def client_of(store: LosingStore) -> StreamClient:
    loop = asyncio.get_running_loop()
    plan = klein_plan()
    return StreamClient(
        store=store,
        controller=StreamController(
            plan, StreamSettings(), start_at=loop.time() + ENCODE_S, now=loop.time()
        ),
        files=StreamFiles(
            folder="",
            bases=tuple(GrowingFile(f"basis-{group}") for group in range(NUM_GROUPS)),
            coefficients=tuple(
                tuple(GrowingFile(f"{step}-{group}") for group in range(NUM_GROUPS))
                for step in range(NUM_STEPS)
            ),
        ),
        clock=loop.time,
    )


async def pauses_of(num_losses: int, *, num_bytes: int) -> list[float]:
    """Return how long a client waits after each loss before it connects again."""
    store = LosingStore(num_losses, num_bytes)
    running = asyncio.create_task(client_of(store).run())
    async with asyncio.timeout(LONGEST_S):
        await store.is_through.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    ends = zip(store.closed_at, store.opened_at[1:], strict=True)
    return [opened - closed for closed, opened in ends]


# A timer of the event loop ends a hair early at most; without a pause it is a hundredth of that.
HAIR = 0.99


def test_a_new_connection_is_not_asked_for_before_the_queue_of_the_old_one_had_time_to_drain():
    pauses = asyncio.run(pauses_of(3, num_bytes=1))
    assert len(pauses) == 3
    assert min(pauses) > HAIR * DRAIN_S


def test_connections_that_bring_nothing_are_made_ever_more_seldom():
    pauses = asyncio.run(pauses_of(4, num_bytes=0))
    least = [FIRST_RETRY_S * 2**index for index in range(4)]
    assert [pause > HAIR * shortest for pause, shortest in zip(pauses, least, strict=True)] == [
        True
    ] * 4


def test_connections_that_bring_something_are_made_anew_at_once():
    # No pause would be shorter if losses were counted whatever came.
    pauses = asyncio.run(pauses_of(5, num_bytes=1))
    assert min(pauses) < FIRST_RETRY_S
