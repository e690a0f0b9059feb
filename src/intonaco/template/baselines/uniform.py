"""Integers without a model of the state: IntQ, and CacheGen adapted to a template's state.

IntQ (`papers/sakura.txt`, baselines): one width for everything, a range per token row.

CacheGen, as its published code quantizes: heads merged, per token row one largest magnitude over all
channels, q = round(x * (bins / 2 - 1) / largest) + bins / 2 - 1, fewer bins for deeper blocks; then an
entropy code per block, kind and channel, whose tables travel with the state. Tables are shared by a
template's steps and counted at one byte per bin; the code itself is counted as its entropy, so a real
coder needs a little more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INTEGER_BITS = (8, 4, 2)
RANGE_BYTES = 4  # float16 lowest and highest of a row
LARGEST_BYTES = 2  # float16


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """States (U, S, B, N, d) as they come back, and their bytes; U = keys, values."""

    states: NDArray[np.float32]
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Bins of one quality level: for the first, second and last third of the blocks."""

    key_bins: tuple[int, int, int]
    value_bins: tuple[int, int, int]

    def bins(self, kind: int, *, third: int) -> int:
        return self.value_bins[third] if kind else self.key_bins[third]


LEVELS = (
    Level(key_bins=(32, 16, 16), value_bins=(32, 16, 16)),
    Level(key_bins=(16, 16, 12), value_bins=(16, 16, 12)),
    Level(key_bins=(12, 8, 8), value_bins=(8, 8, 8)),
    Level(key_bins=(6, 6, 6), value_bins=(6, 6, 6)),
    Level(key_bins=(4, 4, 4), value_bins=(4, 4, 4)),
)
STORED_LEVELS = 3
"""How many quality levels a catalog stores: each is a file of its own."""


def integers(states: NDArray[np.floating], *, bits: int) -> Coded:
    """Return `states` with every row on a grid of 2 ** bits levels between its extremes."""
    wide = states.astype(np.float64)
    lowest: NDArray[np.float64] = wide.min(axis=-1, keepdims=True)
    highest: NDArray[np.float64] = wide.max(axis=-1, keepdims=True)
    low, high = (end.astype(np.float16).astype(np.float64) for end in (lowest, highest))
    top = 2.0**bits - 1
    step = np.maximum(high - low, 1e-12) / top
    grid = np.clip(np.round((wide - low) / step), 0.0, top)
    num_rows = states[..., 0].size
    num_bytes = -(-states.size * bits // 8) + num_rows * RANGE_BYTES
    return Coded(states=(low + grid * step).astype(np.float32), num_bytes=num_bytes)


def cachegen(states: NDArray[np.floating], level: Level) -> Coded:
    """Return `states` at one quality level."""
    kinds, num_blocks = states.shape[0], states.shape[2]
    back = np.zeros(states.shape, np.float32)
    bits = 0.0
    for kind in range(kinds):
        for block in range(num_blocks):
            bins = level.bins(kind, third=3 * block // num_blocks)
            unit = states[kind, :, block].astype(np.float64)
            peak: NDArray[np.float64] = np.abs(unit).max(axis=-1, keepdims=True)
            largest = peak.astype(np.float16).astype(np.float64)
            half = bins // 2 - 1
            grid: NDArray[np.float64] = np.round(unit * half / np.maximum(largest, 1e-12)) + half
            back[kind, :, block] = (grid - half) / half * largest
            bits += _entropy_bits(grid.reshape(-1, grid.shape[-1]).astype(np.int64), bins)
            bits += 8 * bins * grid.shape[-1]
    num_rows = states[..., 0].size
    return Coded(states=back, num_bytes=int(np.ceil(bits / 8)) + num_rows * LARGEST_BYTES)


def _entropy_bits(grid_LC: NDArray[np.int64], bins: int) -> float:
    """Return the bits of an ideal code per channel, each with its own distribution."""
    counts = np.stack([(grid_LC == value).sum(axis=0) for value in range(bins)]).astype(float)
    shares = counts / len(grid_LC)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = np.where(counts > 0, -counts * np.log2(shares), 0.0)
    return float(bits.sum())
