"""Decides what to do about a picture that is being drawn: wait, cancel it, replace the process.

Pure: times are arguments. What is decided here is carried out by the supervisor.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One drawing, seen at one moment. All times in seconds on one clock.

    Attributes:
        heard_s: when the model process last said something of it.
        deadline_s: when its request must be done.
        is_unwanted: its client cancelled it or is gone.
        cancel_sent_s: when the model process was told to stop; None = not yet.
    """

    heard_s: float
    deadline_s: float
    is_unwanted: bool = False
    cancel_sent_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do now; `wait_s` is when to look again at the latest."""

    action: Literal["wait", "cancel", "replace"]
    wait_s: float = 0.0
    reason: str = ""


def decide(
    watch: Watch, now_s: float, *, step_timeout_s: float, cancel_timeout_s: float
) -> Verdict:
    """Return what to do about `watch` at `now_s`.

    A cancel that is not confirmed within its time, and a step that does not end, mean that the
    process cannot be relied on any more.
    """
    if watch.cancel_sent_s is not None:
        left_s = watch.cancel_sent_s + cancel_timeout_s - now_s
        if left_s <= 0:
            reason = f"it did not confirm a cancel within {cancel_timeout_s:g} s"
            return Verdict(action="replace", reason=reason)
        return Verdict(action="wait", wait_s=left_s)
    step_left_s = watch.heard_s + step_timeout_s - now_s
    if step_left_s <= 0:
        return Verdict(action="replace", reason=f"a step took longer than {step_timeout_s:g} s")
    if watch.is_unwanted:
        return Verdict(action="cancel", reason="cancelled by its client")
    if now_s >= watch.deadline_s:
        return Verdict(action="cancel", reason="out of time")
    return Verdict(action="wait", wait_s=min(step_left_s, watch.deadline_s - now_s))
