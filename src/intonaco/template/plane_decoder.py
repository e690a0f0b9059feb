"""What reads a unit's increments and mixes its coefficients: one protocol, two ways.

`plain_decoder.py` always works, `compiled_decoder.py` is faster where numba is; both give the same numbers.
`fast_planes.py` chooses.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from intonaco.template.increments import HeadTable, UnitRange
from intonaco.template.unit_numbers import Floats, UnitNumbers, UnitSizes


class HeadReader(Protocol):
    """Reads the chunks of one ladder, in order."""

    def read_heads(self, chunk: bytes, /) -> HeadTable:
        """Return the heads of a chunk, as far as they keep to the format."""
        ...


class PlaneDecoder(Protocol):
    """Works on units of one size; has room of its own to work in, so not for two threads at once."""

    def open_heads(self, units: UnitRange, /) -> HeadReader: ...

    def take(
        self, unit: UnitNumbers, chunk: bytes, rows: NDArray[np.int64], file_unit: int, /
    ) -> None:
        """Take what a chunk brings for one unit.

        Args:
            rows: of the chunk's `HeadTable`; `file_unit` is the unit's number there.

        Raises PackError at the first increment that does not fit. All before it is taken, and of its own
        planes those before the one that is damaged.
        """
        ...

    def mix(self, unit: UnitNumbers, step: int, /) -> Floats:
        """Return A (lines, N) of one step: the unit's matrix is A transposed times its bases and mean.

        Valid until the next call; lines that end it with nothing are left out.
        """
        ...


MakeDecoder = Callable[[UnitSizes], PlaneDecoder]
