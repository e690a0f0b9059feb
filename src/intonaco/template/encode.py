"""State and weights to a coded template. Offline; a reader needs none of this.

Shape letters: S steps, B blocks, N template rows, d width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import RequestError
from intonaco.template.coded import KINDS, CodedTemplate, Ladder
from intonaco.template.decoder import CODEC
from intonaco.template.factorize import factorize
from intonaco.template.ladder import UnitToCode, build_ladder
from intonaco.template.weights import CodingWeights

FP16_BYTES = 2
DEFAULT_SMALLEST_RATIO = 4.0
"""A ladder ends where it is this many times smaller than float16: beyond it, nothing is seen."""
# Edits of the shipped model keep about 33 dB there, and about 24 dB at a quarter of these bytes.
FLOOR_RATIO = 400.0
# Planes go on until the error that they leave is this far below the state's energy, per number.
FINEST_RELATIVE = 2.0**-11


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingSettings:
    """How far a template is coded.

    Attributes:
        block_groups: the blocks of each group, in the order of the chain.
        smallest_ratio: float16 bytes over coded bytes where the ladders end.
        shares_coefficients: as by default; without, steps share the basis only, to compare.
    """

    block_groups: tuple[tuple[int, ...], ...]
    smallest_ratio: float = DEFAULT_SMALLEST_RATIO
    shares_coefficients: bool = True

    def __post_init__(self) -> None:
        if not self.smallest_ratio >= 1:
            raise RequestError(
                f"smallest_ratio must be at least 1, got {self.smallest_ratio:g}; 4 is the default"
            )


def encode(
    keys_SBNd: NDArray[np.floating],
    values_SBNd: NDArray[np.floating],
    weights: CodingWeights,
    settings: CodingSettings,
) -> CodedTemplate:
    """Return the coded form of a template's state.

    Raises RequestError for states that are not finite or of two shapes.
    """
    states = (keys_SBNd, values_SBNd)
    if keys_SBNd.shape != values_SBNd.shape:
        raise RequestError(
            f"keys and values must be of one shape, got {keys_SBNd.shape} and {values_SBNd.shape}; "
            "capture the template again"
        )
    if not all(np.isfinite(one).all() for one in states):
        raise RequestError("keys and values must be finite; capture the template again")
    num_steps, _, num_rows, width = keys_SBNd.shape
    bases = tuple(
        _encode_group(states, weights, settings, group) for group in settings.block_groups
    )
    empty = tuple(Ladder(start_error=0.0, increments=(), floor=0) for _ in bases)
    return CodedTemplate(
        codec=CODEC,
        num_steps=num_steps,
        num_rows=num_rows,
        width=width,
        block_groups=settings.block_groups,
        bases=bases,
        coefficients=(empty,) * num_steps,
    )


def _encode_group(
    states: Sequence[NDArray[np.floating]],
    weights: CodingWeights,
    settings: CodingSettings,
    group: tuple[int, ...],
) -> Ladder:
    units: list[UnitToCode] = []
    for block in group:
        for kind in KINDS:
            factors = factorize(
                states[kind][:, block],
                row_weights_N=weights.rows_UBN[kind, block],
                step_weights_S=weights.units_USB[kind, :, block],
                shares_coefficients=settings.shares_coefficients,
            )
            units.append(UnitToCode(block=block, kind=kind, factors=factors))
    numbers = len(group) * len(KINDS) * states[0][:, 0].size
    return build_ladder(
        units,
        finest_exponent=finest_exponent(units, numbers),
        max_bytes=numbers * FP16_BYTES / settings.smallest_ratio,
        floor_bytes=numbers * FP16_BYTES / FLOOR_RATIO,
    )


def finest_exponent(units: Sequence[UnitToCode], numbers: int) -> int:
    """Return the exponent of the finest step of a group: small beside its numbers' root mean square."""
    energy = sum(float((unit.factors.coefficients_QRN**2).sum()) for unit in units)
    return math.floor(math.log2(max(FINEST_RELATIVE * math.sqrt(energy / numbers), 1e-12)))
