"""What a device does when it reaches a shard: run, wait, borrow, or leave the link behind. Pure.

A late shard cannot be computed locally by itself: its keys and values need tokens that passed all
earlier blocks. So a shard runs with the prefix that is there, or waits a bounded time for its floor,
or runs with less than its floor, or borrows the state of the same blocks one step earlier; a dense
run begins at a step boundary only.
"""

from dataclasses import dataclass
from typing import Literal

from intonaco.errors import StreamSettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSettings:
    """How patient a device is.

    Attributes:
        longest_wait_s: for a floor, where the shard's run time is not shorter.
        max_borrowed: after this many shards in a row that borrowed, no step begins with borrowing:
            it waits or runs dense, whichever is expected to be quicker.
        silent_s: with "stall", a shard with its floor stops waiting after this long with bytes due
            and none received.
        give_up_s: the longest wait for a floor where neither borrowing nor a dense run is possible.
        late: "cut" runs with the prefix that is there; "stall" waits for all that was asked for.
    """

    longest_wait_s: float = 0.25
    max_borrowed: int = 2
    silent_s: float = 5.0
    give_up_s: float = 30.0
    late: Literal["cut", "stall"] = "cut"

    def __post_init__(self) -> None:
        if self.longest_wait_s < 0 or self.max_borrowed < 0 or self.silent_s <= 0:
            raise StreamSettingsError(
                "longest_wait_s and max_borrowed must not be below 0 and silent_s above 0, got "
                f"{self.longest_wait_s}, {self.max_borrowed}, {self.silent_s}; 0.25, 2, 5.0 work"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that the decision reads.

    Attributes:
        level: what has arrived, or None below the lowest level.
        floor: the level that the shard was promised.
        is_complete: everything that was asked for this shard has arrived.
        is_first_of_step: the shard begins a step.
        can_borrow: the same blocks' state of the step before is at hand.
        num_borrowed: shards in a row, up to this one, that borrowed.
        waited_s: since the device reached the shard.
        shard_run_s: planned run time of the shard.
        floor_in_s: when the floor should arrive at the present rate.
        silent_s: since the last byte, while bytes are due.
        dense_extra_s: what running the rest of the edit dense costs more than running it sparse;
            None if this model or template cannot run dense.
    """

    level: int | None
    floor: int
    is_complete: bool
    is_first_of_step: bool
    can_borrow: bool
    num_borrowed: int
    waited_s: float
    shard_run_s: float
    floor_in_s: float
    silent_s: float
    dense_extra_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Run the shard now with the prefix that is there, which reaches `level`.

    Below its floor the result is degraded.
    """

    level: int
    is_below_floor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Ask again after `at_most_s`, or as soon as more has arrived."""

    at_most_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrow:
    """Run with the state of the same blocks one step earlier; the result is degraded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoDense:
    """Leave the link: run this step from its start, and all later ones, dense on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Nothing came, nothing can be borrowed and no dense run is possible: end with an error."""


Start = Run | Wait | Borrow | GoDense | GiveUp


def decide_start(situation: Situation, settings: LateSettings) -> Start:
    """Return what to do with the shard that the device has reached."""
    level = situation.level
    is_silent = situation.silent_s >= settings.silent_s
    if level is not None and level >= situation.floor:
        if settings.late == "cut" or situation.is_complete or is_silent:
            return Run(level=level)
        return Wait(at_most_s=settings.longest_wait_s)
    patience_s = min(situation.shard_run_s, settings.longest_wait_s)
    left_s = patience_s - situation.waited_s
    if level is not None and situation.floor_in_s > left_s:
        return Run(level=level, is_below_floor=True)
    if _is_dense_quicker(situation, settings):
        return GoDense()
    if left_s > 0:
        return Wait(at_most_s=left_s)
    if settings.late == "cut" and _may_borrow(situation, settings):
        return Borrow()
    if situation.waited_s >= settings.give_up_s:
        return GiveUp()
    return Wait(at_most_s=patience_s / 4)


def _is_dense_quicker(situation: Situation, settings: LateSettings) -> bool:
    """Compare waiting with dense steps, where a step can begin again.

    In the first step nothing can be borrowed, and beginning it again loses nothing but its time.
    Whatever the rate promises: who has waited as long as dense steps take believes it no longer. A
    server that refuses every range at once shows no silence that a rate could be told from.
    """
    if situation.dense_extra_s is None:
        return False
    is_boundary = situation.is_first_of_step or not situation.can_borrow
    has_waited = situation.waited_s > max(situation.dense_extra_s, settings.longest_wait_s)
    return is_boundary and (has_waited or situation.floor_in_s > situation.dense_extra_s)


def _may_borrow(situation: Situation, settings: LateSettings) -> bool:
    """A step that began is finished by borrowing; after too many in a row none begins so."""
    if not situation.can_borrow:
        return False
    has_no_other_way = situation.dense_extra_s is None
    return (
        has_no_other_way
        or not situation.is_first_of_step
        or situation.num_borrowed < settings.max_borrowed
    )
