"""Orders the planes of a block group's units into a ladder: most error saved per byte first.

Each strand offers its planes in their order. Where a plane saves more per byte than the one before,
both become one increment, so that a strand's offers hardly ever get better later; then the best offer
of all strands is simply the next. That is the greedy walk down the convex hull, and the best choice for
every number of bytes up to one increment.

Errors are exact in the factors' own space (`factorize.py`): with what has been decoded so far of
coefficients C^ and basis B^, a unit's error is sum_q |C_q B - C^_q B^|^2, kept up by products of
R x R matrices. Shape letters: Q temporal profiles, R components, N rows, d width.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intonaco.template.coded import Increment, Ladder
from intonaco.template.factorize import Factors
from intonaco.template.planes import (
    MAX_EXPONENT,
    Codes,
    codes_of,
    encode_planes,
    first_exponent,
    split_planes,
)
from intonaco.template.strands import (
    FRAME,
    Strand,
    group_sizes,
    strand_number,
)

# What an increment costs beside its payload: its head in a file.
HEAD_BYTES = 5
MAX_STRAND_PLANES = 14
# An increment must fit into a chunk of a file with its head.
MAX_JOINED_BYTES = 1 << 15

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitToCode:
    """One unit of a block group."""

    block: int
    kind: int
    factors: Factors


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Planes of one strand that could come next, and what they save by themselves.

    Attributes:
        unit: index in the group.
        codes: of the strand once they are there.
    """

    unit: int
    strand: Strand
    first_plane: int
    codes: Codes
    payload: bytes
    saved: float

    @property
    def slope(self) -> float:
        return self.saved / (len(self.payload) + HEAD_BYTES)


def build_ladder(
    units: list[UnitToCode],
    *,
    finest_exponent: int,
    max_bytes: float = np.inf,
    floor_bytes: float = 0.0,
) -> Ladder:
    """Return the ladder of one block group.

    Args:
        finest_exponent: no plane's step is finer than 2 ** this, in units of the weighted state.
        max_bytes: the ladder ends there at the latest.
        floor_bytes: the floor is the longest prefix within these bytes, but at least all frames.
    """
    trackers = [ErrorTracker(unit.factors) for unit in units]
    start_error = _total(trackers)
    increments = [
        _increment(unit, FRAME, 0, 1, unit.factors.frame.to_bytes(), start_error) for unit in units
    ]
    floor = len(increments)
    num_bytes = sum(len(one.payload) + HEAD_BYTES for one in increments)
    for offer in _best_first(units, finest_exponent):
        num_bytes += len(offer.payload) + HEAD_BYTES
        if num_bytes > max_bytes:
            break
        unit = units[offer.unit]
        trackers[offer.unit].take(offer.strand, offer.codes.values())
        increments.append(
            _increment(
                unit,
                strand_number(offer.strand, profiles=len(unit.factors.coefficients_QRN)),
                offer.first_plane,
                offer.codes.num_planes - offer.first_plane,
                offer.payload,
                _total(trackers),
            )
        )
        if num_bytes <= floor_bytes:
            floor = len(increments)
    return Ladder(start_error=start_error, increments=tuple(increments), floor=floor)


def _best_first(units: list[UnitToCode], finest_exponent: int) -> Iterator[Offer]:
    """Yield the offers of all strands by falling slope; each strand codes planes as it is asked."""
    chains = [
        chain
        for index, unit in enumerate(units)
        for chain in _chains(index, unit.factors, finest_exponent)
    ]
    waiting: list[tuple[float, int, Offer]] = []
    for number, chain in enumerate(chains):
        _await_next(waiting, number, chain)
    while waiting:
        _, number, offer = heapq.heappop(waiting)
        yield offer
        _await_next(waiting, number, chains[number])


def _await_next(
    waiting: list[tuple[float, int, Offer]], number: int, chain: Iterator[Offer]
) -> None:
    offer = next(chain, None)
    if offer is not None:
        heapq.heappush(waiting, (-offer.slope, number, offer))


