"""The settings of one edit's stream, and what the controller knows of device and template.

Frozen; checked once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from intonaco.errors import StreamSettingsError
from intonaco.streaming.late import LateSettings
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.tables import ShardTable
from intonaco.streaming.window import WindowSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How an edit is streamed.

    Attributes:
        window, rate, late: see their classes.
        round_trip_s: assumed until measured.
        slice_s: a request asks for about this much at the present rate, so that a collapse leaves
            little on its way; None asks for a whole shard at once.
        smallest_slice_bytes: a request asks for no less, if so much is wanted.
        floor_caution: floors come before anything better as long as they could not all arrive in time
            at this part of the present rate.
        first_step_floor_caution: the same for the floors of the first step, which has nothing else
            to run with.
        max_requests: requests on their way at once; 1 waits for each response, a round trip a request.
        reconnect_round_trips: what closing the connection costs before the next first byte.
        has_carry_over: whether a shard may be fetched earlier than one run time before its need;
            False is for comparisons only.
        is_per_edit: one level for all shards, chosen at the start; for comparisons only.
    """

    window: WindowSettings = field(default_factory=WindowSettings)
    rate: RateSettings = field(default_factory=RateSettings)
    late: LateSettings = field(default_factory=LateSettings)
    round_trip_s: float = 0.04
    slice_s: float | None = 0.05
    smallest_slice_bytes: int = 16_384
    floor_caution: float = 0.25
    first_step_floor_caution: float = 0.15
    max_requests: int = 6
    reconnect_round_trips: float = 2.0
    has_carry_over: bool = True
    is_per_edit: bool = False

    def __post_init__(self) -> None:
        if self.slice_s is not None and self.slice_s <= 0:
            raise StreamSettingsError(f"slice_s must be above 0 or None, got {self.slice_s}")
        if self.round_trip_s < 0 or self.max_requests < 1:
            raise StreamSettingsError(
                "round_trip_s must not be below 0 and max_requests at least 1, got "
                f"{self.round_trip_s} and {self.max_requests}"
            )
        if not 0 < self.first_step_floor_caution <= self.floor_caution <= 1:
            raise StreamSettingsError(
                "floor_caution must lie in (0, 1] and first_step_floor_caution in (0, floor_caution], "
                f"got {self.floor_caution} and {self.first_step_floor_caution}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """What is fixed before an edit's first byte.

    Attributes:
        table: what may be fetched.
        run_s: planned run time of each shard on this device.
        reconstruct_s: from the last byte of a shard to keys and values in place, per shard; where
            `decode_bytes_per_s` is given, from the last decoded byte.
        dense_step_s: run time of one dense step, or None if no dense run is possible.
        decode_bytes_per_s: at which coded bytes are decoded beside the run, in the order in which
            they arrive; None if that takes no time worth counting.
        undecoded_bytes: of what the device held before, that is still to be decoded.
    """

    table: ShardTable
    run_s: Sequence[float]
    reconstruct_s: Sequence[float]
    dense_step_s: float | None
    decode_bytes_per_s: float | None = None
    undecoded_bytes: int = 0

    def __post_init__(self) -> None:
        num_shards = self.table.num_shards
        if len(self.run_s) != num_shards or len(self.reconstruct_s) != num_shards:
            raise StreamSettingsError(
                f"run_s and reconstruct_s must hold one time per shard, {num_shards}, got "
                f"{len(self.run_s)} and {len(self.reconstruct_s)}"
            )
        if min(self.run_s) <= 0 or min(self.reconstruct_s) < 0:
            raise StreamSettingsError(
                "run_s must be above 0 and reconstruct_s not below 0, got minima "
                f"{min(self.run_s)} and {min(self.reconstruct_s)}"
            )
        if self.decode_bytes_per_s is not None and self.decode_bytes_per_s <= 0:
            raise StreamSettingsError(
                f"decode_bytes_per_s must be above 0 or None, got {self.decode_bytes_per_s}"
            )
        if self.undecoded_bytes < 0:
            raise StreamSettingsError(
                f"undecoded_bytes must not be below 0, got {self.undecoded_bytes}"
            )

    def dense_extra_s(self, step: int) -> float | None:
        """Return what dense steps from `step` on cost more than sparse ones."""
        if self.dense_step_s is None:
            return None
        num_groups = self.table.num_groups
        sparse_s = sum(self.run_s[step * num_groups :])
        return max(0.0, (self.table.num_steps - step) * self.dense_step_s - sparse_s)
