"""Curves, correlations, gates and thresholds, over made-up recordings."""

import math

import numpy as np
import pytest

from intonaco.errors import CalibrationError
from intonaco.stepcache.fitting import (
    ScoredRun,
    best_degree,
    find_alpha,
    find_threshold,
    fit_curve,
    gate_mode,
    lag_1_autocorrelation,
    pairs,
    pearson,
    r_squared,
    simulated_skips,
)
from intonaco.stepcache.policies import Adaptive, Curve, OnlineDelta, Window
from tests.support.comparison import assert_close

NAN = math.nan
WINDOW = Window(first=2, last=1)


def run_of(scores, changes=None) -> ScoredRun:
    scores = (NAN, *scores)
    return ScoredRun(scores=scores, changes=scores if changes is None else (NAN, *changes))


def test_only_valid_pairs_are_fitted():
    run = ScoredRun(scores=(NAN, 0.1, math.inf, 0.3), changes=(NAN, 1.0, 2.0, NAN))
    scores, changes = pairs([run])
    assert scores.tolist() == [0.1]
    assert changes.tolist() == [1.0]


def test_a_cubic_is_recovered_with_its_whole_variance_explained():
    scores = np.linspace(0.01, 0.2, 40)
    changes = 3 * scores**3 - scores + 1
    curve = fit_curve(scores, changes, degree=3)
    assert_close(curve(0.1), 3 * 0.1**3 - 0.1 + 1, atol=1e-9, why="float64 least squares")
    assert_close(r_squared(curve, scores, changes), 1.0, atol=1e-9, why="float64 sums")


def test_the_degree_is_chosen_on_held_out_scores():
    rng = np.random.default_rng(0)
    scores = rng.uniform(0, 1, 12)
    held_out = rng.uniform(0, 1, 200)
    noisy = 2 * scores + rng.normal(0, 0.3, 12)
    curve, r2_fit, r2_held_out = best_degree((scores, noisy), (held_out, 2 * held_out))
    assert r2_held_out <= 1.0
    assert r2_held_out >= r_squared(fit_curve(scores, noisy, degree=4), held_out, 2 * held_out)
    assert 0.0 <= r2_fit <= 1.0
    assert len(curve.coefficients) in {2, 3, 4, 5}


@pytest.mark.parametrize("scores", [[0.1] * 20, [0.1, 0.2]])
def test_scores_that_say_nothing_cannot_be_fitted(scores):
    with pytest.raises(CalibrationError, match="different scores"):
        fit_curve(np.array(scores), np.zeros(len(scores)))


def test_a_constant_signal_correlates_with_nothing():
    assert pearson(np.ones(5), np.arange(5.0)) == 0.0


def test_changes_that_follow_each_other_are_autocorrelated():
    smooth = run_of([math.sin(step / 5) + 2 for step in range(40)])
    assert lag_1_autocorrelation([smooth]) > 0.9
    noisy = run_of(np.random.default_rng(0).uniform(size=400))
    assert abs(lag_1_autocorrelation([noisy])) < 0.2


@pytest.mark.parametrize(
    ("correlation", "autocorrelation", "mode"),
    [(0.8, 0.0, "adaptive"), (0.79, 0.7, "online-delta"), (0.79, 0.69, "cadence")],
)
def test_the_gate_prefers_the_probe_then_the_last_change_then_a_cadence(
    correlation, autocorrelation, mode
):
    assert gate_mode(correlation, autocorrelation) == mode


def test_a_simulated_run_skips_what_a_real_one_would():
    curve = Curve(coefficients=(0.0, 1.0), center=0.0, scale=1.0, low=0.0, high=9.0)
    policy = Adaptive(threshold=0.35, curve=curve)
    # The same numbers as in the controller's test: FFcccFcccFcF.
    skips = simulated_skips(policy, run_of([0.1] * 11), window=WINDOW, max_cached_in_row=9)
    assert skips == 7


def test_online_delta_rests_after_each_cached_step_in_simulation_too():
    changes = [1.0] + [0.1] * 8
    skips = simulated_skips(
        OnlineDelta(), run_of([0.0] * 9, changes), window=WINDOW, max_cached_in_row=1
    )
    assert skips == 3


@pytest.mark.parametrize("num_skips", [2, 4, 6])
def test_a_threshold_is_found_for_a_budget_of_skips(num_skips):
    rng = np.random.default_rng(1)
    runs = [run_of(rng.uniform(0.05, 0.15, 19)) for _ in range(8)]
    curve = Curve(coefficients=(0.0, 1.0), center=0.0, scale=1.0, low=0.0, high=9.0)
    policy = find_threshold(curve, runs, num_skips=num_skips, window=WINDOW, max_cached_in_row=1)
    skips = [simulated_skips(policy, run, window=WINDOW, max_cached_in_row=1) for run in runs]
    assert abs(np.mean(skips) - num_skips) <= 0.5


def test_an_alpha_is_found_for_a_budget_of_skips():
    changes = [1.0, *(0.9 - 0.04 * step for step in range(18))]
    runs = [run_of([0.0] * 19, changes)]
    policy = find_alpha(runs, num_skips=4, window=WINDOW)
    assert simulated_skips(policy, runs[0], window=WINDOW, max_cached_in_row=1) == 4
