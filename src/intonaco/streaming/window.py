"""How long a shard may take: need times from measured progress, windows from need times. Pure.

All times are seconds on one clock of the caller's choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from intonaco.errors import StreamSettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """How cautious a window is.

    Attributes:
        gamma: which part of the time until a shard is needed its transfer may plan with. The plan is
            made again before every request, so the margin melts as the need comes near.
        guard_s: time between the last byte and readiness, besides reconstruction.
    """

    gamma: float = 0.8
    guard_s: float = 0.002

    def __post_init__(self) -> None:
        if not 0 < self.gamma < 1:
            raise StreamSettingsError(f"gamma must lie in (0, 1), got {self.gamma}; 0.8 works")
        if self.guard_s < 0:
            raise StreamSettingsError(f"guard_s must not be below 0, got {self.guard_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where execution stands.

    Attributes:
        next_shard: the first shard that has not begun to run.
        running_since: when the shard before it began, or None while nothing runs.
        start_at: when the first shard can run at the earliest (the end of prompt encoding).
        slowness: measured over planned run time of the shards so far, smoothed.
    """

    next_shard: int = 0
    running_since: float | None = None
    start_at: float
    slowness: float = 1.0

    def begun(self, shard: int, now: float) -> "Progress":
        return replace(self, next_shard=shard + 1, running_since=now)

    def ended(self, run_s: Sequence[float], now: float) -> "Progress":
        """Return the progress after the running shard ended; its run time corrects the others."""
        if self.running_since is None:
            return replace(self, start_at=max(now, self.start_at))
        ratio = (now - self.running_since) / run_s[self.next_shard - 1]
        return replace(
            self,
            running_since=None,
            start_at=now,
            slowness=0.7 * self.slowness + 0.3 * ratio,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time until a shard is needed, less what is kept as margin.

    Attributes:
        transfer_s: from the next byte that can come.
        decode_s: from now.
    """

    transfer_s: float
    decode_s: float

    def budget_bytes(
        self, bytes_per_s: float, *, decode_bytes_per_s: float | None, backlog_bytes: float
    ) -> float:
        """Return what can be there for the shard if it is asked for from now on, and decoded.

        Args:
            backlog_bytes: what is decoded before: arrived, or on its way.
        """
        received = bytes_per_s * self.transfer_s
        if decode_bytes_per_s is None:
            return received
        return max(0.0, min(received, decode_bytes_per_s * self.decode_s - backlog_bytes))


def need_times(progress: Progress, run_s: Sequence[float], first: int, now: float) -> list[float]:
    """Return when shards `first`, `first + 1`, ... are needed, if none has to wait for its state."""
    at = progress.next_shard
    if progress.running_since is None:
        free_at = max(now, progress.start_at)
    else:
        free_at = max(now, progress.running_since + progress.slowness * run_s[at - 1])
    needs: list[float] = []
    for planned_s in run_s[at:]:
        needs.append(free_at)
        free_at += progress.slowness * planned_s
    return needs[first - at :]


def need_time(progress: Progress, run_s: Sequence[float], shard: int, now: float) -> float:
    """Return when `shard`, which has not begun, is needed."""
    return need_times(progress, run_s, shard, now)[0]


def paper_window(overlap_s: float, carry_over_s: float, gamma: float) -> float:
    """Return gamma * (overlap + carry-over): the transfer window of the paper's section 4.3.2."""
    return gamma * (overlap_s + carry_over_s)


def transfer_window(
    settings: WindowSettings, *, need_at: float, now: float, reconstruct_s: float
) -> float:
    """Return how long, from `now`, the transfer of a shard may plan with; never negative.

    At the moment when the shard before has arrived, `need_at - now` is overlap plus carry-over, so
    this is `paper_window` less what reconstruction needs.
    """
    return settings.gamma * max(0.0, need_at - now - reconstruct_s - settings.guard_s)
