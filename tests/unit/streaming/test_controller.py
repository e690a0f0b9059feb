"""What the controller asks for, when, and what it makes of what comes."""

from dataclasses import replace

import pytest

from intonaco.errors import StreamSettingsError
from intonaco.streaming.controller import StreamController
from intonaco.streaming.late import Run
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.requests import Abandon, Fetch, Finished, Holdings, Pause
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.window import need_time
from tests.support.comparison import assert_close
from tests.support.streaming import ENCODE_S, SHARD_RUN_S, klein_plan

FAST = RateSettings(start_bytes_per_s=70e6)  # 560 Mbit/s
ROUND_TRIP_S = 0.04


def controller(settings=None, plan=None, **changes):
    settings = settings or StreamSettings(rate=FAST, round_trip_s=ROUND_TRIP_S, **changes)
    return StreamController(plan or klein_plan(), settings, start_at=ENCODE_S, now=0.0)


def all_fetches(stream, now=0.0):
    fetches = []
    while isinstance(action := stream.decide(now), Fetch):
        fetches.append(action)
    return fetches


def deliver(stream, now):
    """Hand over everything that was asked for."""
    stream.received(stream.holdings.due_bytes, now)


def test_the_first_request_is_the_first_shard_s_floor_basis_before_coefficients():
    fetch = controller().decide(0.0)
    floor = klein_plan().table.shards[0].levels[0]
    assert [(each.part, each.start, each.stop) for each in fetch.ranges] == [
        ("basis", 0, floor.basis_bytes),
        ("coefficients", 0, floor.coefficient_bytes),
    ]


def test_floors_come_first_as_long_as_they_could_be_late_on_a_slower_link():
    slow = RateSettings(start_bytes_per_s=7e6)
    shards = [fetch.shard for fetch in all_fetches(controller(StreamSettings(rate=slow)))]
    floor_bytes = klein_plan().table.floor_bytes
    assert floor_bytes > 0.25 * 7e6 * 2.2
    assert shards == sorted(set(shards))


def test_on_a_fast_link_the_first_shard_gets_more_than_its_floor_at_once():
    fast = StreamSettings(rate=RateSettings(start_bytes_per_s=140e6))
    first, second = all_fetches(controller(fast))[:2]
    assert (first.shard, second.shard) == (0, 0)


def test_a_link_with_a_shorter_round_trip_than_assumed_is_measured_all_the_same():
    slow_start = RateSettings(start_bytes_per_s=2.5e6)
    stream = controller(StreamSettings(rate=slow_start, round_trip_s=ROUND_TRIP_S))
    now = 0.0
    for _ in range(100):
        all_fetches(stream, now)
        while stream.holdings.due_bytes:
            # The first of them long before the assumed round trip, all of them at 100 Mbit/s.
            part_bytes = min(16_384, stream.holdings.due_bytes)
            now += part_bytes / 12.5e6
            stream.received(part_bytes, now)
    assert_close(stream.rate.bytes_per_s, 12.5e6, atol=1.0, why="a constant rate, sums of floats")


def test_floors_at_risk_are_asked_for_while_others_are_on_their_way():
    """After an outage the link is thought slow: asked for one by one, floors would lose round trips."""
    stream = controller(StreamSettings(rate=RateSettings(start_bytes_per_s=0.4e6)))
    assert [fetch.shard for fetch in all_fetches(stream)][:5] == [0, 1, 2, 3, 4]
    assert stream.holdings.due_bytes / stream.rate.bytes_per_s > 10 * ROUND_TRIP_S


def test_the_first_step_s_floors_come_first_at_a_rate_that_later_steps_are_trusted_with():
    def asked_first(**changes):
        settings = StreamSettings(rate=RateSettings(start_bytes_per_s=140e6), **changes)
        return [fetch.shard for fetch in all_fetches(controller(settings))][:2]

    assert asked_first() == [0, 0]
    assert asked_first(first_step_floor_caution=0.02) == [0, 1]


def test_a_decoder_that_is_slower_than_the_link_bounds_what_is_asked_for():
    plan = klein_plan(floor_ratio=1000.0, decode_bytes_per_s=5e6)
    stream = controller(plan=plan)
    now, asked = 0.0, 0
    while now < ENCODE_S:
        asked += sum(fetch.num_bytes for fetch in all_fetches(stream, now))
        now += 0.01
        stream.received(min(stream.holdings.due_bytes, 700_000), now)
    last = plan.table.num_shards - 1
    assert asked <= 5e6 * need_time(stream.progress, stream.plan.run_s, last, 0.0)
    assert asked > 2 * plan.table.floor_bytes


