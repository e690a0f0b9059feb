"""What became of a streamed edit, for receipts, reports and whoever wants to know."""

from dataclasses import dataclass
from typing import Literal

from intonaco.streaming.protocol import StartWord


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """What became of one shard.

    Attributes:
        word: "run" with a prefix, "borrow" the step before, "dense" without state.
        coefficient_bytes, basis_bytes: length of the two prefixes that it was made from.
        is_cut: more had been asked for, or had arrived, than it was made from.
        is_below_floor: it was made from less than an edit is promised.
        is_whole: it was made from all that the template has for it.
        stall_s: how long the model waited for it.
    """

    step: int
    group: int
    word: StartWord
    level: int | None
    coefficient_bytes: int
    basis_bytes: int
    is_cut: bool
    is_below_floor: bool
    is_whole: bool
    stall_s: float

    @property
    def num_bytes(self) -> int:
        return self.coefficient_bytes + self.basis_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """What streaming an edit was like.

    Attributes:
        shards: in the order in which they ran, up to the one from which on the model ran dense.
        dense_from_step: the first step that computed every token; None = none did.
        state_bytes: of the coded state, what the edit read.
        received_bytes: over the link, in this edit.
        sent: everything that left the device since the template was opened or last edited.
        troubles: what went wrong in reconstruction and on the link.
        seconds: from the request to the picture.
    """

    shards: tuple[ShardRecord, ...]
    dense_from_step: int | None
    state_bytes: int
    received_bytes: int
    bytes_per_s: float
    sent: tuple[str, ...]
    num_connections: int
    troubles: tuple[str, ...]
    seconds: float

    @property
    def stall_s(self) -> float:
        return sum(shard.stall_s for shard in self.shards)

    @property
    def flag(self) -> str:
        """In a word: complete, coded, degraded, or dense-from-step-N."""
        if self.dense_from_step is not None:
            return f"dense-from-step-{self.dense_from_step}"
        if self.state == "coded" and all(shard.is_whole for shard in self.shards):
            return "complete"
        return self.state

    @property
    def state(self) -> Literal["coded", "degraded"]:
        """Coded where every shard ran with its own state, its floor at least; else degraded."""
        is_degraded = any(shard.word == "borrow" or shard.is_below_floor for shard in self.shards)
        return "degraded" if is_degraded else "coded"
