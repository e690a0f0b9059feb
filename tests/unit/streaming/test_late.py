"""What happens to a shard whose state is late."""

from dataclasses import replace

import pytest

from intonaco.errors import StreamSettingsError
from intonaco.streaming.late import (
    Borrow,
    GiveUp,
    GoDense,
    LateSettings,
    Run,
    Situation,
    Wait,
    decide_start,
)

SETTINGS = LateSettings()
LATE = Situation(
    level=None,
    floor=0,
    is_complete=False,
    is_first_of_step=False,
    can_borrow=True,
    num_borrowed=0,
    waited_s=0.0,
    shard_run_s=0.1,
    floor_in_s=0.3,
    silent_s=0.0,
    dense_extra_s=8.0,
)


def test_a_shard_with_its_floor_runs_with_what_is_there():
    assert decide_start(replace(LATE, level=3), SETTINGS) == Run(level=3)


def test_below_its_floor_a_shard_waits_where_the_floor_is_expected_in_time():
    late = replace(LATE, level=1, floor=2, floor_in_s=0.09)
    assert decide_start(late, SETTINGS) == Wait(at_most_s=0.1)


def test_below_its_floor_a_shard_runs_at_once_where_waiting_would_not_bring_the_floor():
    late = replace(LATE, level=1, floor=2, floor_in_s=0.11)
    assert decide_start(late, SETTINGS) == Run(level=1, is_below_floor=True)


def test_less_than_the_floor_is_better_than_the_state_of_the_step_before():
    late = replace(LATE, level=0, floor=2, waited_s=0.1)
    assert decide_start(late, SETTINGS) == Run(level=0, is_below_floor=True)


def test_with_its_floor_a_shard_is_not_below_it():
    late = replace(LATE, level=2, floor=2)
    assert decide_start(late, SETTINGS) == Run(level=2, is_below_floor=False)


def test_a_shard_without_any_prefix_waits_its_own_run_time_at_most():
    assert decide_start(LATE, SETTINGS) == Wait(at_most_s=0.1)


def test_after_that_it_borrows_the_state_of_the_step_before():
    assert decide_start(replace(LATE, waited_s=0.1), SETTINGS) == Borrow()


def test_the_first_step_has_nothing_to_borrow_and_waits_on():
    late = replace(LATE, can_borrow=False, waited_s=0.1)
    assert isinstance(decide_start(late, SETTINGS), Wait)


def test_a_step_that_began_is_finished_by_borrowing_however_dead_the_link():
    late = replace(LATE, waited_s=0.1, num_borrowed=9, floor_in_s=1e9)
    assert decide_start(late, SETTINGS) == Borrow()


def test_at_a_step_boundary_a_dead_link_is_left_for_dense_steps():
    late = replace(LATE, is_first_of_step=True, floor_in_s=1e9)
    assert decide_start(late, SETTINGS) == GoDense()


def test_at_a_step_boundary_a_slow_link_is_kept_where_waiting_is_quicker():
    late = replace(LATE, is_first_of_step=True, num_borrowed=2, waited_s=0.2, floor_in_s=7.0)
    assert isinstance(decide_start(late, SETTINGS), Wait)


def test_the_first_step_starts_again_dense_when_its_floor_would_come_too_late():
    late = replace(LATE, can_borrow=False, floor_in_s=9.0)
    assert decide_start(late, SETTINGS) == GoDense()


def test_a_floor_that_is_promised_for_ever_is_left_once_dense_steps_would_have_been_through():
    late = replace(LATE, can_borrow=False, floor_in_s=0.01)
    assert isinstance(decide_start(replace(late, waited_s=7.9), SETTINGS), Wait)
    assert decide_start(replace(late, waited_s=8.1), SETTINGS) == GoDense()


def test_where_dense_steps_cost_little_more_a_floor_has_the_longest_wait_still():
    late = replace(LATE, can_borrow=False, floor_in_s=0.01, dense_extra_s=0.05)
    assert isinstance(decide_start(replace(late, waited_s=0.24), SETTINGS), Wait)
    assert decide_start(replace(late, waited_s=0.26), SETTINGS) == GoDense()


def test_without_a_dense_run_a_dead_link_is_borrowed_through():
    late = replace(
        LATE,
        is_first_of_step=True,
        num_borrowed=5,
        waited_s=0.2,
        floor_in_s=1e9,
        dense_extra_s=None,
    )
    assert decide_start(late, SETTINGS) == Borrow()


def test_with_no_way_left_the_wait_ends():
    late = replace(LATE, can_borrow=False, waited_s=30.0, floor_in_s=1e9, dense_extra_s=None)
    assert decide_start(late, SETTINGS) == GiveUp()


def test_stalling_waits_for_all_that_was_asked_for():
    stalling = LateSettings(late="stall")
    assert isinstance(decide_start(replace(LATE, level=3), stalling), Wait)
    assert decide_start(replace(LATE, level=3, is_complete=True), stalling) == Run(level=3)


def test_stalling_ends_when_nothing_comes_any_more():
    silent = replace(LATE, level=3, silent_s=5.0)
    assert decide_start(silent, LateSettings(late="stall")) == Run(level=3)


@pytest.mark.parametrize(
    "wrong", [{"longest_wait_s": -1.0}, {"max_borrowed": -1}, {"silent_s": 0.0}]
)
def test_settings_without_a_bound_are_refused(wrong):
    with pytest.raises(StreamSettingsError, match="must"):
        LateSettings(**wrong)
