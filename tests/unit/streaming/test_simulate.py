"""Whole edits over modelled links."""

import pytest

from intonaco.errors import StreamSettingsError
from intonaco.streaming.late import LateSettings
from intonaco.streaming.link import Fault, LinkModel
from intonaco.streaming.methods import (
    FixedCode,
    choose_fixed,
    simulate_dense,
    simulate_fixed,
    simulate_floors,
    simulate_token_chunks,
)
from intonaco.streaming.oracle import Oracle
from intonaco.streaming.quality_curve import (
    QualityCurve,
    StateSize,
    edit_error,
    psnr_of,
    table_from_curve,
)
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.settings import StreamSettings
from intonaco.streaming.simulate import simulate_edit
from intonaco.streaming.traces import Trace
from tests.support.comparison import assert_close
from tests.support.streaming import (
    CURVE,
    ENCODE_S,
    KLEIN_BYTES,
    SHARD_RUN_S,
    klein_plan,
    steady_link,
)

PLAN = klein_plan()
RUN_S = sum(PLAN.run_s)
CODES = [FixedCode(name=f"INT{b}", ratio=16 / b, psnr_db=10.0 * b) for b in (8, 4, 2)]


def stream(mbps=560.0, plan=PLAN, *, settings=None, faults=(), **changes):
    link = steady_link(mbps, faults=faults)
    settings = settings or StreamSettings(
        rate=RateSettings(start_bytes_per_s=mbps * 1e6 / 8), **changes
    )
    return simulate_edit(plan, link, settings, encode_s=ENCODE_S)


def test_on_a_steady_link_no_shard_is_late():
    outcome = stream()
    assert outcome.num_violations == 0
    assert outcome.stall_s == 0.0
    assert_close(outcome.latency_s, ENCODE_S + RUN_S, atol=1e-9, why="sums of floats")


def test_the_same_edit_over_the_same_link_is_the_same():
    assert stream() == stream()


def test_a_faster_link_gives_a_better_picture_at_the_same_time():
    errors = [
        edit_error(PLAN.table, stream(mbps).levels, borrowed_error=1.0)
        for mbps in (100.0, 300.0, 600.0)
    ]
    assert errors == sorted(errors, reverse=True)


def test_a_link_of_the_floor_s_rate_keeps_the_floor():
    outcome = stream(100.0)
    assert all(level is not None for level in outcome.levels)
    assert outcome.stall_s < 0.01


def test_no_more_bytes_arrive_than_the_link_carries():
    outcome = stream()
    assert outcome.num_bytes <= 560e6 / 8 * outcome.latency_s


def test_most_of_a_steady_link_is_used():
    outcome = stream()
    assert outcome.num_bytes > 0.9 * 560e6 / 8 * RUN_S


def test_losing_a_round_trip_per_request_costs_bytes():
    late = stream(max_requests=1, slice_s=None)
    assert late.num_bytes < 0.8 * stream().num_bytes


def test_a_collapse_in_the_middle_is_cut_and_not_waited_for():
    crawl = (Fault(kind="crawl", at_s=1.0, crawl_bytes_per_s=7e6),)
    cut = stream(faults=crawl)
    stalled = stream(
        settings=StreamSettings(
            rate=RateSettings(start_bytes_per_s=70e6),
            late=LateSettings(late="stall"),
            slice_s=None,
            is_per_edit=True,
        ),
        faults=crawl,
    )
    assert cut.latency_s < 0.5 * stalled.latency_s


def test_five_seconds_of_silence_end_in_a_degraded_edit_or_a_dense_one_but_never_hang():
    outcome = stream(faults=(Fault(kind="silence", at_s=1.2, length_s=5.0),))
    assert outcome.num_borrowed > 0 or outcome.dense_from_step is not None
    assert outcome.latency_s < ENCODE_S + RUN_S + 6.0


def test_a_reset_connection_is_made_again():
    outcome = stream(faults=(Fault(kind="reset", at_s=1.0, length_s=0.2),))
    assert outcome.dense_from_step is None
    assert outcome.latency_s < ENCODE_S + RUN_S + 0.3


def test_a_link_that_never_delivers_ends_in_dense_steps():
    outcome = stream(faults=(Fault(kind="silence", at_s=0.0, length_s=1e9),))
    assert outcome.dense_from_step == 0
    assert outcome.latency_s < ENCODE_S + 4 * 3.25 + 5.0


