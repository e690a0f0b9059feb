"""Which settings the step-cache benchmark judges: the paper's own, and what calibration finds best.

Draws only prompts of the calibration; evaluation has others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import intonaco
from intonaco.families.request import GenerateRequest
from intonaco.pipelines.calibrate import (
    QUANTITIES,
    measure_candidates,
    measure_signal,
    planning_data,
    record,
)
from intonaco.stepcache.candidates import make_candidates
from intonaco.stepcache.fitting import find_threshold
from intonaco.stepcache.planning import PlanningData
from intonaco.stepcache.policies import Adaptive, Cadence, OnlineDelta, Window
from intonaco.stepcache.settings import StepCacheSettings
from models.captions import caption
from models.world import doll_of

CALIBRATION_SEED = 810_000_000
EVALUATION_SEED = 820_000_000
PAPER_ESTIMATOR = "slope"
FAST_SPEEDUP = 2.4
MAX_FAST_CALLS_SHARE = 1 / FAST_SPEEDUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The settings to judge at one step count, and how the calibration came to them."""

    settings: dict[str, StepCacheSettings]
    signal: dict[str, object] | None
    fast_calls: int
    plans: tuple[PlanningData, ...]


def requests_of(
    model: intonaco.Model, seed: int, count: int, num_steps: int
) -> list[GenerateRequest]:
    width, height = model.defaults.width, model.defaults.height
    return [
        GenerateRequest(
            prompt=caption(doll_of(seed + index)),
            seed=index,
            width=width,
            height=height,
            num_steps=num_steps,
        )
        for index in range(count)
    ]


def paper_settings(policy: Cadence | OnlineDelta | Adaptive) -> StepCacheSettings:
    """The paper's own: its estimator, and a window that scales down from its 5 and 5."""
    return StepCacheSettings(policy=policy, estimator=PAPER_ESTIMATOR, window=Window())


def choose_settings(
    model: intonaco.Model, num_steps: int, count: int, *, has_fast: bool = True
) -> Chosen:
    """Calibrate at cadence 2's calls and at 2.4x fewer; only prompts of the calibration are drawn."""
    requests = requests_of(model, CALIBRATION_SEED, count, num_steps)
    cadence2 = paper_settings(Cadence())
    equal_calls = num_steps - len(skipped_steps(cadence2, num_steps))
    fast_calls = math.floor(num_steps * MAX_FAST_CALLS_SHARE)
    settings = {"cadence2": cadence2, "online_delta": paper_settings(OnlineDelta())}
    recordings = [record(model.family, request) for request in requests]
    runs = [recording.scored for recording in recordings]
    signal = measure_signal(runs)
    if signal is not None:
        policy = find_threshold(
            signal.curve,
            runs,
            num_skips=num_steps - equal_calls,
            window=Window(),
            max_cached_in_row=1,
        )
        settings["adaptive"] = paper_settings(policy)
    plans = tuple(planning_data(recordings, quantity) for quantity in QUANTITIES)
    budgets = {"best": equal_calls, **({"fast": fast_calls} if has_fast else {})}
    for name, calls in budgets.items():
        settings[name] = best_at(model, requests, plans, calls)
    return Chosen(
        settings=settings,
        signal=None if signal is None else signal.model_dump(mode="json", exclude={"curve"}),
        fast_calls=fast_calls,
        plans=plans,
    )


def best_at(
    model: intonaco.Model,
    requests: Sequence[GenerateRequest],
    plans: Sequence[PlanningData],
    calls: int,
) -> StepCacheSettings:
    """Return the cadence or plan with the highest mean PSNR at no more than `calls` calls."""
    num_steps = requests[0].num_steps
    every = make_candidates(num_steps=num_steps, budgets=(calls,), runs=(), curve=None, plans=plans)
    candidates = [c for c in every if c.settings.estimator != PAPER_ESTIMATOR]
    results, baselines = measure_candidates(model.family, requests, candidates)
    for tried, fewer in zip(results, baselines, strict=True):
        print(
            f"  calibration, {num_steps} steps: {tried.mode.name:44} {tried.num_calls_mean:5.1f} "
            f"calls {tried.psnr_mean_db:6.2f} dB mean {tried.psnr_worst_db:6.2f} worst; fewer "
            f"steps {fewer.psnr_mean_db:6.2f}",
            flush=True,
        )
    usable = [
        (result.psnr_mean_db, index)
        for index, result in enumerate(results)
        if result.num_calls_mean <= calls
    ]
    return candidates[max(usable)[1]].settings


def skipped_steps(settings: StepCacheSettings, num_steps: int) -> list[int]:
    """Return the steps that a cadence caches."""
    window = settings.window.resolve(num_steps)
    policy = settings.policy
    assert isinstance(policy, Cadence)
    inside = range(window.first or 0, num_steps - (window.last or 0))
    return [
        step
        for step in inside
        if (step - inside.start) % policy.period >= policy.period - policy.num_cached
    ]
