"""How fast a template is read: files to factors, and factors to keys and values, on one thread.

usage: python -m benchmarks.template_reading CATALOG/ID

Two parts. `decoding`: bytes of files to factors, at several budgets. `reconstructing`: factors to keys
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

from intonaco.template.catalog import Template, open_template
from intonaco.template.loading import load_template
from intonaco.template.reconstruct import measure_reconstruct

BUDGET_RATIOS = (5, 15, 50, 150)
SIZES = {"shipped": (102, 256, 100, 8), "klein": (1178, 3072, 128, 4)}
"""Rows, width, components, temporal profiles."""
NUM_REPEATS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("template", type=Path)
    template = open_template(parser.parse_args().template)
    torch.set_num_threads(1)
    found = {
        "decoding": {f"{ratio}x": decode(template, ratio) for ratio in BUDGET_RATIOS},
        "reconstructing": {name: reconstruct(*sizes) for name, sizes in SIZES.items()},
    }
    print(json.dumps(found))


def decode(template: Template, ratio: int) -> dict[str, float]:
    """Return megabytes per second of decoding, by wall clock and by processor time."""
    budget = template.manifest.sizes.float16_bytes // ratio
    wall_s, busy_s = time.perf_counter(), time.process_time()
    loaded = load_template(template, budget_bytes=budget)
    wall_s, busy_s = time.perf_counter() - wall_s, time.process_time() - busy_s
    speed = measure_reconstruct(loaded.source, num_repeats=5)
    return {
        "num_bytes": loaded.num_bytes,
        "mb_per_s": round(loaded.num_bytes / wall_s / 1e6, 3),
        "mb_per_processor_s": round(loaded.num_bytes / busy_s / 1e6, 3),
        "reconstruct_gb_per_s": round(speed.gigabytes_per_s, 3),
    }


def reconstruct(rows: int, width: int, components: int, profiles: int) -> dict[str, float]:
    """Return GB/s of each way to make one unit."""
    random = np.random.default_rng(0)
    coefficients_QNR = random.normal(size=(profiles, rows, components)).astype(np.float32)
    time_Q, row_factors_N, basis_Rd, mean_d = (
        random.normal(size=size).astype(np.float32)
        for size in (profiles, rows, (components, width), width)
    )
    made = torch.empty(rows, width)
    slots = torch.zeros(rows + rows // 4, width, dtype=torch.bfloat16)
    rows_N = torch.arange(rows)
    tensors = [torch.from_numpy(one) for one in (coefficients_QNR, time_Q, row_factors_N)]
    mean, basis = torch.from_numpy(mean_d), torch.from_numpy(basis_Rd)

    def mixed() -> np.ndarray:
        flat = time_Q @ coefficients_QNR.reshape(profiles, -1)
        return flat.reshape(rows, components) * row_factors_N[:, None]

    def numpy_matmul() -> None:
        np.matmul(mixed(), basis_Rd, out=made.numpy())
        np.add(made.numpy(), mean_d, out=made.numpy())

    def torch_addmm() -> None:
        torch.addmm(mean, torch.from_numpy(mixed()), basis, out=made)

    def torch_alone() -> None:
        flat = tensors[1] @ tensors[0].view(profiles, -1)
        scaled = flat.view(rows, components) * tensors[2][:, None]
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
