"""An emulated link on a clock of its own: what it carries, and when, however late its sleeps end."""

import asyncio
from dataclasses import dataclass, field

import pytest

from intonaco.errors import StoreLostError
from intonaco.streaming.link import BUFFER_S, PACKET_BYTES, PART_S, Fault, LinkShaper
from intonaco.streaming.shaped import ShapedStore
from intonaco.streaming.store import PIECE_BYTES, Piece, RangeRequest
from tests.support.comparison import assert_close
from tests.support.streaming import steady_link

ROUND_TRIP_S = 0.02
LATE_S = 0.001
BYTES_PER_S_OF_MBPS = 125_000


class LateClock:
    """A clock that moves only when somebody sleeps, each time further than was asked for."""

    def __init__(self) -> None:
        self.at = 50.0

    def __call__(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds + LATE_S


@dataclass(slots=True)
class InstantStore:
    """Has everything that is asked for at once; stands for a server on loopback."""

    url: str = "memory://instant"
    left: list[int] = field(default_factory=list[int])
    sent: list[str] = field(default_factory=list[str])

    async def connect(self) -> "InstantStore":
        return self

    async def ask(self, request: RangeRequest) -> None:
        self.left.append(request.stop - request.start)

    async def read(self) -> Piece:
        num_bytes = min(PIECE_BYTES, self.left[0])
        self.left[0] -= num_bytes
        if not self.left[0]:
            self.left.pop(0)
        return Piece(content=b"x" * num_bytes, tag='"tag"')

    async def fetch(self, name: str, *, max_bytes: int) -> bytes:
        return b"x" * max_bytes

    async def close(self) -> None:
        self.left.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Parts as they came: sizes, and times since the first request."""

    sizes: list[int]
    times_s: list[float]
    round_trips_s: list[float]


def watch(mbps: float, requests: list[int], *, faults: tuple[Fault, ...] = ()) -> Seen:
    """Ask for ranges of these lengths, all at once, over a link of `mbps`."""
    clock = LateClock()
    link = steady_link(mbps, round_trip_s=ROUND_TRIP_S, faults=faults)
    shaped = ShapedStore(
        store=InstantStore(), shaper=LinkShaper(link, clock=clock, sleep=clock.sleep)
    )

    async def read() -> Seen:
        connection = await shaped.connect()
        asked_at = clock()
        for num_bytes in requests:
            await connection.ask(RangeRequest(name="a", start=0, stop=num_bytes))
        seen = Seen(sizes=[], times_s=[], round_trips_s=[])
        while sum(seen.sizes) < sum(requests):
            piece = await connection.read()
            seen.sizes.append(len(piece.content))
            seen.times_s.append(clock() - asked_at)
            if piece.round_trip_s is not None:
                seen.round_trips_s.append(piece.round_trip_s)
        return seen

    return asyncio.run(read())


@pytest.mark.parametrize("mbps", [0.25, 5.0, 100.0, 500.0, 2000.0])
def test_sleeps_that_end_late_do_not_slow_the_link_down(mbps):
    num_bytes = int(mbps * BYTES_PER_S_OF_MBPS)
    seen = watch(mbps, [num_bytes])
    link_s = ROUND_TRIP_S + num_bytes / (mbps * BYTES_PER_S_OF_MBPS)
    assert_close(seen.times_s[-1], link_s, atol=2 * LATE_S, why="the last two sleeps end late")


@pytest.mark.parametrize("mbps", [0.25, 5.0, 100.0, 500.0])
def test_no_byte_comes_before_the_link_has_carried_it(mbps):
    seen = watch(mbps, [int(mbps * BYTES_PER_S_OF_MBPS)])
    here = 0
    for size, at in zip(seen.sizes, seen.times_s, strict=True):
        here += size
        assert here <= (at - ROUND_TRIP_S) * mbps * BYTES_PER_S_OF_MBPS + 1e-6


def test_a_slow_link_hands_over_packets_and_a_fast_one_what_some_milliseconds_bring():
    slow, fast = watch(0.25, [30_000]), watch(100.0, [3_000_000])
    assert max(slow.sizes) == PACKET_BYTES
    assert max(fast.sizes) == int(100 * BYTES_PER_S_OF_MBPS * PART_S)


def test_requests_on_their_way_together_lose_no_round_trip():
    one = watch(100.0, [1_000_000])
    many = watch(100.0, [100_000] * 10)
    assert_close(many.times_s[-1], one.times_s[-1], atol=2 * LATE_S, why="sleeps end late")


def test_the_round_trip_is_told_where_the_link_was_idle():
    (round_trip_s,) = watch(100.0, [100_000] * 3).round_trips_s
    first_part_s = ROUND_TRIP_S + PART_S
    assert_close(round_trip_s, first_part_s, atol=2 * LATE_S, why="sleeps end late")


def test_what_a_buffer_could_not_hold_is_not_made_up_for():
    clock = LateClock()
    shaper = LinkShaper(steady_link(100.0), clock=clock, sleep=clock.sleep)
    clock.at += 10.0
    through_at = shaper.carry(12_500_000, since=0.0)
    assert_close(through_at, 11.0 - BUFFER_S, atol=1e-6, why="sums of floats")


def test_a_reset_ends_a_read_that_waits_for_its_bytes():
    reset = Fault(kind="reset", at_s=0.5, length_s=0.1)
    with pytest.raises(StoreLostError, match="was reset"):
        watch(1.0, [1_000_000], faults=(reset,))
