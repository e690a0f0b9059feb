"""What the first steps of an edit need of its template's state, on the shipped model, over the mask.

    python -m benchmarks.streaming_steps [--templates 4] [--requests 3] [--output FILE]

Two questions. Which part of an edit's error does each step add, when its state alone is coded at the
floor? And what is an edit at its floor worth whose first quarter of steps has less? The streaming
simulation judges by the first, the table of a template's shards rests on the second. Last line: one
JSON object.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

import intonaco
from benchmarks.streaming_quality import TEMPLATE_SEED, Prepared, edit, floor_bytes, prepare
from intonaco.families.template_state import StateShape, StateSource
from intonaco.model import Model
from intonaco.quality.metrics import psnr
from intonaco.streaming.pack_table import FIRST_STEPS_FLOOR_RATIO, FLOOR_RATIO
from intonaco.streaming.tables import num_first_steps
from intonaco.template.loading import load_template

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "data" / "streaming_steps.json"


class MixedState:
    """One state in some steps, another in all others."""

    def __init__(self, some: StateSource, others: StateSource, steps: Collection[int]) -> None:
        self._some, self._others, self._steps = some, others, steps

    @property
    def shape(self) -> StateShape:
        return self._some.shape

    def read(self, step: int, block: int, /) -> tuple[Tensor, Tensor]:
        return (self._some if step in self._steps else self._others).read(step, block)


class Judge:
    """PSNR of one edit with mixed states, against the one with uncompressed state."""

    def __init__(self, model: Model, one: Prepared, seed: int) -> None:
        self._model, self._one, self._seed = model, one, seed
        self._mask_HW = np.asarray(one.mask) > 127
        self._reference = edit(model, one, one.exact, seed)

    def psnr_db(self, some: float | None, others: float | None, steps: Collection[int]) -> float:
        """Return it with state coded at ratio `some` in `steps`, at `others` else; None = exact."""
        source = MixedState(self._coded(some), self._coded(others), steps)
        picture = edit(self._model, self._one, replace(self._one.exact, source=source), self._seed)
        return psnr(picture, self._reference, mask_HW=self._mask_HW)

    def _coded(self, ratio: float | None) -> StateSource:
        if ratio is None:
            return self._one.exact.source
        whole = self._one.packed.manifest.sizes.float16_bytes
        budget = max(floor_bytes(self._one.packed), math.floor(whole / ratio))
        # An edit reads each unit once, so the coded state is opened anew.
        return load_template(self._one.packed, budget_bytes=budget).source


def measure(judge: Judge, num_steps: int) -> tuple[list[float], dict[str, float]]:
    """Return the squared error that each step alone adds, and PSNR by what the first steps have."""
    errors = [10 ** (-judge.psnr_db(FLOOR_RATIO, None, {step}) / 10) for step in range(num_steps)]
    first = range(num_first_steps(num_steps))
    low = FIRST_STEPS_FLOOR_RATIO
    worth = {
        "all_at_floor": judge.psnr_db(FLOOR_RATIO, FLOOR_RATIO, first),
        "first_steps_lower": judge.psnr_db(low, FLOOR_RATIO, first),
        "all_lower": judge.psnr_db(low, low, first),
        "first_steps_exact": judge.psnr_db(None, FLOOR_RATIO, first),
        "half_the_floor_s_ratio": judge.psnr_db(FLOOR_RATIO / 2, FLOOR_RATIO / 2, first),
        "half_first_steps_lower": judge.psnr_db(low, FLOOR_RATIO / 2, first),
    }
    return errors, worth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=int, default=4)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    started = time.perf_counter()
    model = intonaco.load()
    shares: list[list[float]] = []
    every: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(args.templates):
            seed = TEMPLATE_SEED + 1000 * index
            one = prepare(model, seed, Path(folder) / "catalog")
            for request in range(args.requests):
                judge = Judge(model, one, seed + 700 + request)
                errors, worth = measure(judge, one.exact.source.shape.num_steps)
                shares.append([error / sum(errors) for error in errors])
                every.append(worth)
                print({name: round(value, 1) for name, value in worth.items()}, flush=True)
    result = {
        "error_share_by_step": [round(float(share), 4) for share in np.mean(shares, axis=0)],
        "floor_ratio": FLOOR_RATIO,
        "first_steps_floor_ratio": FIRST_STEPS_FLOOR_RATIO,
        "mask_psnr_db": {
            name: round(statistics.mean(one[name] for one in every), 2) for name in every[0]
        },
        "num_edits": len(every),
        "script": "python -m benchmarks.streaming_steps",
        "elapsed_s": round(time.perf_counter() - started, 1),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
