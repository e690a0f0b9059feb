"""Plans of full steps against trying every plan."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from intonaco.errors import CalibrationError
from intonaco.stepcache.candidates import cadence_calls, make_candidates
from intonaco.stepcache.controller import StepCacheRun
from intonaco.stepcache.estimators import ESTIMATORS, Sample
from intonaco.stepcache.planning import PlanningData, gram_of, plan_full_steps
from intonaco.stepcache.policies import Cadence, Planned, Window
from intonaco.stepcache.settings import StepCacheSettings
from tests.support.comparison import assert_close

NUM_STEPS = 12
SIGMAS = tuple(1.0 - step / NUM_STEPS for step in range(NUM_STEPS + 1))


def outputs(seed: int = 0) -> list[torch.Tensor]:
    """Outputs that bend at a place of their own, so that steps matter unequally."""
    generator = torch.Generator().manual_seed(seed)
    center = torch.rand(6, generator=generator)
    return [torch.tanh(8 * (sigma - center)) for sigma in SIGMAS[:-1]]


def samples(seed: int = 0) -> list[Sample]:
    return [
        Sample(sigma=SIGMAS[i], next_sigma=SIGMAS[i + 1], latents=torch.zeros(6), output=output)
        for i, output in enumerate(outputs(seed))
    ]


def data(quantity: str = "output") -> PlanningData:
    return PlanningData(sigmas=SIGMAS, gram=gram_of(samples(), quantity), quantity=quantity)


def measured_error(steps: tuple[int, ...]) -> float:
    """Sum over gaps of the squared latent error that a real run leaves after each gap."""
    run = StepCacheRun(
        StepCacheSettings(
            policy=Planned(full_steps={NUM_STEPS: steps}),
            estimator="linear",
            window=Window(first=2, last=1),
        ),
        SIGMAS,
    )
    exact, total, error = outputs(), 0.0, torch.zeros(6)
    for step in range(NUM_STEPS):
        used = run.predict(step, torch.zeros(6), lambda step=step: exact[step])
        if step in steps:
            total, error = total + float((error**2).mean()), torch.zeros(6)
        error = error + (SIGMAS[step + 1] - SIGMAS[step]) * (used - exact[step])
    return total


@pytest.mark.parametrize("num_calls", [5, 7, 9])
def test_the_plan_is_the_best_of_all_plans(num_calls):
    found = plan_full_steps(data(), ESTIMATORS["linear"], num_calls=num_calls)
    inner = combinations(range(2, NUM_STEPS - 1), num_calls - 3)
    every = [(0, 1, *middle, NUM_STEPS - 1) for middle in inner]
    least = min(measured_error(steps) for steps in every if longest_gap(steps) <= 6)
    assert_close(measured_error(found), least, atol=1e-7, why="float32 runs of the same plans")


def longest_gap(steps: tuple[int, ...]) -> int:
    return max(after - before - 1 for before, after in pairwise(steps))


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"slope", "held"}))
def test_a_plan_has_the_calls_asked_for_and_keeps_both_ends(name):
    estimator = ESTIMATORS[name]
    steps = plan_full_steps(data(estimator.quantity), estimator, num_calls=6, last=2)
    assert len(steps) == 6
    assert steps[: estimator.num_real] == tuple(range(estimator.num_real))
    assert steps[-2:] == (NUM_STEPS - 2, NUM_STEPS - 1)


def test_outputs_that_are_a_line_cost_nothing_to_skip():
    line = [
        Sample(sigma=s, next_sigma=0.0, latents=torch.zeros(2), output=torch.tensor([s, 1.0]))
        for s in SIGMAS[:-1]
    ]
    flat = PlanningData(sigmas=SIGMAS, gram=gram_of(line, "output"), quantity="output")
    steps = plan_full_steps(flat, ESTIMATORS["linear"], num_calls=4)
    assert len(steps) == 4


@pytest.mark.parametrize("num_calls", [1, 13])
def test_a_plan_that_cannot_be_says_what_can(num_calls):
    with pytest.raises(CalibrationError, match=r"needs 4\.\.12 calls"):
        plan_full_steps(data(), ESTIMATORS["linear"], num_calls=num_calls)


def test_inner_products_are_means_over_elements():
    gram = gram_of(samples(), "output")
    stacked = np.stack([output.double().numpy() for output in outputs()])
    assert_close(gram, stacked @ stacked.T / 6, atol=1e-12, why="float64 sums in another order")


def test_calls_of_a_cadence_are_counted_as_the_controller_makes_them():
    assert cadence_calls(Cadence(), Window(first=5, last=5), 50) == 30
    assert cadence_calls(Cadence(period=3, num_cached=2), Window(first=3, last=2), 50) == 20


def test_candidates_have_different_names_and_keep_to_the_budget():
    found = make_candidates(
        num_steps=NUM_STEPS, budgets=(8, 8), runs=(), curve=None, plans=[data(), data("clean")]
    )
    names = [candidate.name for candidate in found]
    assert len(names) == len(set(names))
    plans = [c.settings.policy for c in found if isinstance(c.settings.policy, Planned)]
    assert plans
    assert {len(plan.full_steps[NUM_STEPS]) for plan in plans} == {8}
