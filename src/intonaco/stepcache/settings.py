"""One generation's step cache settings: as data, as a line of text, and an operator's limits on them.

The text is what a command line, a request over HTTP and a receipt hold:

    off | cadence[:PERIOD[:NUM_CACHED]] | online-delta[:ALPHA] | calibrated[:OFFER]
    followed by any of  ,estimator=NAME  ,window=FIRST-LAST  ,row=MAX_CACHED_IN_ROW

What `calibrated` means is looked up by whoever holds the model's calibration file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from intonaco.errors import RequestError
from intonaco.stepcache.estimators import DEFAULT_ESTIMATOR, Estimator, find_estimator
from intonaco.stepcache.policies import (
    DEFAULT_ALPHA,
    Adaptive,
    Cadence,
    Off,
    OnlineDelta,
    Planned,
    Policy,
    Recorded,
    Window,
    longest_row,
)

CALIBRATED = "calibrated"
GRAMMAR = (
    "off, cadence:2, cadence:3:2, online-delta:0.6 or calibrated, then ,estimator=NAME ,window=5-5 "
    ",row=1 as needed"
)
TaggedPolicy = Annotated[
    Off | Cadence | OnlineDelta | Adaptive | Planned | Recorded, Field(discriminator="kind")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCacheSettings:
    """When steps are cached, and what stands in for their outputs.

    Attributes:
        estimator: a name of `intonaco.stepcache.estimators.ESTIMATORS`.
        max_cached_in_row: cap on consecutive cached steps; None = what the policy is made for.
        calibration: digest of the calibration file that these settings come from.
    """

    policy: TaggedPolicy
    estimator: str = DEFAULT_ESTIMATOR
    window: Window = field(default_factory=Window)
    max_cached_in_row: int | None = None
    calibration: str | None = None

    def __post_init__(self) -> None:
        find_estimator(self.estimator)
        if self.max_cached_in_row is not None and not 1 <= self.max_cached_in_row <= 1000:
            raise RequestError(
                f"step cache row must be in 1..1000 or left out, got {self.max_cached_in_row}; "
                "1 is the most careful"
            )

    @property
    def is_off(self) -> bool:
        return isinstance(self.policy, Off)

    @property
    def needs_probe(self) -> bool:
        return isinstance(self.policy, Adaptive)

    @property
    def estimator_rule(self) -> Estimator:
        return find_estimator(self.estimator)

    def row_cap(self, num_steps: int) -> int:
        """Return the cap on consecutive cached steps of a run of `num_steps`."""
        if self.max_cached_in_row is not None:
            return self.max_cached_in_row
        return longest_row(self.policy, num_steps)


OFF = StepCacheSettings(policy=Off())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCacheLimits:
    """What an operator lets requests choose; checked before any work.

    Attributes:
        kinds: the policies that may be asked for.
        max_cached_in_row: the longest row of cached steps.
        min_first, min_last: the smallest protected window.
    """

    kinds: tuple[str, ...] = ("off", "cadence", "online-delta", "adaptive", "planned")
    max_cached_in_row: int = 4
    min_first: int = 0
    min_last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A choice that only the model's calibration file can resolve, and what it overrides."""

    offer: str | None
    estimator: str | None = None
    window: Window | None = None
    max_cached_in_row: int | None = None

    def override(self, settings: StepCacheSettings) -> StepCacheSettings:
        """Return `settings` of the offer, with what the text says instead."""
        return replace(
            settings,
            estimator=settings.estimator if self.estimator is None else self.estimator,
            window=settings.window if self.window is None else self.window,
            max_cached_in_row=(
                settings.max_cached_in_row
                if self.max_cached_in_row is None
                else self.max_cached_in_row
            ),
        )


def parse_settings(text: str) -> StepCacheSettings | Offered:
    """Return what `text` asks for. Raises RequestError naming the part that cannot be read."""
    head, *extras = [part.strip() for part in text.strip().split(",")]
    name, *values = head.split(":")
    options = _parse_options(text, extras)
    if name == CALIBRATED:
        if len(values) > 1:
            raise _fault(text, f"{CALIBRATED} takes one name, got {values}")
        return replace(options, offer=values[0] if values else None)
    return options.override(StepCacheSettings(policy=_parse_policy(text, name, values)))


