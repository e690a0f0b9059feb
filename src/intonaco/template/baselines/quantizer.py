"""The nested quantizer of the paper's pack: 8-bit codes, cut to their leading b bits.

c = clip(floor((x / h + 1) * 128), 0, 255); its b leading bits c_b are the code that a direct b-bit
quantizer gives; y_b = (c_b + 0.5) / 2 ** (b - 1) - 1 and x_b = g_b * y_b, with g_b the gain of least weighted
error for b <= 4 and g_b = h above. Plain mid-points (g_b = h) at 1 or 2 bits are worse than zeros.
The half-range h of a vector is searched for least weighted error at each width.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BITS = (2, 3, 4, 6, 8)
MAX_GAIN_BITS = 4
CLIPS = (1.0, 0.85, 0.7, 0.55, 0.4, 0.3)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """Vectors at one width.

    Attributes:
        values: (R, L), what comes back.
        errors: (R,), weighted squared error of each vector.
    """

    values: Floats
    errors: Floats


def codes(values_RL: Floats, half_range_R: Floats) -> NDArray[np.uint8]:
    """Return the 8-bit codes (R, L)."""
    scaled = np.floor((values_RL / half_range_R[:, None] + 1) * 128)
    return np.clip(scaled, 0, 255).astype(np.uint8)


def midpoints(codes_RL: NDArray[np.uint8], *, bits: int) -> Floats:
    """Return y of the codes' leading `bits` bits, in -1..1."""
    leading = (codes_RL >> (8 - bits)).astype(np.float64)
    return (leading + 0.5) / 2 ** (bits - 1) - 1


def gains(values_RL: Floats, y_RL: Floats, weights_L: Floats) -> Floats:
    """Return the factor of y, per vector, of least weighted squared error."""
    over = (weights_L * values_RL * y_RL).sum(axis=1)
    return over / np.maximum((weights_L * y_RL**2).sum(axis=1), 1e-300)


def quantize(values_RL: Floats, weights_L: Floats, *, bits: int) -> Quantized:
    """Return `values_RL` at `bits` bits, half-range and gain the best of those tried, in float16."""
    peak_R = np.maximum(np.abs(values_RL).max(axis=1), 1e-30)
    best = Quantized(values=np.zeros_like(values_RL), errors=np.full(len(values_RL), np.inf))
    for clip in CLIPS:
        half_R = (clip * peak_R).astype(np.float16).astype(np.float64)
        half_R = np.where(half_R > 0, half_R, 1.0)
        y_RL = midpoints(codes(values_RL, half_R), bits=bits)
        gain_R = gains(values_RL, y_RL, weights_L) if bits <= MAX_GAIN_BITS else half_R
        values = gain_R.astype(np.float16).astype(np.float64)[:, None] * y_RL
        errors = (weights_L * (values_RL - values) ** 2).sum(axis=1)
        better = errors < best.errors
        best = Quantized(
            values=np.where(better[:, None], values, best.values),
            errors=np.where(better, errors, best.errors),
        )
    return best
