"""How fast a template is read: files to numbers, and numbers to keys and values.

usage: python -m benchmarks.template_reading CATALOG/ID

Four parts. `files`: prefixes of the template's files until all is decoded, by each way to read them, and
keys and values from there. `units`: the same of single units of the shipped model's and of FLUX.2 klein's
size, whose numbers are machine-made and fall off as those of real states do. `threads`: units of klein's
size on one thread, on two, and in two processes. `reconstructing`: numbers to keys and values at two sizes,
by several ways of doing the same product. MB/s count coded bytes, GB/s the state as float16, whatever is
written. One thread but for `threads`. The last line is JSON.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from benchmarks._template_units import SIZES, UnitFile, unit_file, unit_header
from intonaco.template.catalog import Template, open_template
from intonaco.template.compiled_decoder import CompiledDecoder
from intonaco.template.decoder import StateDecoder
from intonaco.template.fast_planes import warm_up
from intonaco.template.ladder_file import LadderReader
from intonaco.template.loading import plan_prefixes
from intonaco.template.pack_reader import PackReader, open_ladder
from intonaco.template.plain_decoder import PlainDecoder
from intonaco.template.plane_decoder import MakeDecoder
from intonaco.template.plane_decoding import Flags, Magnitudes, decode_plane, read_head
from intonaco.template.planes import Codes, decode_planes
from intonaco.template.strands import FRAME, strand_of
from intonaco.template.unit_numbers import UnitSizes, region_of

BUDGET_RATIOS = (5, 15, 50, 150)
WAYS: dict[str, MakeDecoder] = {"plain": PlainDecoder, "compiled": CompiledDecoder}
NUM_REPEATS = 12
NUM_UNITS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("template", type=Path)
    template = open_template(parser.parse_args().template)
    torch.set_num_threads(1)
    for way in WAYS.values():
        warm_up(way)
    found = {
        "files": {f"{ratio}x": read_files(template, ratio) for ratio in BUDGET_RATIOS},
        "units": {name: read_unit(name) for name in SIZES},
        "threads": read_at_once(),
        "reconstructing": {name: reconstruct(*sizes) for name, sizes in SIZES.items()},
    }
    print(json.dumps(found))


def read_files(template: Template, ratio: int) -> dict[str, object]:
    """Return how fast prefixes of a template's files become numbers, and those keys and values."""
    sizes = template.manifest.sizes
    pieces = [
        (place, template.read_prefix(record, num_bytes))
        for record, place, num_bytes in plan_prefixes(
            template.manifest, budget_bytes=sizes.float16_bytes // ratio
        )
    ]
    num_bytes = sum(len(piece) for _, piece in pieces)
    found: dict[str, object] = {
        "num_bytes": num_bytes,
        "growth_without_coder": round(growth_without_coder(template, ratio), 3),
    }
    for name, way in WAYS.items():
        readers: list[PackReader] = []

        def feed_all(way: MakeDecoder = way, readers: list[PackReader] = readers) -> None:
            readers.append(PackReader(template.manifest, decode=way))
            for (step, group), piece in pieces:
                readers[-1].feed(step, group, piece)

        seconds = median_s(feed_all)
        out_Nd = np.empty((sizes.num_rows, sizes.width), np.float32)

        def write_all(readers: list[PackReader] = readers, out_Nd: np.ndarray = out_Nd) -> None:
            for step in range(sizes.num_steps):
                for block in range(sizes.num_blocks):
                    for kind in range(2):
                        readers[-1].write(step, block, kind, out_Nd)

        found[name] = {
            "seconds": round(seconds, 4),
            "mb_per_s": round(num_bytes / seconds / 1e6, 2),
            "write_gb_per_s": round(sizes.float16_bytes / median_s(write_all) / 1e9, 3),
        }
    return found


