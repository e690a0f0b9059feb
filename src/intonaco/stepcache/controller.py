"""One generation's step cache: decides each step once, on the host, and keeps what an estimate needs.

Built anew for each generation and dropped with it, so nothing of one request can reach the next.
Knows no family: the full prediction, after guidance, is a function that it calls or does not call.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from intonaco.errors import StepCacheError
from intonaco.stepcache.estimators import (
    MAX_HISTORY,
    Sample,
    correction,
    estimate,
    moved_by_velocity,
)
from intonaco.stepcache.policies import Facts, OnlineDelta, wants_cached
from intonaco.stepcache.settings import StepCacheSettings

StepKind = Literal["full", "cached", "forced"]
FullPrediction = Callable[[], torch.Tensor]
Probe = Callable[[torch.Tensor, int], float]
"""From latents and step to the change score since the last call; NaN where it is undefined."""

Observer = Callable[[int, torch.Tensor, torch.Tensor, float | None], None]
"""Called after each step with its index, the latents before it, the prediction used, the score."""

TINY = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What was done at one step, and why.

    Attributes:
        kind: `forced` is a full step that the policy would have cached.
        reason: window, policy, history, row, score, or replay.
        score: the probe's score, or online-delta's measured change; None where there is none.
    """

    kind: StepKind
    reason: str
    score: float | None = None
    is_score_valid: bool = True


def relative_change(new: torch.Tensor, old: torch.Tensor) -> float:
    """Return mean |new - old| / mean |old| in float32; the measure of online-delta."""
    scale = max(float(old.abs().mean()), TINY)
    return float((new - old).abs().mean()) / scale


