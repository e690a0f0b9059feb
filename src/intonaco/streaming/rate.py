"""How fast the link is, from bytes over active receive time. Pure: times are arguments.

A link is *active* while bytes are due: from the first byte of a response to the end of the last one
that was asked for. Idle time in between does not count; silence while bytes are due does, so a dead
link is seen as one, and during a shard, not after it.
"""

import math
from dataclasses import dataclass, replace

from intonaco.errors import StreamSettingsError

MIN_BYTES_PER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSettings:
    """How the rate is smoothed.

    Attributes:
        start_bytes_per_s: before anything was measured; 20 Mbit/s.
        fast_s, slow_s: time constants of the two averages; the lower one counts.
        sample_s: a sample closes after this much active time, whatever it holds ...
        sample_bytes: ... or after that many bytes, if `shortest_sample_s` have passed: fewer bytes
            or less time say more about bursts than about the link.
    """

    start_bytes_per_s: float = 20e6 / 8
    fast_s: float = 0.15
    slow_s: float = 0.6
    sample_s: float = 0.05
    sample_bytes: int = 32_000
    shortest_sample_s: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.fast_s <= self.slow_s:
            raise StreamSettingsError(
                f"fast_s must lie in (0, slow_s], got {self.fast_s} with slow_s={self.slow_s}; "
                "0.15 and 0.6 work"
            )
        if self.start_bytes_per_s <= 0 or self.sample_s <= 0:
            raise StreamSettingsError(
                "start_bytes_per_s and sample_s must be above 0, got "
                f"{self.start_bytes_per_s} and {self.sample_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateEstimate:
    """The smoothed rate so far, and the sample that is being collected.

    Attributes:
        fast, slow: averages in bytes per second; None before the first sample.
        pending_bytes, pending_s: of the open sample.
        measured_s: active time of all closed samples.
    """

    settings: RateSettings
    fast: float | None = None
    slow: float | None = None
    pending_bytes: int = 0
    pending_s: float = 0.0
    measured_s: float = 0.0

    @property
    def bytes_per_s(self) -> float:
        """The cautious estimate: the lower of the fast and the slow average."""
        if self.fast is None or self.slow is None:
            return self.settings.start_bytes_per_s
        return max(MIN_BYTES_PER_S, min(self.fast, self.slow))

    def add(self, num_bytes: int, active_s: float) -> "RateEstimate":
        """Return the estimate after `num_bytes` came in over `active_s` of active time."""
        pending = replace(
            self,
            pending_bytes=self.pending_bytes + num_bytes,
            pending_s=self.pending_s + active_s,
        )
        settings = self.settings
        is_large = (
            pending.pending_bytes >= settings.sample_bytes
            and pending.pending_s >= settings.shortest_sample_s
        )
        if not is_large and pending.pending_s < settings.sample_s:
            return pending
        sample = pending.pending_bytes / pending.pending_s
        return replace(
            self,
            fast=self._blend(self.fast, sample, pending.pending_s, settings.fast_s),
            slow=self._blend(self.slow, sample, pending.pending_s, settings.slow_s),
            pending_bytes=0,
            pending_s=0.0,
            measured_s=self.measured_s + pending.pending_s,
        )

    def _blend(
        self, average: float | None, sample: float, sample_s: float, constant_s: float
    ) -> float:
        """Return a plain average of the first samples, an exponential one once `constant_s` passed.

        The very first sample holds what is slow once: new code, a new connection. Taken as it is and
        then forgotten at the pace of `constant_s`, it would hold a fast link down for a whole edit.
        """
        if average is None and sample > 0:
            return sample
        weight = 1 - math.exp(-sample_s / constant_s)
        if average is None:
            # Silence before the first byte is no measurement: a server that takes its time to answer
            # once would else look like a dead link.
            return self.settings.start_bytes_per_s * (1 - weight)
        weight = max(weight, sample_s / (self.measured_s + sample_s))
        return average + weight * (sample - average)
