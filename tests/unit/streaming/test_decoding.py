"""A decoder beside the run: its queue, and what an edit gets that cannot be decoded in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.streaming.decode_queue import DecodeQueue
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.requests import Fetch, Holdings
from intonaco.streaming.settings import StreamSettings
from intonaco.streaming.simulate import simulate_edit
from intonaco.streaming.simulate_decoder import SimulatedDecoder
from intonaco.streaming.window import Window
from tests.support.comparison import assert_close
from tests.support.streaming import ENCODE_S, klein_plan, steady_link

RUN_S = 2.26
PLAN = klein_plan(floor_ratio=1000.0)
arrivals = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 5000)), max_size=12)


def stream(mbps=560.0, **changes):
    plan = klein_plan(floor_ratio=1000.0, **changes)
    settings = StreamSettings(rate=RateSettings(start_bytes_per_s=mbps * 1e6 / 8))
    return simulate_edit(plan, steady_link(mbps), settings, encode_s=ENCODE_S)


def left_by_the_millisecond(steps, bytes_per_ms, until_ms):
    """The slow way: every millisecond, first what arrived, then what is decoded."""
    left = 0
    for ms in range(until_ms):
        left += sum(num_bytes for at_ms, num_bytes in steps if at_ms == ms)
        left = max(0, left - bytes_per_ms)
    return left


@given(steps=arrivals, bytes_per_ms=st.integers(1, 60))
def test_the_queue_is_what_a_decoder_leaves_that_is_watched_every_millisecond(steps, bytes_per_ms):
    queue = DecodeQueue(bytes_per_s=bytes_per_ms * 1000.0, at=0.0)
    for at_ms, num_bytes in sorted(steps):
        queue = queue.add(num_bytes, at_ms / 1000)
    expected = left_by_the_millisecond(steps, bytes_per_ms, 400)
    assert_close(queue.left_at(0.4), expected, atol=1e-6, why="sums of floats")


def test_without_a_rate_nothing_is_ever_left():
    queue = DecodeQueue(bytes_per_s=None, at=0.0).add(1_000_000, 1.0)
    assert (queue.left_at(1.0), queue.seconds_for(1e9)) == (0.0, 0.0)


def arrived(decoder, *fetches, now=0.0):
    holdings = Holdings(PLAN.table)
    for shard, level in fetches:
        ranges = holdings.ranges_to(shard, level)
        holdings.promise(Fetch(shard=shard, ranges=ranges, use_by=0.0), due_at=0.0)
    decoder.add(holdings.receive(holdings.due_bytes), now)
    return holdings


def test_bytes_are_decoded_in_the_order_in_which_they_came():
    decoder = SimulatedDecoder(PLAN.table, 1e6)
    arrived(decoder, (0, 3), (1, 0))
    first = PLAN.table.bytes_at([3] + [0] * 19) - PLAN.table.floor_bytes
    whole = PLAN.table.shards[0].cost_bytes(3, coefficient_bytes=0, basis_bytes=0)
    assert first < whole
    assert decoder.level(0, whole / 1e6 - 1e-5) == 2
    assert decoder.level(1, whole / 1e6) is None
    assert decoder.level(0, whole / 1e6) == 3


def test_a_level_is_ready_when_all_that_came_before_its_last_byte_is_decoded():
    decoder = SimulatedDecoder(PLAN.table, 1e6)
    arrived(decoder, (0, 3), (1, 0))
    costs = [
        PLAN.table.shards[shard].cost_bytes(level, coefficient_bytes=0, basis_bytes=0)
        for shard, level in ((0, 3), (1, 0))
    ]
    for now in (0.0, 0.3):
        assert_close(
            decoder.ready_at(1, 0, now), sum(costs) / 1e6, atol=2e-6, why="whole bytes of 1 us"
        )


def test_what_is_decoded_already_is_ready_now():
    decoder = SimulatedDecoder(PLAN.table, 1e6)
    arrived(decoder, (0, 0))
    assert decoder.ready_at(0, 0, 100.0) == 100.0


def test_a_decoder_faster_than_the_link_changes_nothing_that_counts():
    free, fast = stream(), stream(decode_bytes_per_s=1e9)
    assert fast.latency_s == free.latency_s
    assert fast.num_bytes > 0.95 * free.num_bytes


def test_what_cannot_be_decoded_in_time_is_not_fetched():
    slow = stream(decode_bytes_per_s=10e6)
    assert slow.num_bytes <= 10e6 * (ENCODE_S + RUN_S)
    assert slow.num_bytes > 0.6 * 10e6 * (ENCODE_S + RUN_S)


def test_an_edit_does_not_wait_for_a_slow_decoder_while_floors_can_be_decoded():
    assert stream(decode_bytes_per_s=10e6).num_violations == 0


def test_an_edit_waits_for_floors_that_no_decoder_of_this_rate_could_have_done():
    slow = stream(decode_bytes_per_s=0.5e6)
    assert slow.latency_s >= PLAN.table.floor_bytes / 0.5e6
    assert slow.num_bytes < 1.2 * PLAN.table.floor_bytes


@pytest.mark.parametrize("rates", [(3e6, 10e6), (10e6, 30e6)])
def test_a_faster_decoder_gives_a_better_picture(rates):
    slow, fast = (stream(decode_bytes_per_s=rate) for rate in rates)
    assert sum(slow.levels) < sum(fast.levels)


def test_a_window_is_bounded_by_the_link_or_by_what_can_be_decoded_after_the_backlog():
    window = Window(transfer_s=0.5, decode_s=0.6)
    budgets = [
        window.budget_bytes(100.0, decode_bytes_per_s=rate, backlog_bytes=backlog)
        for rate, backlog in ((None, 1e9), (200.0, 10.0), (50.0, 10.0), (50.0, 40.0))
    ]
    assert budgets == [50.0, 50.0, 20.0, 0.0]
