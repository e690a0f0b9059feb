"""A store behind a slower link than the real one: what a `LinkShaper` says, on real connections.

For demos, tests and measurements on one machine. Rate and round trip hold for what is read; what is
sent is a few hundred bytes a request and is not slowed.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from intonaco.errors import StoreLostError
from intonaco.streaming.link import LinkShaper
from intonaco.streaming.store import Connection, Piece, RangeRequest, Store

# Real links hand over packets; larger parts would make a slow link look like a stuttering one.
PART_BYTES = 4096
LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedStore:
    """`store` as it would be over the link of `shaper`."""

    store: Store
    shaper: LinkShaper

    @property
    def url(self) -> str:
        return self.store.url

    async def connect(self) -> "ShapedConnection":
        if not self.shaper.is_up():
            raise StoreLostError(f"{self.url} cannot be reached (the emulated link is down)")
        await self.shaper.round_trip()
        return ShapedConnection(await self.store.connect(), self.shaper)


class ShapedConnection:
    """Hands over what arrives no earlier than the link would have."""

    def __init__(self, connection: Connection, shaper: LinkShaper) -> None:
        self._connection = connection
        self._shaper = shaper
        self._connected_at = shaper.now()
        # Per open request: when it was asked for, and how many bytes are still to come.
        self._open: deque[tuple[float, int]] = deque()
        self._rest = b""
        self._tag = ""

    @property
    def sent(self) -> list[str]:
        return self._connection.sent

    async def ask(self, request: RangeRequest) -> None:
        await self._connection.ask(request)
        self._open.append((self._shaper.now(), request.stop - request.start))

    async def read(self) -> Piece:
        asked_at, left = self._open[0]
        if not self._rest:
            piece = await self._connection.read()
            self._rest, self._tag = piece.content, piece.tag
            # Elapsed already for whoever asked early enough.
            await self._pass_time(asked_at + self._shaper.model.round_trip_s - self._shaper.now())
        content, self._rest = self._rest[:PART_BYTES], self._rest[PART_BYTES:]
        await self._carry(len(content))
        self._open.popleft()
        if left > len(content):
            self._open.appendleft((asked_at, left - len(content)))
        return Piece(content=content, tag=self._tag)

    async def fetch(self, name: str, *, max_bytes: int) -> bytes:
        await self._shaper.round_trip()
        content = await self._connection.fetch(name, max_bytes=max_bytes)
        for start in range(0, len(content), PART_BYTES):
            await self._carry(len(content[start : start + PART_BYTES]))
        return content

    async def close(self) -> None:
        await self._connection.close()

    async def _carry(self, num_bytes: int) -> None:
        carried = asyncio.ensure_future(self._shaper.throttle(num_bytes))
        try:
            while not carried.done():
                await asyncio.wait({carried}, timeout=LOOK_S)
                self._check()
        finally:
            carried.cancel()

    async def _pass_time(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)
        self._check()

    def _check(self) -> None:
        if self._shaper.lost_since(self._connected_at):
            raise StoreLostError(f"the emulated link was reset after {self._connected_at:.2f} s")
