"""Need times and transfer windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import StreamSettingsError
from intonaco.streaming.window import (
    Progress,
    WindowSettings,
    need_time,
    paper_window,
    transfer_window,
)
from tests.support.comparison import assert_close

PLAIN = WindowSettings(gamma=0.6, guard_s=0.0)
times = st.floats(0.01, 1.0)


@given(run_s=st.lists(times, min_size=4, max_size=4), arrived=st.floats(0, 1.5), gamma=times)
def test_the_window_is_the_papers_gamma_times_overlap_plus_carry_over(run_s, arrived, gamma):
    """Shard 2's window when shard 1 arrives at `arrived`, while shard 0 began at 0."""
    gamma = min(gamma, 0.99)
    progress = Progress(start_at=0.0).begun(0, 0.0)
    needed_before = need_time(progress, run_s, 1, arrived)
    carry_over = max(0.0, needed_before - arrived)
    # Only shard 1's own run can hide the transfer, once the lead is counted on its own.
    overlap = run_s[1]
    window = transfer_window(
        WindowSettings(gamma=gamma, guard_s=0.0),
        need_at=need_time(progress, run_s, 2, arrived),
        now=arrived,
        reconstruct_s=0.0,
    )
    assert_close(
        window,
        paper_window(overlap, carry_over, gamma),
        atol=1e-12,
        why="the same sum in another order",
    )


@pytest.mark.parametrize(("gamma", "lead_shards"), [(0.5, 1.0), (0.7, 0.43), (0.9, 0.11)])
def test_at_a_steady_rate_the_lead_settles_at_one_minus_gamma_over_gamma(gamma, lead_shards):
    settings = WindowSettings(gamma=gamma, guard_s=0.0)
    lead, run = 0.0, 1.0
    for _ in range(200):
        window = transfer_window(settings, need_at=run + lead, now=0.0, reconstruct_s=0.0)
        lead = run + lead - window
    assert_close(lead, lead_shards, atol=0.005, why="the page rounds to two digits")


def test_reconstruction_and_guard_are_taken_from_the_window():
    settings = WindowSettings(gamma=0.5, guard_s=0.1)
    window = transfer_window(settings, need_at=1.0, now=0.0, reconstruct_s=0.3)
    assert_close(window, 0.3, atol=1e-12, why="one subtraction in floats")


def test_a_shard_that_is_needed_already_has_no_window():
    assert transfer_window(PLAIN, need_at=1.0, now=2.0, reconstruct_s=0.0) == 0.0


def test_need_times_before_the_first_shard_begin_with_the_end_of_encoding():
    progress = Progress(start_at=0.15)
    assert need_time(progress, [1.0, 2.0, 3.0], 0, now=0.0) == 0.15
    assert need_time(progress, [1.0, 2.0, 3.0], 2, now=0.0) == 3.15


def test_a_device_that_runs_slower_than_planned_needs_later_shards_later():
    run_s = [1.0] * 6
    progress = Progress(start_at=0.0).begun(0, 0.0).ended(run_s, 2.0).begun(1, 2.0)
    assert need_time(progress, run_s, 3, now=2.0) > 2.0 + 2.0


def test_a_shard_that_runs_over_its_time_is_expected_to_end_now():
    progress = Progress(start_at=0.0).begun(0, 0.0)
    assert need_time(progress, [1.0, 1.0], 1, now=5.0) == 5.0


@pytest.mark.parametrize("wrong", [{"gamma": 1.0}, {"gamma": 0.0}, {"guard_s": -1.0}])
def test_settings_without_a_margin_are_refused(wrong):
    with pytest.raises(StreamSettingsError, match="must"):
        WindowSettings(**wrong)
