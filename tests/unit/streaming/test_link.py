"""The modelled link: its arithmetic, its faults, and the shaper that keeps to it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import StreamSettingsError
from intonaco.streaming.link import Fault, LinkModel, LinkShaper
from intonaco.streaming.traces import Trace
from tests.support.comparison import assert_close
from tests.support.streaming import steady_link

MEGABYTE = 1_000_000
FAULTS = (
    Fault(kind="silence", at_s=1.0, length_s=5.0),
    Fault(kind="reset", at_s=8.0, length_s=2.0),
    Fault(kind="crawl", at_s=20.0, crawl_bytes_per_s=1000.0),
)


def test_bytes_arrive_at_the_trace_s_rate_from_its_start_second_on():
    link = LinkModel(trace=Trace(name="x", mbps=(8.0, 80.0)), start_s=1.0)
    assert link.bytes_between(0.0, 1.0) == 10 * MEGABYTE
    assert_close(link.finish_at(0.0, 10 * MEGABYTE), 1.0, atol=1e-9, why="one division in floats")


def test_nothing_arrives_while_the_link_is_silent():
    link = steady_link(8.0, faults=FAULTS[:1])
    assert link.bytes_between(1.0, 6.0) == 0.0
    assert link.finish_at(0.5, MEGABYTE) == 6.5


def test_a_crawling_link_takes_for_ever():
    link = steady_link(8.0, faults=FAULTS[2:])
    assert link.finish_at(20.0, 10_000) == 30.0


@given(st.floats(0, 30), st.integers(1, 10 * MEGABYTE))
def test_what_is_finished_has_been_carried(begin, num_bytes):
    link = steady_link(8.0, faults=FAULTS)
    carried = link.bytes_between(begin, link.finish_at(begin, num_bytes))
    assert_close(carried, num_bytes, atol=1.0, why="less than a byte of float rounding")


def test_a_reset_ends_the_connection_until_it_is_up_again():
    link = steady_link(8.0, faults=FAULTS)
    assert link.next_reset(0.0) == 8.0
    assert [link.is_up(at) for at in (7.9, 8.0, 9.9, 10.0)] == [True, False, False, True]
    assert link.up_again(9.0) == 10.0


@pytest.mark.parametrize("wrong", [{"kind": "rain"}, {"kind": "reset", "at_s": -1.0}])
def test_faults_that_do_not_exist_are_refused(wrong):
    with pytest.raises(StreamSettingsError, match="a fault is"):
        Fault(**{"at_s": 0.0, **wrong})


class HandClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at

    async def sleep(self, seconds):
        self.at += seconds


def shaper(link):
    clock = HandClock()
    return LinkShaper(link, clock=clock, sleep=clock.sleep)


def test_reads_take_as_long_as_the_link_says():
    shaped = shaper(steady_link(8.0, round_trip_s=0.05))

    async def read():
        await shaped.round_trip()
        for _ in range(4):
            await shaped.throttle(MEGABYTE // 2)

    asyncio.run(read())
    assert_close(shaped.now(), 2.05, atol=1e-9, why="sums of floats")


def test_two_readers_share_the_rate():
    shaped = shaper(steady_link(8.0))

    async def read():
        await asyncio.gather(shaped.throttle(MEGABYTE), shaped.throttle(MEGABYTE))

    asyncio.run(read())
    assert_close(shaped.now(), 2.0, atol=1e-9, why="sums of floats")


def test_a_reader_of_a_silent_link_can_be_stopped():
    link = steady_link(8.0, faults=(Fault(kind="silence", at_s=0.0, length_s=1e12),))
    shaped = LinkShaper(link)

    async def read():
        await asyncio.wait_for(shaped.throttle(1), timeout=0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(read())


def test_a_connection_made_before_a_reset_is_lost_and_one_made_after_it_is_not():
    shaped = shaper(steady_link(8.0, faults=FAULTS))
    asyncio.run(shaped.throttle(5 * MEGABYTE))  # a second before the silence, four after it
    assert shaped.now() > 10.0
    assert shaped.lost_since(0.0)
    assert not shaped.lost_since(9.0)