class ErrorTracker:
    """The exact error of one unit while its strands arrive."""

    def __init__(self, factors: Factors) -> None:
        self._factors = factors
        self._ranges = group_sizes(len(factors.basis_Rd))
        profiles, components, rows = factors.coefficients_QRN.shape
        self._got_QRN = np.zeros((profiles, components, rows))
        self._basis_Rd = np.zeros_like(factors.basis_Rd)
        self._cross = np.zeros((components, components))
        self._own = np.zeros((components, components))
        self._basis_cross = np.zeros((components, components))
        self._basis_own = np.zeros((components, components))
        self._energy = float((factors.coefficients_QRN**2).sum()) + factors.lost
        self._mean_error = float((factors.mean_d**2).sum()) * factors.mean_weight
        self._rest_error = self._energy

    @property
    def error(self) -> float:
        """Weighted squared error of the unit; mean and the rest are taken as independent."""
        return self._mean_error + self._rest_error

    def take(self, strand: Strand, values: Floats) -> None:
        """Replace what is known of `strand` by `values`, (R, L) in the strand's own order."""
        factors = self._factors
        if strand.part == "mean":
            difference = values[0] - factors.mean_d
            self._mean_error = float((difference**2).sum()) * factors.mean_weight
            return
        start, end = self._ranges[strand.group]
        if strand.part == "basis":
            self._take_basis(start, end, values)
        else:
            self._take_coefficients(strand.profile, start, end, values)
        product = float(np.vdot(self._own, self._basis_own))
        product -= 2 * float(np.vdot(self._cross, self._basis_cross))
        self._rest_error = max(self._energy + product, 0.0)

    def _take_basis(self, start: int, end: int, values_Rd: Floats) -> None:
        self._basis_Rd[start:end] = values_Rd
        self._basis_cross[:, start:end] = self._factors.basis_Rd @ values_Rd.T
        rows = self._basis_Rd @ values_Rd.T
        self._basis_own[:, start:end] = rows
        self._basis_own[start:end] = rows.T

    def _take_coefficients(self, profile: int, start: int, end: int, values_RN: Floats) -> None:
        got_RN, true_RN = self._got_QRN[profile], self._factors.coefficients_QRN[profile]
        change_RN = values_RN - got_RN[start:end]
        self._cross[:, start:end] += true_RN @ change_RN.T
        self._own[:, start:end] += got_RN @ change_RN.T
        got_RN[start:end] = values_RN
        self._own[start:end] += change_RN @ got_RN.T


def _total(trackers: list[ErrorTracker]) -> float:
    return sum(tracker.error for tracker in trackers)


def _chains(unit: int, factors: Factors, finest_exponent: int) -> list[Iterator[Offer]]:
    """Return each strand's offers, slopes falling."""
    energies_R = np.sqrt((factors.coefficients_QRN**2).sum(axis=(0, 2)))
    mean_scale = np.array([np.sqrt(factors.mean_weight)])
    chains = [_chain(unit, Strand(part="mean"), factors.mean_d[None], mean_scale, finest_exponent)]
    for group, (start, end) in enumerate(group_sizes(len(factors.basis_Rd))):
        basis = Strand(part="basis", group=group)
        chains.append(
            _chain(unit, basis, factors.basis_Rd[start:end], energies_R[start:end], finest_exponent)
        )
        for profile, coefficients_RN in enumerate(factors.coefficients_QRN):
            strand = Strand(part="coefficients", group=group, profile=profile)
            ones = np.ones(end - start)
            chains.append(_chain(unit, strand, coefficients_RN[start:end], ones, finest_exponent))
    return chains


def _chain(
    unit: int, strand: Strand, values_RL: Floats, costs_R: Floats, finest_exponent: int
) -> Iterator[Offer]:
    """Yield the offers of one strand. A squared error of vector r costs costs_R[r] squared."""
    exponents_R = np.zeros(len(costs_R), np.int8)
    if strand.part != "coefficients":
        exponents = np.round(np.log2(np.maximum(costs_R, 1e-12)))
        exponents_R = np.clip(exponents, -MAX_EXPONENT, MAX_EXPONENT).astype(np.int8)
    scaled = values_RL * 2.0 ** exponents_R.astype(np.float64)[:, None]
    exponent = first_exponent(scaled)
    num_planes = min(exponent - finest_exponent + 1, MAX_STRAND_PLANES)
    if num_planes < 1:
        return
    whole = codes_of(
        values_RL, exponent=exponent, vector_exponents_R=exponents_R, num_planes=num_planes
    )
    held: Offer | None = None
    for offer in _single_planes(unit, strand, whole, values_RL, costs_R):
        if held is None:
            held = offer
        elif held.slope > offer.slope or _is_too_long(held, offer):
            yield held
            held = offer
        else:
            held = _join(held, offer)
    if held is not None:
        yield held


def _single_planes(
    unit: int, strand: Strand, whole: Codes, values_RL: Floats, costs_R: Floats
) -> Iterator[Offer]:
    left = float(((values_RL * costs_R[:, None]) ** 2).sum())
    for codes in split_planes(whole):
        now = float((((values_RL - codes.values()) * costs_R[:, None]) ** 2).sum())
        first_plane = codes.num_planes - 1
        yield Offer(
            unit=unit,
            strand=strand,
            first_plane=first_plane,
            codes=codes,
            payload=encode_planes(codes, first_plane=first_plane),
            saved=left - now,
        )
        left = now


def _is_too_long(first: Offer, second: Offer) -> bool:
    return len(first.payload) + len(second.payload) > MAX_JOINED_BYTES


def _join(first: Offer, second: Offer) -> Offer:
    return Offer(
        unit=second.unit,
        strand=second.strand,
        first_plane=first.first_plane,
        codes=second.codes,
        payload=first.payload + second.payload,
        saved=first.saved + second.saved,
    )


def _increment(
    unit: UnitToCode,
    number: int,
    first_plane: int,
    num_planes: int,
    payload: bytes,
    error: float,
) -> Increment:
    return Increment(
        block=unit.block,
        kind=unit.kind,
        first_component=number,
        num_components=1,
        first_plane=first_plane,
        num_planes=num_planes,
        payload=payload,
        error=error,
    )
