"""Weighted low-rank factors cut to a rectangle per unit: r components, bA bits of A, bB bits of B.

The paper's pack (`papers/sakura.txt`, offline construction), with the choices that it leaves open made in
its favour: quantizers clipped and scaled for least error, one table per unit, one budget for the
whole template shared among units by error saved per byte, means of 8 or 16 bits.

A unit is (step, block, kind), X (N, d): with w the row weights and mu the weighted mean,
diag(sqrt w) (X - mu) = U S V^T, B = V_r^T, A = (X - mu) V_r. B has orthonormal rows, so weighted errors of
components add: err(r, bA, bB) = sum_{k > r} S_k^2 + sum_{k <= r} (e_A(k, bA) + S_k^2 e_B(k, bB)).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from intonaco.template.allocation import Cut, convex_hull
from intonaco.template.baselines.quantizer import BITS, Quantized, quantize

NUM_COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MEAN_BITS = (8, 16)
# Half-range and three gains, float16, for each side of a component.
COMPONENT_BYTES = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One point of a unit's table."""

    num_components: int
    bits_a: int
    bits_b: int
    mean_bits: int
    num_bytes: int
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RectangleUnit:
    """One unit, factorized, its components quantized at every width on the way.

    Attributes:
        squared_singular_values: S_k^2, all of them.
        coefficients, basis: by bits.
    """

    mean_d: Floats
    weight_sum: float
    squared_singular_values: Floats
    coefficients: dict[int, Quantized] = field(repr=False)
    basis: dict[int, Quantized] = field(repr=False)

    def matrix(self, chosen: Configuration) -> NDArray[np.float32]:
        """Return (N, d) as the configuration keeps it."""
        mean_d = quantize_mean(self.mean_d, bits=chosen.mean_bits)
        r = chosen.num_components
        if r == 0:
            num_rows = next(iter(self.coefficients.values())).values.shape[1]
            return np.tile(mean_d, (num_rows, 1)).astype(np.float32)
        a_RN = self.coefficients[chosen.bits_a].values[:r]
        b_Rd = self.basis[chosen.bits_b].values[:r]
        return (a_RN.T @ b_Rd + mean_d).astype(np.float32)


def rectangle_bytes(
    num_components: int, bits_a: int, bits_b: int, *, num_rows: int, width: int, mean_bits: int = 16
) -> int:
    """Return a unit's bytes: mean, half-ranges and gains, and the codes of both sides.

    An 8-bit mean has a float16 scale besides.
    """
    mean_bytes = 2 * width if mean_bits == 16 else width + 2
    codes = -(-num_rows * bits_a // 8) + -(-width * bits_b // 8)
    return mean_bytes + num_components * (COMPONENT_BYTES + codes)


def quantize_mean(mean_d: Floats, *, bits: int) -> Floats:
    if bits == 16:
        return mean_d.astype(np.float16).astype(np.float64)
    scale = float(np.float16(np.abs(mean_d).max() / 127)) or 1.0
    return np.clip(np.round(mean_d / scale), -127, 127) * scale


def factorize_unit(
    matrix_Nd: NDArray[np.floating],
    row_weights_N: Floats,
    *,
    max_components: int,
    bits: Sequence[int] = BITS,
) -> RectangleUnit:
    """Factorize one unit and quantize its leading components at each of the widths `bits`."""
    matrix = matrix_Nd.astype(np.float64)
    mean_d: Floats = row_weights_N @ matrix / row_weights_N.sum()
    centred = matrix - mean_d
    _, singular, right = np.linalg.svd(
        np.sqrt(row_weights_N)[:, None] * centred, full_matrices=False
    )
    kept = min(max_components, len(singular))
    basis_Rd = right[:kept]
    signs = np.sign(basis_Rd[np.arange(kept), np.abs(basis_Rd).argmax(axis=1)])
    basis_Rd = basis_Rd * signs[:, None]
    coefficients_RN = (centred @ basis_Rd.T).T
    equal_d = np.full(len(mean_d), 1.0, dtype=np.float64)
    return RectangleUnit(
        mean_d=mean_d,
        weight_sum=float(row_weights_N.sum()),
        squared_singular_values=singular**2,
        coefficients={b: quantize(coefficients_RN, row_weights_N, bits=b) for b in bits},
        basis={b: quantize(basis_Rd, equal_d, bits=b) for b in bits},
    )


def table(
    unit: RectangleUnit, *, num_rows: int, width: int, bits: Sequence[int] = BITS
) -> list[Configuration]:
    """Return the unit's configurations, only those that no other beats, by rising bytes.

    Args:
        bits: widths that may be chosen for A and for B; (8,) is the paper's fixed-width ablation.
    """
    energy = unit.squared_singular_values
    kept = len(next(iter(unit.basis.values())).values)
    counts = [r for r in NUM_COMPONENTS if r <= kept]
    found: list[Configuration] = []
    for mean_bits in MEAN_BITS:
        off = unit.weight_sum * float(
            ((quantize_mean(unit.mean_d, bits=mean_bits) - unit.mean_d) ** 2).sum()
        )
        for bits_a, bits_b in product(bits, bits):
            per_component = unit.coefficients[bits_a].errors + (
                energy[:kept] * unit.basis[bits_b].errors
            )
            known = np.concatenate([[0.0], np.cumsum(per_component)])
            for r in (0, *counts):
                found.append(
                    Configuration(
                        num_components=r,
                        bits_a=bits_a,
                        bits_b=bits_b,
                        mean_bits=mean_bits,
                        num_bytes=rectangle_bytes(
                            r, bits_a, bits_b, num_rows=num_rows, width=width, mean_bits=mean_bits
                        ),
                        error=off + float(known[r] + energy[r:].sum()),
                    )
                )
    return _frontier(found)


def choose(
    tables: Sequence[Sequence[Configuration]], *, budget_bytes: float
) -> list[Configuration]:
    """Return one configuration per unit, best for one budget over all: greedy on convex hulls.

    Units start at their smallest configuration, even where the budget does not hold these.
    """
    hulls: list[list[Configuration]] = []
    for one in tables:
        by_place = {(c.num_bytes, c.error): c for c in one}
        cuts = convex_hull([Cut(num_bytes=c.num_bytes, error=c.error) for c in one])
        hulls.append([by_place[cut.num_bytes, cut.error] for cut in cuts])
    rises = sorted(
        ((lower.error - upper.error) / (upper.num_bytes - lower.num_bytes), index, at)
        for index, hull in enumerate(hulls)
        for at, (lower, upper) in enumerate(pairwise(hull))
    )
    chosen = [0] * len(hulls)
    left = budget_bytes - sum(hull[0].num_bytes for hull in hulls)
    for _, index, at in reversed(rises):
        cost = hulls[index][at + 1].num_bytes - hulls[index][at].num_bytes
        if cost > left:
            break
        chosen[index] = at + 1
        left -= cost
    return [hull[at] for hull, at in zip(hulls, chosen, strict=True)]


def _frontier(configurations: Sequence[Configuration]) -> list[Configuration]:
    kept: list[Configuration] = []
    for one in sorted(configurations, key=lambda c: (c.num_bytes, c.error)):
        if not kept or one.error < kept[-1].error:
            kept.append(one)
    return kept
