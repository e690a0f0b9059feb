"""From increments to keys and values, at any time and with whatever has arrived.

Per unit (block, kind), in the words of `strands.py`:

    K_t = mean + diag(1 / (row_scales * step_scale_t)) (sum_q time[q, t] C_q) B

with C_q the coefficients (N, R) of temporal profile q and B the basis (R, d). Parts that have not
arrived count as zero. Knows nothing of files; needs no torch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from intonaco.errors import PackBoundsError, PackDamagedError
from intonaco.template.coded import KINDS, Increment, check_shape
from intonaco.template.frames import Frame, frame_from_bytes
from intonaco.template.plane_decoding import DecodePlane, decode_plane
from intonaco.template.planes import Codes, decode_planes
from intonaco.template.strands import (
    FRAME,
    Strand,
    group_range,
    num_profiles,
    strand_of,
)

CODEC = "shared-planes-1"

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFactors:
    """What is known of one unit, as numbers; not to be kept once more of the unit arrives.

    Attributes:
        mean_d: (d,).
        basis_Rd: (R, d).
        coefficients_QRN: (Q, R, N), before row and step scales are taken out.
        time_SQ: temporal profiles with step scales taken out.
        row_factors_N: 1 / row scale.
    """

    mean_d: Matrix
    basis_Rd: Matrix
    coefficients_QRN: Matrix
    time_SQ: Matrix
    row_factors_N: Matrix

    def coefficients_at(self, step: int) -> Matrix:
        """Return A (N, R) of one step: the unit's matrix there is A @ basis + mean."""
        num_profiles, *size_RN = self.coefficients_QRN.shape
        mixed = self.time_SQ[step] @ self.coefficients_QRN.reshape(num_profiles, -1)
        mixed_RN = mixed.reshape(size_RN)
        mixed_RN *= self.row_factors_N
        return mixed_RN.T

    def write_at(self, step: int, out_Nd: Matrix) -> None:
        """Write the unit's matrix at one step."""
        np.matmul(self.coefficients_at(step), self.basis_Rd, out=out_Nd)
        np.add(out_Nd, self.mean_d, out=out_Nd)

    def matrix_at(self, step: int) -> Matrix:
        """Return the unit's matrix (N, d) at one step."""
        made_Nd = np.empty((len(self.row_factors_N), len(self.mean_d)), np.float32)
        self.write_at(step, made_Nd)
        return made_Nd


