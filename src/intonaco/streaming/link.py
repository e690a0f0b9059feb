"""A link whose rate follows a trace: exact for the simulator, and a throttle for real sockets.

`LinkModel` is arithmetic: when do bytes arrive. `LinkShaper` makes real reads take that long; its
clock and its sleep are arguments. Neither opens a socket. Below a second a trace says nothing, so
neither does the model; it knows no queues and no slow start.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise

from intonaco.errors import StreamSettingsError
from intonaco.streaming.traces import Trace

# What a TCP packet holds on an Ethernet: no receiver sees less at once.
PACKET_BYTES = 1448
PART_S = 0.004
# How long a link goes on carrying while nobody reads; a receive buffer holds megabytes.
BUFFER_S = 0.25
LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong, in seconds since the link began.

    "silence" carries nothing for `length_s`, the connection stays; "reset" ends the connection at
    `at_s`, and no new one can be made for `length_s`; "crawl" carries `crawl_bytes_per_s` at most
    from `at_s` on, for ever.
    """

    kind: str
    at_s: float
    length_s: float = 0.0
    crawl_bytes_per_s: float = 1000.0

    def __post_init__(self) -> None:
        if self.kind not in {"silence", "reset", "crawl"} or min(self.at_s, self.length_s) < 0:
            raise StreamSettingsError(
                "a fault is 'silence', 'reset' or 'crawl' with at_s and length_s not below 0, got "
                f"{self.kind!r}, {self.at_s}, {self.length_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkModel:
    """A trace from one of its seconds on, with a round trip and faults.

    Attributes:
        trace: rates; repeated from its start when it ends.
        start_s: the second of the trace at which the link's time 0 lies.
        round_trip_s: from a request on an idle link to its first byte.
        faults: at most a few; a link with a fault is still exact.
    """

    trace: Trace
    start_s: float = 0.0
    round_trip_s: float = 0.04
    faults: tuple[Fault, ...] = ()

    def bytes_between(self, begin: float, end: float) -> float:
        """Return what the link carries from `begin` to `end`."""
        if end <= begin:
            return 0.0
        cuts = [begin, *self._edges(begin, end), end]
        return sum(self._piece(left, right) for left, right in pairwise(cuts))

    def finish_at(self, begin: float, num_bytes: float) -> float:
        """Return when `num_bytes`, sent from `begin` on, are through."""
        at, left = begin, float(num_bytes)
        for edge in [*self._edges(begin, float("inf")), float("inf")]:
            rate_cap = self._cap(at)
            if rate_cap is None:
                offset = self.trace.bytes_until(self.start_s + at)
                done = self.trace.time_of(offset + left) - self.start_s
            else:
                done = at + left / rate_cap if rate_cap > 0 else float("inf")
            if done <= edge:
                return max(done, begin)
            left -= self._piece(at, edge)
            at = edge
        return float("inf")

    def is_up(self, now: float) -> bool:
        """Return whether a connection can exist at `now`."""
        return not any(
            fault.kind == "reset" and fault.at_s <= now < fault.at_s + fault.length_s
            for fault in self.faults
        )

    def next_reset(self, now: float) -> float:
        """Return when the next connection is lost, `now` excluded; infinity if never."""
        return min(
            (fault.at_s for fault in self.faults if fault.kind == "reset" and fault.at_s > now),
            default=float("inf"),
        )

    def up_again(self, now: float) -> float:
        """Return the first time from `now` on at which a connection can be made."""
        while not self.is_up(now):
            now = max(
                fault.at_s + fault.length_s
                for fault in self.faults
                if fault.kind == "reset" and fault.at_s <= now < fault.at_s + fault.length_s
            )
        return now

    def _edges(self, begin: float, end: float) -> list[float]:
        edges = {fault.at_s for fault in self.faults}
        edges |= {fault.at_s + fault.length_s for fault in self.faults if fault.kind != "crawl"}
        return sorted(edge for edge in edges if begin < edge < end)

    def _cap(self, at: float) -> float | None:
        """Return the cap in bytes per second that a fault sets at `at`, or None."""
        for fault in self.faults:
            if fault.kind == "crawl" and fault.at_s <= at:
                return fault.crawl_bytes_per_s
            if fault.kind != "crawl" and fault.at_s <= at < fault.at_s + fault.length_s:
                return 0.0
        return None

    def _piece(self, begin: float, end: float) -> float:
        """Return the bytes of a stretch without a fault's edge inside."""
        cap = self._cap(begin)
        if cap is not None:
            return cap * (end - begin)
        trace = self.trace
        return trace.bytes_until(self.start_s + end) - trace.bytes_until(self.start_s + begin)


class LinkShaper:
    """Makes reads of a real socket take as long as a link model says.

    A proxy, or a client's reader, awaits `round_trip()` before it passes a request on over an idle
    connection, and `throttle(n)` before it hands over n bytes; it closes the connection as soon as
    `is_up` is False or `lost_since` reports a reset. Whoever comes late, because a sleep took longer
    than was asked for, finds what a socket's buffer would hold by then: the average rate is exact.

    Args:
        clock, sleep: seconds that never run back, and the way to wait for them.
    """

    def __init__(
        self,
        model: LinkModel,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.model = model
        self._clock = clock
        self._sleep = sleep
        self._began_at = clock()
        self._free_at = 0.0

    def now(self) -> float:
        """Return the link's own time, 0 at its start."""
        return self._clock() - self._began_at

    async def round_trip(self) -> None:
        await self._sleep(self.model.round_trip_s)

    async def throttle(self, num_bytes: int) -> None:
        """Return when the link has carried `num_bytes` more; several callers share its rate."""
        await self.wait_until(self.carry(num_bytes, since=self.now()))

    def carry(self, num_bytes: int, *, since: float) -> float:
        """Put `num_bytes`, due since then, on the link; return when they are through.

        `since` may lie up to BUFFER_S in the past: the link carried meanwhile, to a buffer.
        """
        begin = max(since, self.now() - BUFFER_S, self._free_at)
        self._free_at = self.model.finish_at(begin, num_bytes)
        return self._free_at

    def part_bytes(self) -> int:
        """Return in how large parts a receiver sees bytes come in now: PART_S of the link's time."""
        begin = max(self.now(), self._free_at)
        carried = int(self.model.bytes_between(begin, begin + PART_S))
        return max(PACKET_BYTES, carried)

    async def wait_until(self, then: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait for a time of the link; `check` may end that by an error.

        Short naps, so that a link that stays silent for ever can still be cancelled or closed.
        """
        while (left := then - self.now()) > 0:
            await self._sleep(min(left, LOOK_S))
            check()

    def is_up(self, now: float | None = None) -> bool:
        return self.model.is_up(self.now() if now is None else now)

    def lost_since(self, then: float) -> bool:
        """Return whether the connection made at `then`, in the link's time, has been reset."""
        return self.model.next_reset(then) <= self.now()
