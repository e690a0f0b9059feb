"""When a step is cached: the decisions alone, without tensors."""

import math

import pytest

from intonaco.errors import RequestError
from intonaco.stepcache.policies import (
    Adaptive,
    Cadence,
    Curve,
    Facts,
    Off,
    OnlineDelta,
    Planned,
    Window,
    longest_row,
    wants_cached,
)

IDENTITY = Curve(coefficients=(0.0, 1.0), center=0.0, scale=1.0, low=0.0, high=10.0)


def facts(step: int = 10, num_steps: int = 50, first: int = 5, **known) -> Facts:
    return Facts(step=step, num_steps=num_steps, first=first, num_cached_in_row=0, **known)


def num_skipped(policy, num_steps: int, window: Window) -> int:
    first = window.resolve(num_steps).first
    return sum(
        wants_cached(policy, facts(step, num_steps, first))
        for step in range(num_steps)
        if not window.protects(step, num_steps)
    )


@pytest.mark.parametrize(("num_steps", "skips"), [(20, 5), (28, 9), (40, 15), (50, 20)])
def test_cadence_2_skips_as_many_steps_as_the_paper_says(num_steps, skips):
    assert num_skipped(Cadence(), num_steps, Window(first=5, last=5)) == skips


def test_cadence_3_with_2_cached_skips_two_of_three():
    assert num_skipped(Cadence(period=3, num_cached=2), 50, Window(first=3, last=2)) == 30


def test_the_window_scales_with_the_step_count():
    assert [
        (Window().resolve(n).first, Window().resolve(n).last) for n in (4, 8, 20, 30, 50, 100)
    ] == [(1, 1), (1, 1), (2, 2), (3, 3), (5, 5), (5, 5)]


def test_every_step_of_a_run_shorter_than_the_window_is_protected():
    window = Window(first=5, last=5)
    assert all(window.protects(step, 10) for step in range(10))


def test_off_never_caches():
    assert not any(wants_cached(Off(), facts(step)) for step in range(50))


@pytest.mark.parametrize("period", [1, 0, -2, 101])
def test_a_cadence_that_would_cache_nothing_or_never_is_refused(period):
    with pytest.raises(RequestError, match=r"cadence must be in 2\.\.100"):
        Cadence(period=period)


@pytest.mark.parametrize("num_cached", [0, 3])
def test_a_cadence_keeps_at_least_one_full_step_and_one_cached(num_cached):
    with pytest.raises(RequestError, match=r"can cache 1\.\.2 steps of 3"):
        Cadence(period=3, num_cached=num_cached)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf])
def test_an_alpha_that_can_never_hold_is_refused(alpha):
    with pytest.raises(RequestError, match="alpha must be above 0"):
        OnlineDelta(alpha=alpha)


def test_online_delta_caches_only_below_alpha_times_the_first_change():
    policy = OnlineDelta(alpha=0.6)
    assert wants_cached(policy, facts(delta=0.59, baseline_delta=1.0))
    assert not wants_cached(policy, facts(delta=0.6, baseline_delta=1.0))
    assert not wants_cached(policy, facts())


def test_online_delta_runs_full_after_a_cached_step():
    known = Facts(step=9, num_steps=50, first=5, num_cached_in_row=1, delta=0.1, baseline_delta=1.0)
    assert not wants_cached(OnlineDelta(), known)


def test_adaptive_sums_the_estimates_since_the_last_full_step():
    policy = Adaptive(threshold=0.5, curve=IDENTITY)
    assert wants_cached(policy, facts(scores=(0.2, 0.2)))
    assert not wants_cached(policy, facts(scores=(0.2, 0.2, 0.1)))


def test_adaptive_without_a_sum_judges_each_step_alone():
    policy = Adaptive(threshold=0.5, curve=IDENTITY, accumulates=False)
    assert wants_cached(policy, facts(scores=(0.4, 0.4)))


def test_adaptive_never_caches_without_a_valid_score():
    policy = Adaptive(threshold=0.5, curve=IDENTITY)
    assert not wants_cached(policy, facts())
    assert not wants_cached(policy, facts(scores=(0.1,), is_score_valid=False))


def test_a_plan_caches_what_it_does_not_list_and_only_for_its_step_counts():
    plan = Planned(full_steps={6: (0, 1, 3, 5)})
    assert [wants_cached(plan, facts(step, 6, 0)) for step in range(6)] == [
        False, False, True, False, True, False,
    ]  # fmt: skip
    assert not any(wants_cached(plan, facts(step, 7, 0)) for step in range(7))


@pytest.mark.parametrize("steps", [(), (0, 2, 1), (0, 1, 6), (-1, 2)])
def test_a_plan_with_steps_out_of_order_or_out_of_range_is_refused(steps):
    with pytest.raises(RequestError, match="plan for 6 steps"):
        Planned(full_steps={6: steps})


def test_the_default_cap_is_the_row_that_a_policy_is_made_for():
    plan = Planned(full_steps={8: (0, 1, 5, 7)})
    assert longest_row(Cadence(), 50) == 1
    assert longest_row(Cadence(period=3, num_cached=2), 50) == 2
    assert longest_row(OnlineDelta(), 50) == 1
    assert longest_row(plan, 8) == 3
    assert longest_row(plan, 9) == 1


def test_a_curve_is_held_inside_the_scores_it_was_fitted_on():
    curve = Curve(coefficients=(1.0, 2.0, 3.0), center=1.0, scale=2.0, low=1.0, high=3.0)
    assert curve(1.0) == 1.0
    assert curve(3.0) == 6.0
    assert curve(99.0) == 6.0
    assert curve(-99.0) == 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"coefficients": ()},
        {"coefficients": (0.0,) * 6},
        {"coefficients": (math.nan,)},
        {"scale": 0.0},
    ],
)
def test_a_curve_that_cannot_be_evaluated_is_refused(fields):
    sound = {"coefficients": (1.0,), "center": 0.0, "scale": 1.0, "low": 0.0, "high": 1.0}
    with pytest.raises(RequestError, match="step cache curve"):
        Curve(**{**sound, **fields})


@pytest.mark.parametrize("threshold", [-0.1, math.nan])
def test_a_threshold_that_is_no_amount_is_refused(threshold):
    with pytest.raises(RequestError, match="threshold must be a number from 0 up"):
        Adaptive(threshold=threshold, curve=IDENTITY)


def test_a_window_of_negative_size_is_refused():
    with pytest.raises(RequestError, match=r"window first must be in 0\.\.1000"):
        Window(first=-1)
