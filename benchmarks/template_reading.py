"""How fast a template is read: files to factors, and factors to keys and values, on one thread.

usage: python -m benchmarks.template_reading CATALOG/ID

Three parts. `files`: all of loading but parsing of pictures, at several budgets. `planes`: bytes of coded
bit-planes to numbers, by each way to read them, at the sizes of a strand of 16 components of the shipped
model and of FLUX.2 klein; numbers fall off as those of real states do. `reconstructing`: factors to keys
and values at two sizes, by several ways of doing the same product; the package uses `torch_addmm`.
GB/s count the state as float16, whatever is written. The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from intonaco.template import plane_kernels
from intonaco.template.catalog import Template, open_template
from intonaco.template.decoder import StateDecoder, decode_all
from intonaco.template.loading import plan_prefixes
from intonaco.template.pack_reader import open_ladder
from intonaco.template.plane_decoding import (
    DecodePlane,
    Flags,
    Magnitudes,
    decode_plane,
    read_head,
)
from intonaco.template.planes import codes_of, decode_planes, encode_planes, first_exponent
from intonaco.template.reconstruct import PackSource, measure_reconstruct

BUDGET_RATIOS = (5, 15, 50, 150)
WAYS: dict[str, DecodePlane] = {"plain": decode_plane, "compiled": plane_kernels.decode_plane}
LENGTHS = {"shipped_rows": 102, "shipped_width": 256, "klein_rows": 1178, "klein_width": 3072}
NUM_VECTORS = 16
SPREAD = 1 / 8
"""Root mean square of the last of the vectors over the first's."""
NUM_PLANES = 6
SIZES = {"shipped": (102, 256, 100, 8), "klein": (1178, 3072, 128, 4)}
"""Rows, width, components, temporal profiles."""
NUM_REPEATS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("template", type=Path)
    template = open_template(parser.parse_args().template)
    torch.set_num_threads(1)
    found = {
        "files": {f"{ratio}x": read_files(template, ratio) for ratio in BUDGET_RATIOS},
        "planes": {name: read_planes(length) for name, length in LENGTHS.items()},
        "reconstructing": {name: reconstruct(*sizes) for name, sizes in SIZES.items()},
    }
    print(json.dumps(found))


def read_files(template: Template, ratio: int) -> dict[str, float]:
    """Return how fast prefixes of a template's files become factors."""
    budget = template.manifest.sizes.float16_bytes // ratio
    pieces = [
        (place, template.read_prefix(record, num_bytes))
        for record, place, num_bytes in plan_prefixes(template.manifest, budget_bytes=budget)
    ]
    sources: list[PackSource] = []
    growth = growth_without_coder(template, ratio)

    def feed_all() -> None:
        source = PackSource(template.manifest)
        for (step, group), piece in pieces:
            source.feed(step, group, piece)
        for block in range(source.shape.num_blocks):
            source.read(0, block)
        sources.append(source)

    seconds = median_s(feed_all)
    num_bytes = sum(len(piece) for _, piece in pieces)
    speed = measure_reconstruct(sources[-1], num_repeats=5)
    return {
        "num_bytes": num_bytes,
        "seconds": round(seconds, 4),
        "mb_per_s": round(num_bytes / seconds / 1e6, 3),
        "reconstruct_gb_per_s": round(speed.gigabytes_per_s, 3),
        "growth_without_coder": round(growth, 3),
    }


def growth_without_coder(template: Template, ratio: int) -> float:
    """Return how much longer the files would be if answers of the range coder were stored as bits."""
    sizes = template.manifest.sizes
    more_bytes: list[int] = []

    def count(payload: bytes, at: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags) -> int:
        head = read_head(payload, at, len(magnitudes_RL))
        is_asked_RL = (magnitudes_RL == 0) & (head.indices_R > 0)[:, None]
        more_bytes.append((int(is_asked_RL.sum()) + 7) // 8 - len(head.words))
        return decode_plane(payload, at, magnitudes_RL, is_negative_RL)

    decoder = StateDecoder(
        num_steps=sizes.num_steps,
        num_blocks=sizes.num_blocks,
        num_rows=sizes.num_rows,
        width=sizes.width,
        decode=count,
    )
    files = plan_prefixes(template.manifest, budget_bytes=sizes.float16_bytes // ratio)
    for record, place, num_bytes in files:
        reader = open_ladder(template.manifest, record, place)
        decode_all(decoder, reader.feed(template.read_prefix(record, num_bytes)))
    return sum(more_bytes) / sum(num_bytes for _, _, num_bytes in files)


def read_planes(length: int) -> dict[str, float]:
    """Return megabytes of payload per second, by way."""
    falls = SPREAD ** (np.arange(NUM_VECTORS) / NUM_VECTORS)
    values = np.random.default_rng(0).laplace(size=(NUM_VECTORS, length)) * falls[:, None]
    codes = codes_of(
        values,
        exponent=first_exponent(values),
        vector_exponents_R=np.zeros(NUM_VECTORS, np.int8),
        num_planes=NUM_PLANES,
    )
    payload = encode_planes(codes, first_plane=0)

    def read(decode: DecodePlane) -> Callable[[], None]:
        def once() -> None:
            decode_planes(payload, None, shape=values.shape, num_planes=NUM_PLANES, decode=decode)

        return once

    speeds = {name: len(payload) / median_s(read(way)) / 1e6 for name, way in WAYS.items()}
    return {name: round(speed, 2) for name, speed in speeds.items()}


def reconstruct(rows: int, width: int, components: int, profiles: int) -> dict[str, float]:
    """Return GB/s of each way to make one unit."""
    random = np.random.default_rng(0)
    coefficients_QRN = random.normal(size=(profiles, components, rows)).astype(np.float32)
    time_Q, row_factors_N, basis_Rd, mean_d = (
        random.normal(size=size).astype(np.float32)
        for size in (profiles, rows, (components, width), width)
    )
    made = torch.empty(rows, width)
    slots = torch.zeros(rows + rows // 4, width, dtype=torch.bfloat16)
    rows_N = torch.arange(rows)
    tensors = [torch.from_numpy(one) for one in (coefficients_QRN, time_Q, row_factors_N)]
    mean, basis = torch.from_numpy(mean_d), torch.from_numpy(basis_Rd)

    def mixed() -> np.ndarray:
        flat = time_Q @ coefficients_QRN.reshape(profiles, -1)
        return (flat.reshape(components, rows) * row_factors_N).T

    def numpy_matmul() -> None:
        np.matmul(mixed(), basis_Rd, out=made.numpy())
        np.add(made.numpy(), mean_d, out=made.numpy())

    def torch_addmm() -> None:
        torch.addmm(mean, torch.from_numpy(mixed()), basis, out=made)

    def torch_alone() -> None:
        flat = tensors[1] @ tensors[0].view(profiles, -1)
        scaled = (flat.view(components, rows) * tensors[2]).T
        torch.addmm(mean, scaled, basis, out=made)

    def into_bfloat16_slots() -> None:
        product = torch.addmm(mean, torch.from_numpy(mixed()), basis)
        slots.index_copy_(0, rows_N, product.to(torch.bfloat16))

    ways = (numpy_matmul, torch_addmm, torch_alone, into_bfloat16_slots)
    return {way.__name__: round(2e-9 * rows * width / median_s(way), 3) for way in ways}


def median_s(way: Callable[[], None]) -> float:
    """Return the median time of one call, after one that is not counted."""
    way()
    times: list[float] = []
    for _ in range(NUM_REPEATS):
        start = time.perf_counter()
        way()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


if __name__ == "__main__":
    main()