class StepCacheRun:
    """The step cache of one generation. `predict` is called once per step, in order."""

    def __init__(
        self,
        settings: StepCacheSettings,
        sigmas: Sequence[float],
        *,
        probe: Probe | None = None,
        repeats: tuple[StepKind, ...] | None = None,
        observe: Observer | None = None,
        reset_steps: frozenset[int] = frozenset(),
    ) -> None:
        """Start a generation.

        Args:
            sigmas: one more than there are steps, high to low.
            probe: needed by the adaptive policy; called at every step.
            repeats: decisions to repeat in place of the policy's, one per step.
            observe: told of each step after it; it must not change the tensors.
            reset_steps: steps at which another expert takes over and the state starts anew.

        Raises StepCacheError where these do not fit each other.
        """
        num_steps = len(sigmas) - 1
        if repeats is not None and len(repeats) != num_steps:
            raise StepCacheError(
                f"step cache repeats must have one decision per step, got {len(repeats)} for "
                f"{num_steps} steps; take both from one receipt"
            )
        if settings.needs_probe and probe is None and repeats is None:
            raise StepCacheError(
                f"step cache policy {settings.policy.kind} needs a probe, and this model has none; "
                "choose cadence or online-delta"
            )
        self._settings = settings
        self._estimator = settings.estimator_rule
        self._sigmas = tuple(sigmas)
        self._num_steps = num_steps
        self._first = settings.window.resolve(num_steps).first or 0
        self._cap = settings.row_cap(num_steps)
        self._probe = probe if repeats is None else None
        self._repeats = repeats
        self._observe = observe
        self._reset_steps = reset_steps
        self._records: list[StepRecord] = []
        self._start_state()

    def _start_state(self) -> None:
        self._real: list[Sample] = []
        self._cached: list[Sample] = []
        self._previous: torch.Tensor | None = None
        self._change: torch.Tensor | None = None
        self._delta: float | None = None
        self._baseline_delta: float | None = None
        self._scores: list[float] = []
        self._is_primed = False

    @property
    def settings(self) -> StepCacheSettings:
        return self._settings

    @property
    def records(self) -> tuple[StepRecord, ...]:
        return tuple(self._records)

    def predict(self, step: int, latents: torch.Tensor, full: FullPrediction) -> torch.Tensor:
        """Return the prediction of `step`: `full()`, or an estimate in its place.

        Full steps without a correction return what `full` returned, untouched. Raises
        StepCacheError where the layout of latents or outputs changes within the generation.
        """
        assert step == len(self._records), f"steps come in order, got {step}"
        if step in self._reset_steps:
            self._start_state()
        self._check_layout(latents)
        score, is_valid = self._score(latents, step)
        kind, reason = self._decide(step, is_valid)
        sample_latents = latents.detach().to(torch.float32, copy=True)
        if kind == "cached":
            prediction = self._use_estimate(step, sample_latents).to(latents.dtype)
        else:
            prediction = self._use_full(step, sample_latents, full())
        if isinstance(self._settings.policy, OnlineDelta):
            score = self._delta if kind != "cached" else None
        self._records.append(
            StepRecord(kind=kind, reason=reason, score=score, is_score_valid=is_valid)
        )
        if self._observe is not None:
            self._observe(step, latents, prediction, score)
        return prediction

    def _check_layout(self, latents: torch.Tensor) -> None:
        if self._real and self._real[-1].latents.shape != latents.shape:
            raise StepCacheError(
                f"step cache latents must keep their shape {tuple(self._real[-1].latents.shape)} "
                f"within a generation, got {tuple(latents.shape)}; start a run for each generation"
            )

    def _score(self, latents: torch.Tensor, step: int) -> tuple[float | None, bool]:
        """Return this step's score and whether it is a valid one; the first one is undefined."""
        if self._probe is None:
            return None, True
        score = self._probe(latents, step)
        if not self._is_primed:
            self._is_primed = True
            return None, True
        if not math.isfinite(score) or score < 0:
            return None, False
        self._scores.append(score)
        return score, True

    def _decide(self, step: int, is_score_valid: bool) -> tuple[StepKind, str]:
        if self._repeats is not None:
            kind = self._repeats[step]
            return (kind, "replay") if kind != "cached" else self._grant("replay")
        settings = self._settings
        if settings.window.protects(step, self._num_steps):
            return "full", "window"
        if not is_score_valid:
            return "full", "score"
        facts = Facts(
            step=step,
            num_steps=self._num_steps,
            first=self._first,
            num_cached_in_row=len(self._cached),
            delta=self._delta,
            baseline_delta=self._baseline_delta,
            scores=tuple(self._scores),
            is_score_valid=is_score_valid,
        )
        if not wants_cached(settings.policy, facts):
            return "full", "policy"
        return self._grant("policy")

    def _grant(self, reason: str) -> tuple[StepKind, str]:
        if len(self._real) < self._estimator.num_real:
            return "forced", "history"
        if len(self._cached) >= self._cap:
            return "forced", "row"
        return "cached", reason

    def _use_estimate(self, step: int, latents: torch.Tensor) -> torch.Tensor:
        if self._estimator.degree is None:
            assert self._previous is not None
            assert self._change is not None
            output = self._previous + self._change
        else:
            output = estimate(self._estimator, self._real, latents, self._sigmas[step])
        self._previous = output
        self._cached.append(self._sample(step, latents, output))
        return output

    def _use_full(self, step: int, latents: torch.Tensor, prediction: torch.Tensor) -> torch.Tensor:
        if prediction.shape != latents.shape:
            raise StepCacheError(
                f"step cache outputs must have the shape of the latents {tuple(latents.shape)}, got "
                f"{tuple(prediction.shape)}; the family must unpack them first"
            )
        # A backend may reuse the memory of its output at the next call.
        output = prediction.detach().to(torch.float32, copy=True)
        self._measure(output)
        self._real = [*self._real[-(MAX_HISTORY - 1) :], self._sample(step, latents, output)]
        used = self._corrected(step, prediction)
        self._cached = []
        self._scores = []
        return used

    def _measure(self, output: torch.Tensor) -> None:
        if self._previous is not None:
            self._change = output - self._previous
            # Reading a number waits for the device, so only who needs it pays.
            if isinstance(self._settings.policy, OnlineDelta):
                self._delta = relative_change(output, self._previous)
                if self._baseline_delta is None:
                    self._baseline_delta = self._delta
        self._previous = output

    def _corrected(self, step: int, prediction: torch.Tensor) -> torch.Tensor:
        if not self._cached or self._estimator.correction_degree is None:
            return prediction
        rounding = torch.finfo(prediction.dtype).eps
        if not moved_by_velocity(self._cached[-1], self._real[-1].latents, rounding=rounding):
            return prediction
        offset = correction(self._estimator, self._real, self._cached)
        move = self._sigmas[step + 1] - self._sigmas[step]
        return (prediction.to(torch.float32) + offset / move).to(prediction.dtype)

    def _sample(self, step: int, latents: torch.Tensor, output: torch.Tensor) -> Sample:
        return Sample(
            sigma=self._sigmas[step],
            next_sigma=self._sigmas[step + 1],
            latents=latents,
            output=output,
        )
