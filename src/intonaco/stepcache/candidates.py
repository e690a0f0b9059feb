"""The settings that calibration tries at a budget of denoiser calls. Pure; draws nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from intonaco.errors import CalibrationError
from intonaco.stepcache.estimators import ESTIMATORS
from intonaco.stepcache.fitting import ScoredRun, find_alpha, find_threshold
from intonaco.stepcache.planning import PlanningData, plan_full_steps
from intonaco.stepcache.policies import (
    Cadence,
    Curve,
    Facts,
    OnlineDelta,
    Planned,
    Window,
    wants_cached,
)
from intonaco.stepcache.settings import StepCacheSettings

CADENCES = (Cadence(), Cadence(period=3, num_cached=2), Cadence(period=4, num_cached=3))
CADENCE_ESTIMATORS = ("slope", "linear-corrected", "clean-linear-corrected")
SIGNAL_ESTIMATOR = "linear-corrected"
PLAN_ESTIMATORS = ("linear-corrected", "clean-linear-corrected", "clean-quadratic-corrected")
LATE_WEIGHTS = (0.0, 1.0)
MAX_ROW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Settings under a name that says what they are: policy, estimator, calls."""

    name: str
    settings: StepCacheSettings


def make_candidates(
    *,
    num_steps: int,
    budgets: Sequence[int],
    runs: Sequence[ScoredRun],
    curve: Curve | None,
    plans: Sequence[PlanningData],
) -> list[Candidate]:
    """Return every candidate for `budgets` calls of `num_steps`; none is tried twice."""
    found: dict[str, Candidate] = {}
    for budget in budgets:
        for candidate in (
            *_cadences(num_steps, budget),
            *_signals(num_steps, budget, runs, curve),
            *_plans(num_steps, budget, plans),
        ):
            found.setdefault(candidate.name, candidate)
    return list(found.values())


def cadence_calls(cadence: Cadence, window: Window, num_steps: int) -> int:
    """Return how many calls `cadence` makes of `num_steps`."""
    first = window.resolve(num_steps).first or 0
    skips = sum(
        wants_cached(
            cadence, Facts(step=step, num_steps=num_steps, first=first, num_cached_in_row=0)
        )
        for step in range(num_steps)
        if not window.protects(step, num_steps)
    )
    return num_steps - skips


def _cadences(num_steps: int, budget: int) -> list[Candidate]:
    """The cadence and window whose calls come closest to the budget, with several estimators."""
    small = Window(first=3, last=2)
    choices = [
        (abs(cadence_calls(cadence, window, num_steps) - budget), index, cadence, window)
        for index, cadence in enumerate(CADENCES)
        for window in (Window(), small)
    ]
    _, _, cadence, window = min(choices, key=lambda choice: choice[:2])
    calls = cadence_calls(cadence, window, num_steps)
    return [
        Candidate(
            name=f"cadence-{cadence.period}-{cadence.num_cached}-{estimator}-{calls}",
            settings=StepCacheSettings(policy=cadence, estimator=estimator, window=window),
        )
        for estimator in CADENCE_ESTIMATORS
    ]


def _signals(
    num_steps: int, budget: int, runs: Sequence[ScoredRun], curve: Curve | None
) -> list[Candidate]:
    window, row, num_skips = Window(first=3, last=2), MAX_ROW, num_steps - budget
    found: list[Candidate] = []
    if curve is not None:
        policy = find_threshold(
            curve, runs, num_skips=num_skips, window=window, max_cached_in_row=row
        )
        settings = StepCacheSettings(
            policy=policy, estimator=SIGNAL_ESTIMATOR, window=window, max_cached_in_row=row
        )
        found.append(Candidate(name=f"adaptive-{budget}", settings=settings))
    if not runs:
        return found
    online: OnlineDelta = find_alpha(runs, num_skips=num_skips, window=window)
    settings = StepCacheSettings(policy=online, estimator=SIGNAL_ESTIMATOR, window=window)
    found.append(Candidate(name=f"online-delta-{budget}", settings=settings))
    return found


def _plans(num_steps: int, budget: int, plans: Sequence[PlanningData]) -> list[Candidate]:
    found: list[Candidate] = []
    by_quantity = {data.quantity: data for data in plans}
    for name in PLAN_ESTIMATORS:
        estimator = ESTIMATORS[name]
        data = by_quantity.get(estimator.quantity)
        if data is None:
            continue
        for weight in LATE_WEIGHTS:
            try:
                steps = plan_full_steps(data, estimator, num_calls=budget, late_weight=weight)
            except CalibrationError:  # the budget is too small for any plan
                continue
            settings = StepCacheSettings(
                policy=Planned(full_steps={num_steps: steps}),
                estimator=name,
                window=Window(first=estimator.num_real, last=1),
            )
            found.append(Candidate(name=f"planned-{name}-{weight:g}-{budget}", settings=settings))
    return found
