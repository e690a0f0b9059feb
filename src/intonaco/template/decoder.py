"""From increments to keys and values, at any time and with whatever has arrived.

Per unit (block, kind), in the words of `strands.py`:

    K_t = mean + diag(1 / (row_scales * step_scale_t)) (sum_q time[q, t] C_q) B

with C_q the coefficients (N, R) of temporal profile q and B the basis (R, d). Parts that have not
arrived count as zero. Knows nothing of files; needs no torch.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError
from intonaco.template.coded import KINDS, Increment, check_shape
from intonaco.template.increments import UnitRange
from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.plane_decoder import HeadReader, MakeDecoder
from intonaco.template.unit_numbers import Floats, UnitNumbers, UnitSizes

CODEC = "shared-planes-1"


class StateDecoder:
    """Takes increments in any order that keeps each strand's planes in order.

    Of basis and coefficient files alike: the codec does not care which file brought an increment.
    """

    def __init__(
        self,
        *,
        num_steps: int,
        num_blocks: int,
        num_rows: int,
        width: int,
        decode: MakeDecoder = PlainDecoder,
    ) -> None:
        """`decode` makes what reads bit-planes; every way to do it gives the same numbers."""
        check_shape(num_steps=num_steps, num_blocks=num_blocks, num_rows=num_rows, width=width)
        self._sizes = UnitSizes(num_steps=num_steps, num_rows=num_rows, width=width)
        self._num_blocks = num_blocks
        self._planes = decode(self._sizes)
        self._units: dict[tuple[int, int], UnitNumbers] = {}

    def open_heads(self, units: UnitRange) -> HeadReader:
        """Return a reader of the heads of one ladder's chunks, for `take`."""
        return self._planes.open_heads(units)

    def take(
        self, block: int, kind: int, chunk: bytes, rows: NDArray[np.int64], file_unit: int
    ) -> None:
        """Take what a chunk brings for one unit, see `PlaneDecoder.take`. Raises PackError."""
        self._planes.take(self._unit(block, kind), chunk, rows, file_unit)

    def add(self, increment: Increment) -> None:
        """Take one increment. Raises PackError where it does not fit what came before."""
        first_component, num_components = increment.first_component, increment.num_components
        planes = increment.first_plane, increment.num_planes
        row = (0, first_component, num_components, *planes, 0, len(increment.payload))
        rows = np.array([row], np.int64)
        self.take(increment.block, increment.kind, increment.payload, rows, 0)

    def write(self, step: int, block: int, kind: int, out_Nd: Floats) -> None:
        """Write a unit's matrix at one step."""
        unit = self._unit(block, kind)
        mixed_CN = self._planes.mix(unit, step)
        bases_Cd = unit.lines_CW[: len(mixed_CN), : self._sizes.width]
        np.matmul(mixed_CN.T, bases_Cd, out=out_Nd)

    def read(self, step: int, block: int) -> tuple[Floats, Floats]:
        """Return keys and values, each (N, d) float32."""
        size = (self._sizes.num_rows, self._sizes.width)
        key, value = np.empty(size, np.float32), np.empty(size, np.float32)
        for kind, out_Nd in zip(KINDS, (key, value), strict=True):
            self.write(step, block, kind, out_Nd)
        return key, value

    def _unit(self, block: int, kind: int) -> UnitNumbers:
        if (block, kind) not in self._units:
            if not 0 <= block < self._num_blocks or kind not in KINDS:
                raise PackBoundsError(
                    f"an increment must be of a block of this template, got block {block}, kind {kind}"
                )
            self._units[block, kind] = UnitNumbers(sizes=self._sizes)
        return self._units[block, kind]


def decode_all(decoder: StateDecoder, increments: Iterable[Increment]) -> StateDecoder:
    """Feed `increments` to `decoder` and return it."""
    for increment in increments:
        decoder.add(increment)
    return decoder