def test_a_link_that_dies_late_is_left_at_a_step_boundary():
    outcome = stream(faults=(Fault(kind="silence", at_s=1.0, length_s=1e9),))
    assert outcome.dense_from_step in {2, 3}


def test_without_dense_steps_a_link_that_never_delivers_ends_the_edit():
    plan = klein_plan(dense_step_s=None)
    assert not stream(
        plan=plan, faults=(Fault(kind="silence", at_s=0.0, length_s=1e9),)
    ).is_finished


def test_a_server_that_crawls_for_ever_does_not_hold_the_edit():
    crawl = (Fault(kind="crawl", at_s=0.5, crawl_bytes_per_s=100.0),)
    assert stream(faults=crawl).latency_s < ENCODE_S + 4 * 3.25 + 5.0


def test_dense_edits_need_a_dense_step_time():
    assert simulate_dense(PLAN, encode_s=0.0).latency_s == 13.0
    with pytest.raises(StreamSettingsError, match="dense_step_s must be known"):
        simulate_dense(klein_plan(dense_step_s=None), encode_s=0.0)


def test_a_fixed_code_is_the_best_that_fits_or_the_smallest():
    def chosen(bytes_per_s):
        return choose_fixed(CODES, fp16_bytes=800.0, bytes_per_s=bytes_per_s, window_s=1.0).name

    assert [chosen(rate) for rate in (400.0, 200.0, 100.0, 1.0)] == ["INT8", "INT4", "INT2", "INT2"]


def test_a_fixed_code_waits_for_what_it_asked_for():
    # Twice as many bytes as the run hides.
    outcome = simulate_fixed(
        PLAN, steady_link(560.0), encode_s=ENCODE_S, num_bytes=2 * 70e6 * RUN_S
    )
    assert outcome.latency_s > 1.9 * RUN_S
    assert outcome.num_violations == 20


def test_token_chunks_hold_a_step_back_until_its_last_chunk():
    smallest = [FixedCode(name="x", ratio=5.0, psnr_db=30.0)]
    arguments = {
        "encode_s": ENCODE_S,
        "fp16_bytes": KLEIN_BYTES,
        "codes": smallest,
        "first_bytes_per_s": 70e6,
        "num_chunks": 4,
    }
    link = steady_link(560.0)
    chunked, error = simulate_token_chunks(PLAN, link, **arguments)
    by_shard = simulate_fixed(PLAN, link, encode_s=ENCODE_S, num_bytes=KLEIN_BYTES / 5)
    assert chunked.num_bytes == by_shard.num_bytes
    assert chunked.latency_s > by_shard.latency_s + 3 * SHARD_RUN_S
    assert_close(psnr_of(error), 30.0, atol=1e-9, why="a mean of equal values")


def test_the_oracle_is_never_worse_than_what_did_arrive_and_never_beats_its_bound():
    outcome = stream(300.0)
    oracle = Oracle(PLAN, steady_link(300.0), outcome.begins)
    known = list(outcome.levels)
    best = oracle.best(known)
    assert oracle.error_bound() <= best <= edit_error(PLAN.table, known, borrowed_error=1.0)


def test_the_oracle_finds_nothing_where_not_even_the_floors_could_have_come():
    oracle = Oracle(PLAN, steady_link(1.0), [0.1 * shard for shard in range(20)])
    assert oracle.best(None) is None


@pytest.mark.parametrize(
    ("ratios", "psnr_db"),
    [((), ()), ((5.0, 4.0), (50.0, 40.0)), ((4.0, 5.0), (40.0, 50.0)), ((4.0,), (50.0, 40.0))],
)
def test_a_curve_that_rises_with_fewer_bytes_is_refused(ratios, psnr_db):
    with pytest.raises(StreamSettingsError, match="a curve needs"):
        QualityCurve(ratios=ratios, psnr_db=psnr_db)


def test_a_curve_is_not_extrapolated():
    curve = QualityCurve(ratios=(5.0, 50.0), psnr_db=(60.0, 40.0))
    assert [curve.psnr_at(ratio) for ratio in (1.0, 5.0, 50.0, 500.0)] == [60.0, 60.0, 40.0, 40.0]


