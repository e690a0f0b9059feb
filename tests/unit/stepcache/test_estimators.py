"""Estimates of outputs: exact where a polynomial is, and better with a correction."""

import pytest
import torch

from intonaco.stepcache.estimators import (
    ESTIMATORS,
    Sample,
    correction,
    estimate,
    lagrange_weights,
)
from tests.support.comparison import assert_close

SIGMAS = (1.0, 0.8, 0.7, 0.5, 0.45, 0.2, 0.0)
ROUNDING = "float32 rounding of a handful of sums of order one"


def polynomial(sigma: float, degree: int) -> torch.Tensor:
    return torch.tensor([[sum((k + 1) * sigma**k for k in range(degree + 1)), 2.0]])


def sample(index: int, output: torch.Tensor, latents: torch.Tensor | None = None) -> Sample:
    if latents is None:
        latents = torch.zeros_like(output)
    return Sample(sigma=SIGMAS[index], next_sigma=SIGMAS[index + 1], latents=latents, output=output)


@pytest.mark.parametrize(("name", "degree"), [("held", 0), ("linear", 1), ("quadratic", 2)])
def test_an_output_that_is_a_polynomial_of_sigma_is_estimated_exactly(name, degree):
    real = [sample(index, polynomial(SIGMAS[index], degree)) for index in (0, 1, 3)]
    drawn = estimate(ESTIMATORS[name], real, torch.zeros(1, 2), SIGMAS[4])
    assert_close(drawn, polynomial(SIGMAS[4], degree), atol=1e-5, why=ROUNDING)


def test_a_clean_picture_that_moves_linearly_is_estimated_exactly():
    def clean(sigma: float) -> torch.Tensor:
        return torch.tensor([[3.0 - sigma, 2.0 * sigma]])

    latents = [torch.tensor([[0.3 * index, 1.0 - index]]) for index in range(6)]
    real = [sample(i, (latents[i] - clean(SIGMAS[i])) / SIGMAS[i], latents[i]) for i in (0, 1, 3)]
    expected = (latents[4] - clean(SIGMAS[4])) / SIGMAS[4]
    drawn = estimate(ESTIMATORS["clean-linear"], real, latents[4], SIGMAS[4])
    assert_close(drawn, expected, atol=1e-5, why=ROUNDING)


def test_weights_at_a_point_pick_that_point():
    assert lagrange_weights([1.0, 0.5, 0.25], 0.5) == [0.0, 1.0, 0.0]


def test_weights_always_sum_to_one():
    assert_close(sum(lagrange_weights([1.0, 0.7, 0.1], 0.3)), 1.0, atol=1e-12, why="float64 sums")


def test_a_correction_brings_latents_to_where_interpolated_outputs_would_have():
    # Outputs are sigma squared: a line misses it, the parabola of the correction does not.
    def output(index: int) -> torch.Tensor:
        return torch.tensor([[SIGMAS[index] ** 2]])

    estimator = ESTIMATORS["linear-corrected"]
    real = [sample(index, output(index)) for index in (0, 1)]
    wrong = [sample(i, estimate(estimator, real, torch.zeros(1, 1), SIGMAS[i])) for i in (2, 3)]
    missing = sum(
        (SIGMAS[i + 1] - SIGMAS[i]) * (output(i) - s.output)
        for i, s in zip((2, 3), wrong, strict=True)
    )
    found = correction(estimator, [*real, sample(4, output(4))], wrong)
    assert abs(float(missing)) > 1e-3
    assert_close(found, missing, atol=1e-6, why=ROUNDING)


def test_nothing_is_to_correct_where_the_estimate_was_right():
    estimator = ESTIMATORS["linear-corrected"]
    real = [sample(index, polynomial(SIGMAS[index], 1)) for index in (0, 1, 3)]
    cached = [sample(2, polynomial(SIGMAS[2], 1))]
    assert_close(correction(estimator, real, cached), torch.zeros(1, 2), atol=1e-6, why=ROUNDING)


def test_every_estimator_waits_for_two_full_steps_at_least():
    assert {name: rule.num_real for name, rule in ESTIMATORS.items() if rule.num_real < 2} == {}
    assert ESTIMATORS["quadratic"].num_real == 3
