"""The numbers of calibration: how well scores predict changes, and thresholds that meet a budget.

Pure functions over recorded scores and changes; knows no model and no file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import CalibrationError
from intonaco.stepcache.policies import (
    MAX_CURVE_DEGREE,
    Adaptive,
    Curve,
    Facts,
    OnlineDelta,
    Window,
    wants_cached,
)

Numbers = NDArray[np.float64]
MIN_PEARSON = 0.8
MIN_AUTOCORRELATION = 0.7
GatedMode = Literal["adaptive", "online-delta", "cadence"]
NUM_THRESHOLDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """One reference run: at step i, `scores[i]` of the probe and `changes[i]` of the output.

    Both compare step i with step i - 1; the first of each is NaN.
    """

    scores: tuple[float, ...]
    changes: tuple[float, ...]


def pairs(runs: Sequence[ScoredRun]) -> tuple[Numbers, Numbers]:
    """Return all valid (score, change) pairs of `runs`, as two arrays."""
    scores = np.array([score for run in runs for score in run.scores], dtype=np.float64)
    changes = np.array([change for run in runs for change in run.changes], dtype=np.float64)
    is_valid = np.isfinite(scores) & np.isfinite(changes)
    return scores[is_valid], changes[is_valid]


def fit_curve(scores: Numbers, changes: Numbers, *, degree: int = MAX_CURVE_DEGREE) -> Curve:
    """Return the polynomial that fits best. Raises CalibrationError for too few or equal scores."""
    if len(scores) <= degree + 1 or np.ptp(scores) == 0.0:
        raise CalibrationError(
            f"a curve of degree {degree} needs more than {degree + 1} different scores, got "
            f"{len(np.unique(scores))}; record more steps or prompts"
        )
    center, scale = float(scores.mean()), float(scores.std())
    fitted = np.polynomial.polynomial.polyfit((scores - center) / scale, changes, degree)
    return Curve(
        coefficients=tuple(float(number) for number in fitted),
        center=center,
        scale=scale,
        low=float(scores.min()),
        high=float(scores.max()),
    )


def best_degree(
    fit: tuple[Numbers, Numbers], held_out: tuple[Numbers, Numbers]
) -> tuple[Curve, float, float]:
    """Return the curve of degree 1..4 with the best R2 on held-out pairs, with R2 on fit and those."""
    curves = [fit_curve(*fit, degree=degree) for degree in range(1, MAX_CURVE_DEGREE + 1)]
    scored = [(r_squared(curve, *held_out), index) for index, curve in enumerate(curves)]
    r2_held_out, index = max(scored)
    return curves[index], r_squared(curves[index], *fit), r2_held_out


def r_squared(curve: Curve, scores: Numbers, changes: Numbers) -> float:
    """Return the share of the variance of `changes` that `curve` explains; 0 where there is none."""
    total = float(((changes - changes.mean()) ** 2).sum())
    predicted = np.array([curve(float(score)) for score in scores])
    return 1.0 - float(((changes - predicted) ** 2).sum()) / total if total > 0 else 0.0


def pearson(first: Numbers, second: Numbers) -> float:
    """Return the correlation of two arrays; 0 where one of them is constant."""
    if len(first) < 2 or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def lag_1_autocorrelation(runs: Sequence[ScoredRun]) -> float:
    """Return how well a step's change predicts the next one's, over all runs."""
    before = np.array([c for run in runs for c in run.changes[:-1]], dtype=np.float64)
    after = np.array([c for run in runs for c in run.changes[1:]], dtype=np.float64)
    is_valid = np.isfinite(before) & np.isfinite(after)
    return pearson(before[is_valid], after[is_valid])


def gate_mode(correlation: float, autocorrelation: float) -> GatedMode:
    """Return the mode that the signals speak for: probe, else last change, else fixed cadence."""
    if correlation >= MIN_PEARSON:
        return "adaptive"
    return "online-delta" if autocorrelation >= MIN_AUTOCORRELATION else "cadence"


def simulated_skips(
    policy: Adaptive | OnlineDelta, run: ScoredRun, *, window: Window, max_cached_in_row: int
) -> int:
    """Return how many steps `policy` would cache in a run that looks like `run`.

    Changes are those of the reference, between neighbors; a cached run would measure slightly others.
    """
    num_steps, num_cached = len(run.scores), 0
    scores: list[float] = []
    row, baseline, delta = 0, None, None
    for step in range(num_steps):
        is_valid = bool(np.isfinite(run.scores[step]))
        if is_valid:
            scores.append(run.scores[step])
        facts = Facts(
            step=step, num_steps=num_steps, first=window.resolve(num_steps).first or 0,
            num_cached_in_row=row, delta=delta, baseline_delta=baseline, scores=tuple(scores),
            is_score_valid=is_valid,
        )  # fmt: skip
        may_cache = not window.protects(step, num_steps) and row < max_cached_in_row and step >= 2
        if may_cache and wants_cached(policy, facts):
            num_cached, row = num_cached + 1, row + 1
            continue
        row, scores = 0, []
        if np.isfinite(run.changes[step]):
            delta = run.changes[step]
            baseline = delta if baseline is None else baseline
    return num_cached


def find_threshold(
    curve: Curve,
    runs: Sequence[ScoredRun],
    *,
    num_skips: float,
    window: Window,
    max_cached_in_row: int,
) -> Adaptive:
    """Return the adaptive policy whose mean simulated skips come closest to `num_skips`."""
    estimates = [abs(curve(s)) for run in runs for s in run.scores if np.isfinite(s)]
    longest = (max_cached_in_row + 1) * max(estimates)
    candidates = [
        Adaptive(threshold=float(threshold), curve=curve)
        for threshold in np.linspace(0.0, longest, NUM_THRESHOLDS)
    ]
    return min(
        candidates,
        key=lambda policy: abs(
            _mean_skips(policy, runs, window=window, max_cached_in_row=max_cached_in_row)
            - num_skips
        ),
    )


def find_alpha(runs: Sequence[ScoredRun], *, num_skips: float, window: Window) -> OnlineDelta:
    """Return the online-delta policy whose mean simulated skips come closest to `num_skips`."""
    candidates = [OnlineDelta(alpha=float(alpha)) for alpha in np.linspace(0.05, 3.0, 60)]
    return min(
        candidates,
        key=lambda policy: abs(
            _mean_skips(policy, runs, window=window, max_cached_in_row=1) - num_skips
        ),
    )


def _mean_skips(
    policy: Adaptive | OnlineDelta,
    runs: Sequence[ScoredRun],
    *,
    window: Window,
    max_cached_in_row: int,
) -> float:
    skips = [
        simulated_skips(policy, run, window=window, max_cached_in_row=max_cached_in_row)
        for run in runs
    ]
    return sum(skips) / len(skips)