def test_floors_are_asked_for_even_where_they_cannot_be_decoded_in_time():
    stream = controller(plan=klein_plan(decode_bytes_per_s=1e5))
    assert [fetch.shard for fetch in all_fetches(stream)][:5] == [0, 1, 2, 3, 4]


def test_what_the_device_holds_undecoded_leaves_less_time_to_decode_more():
    def asked(held):
        plan = klein_plan(floor_ratio=1000.0, decode_bytes_per_s=20e6)
        stream = controller(plan=replace(plan, undecoded_bytes=held))
        return sum(fetch.num_bytes for fetch in all_fetches(stream))

    assert asked(0) > asked(20_000_000) > 0


def test_no_byte_is_asked_for_twice():
    stream = controller()
    now, seen = 0.0, {}
    for _ in range(200):
        for fetch in all_fetches(stream, now):
            for each in fetch.ranges:
                key = (each.part, each.step, each.group)
                assert each.start == seen.get(key, 0)
                seen[key] = each.stop
        now += 0.02
        deliver(stream, now)


def test_more_is_asked_for_one_round_trip_before_the_link_falls_idle():
    stream = controller()
    all_fetches(stream)
    due_s = stream.holdings.due_bytes / stream.rate.bytes_per_s
    pause = stream.decide(0.0)
    assert isinstance(pause, Pause)
    assert due_s > ROUND_TRIP_S
    assert pause.until <= due_s - ROUND_TRIP_S + 1e-9


def test_with_one_request_at_a_time_nothing_is_asked_for_until_the_last_response_ends():
    stream = controller(max_requests=1)
    assert len(all_fetches(stream)) == 1
    stream.received(stream.holdings.due_bytes - 1, 0.1)
    assert isinstance(stream.decide(0.1), Pause)
    stream.received(1, 0.11)
    assert isinstance(stream.decide(0.11), Fetch)


def test_a_slower_link_is_asked_for_less():
    def asked(bytes_per_s):
        settings = StreamSettings(rate=RateSettings(start_bytes_per_s=bytes_per_s), slice_s=None)
        stream = controller(settings)
        for _ in range(40):
            all_fetches(stream)
            stream.holdings.receive(stream.holdings.due_bytes)
        return stream.holdings.level(0)

    assert asked(20e6) < asked(70e6) < asked(140e6)


def test_a_link_that_stops_delivering_is_measured_as_slow():
    stream = controller()
    all_fetches(stream)
    stream.received(2_000_000, 0.08)
    before = stream.rate.bytes_per_s
    for step in range(20):
        stream.decide(0.1 + 0.05 * step)
    assert stream.rate.bytes_per_s < 0.1 * before


def test_time_without_anything_due_does_not_count_as_slow():
    stream = controller()
    all_fetches(stream)
    stream.received(stream.holdings.due_bytes, 0.08)
    before = stream.rate
    assert stream.rate == before
    fetch = stream.decide(5.0)
    assert isinstance(fetch, Fetch)
    stream.received(fetch.num_bytes, 5.0 + ROUND_TRIP_S + fetch.num_bytes / 70e6)
    assert stream.rate.bytes_per_s > 20e6


def test_after_a_lost_connection_what_was_due_is_asked_for_again():
    stream = controller()
    first = all_fetches(stream)[0]
    received = first.ranges[0].num_bytes // 2
    stream.received(received, 0.06)
    stream.disconnected(0.07)
    again = stream.decide(0.07)
    assert (again.shard, again.ranges[0].start) == (first.shard, received)


def test_bytes_that_are_too_late_are_abandoned_when_a_new_connection_is_quicker():
    stream = controller(slice_s=None, first_step_floor_caution=0.25)
    floor, rest = stream.decide(0.0), stream.decide(0.0)
    assert (floor.shard, rest.shard) == (0, 0)
    stream.received(floor.num_bytes, 0.1)
    for step in range(20):  # silence: the rate falls
        stream.decide(0.1 + 0.02 * step)
    assert isinstance(stream.start(0, 0.5), Run)
    assert isinstance(stream.decide(0.5), Abandon)