def parse_recorded(text: str) -> StepCacheSettings:
    """Return the settings that a receipt describes; its decisions have to be given beside them."""
    head, *extras = text.split(",")
    return _parse_options(text, extras).override(StepCacheSettings(policy=Recorded(name=head)))


def describe_settings(settings: StepCacheSettings, num_steps: int) -> str:
    """Return `settings` in one line, as resolved for a run of `num_steps`."""
    window = settings.window.resolve(num_steps)
    return (
        f"{_describe_policy(settings.policy)},estimator={settings.estimator},"
        f"window={window.first}-{window.last},row={settings.row_cap(num_steps)}"
    )


def check_limits(settings: StepCacheSettings, limits: StepCacheLimits, num_steps: int) -> None:
    """Raise RequestError, with every reason, where `settings` go beyond an operator's `limits`."""
    window = settings.window.resolve(num_steps)
    row = settings.row_cap(num_steps)
    reasons: list[str] = []
    if settings.policy.kind not in limits.kinds:
        reasons.append(f"policy {settings.policy.kind} is not one of {', '.join(limits.kinds)}")
    if settings.is_off:
        return _raise(reasons)
    if row > limits.max_cached_in_row:
        reasons.append(f"row {row} is over {limits.max_cached_in_row}")
    if (window.first or 0) < limits.min_first or (window.last or 0) < limits.min_last:
        reasons.append(
            f"window {window.first}-{window.last} is under {limits.min_first}-{limits.min_last}"
        )
    return _raise(reasons)


def _raise(reasons: list[str]) -> None:
    if reasons:
        raise RequestError(f"step cache is beyond this server's limits: {'; '.join(reasons)}")


def _parse_policy(text: str, name: str, values: list[str]) -> Policy:
    parsers: dict[str, Callable[[], Policy]] = {
        "off": Off,
        "cadence": lambda: Cadence(
            period=_whole(text, values[0]) if values else 2,
            num_cached=_whole(text, values[1]) if len(values) > 1 else 1,
        ),
        "online-delta": lambda: OnlineDelta(
            alpha=_number(text, values[0]) if values else DEFAULT_ALPHA
        ),
    }
    most = {"off": 0, "cadence": 2, "online-delta": 1}
    if name not in parsers:
        raise _fault(text, f"no policy is called {name!r}")
    if len(values) > most[name]:
        raise _fault(text, f"{name} takes at most {most[name]} numbers, got {values}")
    return parsers[name]()


def _parse_options(text: str, extras: list[str]) -> Offered:
    """Return what follows the policy in `text`, as overrides of settings yet to be found."""
    options = Offered(offer=None)
    for extra in extras:
        key, _, value = extra.partition("=")
        if key == "estimator":
            options = replace(options, estimator=value)
        elif key == "row":
            options = replace(options, max_cached_in_row=_whole(text, value))
        elif key == "window":
            first, _, last = value.partition("-")
            window = Window(first=_whole(text, first), last=_whole(text, last))
            options = replace(options, window=window)
        else:
            raise _fault(text, f"no option is called {key!r}")
    return options


def _whole(text: str, part: str) -> int:
    if not part.isdecimal():
        raise _fault(text, f"{part!r} is not a whole number")
    return int(part)


def _number(text: str, part: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise _fault(text, f"{part!r} is not a number") from None


def _fault(text: str, reason: str) -> RequestError:
    return RequestError(f"step cache {text[:80]!r}: {reason}; write {GRAMMAR}")


def _describe_policy(policy: Policy) -> str:
    match policy:
        case Off():
            return "off"
        case Cadence(period=period, num_cached=num_cached):
            return f"cadence:{period}:{num_cached}"
        case OnlineDelta(alpha=alpha):
            return f"online-delta:{alpha:g}"
        case Adaptive(threshold=threshold):
            return f"adaptive:{threshold:.6g}"
        case Planned():
            return "planned"
        case Recorded(name=name):
            return name
