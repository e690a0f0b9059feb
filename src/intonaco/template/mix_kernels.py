"""Coefficients of one step by compiled code."""

import numpy as np
from numpy.typing import NDArray

from intonaco.template.compiling import compiled
from intonaco.template.unit_numbers import Floats

ZERO = np.float32(0)


@compiled
def mix(
    time_Q: NDArray[np.float64],
    lines_CW: Floats,
    steps_CP: NDArray[np.float64],
    row_factors_N: Floats,
    mixed_CN: Floats,
) -> int:
    """Mix the coefficients of one step; return how many lines there are up to the last that is not 0."""
    num_rows, num_profiles = len(row_factors_N), len(time_Q)
    width = lines_CW.shape[1] - num_profiles * num_rows
    count = 0
    if len(mixed_CN) and steps_CP[0, 0] != 0:
        mixed_CN[0] = steps_CP[0, 0]
        count = 1
    elif len(mixed_CN):
        mixed_CN[0] = ZERO
    for line in range(1, len(mixed_CN)):
        mixed_N = mixed_CN[line]
        mixed_N[:] = ZERO
        is_there = False
        for profile in range(num_profiles):
            factor = np.float32(time_Q[profile] * steps_CP[line, 1 + profile] * steps_CP[line, 0])
            if factor != ZERO:
                is_there = True
                column = width + profile * num_rows
                mixed_N += factor * lines_CW[line, column : column + num_rows]
        if is_there:
            mixed_N *= row_factors_N
            count = line + 1
    return count
