"""From bytes to quality, for simulation: a measured curve, and shard tables that follow it.

A curve says what an edit's picture is worth when all of its state is coded at one ratio. For an edit
whose shards have different ratios the simulator adds mean squared errors, an equal share per shard;
that is a model, not a measurement.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from intonaco.errors import StreamSettingsError
from intonaco.streaming.tables import Level, ShardLevels, ShardTable, num_first_steps

FP16_BYTES = 2


def kv_bytes(
    *, num_rows: int, num_blocks: int, num_steps: int, width: int, num_kinds: int = 2
) -> int:
    """Return the bytes of uncompressed FP16 state: one number per row, channel, block, step, kind."""
    return num_rows * num_blocks * num_steps * width * num_kinds * FP16_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCurve:
    """PSNR in dB at ratios (FP16 bytes over coded bytes), best first; linear in log ratio between.

    Nothing is extrapolated: outside, the nearest measured point counts.
    """

    ratios: tuple[float, ...]
    psnr_db: tuple[float, ...]

    def __post_init__(self) -> None:
        rises = all(lower < upper for lower, upper in pairwise(self.ratios))
        falls = all(better >= worse for better, worse in pairwise(self.psnr_db))
        if not self.ratios or len(self.ratios) != len(self.psnr_db) or not (rises and falls):
            raise StreamSettingsError(
                "a curve needs rising ratios with as many falling psnr_db, got "
                f"{self.ratios} and {self.psnr_db}"
            )

    def psnr_at(self, ratio: float) -> float:
        if ratio <= self.ratios[0]:
            return self.psnr_db[0]
        pieces = zip(pairwise(self.ratios), pairwise(self.psnr_db), strict=True)
        for (left, right), (better, worse) in pieces:
            if ratio <= right:
                share = math.log(ratio / left) / math.log(right / left)
                return better + share * (worse - better)
        return self.psnr_db[-1]

    def error_at(self, ratio: float) -> float:
        """Return the mean squared error, in units of the squared peak."""
        return error_of(self.psnr_at(ratio))


def error_of(psnr_db: float) -> float:
    return 10 ** (-psnr_db / 10)


def psnr_of(error: float) -> float:
    return -10 * math.log10(error) if error > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize:
    """A template's state as the link sees it.

    Attributes:
        fp16_bytes: of all of it, uncompressed.
        num_steps, groups: shards are (step, group); `groups` holds each group's number of blocks.
        basis_share: part of a coded template's bytes that lies in basis files; 0 shares nothing.
    """

    fp16_bytes: float
    num_steps: int
    groups: tuple[int, ...]
    basis_share: float

    def parts(self, group: int) -> tuple[float, float]:
        """Return FP16 bytes that a shard's coefficients and its group's basis stand for."""
        of_group = self.fp16_bytes * self.groups[group] / sum(self.groups)
        return (1 - self.basis_share) * of_group / self.num_steps, self.basis_share * of_group


def basis_share_of(*, num_rows: int, width: int, num_steps: int) -> float:
    """Return which part of the factors is basis, at equal bits: d / (S N + d)."""
    return width / (num_steps * num_rows + width)


def table_from_curve(
    curve: QualityCurve,
    size: StateSize,
    *,
    floor_ratio: float,
    num_levels: int,
    first_steps_floor_ratio: float | None = None,
) -> ShardTable:
    """Return a table whose levels lie between the floor's ratio and the curve's best, evenly in log.

    Down to `first_steps_floor_ratio` there are levels below it, the floors of the first steps. A shard's error is its share of the edit's mean squared error: by blocks within a step, every
    step alike.
    """
    best = curve.ratios[0]
    rise = (best / floor_ratio) ** (1 / (num_levels - 1))
    lowest = first_steps_floor_ratio or floor_ratio
    num_below = math.ceil(math.log(lowest / floor_ratio) / -math.log(rise))
    ratios = [lowest * (floor_ratio / lowest) ** (k / num_below) for k in range(num_below)]
    ratios += [floor_ratio * rise**k for k in range(num_levels)]
    num_first = num_first_steps(size.num_steps)
    shards: list[ShardLevels] = []
    for step in range(size.num_steps):
        for group, num_blocks in enumerate(size.groups):
            own, shared = size.parts(group)
            weight = num_blocks / sum(size.groups) / size.num_steps
            levels = tuple(
                Level(
                    coefficient_bytes=math.ceil(own / ratio),
                    basis_bytes=math.ceil(shared / ratio),
                    error=weight * curve.error_at(ratio),
                )
                for ratio in ratios
            )
            floor = 0 if step < num_first else num_below
            shards.append(ShardLevels(step=step, group=group, levels=levels, floor=floor))
    return ShardTable(shards=tuple(shards))


def step_weights(step_shares: Sequence[float] | None, num_steps: int) -> list[float]:
    """Return what a step's error counts beside an even share of the edit's, on average 1."""
    if step_shares is None:
        return [1.0] * num_steps
    return [share * num_steps for share in step_shares]


def edit_error(
    table: ShardTable,
    levels: Sequence[int | None],
    *,
    borrowed_error: float,
    step_shares: Sequence[float] | None = None,
) -> float:
    """Return the edit's error: the shards' errors added, `borrowed_error` for one without a level.

    Args:
        step_shares: which part of an evenly coded edit's error each step adds; None = all alike.
    """
    weights = step_weights(step_shares, table.num_steps)
    errors = (
        weights[shard.step] * (borrowed_error if level is None else shard.levels[level].error)
        for shard, level in zip(table.shards, levels, strict=False)
    )
    return sum(errors)
