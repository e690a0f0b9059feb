"""How much an error of each row, at each step, in each block, would be noticed.

Used where state is coded; a reader sees only what became of it, the scales of `frames.py`.

Shape letters: U kinds (keys, values), S steps, B blocks, N template rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import RequestError

DEFAULT_EXPONENT = 0.5
SENSITIVITY_EXPONENT = 0.75
ROW_FLOOR = 1e-4
STEP_FLOOR = 0.03

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingWeights:
    """What a squared error costs.

    Attributes:
        rows_UBN: of each row, mean 1 over the rows.
        units_USB: of each unit's rows, on one scale for all units.
    """

    rows_UBN: Weights
    units_USB: Weights

    def __post_init__(self) -> None:
        for name, weights in (("rows_UBN", self.rows_UBN), ("units_USB", self.units_USB)):
            if not (np.isfinite(weights).all() and (weights > 0).all()):
                raise RequestError(f"{name} must be finite and above 0; measure the template again")


def uniform(*, num_steps: int, num_blocks: int, num_rows: int) -> CodingWeights:
    """Return weights under which every squared error costs the same."""
    return CodingWeights(
        rows_UBN=np.ones((2, num_blocks, num_rows)), units_USB=np.ones((2, num_steps, num_blocks))
    )


def from_attention(
    importance_SBN: NDArray[np.floating], *, exponent: float = DEFAULT_EXPONENT
) -> CodingWeights:
    """Return row weights by attention received; every unit counts the same.

    Source: `papers/sakura.txt`, from masked queries to row weights: importance, its mean taken to 1,
    to the power of `exponent`. 0 = every row counts the same.
    """
    rows_BN = row_weights(importance_SBN.sum(axis=0), exponent=exponent)
    num_steps, num_blocks, _ = importance_SBN.shape
    return CodingWeights(
        rows_UBN=np.stack([rows_BN, rows_BN]), units_USB=np.ones((2, num_steps, num_blocks))
    )


def from_sensitivity(
    sensitivity_USBN: NDArray[np.floating], *, exponent: float = SENSITIVITY_EXPONENT
) -> CodingWeights:
    """Return weights by what an error does to the finished edit.

    Args:
        sensitivity_USBN: mean squared change of the edit's latents per squared error of a row.
        exponent: of the rows' weights. Below 1 because few profiling requests overfit; units keep
            their measured weight, down to a floor of 3 % of a block's most sensitive step, because
            large errors of early steps do more than small ones say.
    """
    measured = sensitivity_USBN.astype(np.float64)
    units_USB = measured.mean(axis=3)
    floor_UB = STEP_FLOOR * units_USB.max(axis=1)
    return CodingWeights(
        rows_UBN=row_weights(measured.sum(axis=1), exponent=exponent),
        units_USB=np.maximum(units_USB, floor_UB[:, None, :]),
    )


def row_weights(importance: NDArray[np.floating], *, exponent: float) -> Weights:
    """Return importance to the power of `exponent`, mean 1 over the last axis.

    Importance under 1e-4 of the mean counts as that: no row may become free of charge.
    """
    if not 0 <= exponent <= 1:
        raise RequestError(
            f"exponent of row weights must lie in 0..1, got {exponent:g}; 0.5 is the default"
        )
    wide = importance.astype(np.float64)
    mean = wide.mean(axis=-1, keepdims=True)
    floored = np.maximum(wide, np.where(mean > 0, ROW_FLOOR * mean, 1.0))
    powered = floored**exponent
    return powered / powered.mean(axis=-1, keepdims=True)
