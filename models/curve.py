"""Plots the training curves (JSON lines in the work folder) into docs/pictures/training.png."""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PANELS = (
    ("autoencoder", ("psnr_db",), "PSNR of crops, noisy latents (dB)"),
    ("denoiser", ("loss_words", "loss_clothes", "loss_head"), "velocity loss"),
    ("classifier", ("accuracy",), "judge: accuracy on augmented batches"),
)


def plot(work: Path, output: Path) -> None:
    figure, axes = plt.subplots(1, len(PANELS), figsize=(13, 3.6), layout="constrained")
    for axis, (name, keys, title) in zip(axes, PANELS, strict=True):
        path = work / f"{name}.jsonl"
        lines = (
            [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        )
        for key in keys:
            points = [(line["step"], line[key]) for line in lines if key in line]
            axis.plot([p[0] for p in points], [p[1] for p in points], label=key)
        axis.set(title=title, xlabel="step")
        axis.grid(alpha=0.3)
        if len(keys) > 1:
            axis.set_yscale("log")
            axis.legend()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("models/runs"))
    parser.add_argument("--output", type=Path, default=Path("docs/pictures/training.png"))
    args = parser.parse_args()
    plot(args.work, args.output)


if __name__ == "__main__":
    main()
