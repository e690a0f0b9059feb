"""When to cache a step. Plain data and pure functions: what is known of a step in, a wish out.

Knows neither tensors nor how an output is estimated. Whether a wish is granted (protected window,
history, cap on consecutive cached steps) is for `intonaco.stepcache.controller` to say.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from intonaco.errors import RequestError

MAX_PERIOD = 100
MAX_CURVE_DEGREE = 4
DEFAULT_ALPHA = 0.6
MAX_WINDOW = 5
WINDOW_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The first and last steps that are always full; None = scaled with the step count."""

    first: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        for setting, value in (("first", self.first), ("last", self.last)):
            if value is not None and not 0 <= value <= 1000:
                raise RequestError(
                    f"step cache window {setting} must be in 0..1000, got {value}; choose "
                    f"{MAX_WINDOW}, or leave it out"
                )

    def resolve(self, num_steps: int) -> "Window":
        """Return the window with both numbers: min(5, ceil(num_steps / 10)) where they are None."""
        scaled = min(MAX_WINDOW, math.ceil(WINDOW_SHARE * num_steps))
        return Window(
            first=scaled if self.first is None else self.first,
            last=scaled if self.last is None else self.last,
        )

    def protects(self, step: int, num_steps: int) -> bool:
        """Return whether `step` is always full."""
        resolved = self.resolve(num_steps)
        assert resolved.first is not None
        assert resolved.last is not None
        return step < resolved.first or step >= num_steps - resolved.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A polynomial that maps a change score to an estimated relative change of the output.

    `coefficients` run from the constant up, over x = (score - center) / scale, which is held inside
    the range of scores that the fit has seen: outside it a polynomial means nothing.
    """

    coefficients: tuple[float, ...]
    center: float
    scale: float
    low: float
    high: float

    def __post_init__(self) -> None:
        numbers = (*self.coefficients, self.center, self.scale, self.low, self.high)
        if not 1 <= len(self.coefficients) <= MAX_CURVE_DEGREE + 1 or self.scale <= 0:
            raise RequestError(
                f"a step cache curve has 1..{MAX_CURVE_DEGREE + 1} coefficients and a scale above 0, "
                f"got {len(self.coefficients)} and {self.scale}; calibrate again"
            )
        if not all(math.isfinite(number) for number in numbers):
            raise RequestError(f"a step cache curve must be finite, got {numbers}; calibrate again")

    def __call__(self, score: float) -> float:
        x = (min(max(score, self.low), self.high) - self.center) / self.scale
        value = 0.0
        for coefficient in reversed(self.coefficients):
            value = value * x + coefficient
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """Every step is full."""

    kind: Literal["off"] = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """Of every `period` steps inside the window, the last `num_cached` are cached."""

    period: int = 2
    num_cached: int = 1
    kind: Literal["cadence"] = "cadence"

    def __post_init__(self) -> None:
        if not 2 <= self.period <= MAX_PERIOD:
            raise RequestError(
                f"step cache cadence must be in 2..{MAX_PERIOD}, got {self.period}; 2 caches every "
                "second step, and 'off' none"
            )
        if not 1 <= self.num_cached < self.period:
            raise RequestError(
                f"step cache cadence {self.period} can cache 1..{self.period - 1} steps of "
                f"{self.period}, got {self.num_cached}; 1 always works"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineDelta:
    """Cache the step after a full one whose output changed less than alpha times the first change."""

    alpha: float = DEFAULT_ALPHA
    kind: Literal["online-delta"] = "online-delta"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and 0.0 < self.alpha <= 10.0):
            raise RequestError(
                f"step cache alpha must be above 0 and at most 10, got {self.alpha}; "
                f"{DEFAULT_ALPHA} is usual"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Cache while the change estimated from the probe's scores stays below the threshold.

    With `accumulates` the estimates since the last full step are summed; without it each step is
    judged alone.
    """

    threshold: float
    curve: Curve
    accumulates: bool = True
    kind: Literal["adaptive"] = "adaptive"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and self.threshold >= 0.0):
            raise RequestError(
                f"step cache threshold must be a number from 0 up, got {self.threshold}; take the "
                "one that calibration found"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The full steps are listed, one list for each step count that was calibrated."""

    full_steps: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    kind: Literal["planned"] = "planned"

    def __post_init__(self) -> None:
        for num_steps, steps in self.full_steps.items():
            in_order = list(steps) == sorted(set(steps))
            if not (in_order and steps and steps[0] >= 0 and steps[-1] < num_steps):
                raise RequestError(
                    f"step cache plan for {num_steps} steps must list steps in 0..{num_steps - 1} "
                    f"in order, got {list(steps)}; calibrate again"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a receipt says of the policy that once decided; its decisions are repeated, not made."""

    name: str
    kind: Literal["recorded"] = "recorded"


Policy = Off | Cadence | OnlineDelta | Adaptive | Planned | Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a policy may know before a step.

    Attributes:
        first: first step after the protected window.
        num_cached_in_row: cached steps just before this one.
        delta: relative output change at the last full step; None before there is one.
        baseline_delta: the first such change of the generation.
        scores: the probe's valid scores since the last full step, this step's last.
        is_score_valid: False where this step's score is missing or not a number.
    """

    step: int
    num_steps: int
    first: int
    num_cached_in_row: int
    delta: float | None = None
    baseline_delta: float | None = None
    scores: tuple[float, ...] = ()
    is_score_valid: bool = True


def wants_cached(policy: Policy, facts: Facts) -> bool:
    """Return whether `policy` would cache the step that `facts` describe."""
    match policy:
        case Off() | Recorded():
            return False
        case Cadence(period=period, num_cached=num_cached):
            return (facts.step - facts.first) % period >= period - num_cached
        case OnlineDelta(alpha=alpha):
            return _changed_little(facts, alpha)
        case Adaptive():
            return _estimate_is_low(policy, facts)
        case Planned(full_steps=full_steps):
            return facts.step not in full_steps.get(facts.num_steps, range(facts.num_steps))


def longest_row(policy: Policy, num_steps: int) -> int:
    """Return how many consecutive cached steps `policy` is made for; the default cap."""
    match policy:
        case Cadence(num_cached=num_cached):
            return num_cached
        case Planned(full_steps=full_steps):
            steps = (*full_steps.get(num_steps, ()), num_steps)
            return max((b - a - 1 for a, b in pairwise(steps)), default=0) or 1
        case _:
            return 1


def _changed_little(facts: Facts, alpha: float) -> bool:
    if facts.num_cached_in_row or facts.delta is None or facts.baseline_delta is None:
        return False
    return facts.delta < alpha * facts.baseline_delta


def _estimate_is_low(policy: Adaptive, facts: Facts) -> bool:
    if not facts.is_score_valid or not facts.scores:
        return False
    scores = facts.scores if policy.accumulates else facts.scores[-1:]
    return sum(abs(policy.curve(score)) for score in scores) < policy.threshold
