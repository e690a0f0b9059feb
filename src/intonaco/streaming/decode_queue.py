"""How far a decoder has come that works through arriving bytes in order, at one rate. Pure."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeQueue:
    """Bytes that arrived and are not decoded yet.

    Attributes:
        bytes_per_s: at which the decoder works; None decodes in no time.
        at: the time of the last look, seconds.
        left_bytes: what was left to decode then.
    """

    bytes_per_s: float | None
    at: float
    left_bytes: float = 0.0

    def left_at(self, now: float) -> float:
        """Return what is left to decode at `now`, if nothing more arrives."""
        if self.bytes_per_s is None:
            return 0.0
        return max(0.0, self.left_bytes - self.bytes_per_s * max(0.0, now - self.at))

    def add(self, num_bytes: int, now: float) -> "DecodeQueue":
        """Return the queue after `num_bytes` more arrived."""
        left_bytes = 0.0 if self.bytes_per_s is None else self.left_at(now) + num_bytes
        return replace(self, at=max(now, self.at), left_bytes=left_bytes)

    def seconds_for(self, num_bytes: float) -> float:
        """Return how long the decoder works on `num_bytes`."""
        return 0.0 if self.bytes_per_s is None else num_bytes / self.bytes_per_s