TWO_STEPS = StateSize(fp16_bytes=1e9, num_steps=2, groups=(1, 3), basis_share=0.5)


def test_a_shard_s_error_is_its_blocks_share_of_the_edit_s():
    table = table_from_curve(CURVE, TWO_STEPS, floor_ratio=150.0, num_levels=3)
    errors = [shard.levels[0].error / CURVE.error_at(150.0) for shard in table.shards]
    assert_close(errors, [1 / 8, 3 / 8, 1 / 8, 3 / 8], atol=1e-12, why="products of floats")


def test_an_edit_is_judged_by_what_each_step_adds_to_its_error():
    table = table_from_curve(CURVE, TWO_STEPS, floor_ratio=150.0, num_levels=3)

    def worth(levels, step_shares):
        error = edit_error(table, levels, borrowed_error=0.0, step_shares=step_shares)
        return psnr_of(error)

    first_low, second_low = [0, 0, 2, 2], [2, 2, 0, 0]
    assert worth([0] * 4, (0.1, 0.9)) == worth([0] * 4, None)
    assert worth(first_low, None) == worth(second_low, None)
    assert worth(first_low, (0.1, 0.9)) > worth(second_low, (0.1, 0.9)) + 9.0


def test_levels_go_on_below_the_floor_down_to_that_of_the_first_steps():
    size = StateSize(fp16_bytes=1e9, num_steps=4, groups=(2, 2), basis_share=1.0)
    plain = table_from_curve(CURVE, size, floor_ratio=100.0, num_levels=8)
    table = table_from_curve(
        CURVE, size, floor_ratio=100.0, num_levels=8, first_steps_floor_ratio=150.0
    )
    assert [shard.floor == 0 for shard in table.shards] == [True] * 2 + [False] * 6
    first, later = table.shards[0], table.shards[-1]
    assert_close(first.levels[0].basis_bytes, 1e9 / 2 / 150, atol=1, why="whole bytes")
    assert_close(later.levels[later.floor].basis_bytes, 1e9 / 2 / 100, atol=1, why="whole bytes")
    assert later.levels[later.floor :] == plain.shards[-1].levels


def test_the_oracle_gives_no_shard_less_than_its_floor():
    plan = klein_plan(floor_ratio=60.0, first_steps_floor_ratio=150.0)
    capacity = sum(plan.run_s) * plan.table.floor_bytes / 2.0
    link = steady_link(plan.table.floor_bytes * 8e-6 / 2.0)
    assert capacity > plan.table.floor_bytes
    oracle = Oracle(plan, link, [2.1 + 0.1 * shard for shard in range(20)])
    floors = [shard.floor for shard in plan.table.shards]
    assert oracle.best(None) <= edit_error(plan.table, floors, borrowed_error=1.0)
    early = [0.5 + 0.01 * shard for shard in range(20)]
    assert Oracle(plan, link, early).best(None) is None


def test_floors_alone_wait_for_nothing_but_the_link():
    fast, slow = (
        simulate_floors(PLAN, steady_link(mbps), encode_s=ENCODE_S) for mbps in (1000.0, 10.0)
    )
    assert fast.stall_s == 0.0
    assert slow.num_bytes == PLAN.table.floor_bytes
    basis_bytes = sum(shard.levels[0].basis_bytes for shard in PLAN.table.shards[:5])
    assert slow.latency_s > basis_bytes * 8 / 10e6


def test_an_edit_never_waits_less_than_floors_alone_would():
    for mbps in (20.0, 40.0, 80.0):
        alone = simulate_floors(PLAN, steady_link(mbps), encode_s=ENCODE_S)
        assert stream(mbps, plan=klein_plan(dense_step_s=None)).stall_s >= alone.stall_s - 1e-9


def test_after_an_outage_floors_come_without_a_round_trip_each():
    """The link is thought to be as slow as it was; floors asked for one by one would leave it idle."""
    slow_first = LinkModel(trace=Trace(name="outage", mbps=(1.0,) + (150.0,) * 59), start_s=0.3)
    settings = StreamSettings(rate=RateSettings(start_bytes_per_s=1e6 / 8))
    outcome = simulate_edit(PLAN, slow_first, settings, encode_s=ENCODE_S)
    alone = simulate_floors(PLAN, slow_first, encode_s=ENCODE_S)
    assert outcome.stall_s < alone.stall_s + 0.02
