"""Chooses which steps to run in full, from recorded reference runs and no further model call.

An estimate is a weighted sum of real outputs, so what a cached step adds to the latents' error is a
weighted sum of recorded outputs, and its squared norm a quadratic form in their inner products. Those
are averaged over the recorded runs in one small matrix (steps x steps); a dynamic program over the
last two full steps then finds the list of full steps with the least total error.

What it leaves out: errors of different gaps are added as if unrelated, and an early error is weighted
by a power of its noise level instead of being followed through the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import CalibrationError
from intonaco.stepcache.estimators import Estimator, Sample, lagrange_weights

Matrix = NDArray[np.float64]
MAX_GAP = 6
UNREACHED = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningData:
    """What the search needs of the recorded runs of one step count.

    Attributes:
        sigmas: one more than there are steps.
        gram: mean inner products of the extrapolated quantity between steps, (S, S).
        quantity: the one that was recorded, as in `Estimator.quantity`.
    """

    sigmas: tuple[float, ...]
    gram: Matrix
    quantity: str

    @property
    def num_steps(self) -> int:
        return len(self.sigmas) - 1


def gram_of(samples: Sequence[Sample], quantity: str) -> Matrix:
    """Return the (S, S) inner products, per element, of one recorded run's outputs."""
    rows: list[Any] = []
    for sample in samples:
        clean = sample.latents - sample.sigma * sample.output
        rows.append((sample.output if quantity == "output" else clean).flatten().double().numpy())
    stacked = np.stack(rows)
    return stacked @ stacked.T / stacked.shape[1]


def plan_full_steps(
    data: PlanningData,
    estimator: Estimator,
    *,
    num_calls: int,
    late_weight: float = 0.0,
    last: int = 1,
) -> tuple[int, ...]:
    """Return `num_calls` full steps with the least estimated error.

    Args:
        late_weight: errors count as sigma ** -late_weight: above 0, late steps' errors count more.
        last: steps at the end that stay full, at least 1.

    Raises CalibrationError where no such plan exists.
    """
    num_steps = data.num_steps
    least = _least_calls(num_steps, estimator.num_real, last)
    if not least <= num_calls <= num_steps or not 1 <= last < num_steps:
        raise CalibrationError(
            f"a plan for {num_steps} steps needs {least}..{num_steps} calls, got {num_calls}; "
            "choose a speedup inside"
        )
    search = _Search(data, estimator, late_weight, num_steps - last)
    start = tuple(range(estimator.num_real))
    best: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {
        (start[-2], start[-1]): (0.0, start)
    }
    for _ in range(num_calls - len(start)):
        best = search.extend(best)
    ends = [entry for (_, newest), entry in best.items() if newest == num_steps - 1]
    if not ends:
        raise CalibrationError(f"no plan of {num_calls} calls covers {num_steps} steps")
    return min(ends)[1]


def _least_calls(num_steps: int, num_first: int, last: int) -> int:
    """Return the calls of a plan whose gaps are all as long as they may be."""
    num_between = num_steps - num_first - last
    return num_first + last + max(0, -(-(num_between - MAX_GAP) // (MAX_GAP + 1)))


@dataclass(frozen=True, slots=True)
class _Search:
    data: PlanningData
    estimator: Estimator
    late_weight: float
    first_protected: int

    def extend(
        self, best: dict[tuple[int, int], tuple[float, tuple[int, ...]]]
    ) -> dict[tuple[int, int], tuple[float, tuple[int, ...]]]:
        """Return the best plans with one more full step, by their last two full steps."""
        longer: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        for (_, newest), (cost, steps) in best.items():
            for following in range(newest + 1, self._limit(newest)):
                total = cost + self._cost(steps, following)
                key = (newest, following)
                if total < longer.get(key, (UNREACHED, ()))[0]:
                    longer[key] = (total, (*steps, following))
        return longer

    def _limit(self, newest: int) -> int:
        if newest >= self.first_protected:
            return min(newest + 2, self.data.num_steps)
        return min(newest + MAX_GAP + 2, self.first_protected + 1, self.data.num_steps)

    def _cost(self, steps: tuple[int, ...], following: int) -> float:
        """Return the mean squared error of the latents after the steps between the last and next."""
        skipped = range(steps[-1] + 1, following)
        if not skipped:
            return 0.0
        error = np.zeros(self.data.num_steps)
        for step in skipped:
            error += self._move(step) * self._residual(steps, following, step)
        weight = self.data.sigmas[skipped[0]] ** (-2 * self.late_weight)
        return weight * float(error @ self.data.gram @ error)

    def _move(self, step: int) -> float:
        sigmas = self.data.sigmas
        move = sigmas[step + 1] - sigmas[step]
        return move if self.data.quantity == "output" else -move / sigmas[step]

    def _residual(self, steps: tuple[int, ...], following: int, step: int) -> Matrix:
        """Return estimate minus truth at `step` as weights of the recorded outputs."""
        degree = self.estimator.correction_degree
        points = [*steps, following] if degree is not None else list(steps)
        degree = self.estimator.degree if degree is None else degree
        points = points[-((degree or 0) + 1) :]
        sigmas = self.data.sigmas
        residual = np.zeros(self.data.num_steps)
        for point, weight in zip(
            points,
            lagrange_weights([sigmas[p] for p in points], sigmas[step]),
            strict=True,
        ):
            residual[point] += weight
        residual[step] -= 1.0
        return residual