@pytest.mark.parametrize(("late_s", "action"), [(0.15, Pause), (0.3, Abandon)])
def test_a_connection_to_a_server_next_door_is_not_left_for_a_tenth_of_a_second(late_s, action):
    near = StreamSettings(
        rate=FAST, round_trip_s=0.0005, slice_s=None, first_step_floor_caution=0.25, max_requests=1
    )
    stream = controller(near)
    floor = stream.decide(0.0)
    stream.received(floor.num_bytes, 0.01)
    rest = stream.decide(0.01)
    assert isinstance(stream.start(0, 0.01), Run)
    # What is still to come of it takes so long at the rate that is believed in.
    rate = rest.num_bytes / late_s
    stream.rate = replace(stream.rate, fast=rate, slow=rate)
    assert isinstance(stream.decide(0.0101), action)


def test_late_bytes_are_abandoned_although_what_comes_after_them_is_of_use():
    stream = controller(slice_s=None, first_step_floor_caution=0.25)
    floor, _ = stream.decide(0.0), stream.decide(0.0)
    behind = Fetch(shard=1, ranges=stream.holdings.ranges_to(1, 0), use_by=1.0)
    stream.holdings.promise(behind, due_at=0.0)
    stream.received(floor.num_bytes, 0.1)
    for step in range(20):
        stream.decide(0.1 + 0.02 * step)
    stream.start(0, 0.5)
    assert {each.shard for each in stream.holdings.due} >= {0, 1}
    assert isinstance(stream.decide(0.5), Abandon)


def test_nothing_more_is_asked_for_a_shard_whose_prefix_is_settled():
    stream = controller()
    all_fetches(stream)
    deliver(stream, 0.12)
    stream.start(0, 0.13)
    assert all(fetch.shard > 0 for fetch in all_fetches(stream, 0.13))


def test_the_stream_is_finished_when_every_shard_is_settled():
    stream = controller()
    now = 0.0
    for shard in range(20):
        for fetches in iter(lambda: all_fetches(stream, now), []):  # noqa: B023
            assert fetches
            now += 0.05
            deliver(stream, now)
            if stream.holdings.level(shard) is not None:
                break
        start = stream.start(shard, now)
        assert isinstance(start, Run)
        stream.begun(shard, start, now)
        now += SHARD_RUN_S
        stream.ended(now)
    deliver(stream, now)
    assert stream.decide(now) == Finished()


def test_one_decision_per_edit_asks_the_same_level_of_every_shard():
    stream = controller(is_per_edit=True, slice_s=None)
    now = 0.0
    for _ in range(60):
        all_fetches(stream, now)
        now += 0.05
        deliver(stream, now)
    levels = {stream.holdings.level(shard) for shard in range(20)}
    assert len(levels) == 1


def test_prefixes_that_the_device_still_holds_are_not_asked_for_again():
    stream = controller()
    table = klein_plan().table
    stream.holdings.restore(
        coefficients=[shard.full.coefficient_bytes for shard in table.shards],
        bases=[table.shards[group].full.basis_bytes for group in range(table.num_groups)],
    )
    assert not isinstance(stream.decide(0.0), Fetch)


def test_bytes_are_counted_in_the_order_of_requests():
    table = klein_plan().table
    holdings = Holdings(table)
    fetches = [
        Fetch(shard=shard, ranges=holdings.ranges_to(shard, 0), use_by=0.0) for shard in (0, 1)
    ]
    for fetch in fetches:
        holdings.promise(fetch, due_at=0.0)
    holdings.receive(fetches[0].num_bytes + 1)
    assert holdings.level(0) == 0
    assert holdings.bases[1] == 1
    assert holdings.coefficients[1] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"slice_s": 0.0},
        {"round_trip_s": -1.0},
        {"max_requests": 0},
        {"floor_caution": 0.0},
        {"first_step_floor_caution": 0.5},
    ],
)
def test_settings_that_cannot_stream_are_refused(wrong):
    with pytest.raises(StreamSettingsError, match="must"):
        StreamSettings(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"run_s": [1.0]}, {"run_s": [0.0] * 20}, {"decode_bytes_per_s": 0.0}, {"undecoded_bytes": -1}],
)
def test_a_plan_that_does_not_fit_its_table_is_refused(wrong):
    with pytest.raises(StreamSettingsError, match="must"):
        replace(klein_plan(), **wrong)


def test_dense_steps_cost_more_the_earlier_they_begin():
    plan: EditPlan = klein_plan()
    costs = [plan.dense_extra_s(step) for step in range(4)]
    assert costs == sorted(costs, reverse=True)
    assert klein_plan(dense_step_s=None).dense_extra_s(0) is None
