"""How far are the pictures of each precision from those of float32?

    python -m benchmarks.precision [--prompts 12] [--backend eager] [--model FOLDER]

Draws the same prompts and seeds on programs in each precision and compares pixels with the eager
float32 model: peak signal to noise in dB, mean and lowest, and the share of equal bytes. The eager
backend runs the same modules without compiling; `--backend inductor` measures compiled programs.
Last line one JSON object.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import intonaco
from intonaco.backends.registry import make_backend
from intonaco.backends.spec import Precision
from intonaco.families.checkpoint import read_checkpoint
from intonaco.families.flux2_programs import load_flux2_programs
from intonaco.families.source import find_folder
from intonaco.model import Model
from intonaco.programs.library import ProgramLibrary
from intonaco.programs.store import ArtifactStore

PROMPTS = (
    "a tall girl with red hair in a garden", "a boy with a green hat at night",
    "a short girl in a blue dress", "a boy with glasses and a striped shirt",
)  # fmt: skip
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "w8a16", "w8a8")
BEST_DB = 99.0


def peak_signal_to_noise_db(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the ratio in dB; `BEST_DB` for equal pictures, as JSON knows no infinity."""
    error = float(np.mean((first.astype(np.float64) - second.astype(np.float64)) ** 2))
    return BEST_DB if error == 0 else min(BEST_DB, 10 * float(np.log10(255.0**2 / error)))


def draw(model: Model, count: int) -> list[NDArray[np.uint8]]:
    return [
        np.asarray(model.generate(PROMPTS[seed % len(PROMPTS)], seed=seed).image)
        for seed in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--model", default=None)
    options = parser.parse_args()
    checkpoint = read_checkpoint(find_folder(options.model))
    expected = draw(intonaco.load(options.model), options.prompts)
    result: dict[str, Any] = {"backend": options.backend, "num_pictures": options.prompts}
    with tempfile.TemporaryDirectory() as folder:
        for precision in PRECISIONS:
            library = ProgramLibrary(
                store=ArtifactStore(Path(folder)), backend=make_backend(options.backend)
            )
            family = load_flux2_programs(
                checkpoint, library, precision=precision, device=torch.device("cpu")
            )
            pictures = draw(Model(family, checkpoint), options.prompts)
            pairs = list(zip(pictures, expected, strict=True))
            decibels = [peak_signal_to_noise_db(*pair) for pair in pairs]
            equal = [float((first == second).mean()) for first, second in pairs]
            result[precision] = {
                "psnr_db_mean": round(statistics.mean(decibels), 2),
                "psnr_db_lowest": round(min(decibels), 2),
                "equal_bytes": round(statistics.mean(equal), 4),
            }
            print(f"{precision:<9} {result[precision]}", flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
