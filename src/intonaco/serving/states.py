"""The states of a server."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What the server is doing; shown by /readyz, the metrics and the log."""

    STARTING = "starting"
    WARMING = "warming"
    READY = "ready"
    BUSY = "busy"
    CANCELLING = "cancelling"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    FAILED = "failed"


SERVING_STATES = frozenset({State.READY, State.BUSY, State.CANCELLING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state, and why it is that one."""

    state: State
    reason: str