def growth_without_coder(template: Template, ratio: int) -> float:
    """Return how much longer the files would be if answers of the range coder were stored as bits."""
    sizes = template.manifest.sizes
    unit = UnitSizes(num_steps=sizes.num_steps, num_rows=sizes.num_rows, width=sizes.width)
    more_bytes: list[int] = []

    def count(payload: bytes, at: int, magnitudes_RL: Magnitudes, is_negative_RL: Flags) -> int:
        head = read_head(payload, at, len(magnitudes_RL))
        is_asked_RL = (magnitudes_RL == 0) & (head.indices_R > 0)[:, None]
        more_bytes.append((int(is_asked_RL.sum()) + 7) // 8 - len(head.words))
        return decode_plane(payload, at, magnitudes_RL, is_negative_RL)

    known: dict[tuple[int, int, int], Codes] = {}
    files = plan_prefixes(template.manifest, budget_bytes=sizes.float16_bytes // ratio)
    for record, place, num_bytes in files:
        reader = open_ladder(template.manifest, record, place)
        for one in reader.feed(template.read_prefix(record, num_bytes)):
            if one.first_component == FRAME:
                continue
            strand = strand_of(one.first_component, profiles=unit.num_profiles)
            region = region_of(strand, unit)
            key = one.block, one.kind, one.first_component
            shape = region.num_vectors, region.end_number - region.first_number
            known[key] = decode_planes(
                one.payload, known.get(key), shape=shape, num_planes=one.num_planes, decode=count
            )
    return sum(more_bytes) / sum(num_bytes for _, _, num_bytes in files)


def read_unit(name: str) -> dict[str, object]:
    """Return how fast one unit is read."""
    file = unit_file(name)
    out_Nd = np.empty((file.sizes.num_rows, file.sizes.width), np.float32)
    found: dict[str, object] = {"num_bytes": len(file.content)}
    for way_name, way in WAYS.items():
        decoders = [decode_unit(file, way)]

        def write(decoders: list[StateDecoder] = decoders) -> None:
            decoders[0].write(0, 0, 0, out_Nd)

        def decode(way: MakeDecoder = way) -> None:
            decode_unit(file, way)

        repeats = NUM_REPEATS if way_name == "compiled" else 2
        found[way_name] = {
            "mb_per_s": round(len(file.content) / median_s(decode, repeats) / 1e6, 2),
            "write_gb_per_s": round(2 * out_Nd.size / median_s(write, repeats) / 1e9, 3),
        }
    return found


def decode_unit(file: UnitFile, way: MakeDecoder) -> StateDecoder:
    """Return a decoder that has read all of the file."""
    sizes = file.sizes
    decoder = StateDecoder(
        num_steps=sizes.num_steps,
        num_blocks=1,
        num_rows=sizes.num_rows,
        width=sizes.width,
        decode=way,
    )
    ladder = LadderReader(unit_header(sizes), name="unit")
    heads = None
    for chunk in ladder.feed_chunks(file.content):
        heads = heads or decoder.open_heads(ladder.units)
        decoder.take(0, 0, chunk, heads.read_heads(chunk).rows, 0)
    return decoder


def decode_units(name: str, count: int) -> None:
    """Decode one unit's file so many times."""
    for _ in range(count):
        decode_unit(unit_file(name), CompiledDecoder)


def read_at_once() -> dict[str, float]:
    """Return megabytes per second of klein's units on one thread, on two, and in two processes."""
    num_bytes = NUM_UNITS * len(unit_file("klein").content)
    context = multiprocessing.get_context("fork")
    found: dict[str, float] = {}
    pools: dict[str, tuple[Executor, int]] = {
        "one_thread": (ThreadPoolExecutor(1), 1),
        "two_threads": (ThreadPoolExecutor(2), 2),
        "two_processes": (ProcessPoolExecutor(2, mp_context=context), 2),
    }
    for name, (pool, workers) in pools.items():

        def run(pool: Executor = pool, workers: int = workers) -> None:
            list(pool.map(decode_units, ["klein"] * workers, [NUM_UNITS // workers] * workers))

        with pool:
            found[name] = round(num_bytes / median_s(run, 5) / 1e6, 2)
    return found


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


def median_s(way: Callable[[], None], num_repeats: int = NUM_REPEATS) -> float:
    """Return the median time of one call, after one that is not counted."""
    way()
    times: list[float] = []
    for _ in range(num_repeats):
        start = time.perf_counter()
        way()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


if __name__ == "__main__":
    main()
