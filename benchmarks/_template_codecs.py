"""Every way to make a template's state smaller, each at the ratios that it reaches.

A method returns {ratio key: (states (U, S, B, N, d), bytes)}. Bytes count everything that a reader needs
but the manifest; of our own codec they are the prefixes of files as they lie on disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from intonaco.template.allocation import Cut, choose_prefixes
from intonaco.template.baselines import rectangle, uniform
from intonaco.template.coded import CodedTemplate, Ladder
from intonaco.template.decoder import StateDecoder
from intonaco.template.encode import CodingSettings, encode
from intonaco.template.ladder import HEAD_BYTES
from intonaco.template.weights import CodingWeights

States = NDArray[np.float32]
RATIOS = {"5x": 5, "15x": 15, "50x": 50, "150x": 150}
MAX_RECTANGLE_COMPONENTS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One method at one size."""

    method: str
    key: str
    states: States
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What coding starts from.

    Attributes:
        states: (U, S, B, N, d), as captured.
        attention, sensitivity: weights by either.
        quarter_attention, full_attention: row weights with exponents 0.25 and 1.
    """

    states: States
    attention: CodingWeights
    quarter_attention: CodingWeights
    full_attention: CodingWeights
    plain: CodingWeights
    sensitivity: CodingWeights
    block_groups: tuple[tuple[int, ...], ...]

    @property
    def fp16_bytes(self) -> int:
        return 2 * self.states.size


def baseline_points(measured: Measured) -> Iterator[Point]:
    """Yield what the paper compares: integers, CacheGen, factors of 8 bits, rectangles."""
    for bits in uniform.INTEGER_BITS:
        coded = uniform.integers(measured.states, bits=bits)
        yield Point(
            method="intq", key=f"{bits} bits", states=coded.states, num_bytes=coded.num_bytes
        )
    for index, level in enumerate(uniform.LEVELS):
        coded = uniform.cachegen(measured.states, level)
        yield Point(
            method="cachegen", key=f"level {index}", states=coded.states, num_bytes=coded.num_bytes
        )
    tight = {key: RATIOS[key] for key in ("15x", "50x")}
    eight = (8,)
    for name, weights, ratios in (
        ("plain8", measured.plain, RATIOS),
        ("weighted8_q0.25", measured.quarter_attention, tight),
        ("weighted8_q1", measured.full_attention, tight),
    ):
        units = factorize_all(measured, weights, bits=eight)
        yield from rectangle_points(measured, name, units, bits=eight, ratios=ratios)
    units = factorize_all(measured, measured.attention)
    yield from rectangle_points(measured, "weighted8", units, bits=eight)
    yield from rectangle_points(measured, "rectangle", units)
    helped = measured.sensitivity.units_USB
    yield from rectangle_points(measured, "rectangle_with_sensitivity", units, costs_USB=helped)


def our_points(measured: Measured) -> Iterator[Point]:
    """Yield the ladder without sharing, with a shared basis, with all of it; and by attention."""
    yield from _per_step_ladders(measured)
    for name, weights, shares in (
        ("ladder_shared_basis", measured.attention, False),
        ("ladder_shared_all", measured.attention, True),
        ("ladder_shared_basis_sensitivity", measured.sensitivity, False),
    ):
        settings = CodingSettings(
            block_groups=measured.block_groups, smallest_ratio=14.5, shares_coefficients=shares
        )
        coded = encode(measured.states[0], measured.states[1], weights, settings)
        for key in ("15x", "50x", "150x"):
            yield _cut_template(name, key, [coded], measured)


def factorize_all(
    measured: Measured, weights: CodingWeights, *, bits: Sequence[int] = rectangle.BITS
) -> list[rectangle.RectangleUnit]:
    """Return every unit's factors, by (kind, step, block)."""
    return [
        rectangle.factorize_unit(
            measured.states[kind, step, block],
            weights.rows_UBN[kind, block],
            max_components=MAX_RECTANGLE_COMPONENTS,
            bits=bits,
        )
        for kind, step, block in np.ndindex(measured.states.shape[:3])
    ]


def rectangle_points(
    measured: Measured,
    method: str,
    units: Sequence[rectangle.RectangleUnit],
    *,
    bits: Sequence[int] = rectangle.BITS,
    ratios: dict[str, int] = RATIOS,
    costs_USB: NDArray[np.float64] | None = None,
) -> Iterator[Point]:
    """Yield rectangles per unit under one budget for the template; `costs_USB` scale unit errors."""
    num_rows, width = measured.states.shape[3:]
    places = list(np.ndindex(measured.states.shape[:3]))
    tables: list[list[rectangle.Configuration]] = []
    for place, unit in zip(places, units, strict=True):
        scale = 1.0 if costs_USB is None else float(costs_USB[place])
        points = rectangle.table(unit, num_rows=num_rows, width=width, bits=bits)
        tables.append([replace(point, error=scale * point.error) for point in points])
    for key, ratio in ratios.items():
        chosen = rectangle.choose(tables, budget_bytes=measured.fp16_bytes / ratio)
        states = np.zeros_like(measured.states)
        for place, unit, one in zip(places, units, chosen, strict=True):
            states[place] = unit.matrix(one)
        yield Point(
            method=method, key=key, states=states, num_bytes=sum(one.num_bytes for one in chosen)
        )


def _per_step_ladders(measured: Measured) -> Iterator[Point]:
    """Yield the ladder alone: each step coded by itself, with a basis of its own."""
    coded: list[CodedTemplate] = []
    for step in range(measured.states.shape[1]):
        weights = CodingWeights(
            rows_UBN=measured.attention.rows_UBN,
            units_USB=measured.attention.units_USB[:, step : step + 1],
        )
        settings = CodingSettings(block_groups=measured.block_groups, smallest_ratio=13.0)
        keys, values = measured.states[:, step : step + 1]
        coded.append(encode(keys, values, weights, settings))
    for key in ("15x", "50x"):
        yield _cut_template("ladder", key, coded, measured)


def _cut_template(method: str, key: str, coded: list[CodedTemplate], measured: Measured) -> Point:
    """Cut templates of some steps each to one budget; together they hold all steps."""
    ladders = [ladder for one in coded for ladder in one.bases]
    budget = int(measured.fp16_bytes / RATIOS[key])
    lengths = choose_prefixes([_cuts(ladder) for ladder in ladders], budget_bytes=budget)
    states = np.zeros_like(measured.states)
    at, first_step = 0, 0
    for one in coded:
        decoder = StateDecoder(
            num_steps=one.num_steps,
            num_blocks=one.num_blocks,
            num_rows=one.num_rows,
            width=one.width,
        )
        for ladder in one.bases:
            sizes = accumulate(len(i.payload) + HEAD_BYTES for i in ladder.increments)
            for increment, end in zip(ladder.increments, sizes, strict=True):
                if end <= lengths[at]:
                    decoder.add(increment)
            at += 1
        for step, block in np.ndindex(one.num_steps, one.num_blocks):
            key_Nd, value_Nd = decoder.read(step, block)
            states[0, first_step + step, block] = key_Nd
            states[1, first_step + step, block] = value_Nd
        first_step += one.num_steps
    return Point(method=method, key=key, states=states, num_bytes=sum(lengths))


def _cuts(ladder: Ladder) -> list[Cut]:
    """Return where a ladder may be cut, its floor first."""
    sizes = accumulate(len(i.payload) + HEAD_BYTES for i in ladder.increments)
    cuts = [
        Cut(num_bytes=size, error=increment.error)
        for size, increment in zip(sizes, ladder.increments, strict=True)
    ]
    return cuts[ladder.floor - 1 :]