@dataclass(slots=True)
class _Unit:
    """What has arrived of one unit.

    Attributes:
        unread: strands that have changed since their numbers were last written into the arrays.
        factors: None where anything has changed.
    """

    frame: Frame | None = None
    strands: dict[int, Codes] = field(default_factory=dict[int, Codes])
    unread: set[int] = field(default_factory=set[int])
    factors: UnitFactors | None = None


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
        decode: DecodePlane = decode_plane,
    ) -> None:
        """`decode` reads one bit-plane; every way to do it gives the same state."""
        check_shape(num_steps=num_steps, num_blocks=num_blocks, num_rows=num_rows, width=width)
        self._num_steps, self._num_rows, self._width = num_steps, num_rows, width
        self._num_profiles = num_profiles(num_steps)
        self._decode = decode
        self._units = {(block, kind): _Unit() for block in range(num_blocks) for kind in KINDS}

    def add(self, increment: Increment) -> None:
        """Take one increment. Raises PackError where it does not fit what came before."""
        unit = self._units.get((increment.block, increment.kind))
        if unit is None or increment.num_components != 1:
            raise PackBoundsError(
                f"an increment must bring one strand of a block of this template, got block "
                f"{increment.block}, kind {increment.kind}, {increment.num_components} strands"
            )
        number = increment.first_component
        if number == FRAME:
            unit.frame = frame_from_bytes(
                increment.payload,
                num_rows=self._num_rows,
                num_steps=self._num_steps,
                num_profiles=self._num_profiles,
            )
            # Scales enter every number of the unit.
            unit.factors, unit.unread = None, set(unit.strands)
        else:
            self._add_planes(unit, increment)

    def factors(self, block: int, kind: int) -> UnitFactors:
        """Return what is known of a unit; computed once until more of it arrives."""
        unit = self._units[block, kind]
        if unit.unread or unit.factors is None:
            unit.factors = self._build(unit)
        return unit.factors

    def read(self, step: int, block: int) -> tuple[Matrix, Matrix]:
        """Return keys and values, each (N, d) float32."""
        key, value = (self.factors(block, kind).matrix_at(step) for kind in KINDS)
        return key, value

    def _add_planes(self, unit: _Unit, increment: Increment) -> None:
        number = increment.first_component
        before = unit.strands.get(number)
        if (0 if before is None else before.num_planes) != increment.first_plane:
            raise PackDamagedError(
                f"an increment starts at plane {increment.first_plane} of strand {number}, which has "
                f"{0 if before is None else before.num_planes} planes; planes come in order"
            )
        strand = strand_of(number, profiles=self._num_profiles)
        unit.strands[number] = decode_planes(
            increment.payload,
            before,
            shape=self._shape_of(strand),
            num_planes=increment.num_planes,
            decode=self._decode,
        )
        unit.unread.add(number)

    def _shape_of(self, strand: Strand) -> tuple[int, int]:
        if strand.part == "mean":
            return 1, self._width
        start, end = group_range(strand.group)
        # A unit cannot have more components than its basis has dimensions.
        size = min(end, self._width) - start
        if size < 1:
            raise PackBoundsError(
                f"a unit of width {self._width} has no component group {strand.group}"
            )
        return size, self._width if strand.part == "basis" else self._num_rows

    def _build(self, unit: _Unit) -> UnitFactors:
        """Return the unit's factors, numbers written anew only where strands have changed."""
        places = {n: strand_of(n, profiles=self._num_profiles) for n in unit.unread}
        groups = [s.group for s in places.values() if s.part in ("basis", "coefficients")]
        components = min(group_range(max(groups, default=-1) + 1)[0], self._width)
        factors = self._room(unit, components)
        for number, strand in places.items():
            values = unit.strands[number].values()
            start, end = group_range(strand.group)
            if strand.part == "mean":
                factors.mean_d[:] = values[0]
            elif strand.part == "basis":
                factors.basis_Rd[start:end] = values
            else:
                factors.coefficients_QRN[strand.profile, start:end] = values
        unit.unread.clear()
        return factors

    def _room(self, unit: _Unit, components: int) -> UnitFactors:
        """Return factors with room for so many components, what is there already in its place."""
        before = unit.factors
        if before is not None and len(before.basis_Rd) >= components:
            return before
        basis = np.zeros((components, self._width), np.float32)
        coefficients = np.zeros((self._num_profiles, components, self._num_rows), np.float32)
        if before is not None:
            known = len(before.basis_Rd)
            basis[:known], coefficients[:, :known] = before.basis_Rd, before.coefficients_QRN
            return replace(before, basis_Rd=basis, coefficients_QRN=coefficients)
        time_SQ = np.zeros((self._num_steps, self._num_profiles), np.float32)
        row_factors = np.ones(self._num_rows, np.float32)
        if unit.frame is not None:
            time_SQ[:] = (unit.frame.profiles / unit.frame.step_scales).T
            row_factors[:] = 1 / unit.frame.row_scales
        return UnitFactors(
            mean_d=np.zeros(self._width, np.float32),
            basis_Rd=basis,
            coefficients_QRN=coefficients,
            time_SQ=time_SQ,
            row_factors_N=row_factors,
        )


def decode_all(decoder: StateDecoder, increments: Iterable[Increment]) -> StateDecoder:
    """Feed `increments` to `decoder` and return it."""
    for increment in increments:
        decoder.add(increment)
    return decoder
