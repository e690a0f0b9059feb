"""The plots of a template: its sizes, spectra, importance map and frontier, and a page of them all.

Takes plain numbers and pictures; needs the extra `quality` (matplotlib).
Shape letters: H x W pixels, Y x X tokens.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from intonaco.quality.plotting import MARK, SECOND, encode_plot

PART_COLORS = ("#2f6690", "#e84855", "#c99700", "#4f8a5b", "#7a5195", "#b9aea1")
RATIO_TICKS = (5, 15, 50, 150)
OVERLAY_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """What some budgets buy: bytes of state read, and signal over error of keys and values in dB.

    The error is against the whole pack, so the whole pack itself has no point.
    """

    num_bytes: Sequence[int]
    key_snr_db: Sequence[float]
    value_snr_db: Sequence[float]
    float16_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """Share of a block's energy left after 0, 1, 2, ... components, for keys and for values."""

    block: int
    keys: Sequence[float]
    values: Sequence[float]


def plot_sizes(part_bytes: Mapping[str, Sequence[int]]) -> bytes:
    """Return a PNG of what the bytes of each block group hold: part -> bytes per block group."""

    def draw(axes: Any) -> None:
        num_groups = max(len(sizes) for sizes in part_bytes.values())
        left = np.zeros(num_groups)
        for color, (part, sizes) in zip(cycle(PART_COLORS), part_bytes.items(), strict=False):
            widths = np.asarray(sizes) / 1000
            axes.barh(range(num_groups), widths, left=left, color=color, label=part)
            left = left + widths
        axes.set_yticks(range(num_groups), [f"group {group}" for group in range(num_groups)])
        axes.invert_yaxis()
        axes.set(xlabel="kB, whole files")
        axes.legend(frameon=False, fontsize=8, ncols=len(part_bytes), loc="lower right")
        axes.margins(y=0.25)

    return encode_plot(draw)


def plot_spectra(spectra: Sequence[Spectrum]) -> bytes:
    """Return a PNG of how fast components use up the energy of keys and values, block by block."""

    def draw(axes: Any) -> None:
        for index, spectrum in enumerate(spectra):
            fade = 0.25 + 0.75 * (index + 1) / len(spectra)
            for shares, color in ((spectrum.keys, SECOND), (spectrum.values, MARK)):
                axes.semilogy(range(len(shares)), shares, color=color, alpha=fade, lw=1)
        axes.set(
            xlabel="components", ylabel="share of energy left", ylim=(1e-5, 1.05),
            title="keys blue, values red; later blocks darker",
        )  # fmt: skip

    return encode_plot(draw)


def plot_frontier(frontier: Frontier) -> bytes:
    """Return a PNG of bytes against quality of the state; the upper axis is the compression."""

    def draw(axes: Any) -> None:
        thousands = np.asarray(frontier.num_bytes) / 1000
        axes.plot(thousands, frontier.key_snr_db, "o-", color=SECOND, ms=3, label="keys")
        axes.plot(thousands, frontier.value_snr_db, "o-", color=MARK, ms=3, label="values")
        axes.set_xscale("log")
        axes.set(xlabel="kB of state read", ylabel="signal over error, dB, against the whole pack")
        axes.legend(frameon=False, fontsize=8)
        full = frontier.float16_bytes / 1000

        def invert(size: NDArray[np.float64]) -> NDArray[np.float64]:
            return full / np.maximum(size, 1e-9)

        upper = axes.secondary_xaxis("top", functions=(invert, invert))
        upper.set_xlabel("times smaller than float16")
        upper.set_xticks(RATIO_TICKS, [str(ratio) for ratio in RATIO_TICKS])
        upper.minorticks_off()

    return encode_plot(draw)


def draw_importance(picture: Image.Image, importance_YX: NDArray[np.float64]) -> Image.Image:
    """Return the picture with each token tinted by its importance; NaN marks edited tokens.

    Importance is shown by rank-free scaling: its square root over the largest, so that the many
    small values can be told apart.
    """
    known = np.nan_to_num(importance_YX, nan=0.0)
    strength_YX = np.sqrt(known / max(float(known.max()), np.finfo(np.float64).tiny))
    height, width = importance_YX.shape
    tall, wide = picture.height // height, picture.width // width
    spread = np.ones((tall, wide))
    strength_HW = np.kron(strength_YX, spread)[..., None]
    is_edited_HW = np.kron(np.isnan(importance_YX), spread).astype(bool)[..., None]
    grey = np.asarray(picture.convert("L").convert("RGB"), dtype=np.float64)
    pale = 0.5 * grey + 127.5
    tint = np.array([232, 72, 85], dtype=np.float64)
    shown = pale + OVERLAY_SHARE * strength_HW * (tint - pale)
    shown = np.where(is_edited_HW, 0.35 * grey + 0.65 * 255, shown)
    return Image.fromarray(shown.round().clip(0, 255).astype(np.uint8))


def page(title: str, facts: Mapping[str, str], pictures: Mapping[str, bytes]) -> str:
    """Return one HTML page that holds everything: facts as a table, PNGs under their captions."""
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    figures = "".join(
        f"<figure><figcaption>{html.escape(caption)}</figcaption>"
        f'<img alt="{html.escape(caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(content).decode()}"></figure>'
        for caption, content in pictures.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font:15px system-ui;margin:2rem auto;max-width:60rem;color:#2b2622;"
        "background:#faf7f2}table{border-collapse:collapse;margin:1rem 0}"
        "th{text-align:left;font-weight:600;padding:.2rem 1.5rem .2rem 0;vertical-align:top}"
        "figure{margin:1.5rem 0}figcaption{margin-bottom:.4rem}img{max-width:100%}</style>"
        f"<h1>{html.escape(title)}</h1><table>{rows}</table>{figures}</html>\n"
    )
