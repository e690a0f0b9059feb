"""A store behind a slower link than the real one: what a `LinkShaper` says, on real connections.

For demos, tests and measurements on one machine. Rate and round trip hold for what is read; what is
sent is a few hundred bytes a request and is not slowed.
"""

from collections import deque
from dataclasses import dataclass

from intonaco.errors import StoreLostError
from intonaco.streaming.link import LinkShaper
from intonaco.streaming.store import Connection, Piece, RangeRequest, Store


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


@dataclass(slots=True)
class _Open:
    """A request that was asked for at a time of the link and is not answered in full."""

    asked_at: float
    was_idle: bool
    num_bytes: int
    num_left: int


class ShapedConnection:
    """Hands over what arrives no earlier than the link would have."""

    def __init__(self, connection: Connection, shaper: LinkShaper) -> None:
        self._connection = connection
        self._shaper = shaper
        self._connected_at = shaper.now()
        self._open: deque[_Open] = deque()
        self._rest = b""
        self._tag = ""

    @property
    def sent(self) -> list[str]:
        return self._connection.sent

    async def ask(self, request: RangeRequest) -> None:
        await self._connection.ask(request)
        num_bytes = request.stop - request.start
        self._open.append(
            _Open(
                asked_at=self._shaper.now(),
                was_idle=not self._open,
                num_bytes=num_bytes,
                num_left=num_bytes,
            )
        )

    async def read(self) -> Piece:
        current = self._open[0]
        if not self._rest:
            piece = await self._connection.read()
            self._rest, self._tag = piece.content, piece.tag
        num_bytes = min(len(self._rest), self._shaper.part_bytes())
        # The round trip has elapsed already for whoever asked early enough.
        await self._carry(num_bytes, since=current.asked_at + self._shaper.model.round_trip_s)
        content, self._rest = self._rest[:num_bytes], self._rest[num_bytes:]
        is_first = current.num_left == current.num_bytes
        current.num_left -= num_bytes
        if current.num_left <= 0:
            self._open.popleft()
        round_trip_s = self._shaper.now() - current.asked_at
        return Piece(
            content=content,
            tag=self._tag,
            round_trip_s=round_trip_s if is_first and current.was_idle else None,
        )

    async def fetch(self, name: str, *, max_bytes: int) -> bytes:
        asked_at = self._shaper.now()
        content = await self._connection.fetch(name, max_bytes=max_bytes)
        await self._carry(len(content), since=asked_at + self._shaper.model.round_trip_s)
        return content

    async def close(self) -> None:
        await self._connection.close()

    async def _carry(self, num_bytes: int, *, since: float) -> None:
        through_at = self._shaper.carry(num_bytes, since=since)
        await self._shaper.wait_until(through_at, self._check)
        self._check()

    def _check(self) -> None:
        if self._shaper.lost_since(self._connected_at):
            raise StoreLostError(f"the emulated link was reset after {self._connected_at:.2f} s")
