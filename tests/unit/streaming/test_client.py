"""The loop between store and controller, on a store of the test's: when it connects again."""

import asyncio
from types import SimpleNamespace

from intonaco.errors import StoreLostError
from intonaco.streaming.client import DRAIN_S, StreamClient
from intonaco.streaming.controller import StreamController
from intonaco.streaming.settings import StreamSettings
from intonaco.streaming.stream_files import StreamFiles
from tests.support.streaming import ENCODE_S, NUM_GROUPS, NUM_STEPS, klein_plan

LONGEST_S = 20.0


class LostConnection:
    """Takes requests; is lost before the first byte of an answer."""

    sent: tuple[str, ...] = ()

    def __init__(self, store: "LosingStore") -> None:
        self._store = store

    async def ask(self, request) -> None: ...

    async def read(self):
        raise StoreLostError("the connection is lost")

    async def close(self) -> None:
        self._store.closed_at.append(asyncio.get_running_loop().time())


class LosingStore:
    """Loses its first connections, then answers no more; notes when each began and ended."""

    def __init__(self, num_losses: int) -> None:
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


def file(name: str):
    return SimpleNamespace(record=SimpleNamespace(name=name), num_verified_bytes=0)


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
            bases=tuple(file(f"basis-{group}") for group in range(NUM_GROUPS)),
            coefficients=tuple(
                tuple(file(f"{step}-{group}") for group in range(NUM_GROUPS))
                for step in range(NUM_STEPS)
            ),
        ),
        clock=loop.time,
    )


async def follow(num_losses: int) -> LosingStore:
    """Let a client run until it has come back after so many losses."""
    store = LosingStore(num_losses)
    running = asyncio.create_task(client_of(store).run())
    async with asyncio.timeout(LONGEST_S):
        await store.is_through.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return store


def test_a_new_connection_is_not_asked_for_before_the_queue_of_the_old_one_had_time_to_drain():
    store = asyncio.run(follow(num_losses=3))
    pauses = [
        opened - closed for closed, opened in zip(store.closed_at, store.opened_at[1:], strict=True)
    ]
    assert len(pauses) == 3
    # A timer of the event loop ends a hair early at most; without the pause it is a hundredth of that.
    assert min(pauses) > 0.99 * DRAIN_S
