"""Which denoising steps an edit owes its error to, when the state of one step alone is compressed.

    python -m benchmarks.streaming_steps [--templates 2] [--requests 1] [--ratio 50]

The streaming simulation adds errors over steps; this measures each step's part of the sum, on the
shipped model, over the mask. Last line: one JSON object, which `--output` also gets.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

import intonaco
from benchmarks.streaming_quality import TEMPLATE_SEED, Prepared, edit, prepare
from intonaco.families.template_state import StateShape, StateSource
from intonaco.model import Model
from intonaco.template.loading import load_template

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "data" / "streaming_steps.json"


class OneStepCoded:
    """Exact state, but for one step."""

    def __init__(self, exact: StateSource, coded: StateSource, step: int) -> None:
        self._exact, self._coded, self._step = exact, coded, step

    @property
    def shape(self) -> StateShape:
        return self._exact.shape

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        source = self._coded if step == self._step else self._exact
        return source.read(step, block)


def squared_errors(model: Model, one: Prepared, seed: int, ratio: float) -> list[float]:
    """Return the mean squared error over the mask, per step."""
    mask_HW = np.asarray(one.mask) > 127
    reference = np.asarray(edit(model, one, one.exact, seed), np.float64)[mask_HW]
    budget = int(one.packed.manifest.sizes.float16_bytes / ratio)
    found: list[float] = []
    for step in range(one.exact.source.shape.num_steps):
        # An edit reads each unit once, so the coded state is opened anew.
        coded = load_template(one.packed, budget_bytes=budget).source
        mixed = replace(one.exact, source=OneStepCoded(one.exact.source, coded, step))
        pixels = np.asarray(edit(model, one, mixed, seed), np.float64)[mask_HW]
        found.append(float(((pixels - reference) ** 2).mean()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=int, default=2)
    parser.add_argument("--requests", type=int, default=1)
    parser.add_argument("--ratio", type=float, default=50.0)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    started = time.perf_counter()
    model = intonaco.load()
    every: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(args.templates):
            seed = TEMPLATE_SEED + 1000 * index
            one = prepare(model, seed, Path(folder) / "catalog")
            for request in range(args.requests):
                errors = squared_errors(model, one, seed + 700 + request, args.ratio)
                every.append(errors)
                print([round(error, 3) for error in errors], flush=True)
    mean = np.array(every).mean(axis=0)
    result = {
        "error_share_by_step": [round(float(share), 4) for share in mean / mean.sum()],
        "ratio": args.ratio,
        "num_edits": len(every),
        "script": "python -m benchmarks.streaming_steps",
        "elapsed_s": round(time.perf_counter() - started, 1),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
