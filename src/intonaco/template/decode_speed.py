"""How fast planes are read here, found on made-up numbers before a template's first byte has come.

Numbers like those of a real unit: of its size, most of them small, a plane of every strand after the other.
A rate to begin with, rather too high for coarse prefixes, which bring little at a time; edits correct it.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from intonaco.template.coded import Increment
from intonaco.template.decoder import StateDecoder
from intonaco.template.increments import IncrementWriter, UnitRange
from intonaco.template.plane_decoder import MakeDecoder
from intonaco.template.planes import Codes, codes_of, encode_planes, first_exponent, split_planes
from intonaco.template.strands import Strand, group_range, strand_number
from intonaco.template.unit_numbers import UnitSizes

NUM_PLANES = 4
NUM_NUMBERS = 8_000
"""Whole component groups are made up until there are so many: enough to time, and made in milliseconds."""
FEWEST_RUNS, MOST_RUNS = 2, 5
LONGEST_S = 0.01
UNITS = UnitRange(first_block=0, num_blocks=1, max_planes=NUM_PLANES)


def measure_decoding(
    decode: MakeDecoder, sizes: UnitSizes, *, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return how many coded bytes of a unit are read per second, the quickest of a few runs.

    Takes some tens of milliseconds once `fast_planes.warm_up` has run.
    """
    chunks = made_up_chunks(sizes)
    runs_s: list[float] = []
    while len(runs_s) < FEWEST_RUNS or (len(runs_s) < MOST_RUNS and sum(runs_s) < LONGEST_S):
        runs_s.append(_seconds(decode, sizes, chunks, clock))
    return sum(map(len, chunks)) / min(runs_s)


def made_up_chunks(sizes: UnitSizes) -> list[bytes]:
    """Return increments of one unit as they stand in a file: a plane of one component group in a chunk.

    Real chunks are longer, but hold several units: what is read at once of one is as short.
    """
    groups = _groups(sizes)
    writer = IncrementWriter(UNITS)
    return [
        b"".join(
            writer.write(
                Increment(
                    block=0,
                    kind=0,
                    first_component=number,
                    num_components=1,
                    first_plane=plane,
                    num_planes=1,
                    payload=encode_planes(cut[plane], first_plane=plane),
                    error=0.0,
                )
            )
            for number, cut in strands.items()
        )
        for plane in range(NUM_PLANES)
        for strands in groups
    ]


def _groups(sizes: UnitSizes) -> list[dict[int, list[Codes]]]:
    """Return the first component groups: of each strand, by its number, its codes plane by plane."""
    random = np.random.default_rng(0)
    groups: list[dict[int, list[Codes]]] = []
    num_numbers, end = 0, 0
    while num_numbers < NUM_NUMBERS and end < sizes.width:
        group = len(groups)
        start, end = group_range(group)
        num_vectors = min(end, sizes.width) - start
        lengths = {Strand(part="basis", group=group): sizes.width}
        for profile in range(sizes.num_profiles):
            lengths[Strand(part="coefficients", group=group, profile=profile)] = sizes.num_rows
        groups.append(
            {
                strand_number(strand, profiles=sizes.num_profiles): list(
                    split_planes(_codes(random.laplace(size=(num_vectors, length))))
                )
                for strand, length in lengths.items()
            }
        )
        num_numbers += num_vectors * sum(lengths.values())
    return groups


def _codes(values_RL: NDArray[np.float64]) -> Codes:
    return codes_of(
        values_RL,
        exponent=first_exponent(values_RL),
        vector_exponents_R=np.zeros(len(values_RL), np.int8),
        num_planes=NUM_PLANES,
    )


def _seconds(
    decode: MakeDecoder, sizes: UnitSizes, chunks: list[bytes], clock: Callable[[], float]
) -> float:
    decoder = StateDecoder(
        num_steps=sizes.num_steps,
        num_blocks=1,
        num_rows=sizes.num_rows,
        width=sizes.width,
        decode=decode,
    )
    heads = decoder.open_heads(UNITS)
    began_at = clock()
    for chunk in chunks:
        decoder.take(0, 0, chunk, heads.read_heads(chunk).rows, 0)
    return clock() - began_at
