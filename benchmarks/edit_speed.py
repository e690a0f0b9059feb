"""How much of a dense step does an edit on template state cost, against how much work it has?

    python -m benchmarks.edit_speed [--sizes shipped medium] [--shares 10 25 40] [--parts speed template]

`speed`: one step of the dense denoiser and of edits of a tenth, a quarter and 40 % of the picture, on
programs (inductor, float32), one thread. All run once per round, in turn; a ratio is one of medians.
State is read from memory, as fresh as a step needs it. The operation ratio counts linear layers and
attention of the blocks with the edited tokens as they are, not rounded to their bucket.

`template`: the shipped model only. Build time of a template by phase, speed of reconstruction, and a
whole edit (text encoder to picture) on a template against the dense edit.

`--compile-only` compiles what is missing in the store and measures nothing. Last line one JSON object.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.denoiser import (
    MEDIUM,
    MEDIUM_SHAPE,
    SHIPPED_SHAPE,
    Bench,
    Call,
    measure,
    random_transformer,
    shipped_transformer,
    show_compiling,
)
from intonaco.backends.registry import make_backend
from intonaco.families.flux2_programs import ProgramDenoiser
from intonaco.families.flux2_state import split_tokens
from intonaco.families.flux2_state_programs import ProgramSparseDenoiser, load_chain
from intonaco.families.template_state import StateShape
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore, default_store_folder
from intonaco.template.state_store import MemoryState

PARTS = ("speed", "template")


def edited_tokens(num_tokens: int, share: int) -> np.ndarray:
    """Return which tokens of a square picture an edit of `share` percent changes: a block of rows."""
    side = int(num_tokens**0.5)
    num_edited = round(num_tokens * share / 100)
    width = round((num_edited) ** 0.5)
    is_edited = np.zeros((side, side), dtype=bool)
    for index in range(num_edited):
        is_edited[index // width, index % width] = True
    return is_edited.reshape(-1)


def random_state(bench: Bench, num_rows: int) -> MemoryState:
    """Return one step of state, keys as large as norms leave them."""
    config = bench.transformer.config
    shape = StateShape(
        num_steps=1,
        num_blocks=config["num_layers"] + config["num_single_layers"],
        num_rows=num_rows,
        width=config["num_attention_heads"] * config["attention_head_dim"],
    )
    state = MemoryState(shape=shape, rows_N=torch.arange(num_rows))
    generator = torch.Generator().manual_seed(1)
    for block in range(shape.num_blocks):
        units = (torch.randn(num_rows, shape.width, generator=generator) for _ in range(2))
        state.write(0, block, *units)
    return state


def sparse_call(bench: Bench, denoiser: ProgramDenoiser, share: int) -> Call:
    """Return a call of one edit's step; the first loads, and compiles, its programs."""
    slots_E, rows_N = split_tokens(edited_tokens(bench.shape.num_image_tokens, share))
    sparse = ProgramSparseDenoiser(
        denoiser=denoiser,
        source=random_state(bench, len(rows_N)),
        slots_E=slots_E,
        rows_N=rows_N,
    )
    inputs = bench.inputs("float32")
    load_chain(denoiser, sparse.shape(inputs))
    return lambda: sparse(inputs, 0)


def operation_ratio(bench: Bench, share: int) -> float:
    """Return operations of an edit's blocks over those of the dense ones.

    A query costs the same in both: its linear layers, and attention to all keys.
    """
    num_edited = int(edited_tokens(bench.shape.num_image_tokens, share).sum())
    return (bench.shape.num_text_tokens + num_edited) / bench.shape.length


def run_speed(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """Return time and operation ratios of every share."""
    torch.set_num_threads(1)
    library = ProgramLibrary(
        store=bench.store, backend=make_backend("inductor"), progress=show_compiling
    )
    denoiser = ProgramDenoiser(library=library, weights=bench.weights("float32"))
    inputs = bench.inputs("float32")
    calls: dict[str, Call] = {"dense": lambda: denoiser(inputs)}
    denoiser(inputs)
    for share in options.shares:
        calls[f"edit {share}"] = sparse_call(bench, denoiser, share)
    if options.compile_only:
        return {}
    ms = measure(calls, bench.repeats)
    found: dict[str, Any] = {"dense_ms": round(ms["dense"], 2)}
    for share in options.shares:
        time_ratio, operations = ms[f"edit {share}"] / ms["dense"], operation_ratio(bench, share)
        found |= {
            f"edit_ms_{share}pct": round(ms[f"edit {share}"], 2),
            f"time_ratio_{share}pct": round(time_ratio, 4),
            f"operation_ratio_{share}pct": round(operations, 4),
            f"time_ratio_over_operation_ratio_{share}pct": round(time_ratio / operations, 3),
        }
        print(f"  {bench.name} {share} %: {found[f'edit_ms_{share}pct']} ms of {found['dense_ms']}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--sizes", nargs="+", default=["shipped", "medium"])
    parser.add_argument("--shares", nargs="+", type=int, default=[10, 25, 40])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--store", type=Path, default=None)
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    store = ArtifactStore(options.store or default_store_folder())
    result: dict[str, Any] = {"num_threads": 1, "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.sizes if "speed" in options.parts else ():
            is_shipped = name == "shipped"
            transformer = shipped_transformer()[0] if is_shipped else random_transformer(MEDIUM)
            transformer.eval().requires_grad_(False)
            shape = SHIPPED_SHAPE if is_shipped else MEDIUM_SHAPE
            bench = Bench(name, transformer, shape, store, Path(folder), options.repeats)
            result[name] = run_speed(bench, options)
        if "template" in options.parts:
            # Imported here: the other part needs no model.
            from benchmarks._template_build import measure_template

            result["template"] = measure_template(
                store, Path(folder), is_compile_only=options.compile_only
            )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
