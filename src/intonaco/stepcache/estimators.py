"""What stands in for a denoiser output at a cached step.

Two kinds: the `slope` estimator adds the last measured change to the output used last; all others
put a polynomial over sigma through real outputs only. A corrected estimator also goes back: at the
next full step, which fixes the polynomial from both sides, it walks the cached steps again and adds
what the latents are off by. The correction rides on the full step's own prediction, so the sampler
never learns of it; it is exact where the sampler's update is linear, as Euler's is.

All arithmetic is in float32. Outputs are velocities: latents move by (next sigma - sigma) * output,
and latents - sigma * output predicts the clean picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from intonaco.errors import RequestError

MAX_HISTORY = 4
MOVE_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """How an output is estimated.

    Attributes:
        degree: of the polynomial over sigma; None = the slope estimator.
        quantity: what is extrapolated, the output itself or the predicted clean picture.
        correction_degree: of the polynomial that goes back over cached steps; None = no correction.
    """

    degree: int | None
    quantity: Literal["output", "clean"] = "output"
    correction_degree: int | None = None

    @property
    def num_real(self) -> int:
        """Full steps that must exist before a step is cached. Never fewer than two."""
        return 2 if self.degree is None else max(2, self.degree + 1)


ESTIMATORS = {
    "slope": Estimator(degree=None),
    "held": Estimator(degree=0),
    "linear": Estimator(degree=1),
    "quadratic": Estimator(degree=2),
    "clean-linear": Estimator(degree=1, quantity="clean"),
    "clean-quadratic": Estimator(degree=2, quantity="clean"),
    "linear-corrected": Estimator(degree=1, correction_degree=2),
    "quadratic-corrected": Estimator(degree=2, correction_degree=3),
    "clean-linear-corrected": Estimator(degree=1, quantity="clean", correction_degree=2),
    "clean-quadratic-corrected": Estimator(degree=2, quantity="clean", correction_degree=3),
}
DEFAULT_ESTIMATOR = "clean-linear-corrected"


def find_estimator(name: str) -> Estimator:
    """Return the estimator called `name`, or raise RequestError."""
    if name not in ESTIMATORS:
        raise RequestError(
            f"step cache estimator must be one of {', '.join(ESTIMATORS)}, got {name!r}"
        )
    return ESTIMATORS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One step as the sampler saw it, all float32.

    Attributes:
        sigma, next_sigma: noise levels before and after the step.
        latents: before the step.
        output: the prediction used at it, real or estimated.
    """

    sigma: float
    next_sigma: float
    latents: torch.Tensor
    output: torch.Tensor


def lagrange_weights(points: Sequence[float], at: float) -> list[float]:
    """Return the weight of each point's value in the value at `at` of the polynomial through all."""
    weights: list[float] = []
    for index, point in enumerate(points):
        weight = 1.0
        for other_index, other in enumerate(points):
            if other_index != index:
                weight *= (at - other) / (point - other)
        weights.append(weight)
    return weights


def estimate(
    estimator: Estimator, real: Sequence[Sample], latents: torch.Tensor, sigma: float
) -> torch.Tensor:
    """Return the output estimated at `sigma` for `latents`, from the last `real` samples.

    For estimators with a degree; the slope estimator needs the outputs used, not the real ones.
    """
    assert estimator.degree is not None
    return _through(estimator, real[-(estimator.degree + 1) :], latents, sigma)


def correction(
    estimator: Estimator, real: Sequence[Sample], cached: Sequence[Sample]
) -> torch.Tensor:
    """Return what to add to the latents after `cached` steps, now that the step after them is real.

    `real` ends with that step. The walk is repeated with outputs interpolated between real ones.
    """
    assert estimator.correction_degree is not None
    points = real[-(estimator.correction_degree + 1) :]
    offset = torch.zeros_like(cached[0].latents)
    for sample in cached:
        better = _through(estimator, points, sample.latents + offset, sample.sigma)
        offset = offset + (sample.next_sigma - sample.sigma) * (better - sample.output)
    return offset


def moved_by_velocity(sample: Sample, latents: torch.Tensor, *, rounding: float) -> bool:
    """Return whether the sampler went from `sample` to `latents` by (next sigma - sigma) * output.

    False for samplers that use more than the last output, and where an edit holds most of the
    latents to its template: there a correction would go astray. `rounding` is the relative rounding
    of the latents' own dtype.
    """
    move = (sample.next_sigma - sample.sigma) * sample.output
    error = float((sample.latents + move - latents).abs().mean())
    allowed = MOVE_TOLERANCE * float(move.abs().mean()) + rounding * float(latents.abs().mean())
    return error <= allowed


def _through(
    estimator: Estimator, points: Sequence[Sample], latents: torch.Tensor, sigma: float
) -> torch.Tensor:
    weights = lagrange_weights([point.sigma for point in points], sigma)
    if estimator.quantity == "output":
        return _weighted_sum(weights, [point.output for point in points])
    clean = _weighted_sum(weights, [point.latents - point.sigma * point.output for point in points])
    return (latents - clean) / sigma


def _weighted_sum(weights: Sequence[float], tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    total = weights[0] * tensors[0]
    for weight, tensor in zip(weights[1:], tensors[1:], strict=True):
        total = torch.add(total, tensor, alpha=weight)
    return total
