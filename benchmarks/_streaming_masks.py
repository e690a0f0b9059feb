"""Edits by the size of their mask, at FLUX.2-klein's size, and their picture (the paper's figure 16).

Assumed: of the paper's 1280 tokens 1024 are the picture's, and those under the mask need no state;
the run time lies on the line through the paper's 2.26 s at 10 % and 13 s dense, which is 100 %;
a ratio is worth as much at any mask.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._streaming_inputs import KLEIN, KLEIN_BYTES, Device, Quality
from benchmarks._streaming_simulation import Case, Edit, figures, methods
from intonaco.quality.plotting import FAINT, write_plots
from intonaco.quality.streaming_plots import COLORS

PICTURE_TOKENS, OTHER_TOKENS = 1024, 256
PAPER_MASK = 0.1
COMPARED = ("ours", "intq", "cachegen", "cachegen_stored_levels")
MB = 1e6

Row = dict[str, Any]


def device_of(mask: float) -> Device:
    """Return klein on the paper's phone at a mask that covers this share of the picture."""
    rows = _num_rows(mask)
    per_share_s = (KLEIN.dense_s - KLEIN.edit_s) / (1 - PAPER_MASK)
    return replace(
        KLEIN,
        name=f"FLUX.2-klein-4B, {100 * mask:g} % mask",
        fp16_bytes=KLEIN_BYTES * rows / _num_rows(PAPER_MASK),
        num_rows=round(rows),
        edit_s=KLEIN.edit_s + per_share_s * (mask - PAPER_MASK),
    )


def sweep(quality: Quality, every: Sequence[Case], masks: Sequence[float]) -> dict[str, Row]:
    """Return figures by mask, in percent, and method."""
    found: dict[str, Row] = {}
    for mask in masks:
        device = device_of(mask)
        known = methods(device, quality)
        num_shards = device.num_steps * len(device.groups)
        row: Row = {
            "run_s": round(device.edit_s, 3),
            "fp16_bytes": round(device.fp16_bytes),
        }
        for name in COMPARED:
            edits: list[Edit] = [known[name](case) for case in every]
            row[name] = figures(edits, num_shards)
        found[f"{100 * mask:g}"] = row
    return found


def draw_masks(folder: Path, found: Mapping[str, Row]) -> tuple[Path, ...]:
    """Write latency, bytes and quality by mask, one picture each, and return their paths."""
    columns = {
        "latency": ("latency_p90", "p90 latency, s", 1.0),
        "bytes": ("bytes", "received, MB an edit", MB),
        "quality": ("psnr_mean", "PSNR against uncompressed state, dB", 1.0),
    }
    return write_plots(
        folder,
        {
            f"streaming-masks-{name}.png": partial(_plot, found=found, column=column)
            for name, column in columns.items()
        },
    )


def print_masks(found: Mapping[str, Row]) -> None:
    print(f"\n{'mask %':>7}{'run s':>7}  {'':24}{'median':>9}{'p90':>9}{'MB':>9}{'dB':>8}")
    for mask, row in found.items():
        for name in COMPARED:
            entry = row[name]
            print(
                f"{mask:>7}{row['run_s']!s:>7}  {name:24}{entry['latency_median']:>9}"
                f"{entry['latency_p90']:>9}{entry['bytes'] / MB:>9.1f}{entry['psnr_mean']:>8}"
            )


def _num_rows(mask: float) -> float:
    return OTHER_TOKENS + (1 - mask) * PICTURE_TOKENS


def _plot(axes: Any, found: Mapping[str, Row], column: tuple[str, str, float]) -> None:
    key, label, unit = column
    masks = [float(mask) for mask in found]
    for name in COMPARED:
        values = [row[name][key] / unit for row in found.values()]
        color = COLORS.get(name, FAINT)
        axes.plot(masks, values, marker="o", color=color, label=name.replace("_", " "))
    if key == "latency_p90":
        runs = [row["run_s"] for row in found.values()]
        axes.plot(masks, runs, color=FAINT, linestyle=":", label="run time alone")
    if key != "psnr_mean":
        axes.set_ylim(bottom=0)
    axes.set_xlabel("mask, % of the picture")
    axes.set_ylabel(label)
    axes.legend(frameon=False, fontsize=8)


def read_masks(texts: Sequence[str]) -> list[float]:
    """Return shares from percentages. Ends the program where one is none."""
    masks = [float(text) / 100 for text in texts]
    if not all(0 < mask < 1 for mask in masks):
        raise SystemExit(f"masks must lie between 0 and 100 %, got {' '.join(texts)}")
    return masks
