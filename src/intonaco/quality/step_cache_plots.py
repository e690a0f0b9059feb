"""The plots of a calibration: how scores predict changes, where steps are cached, what it costs.

Takes plain numbers; needs the extra `quality` (matplotlib).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from intonaco.quality.plotting import FAINT, MARK, SECOND, write_plots


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Valid pairs of score and change, and the fitted curve as points; empty without a probe."""

    scores: Sequence[float]
    changes: Sequence[float]
    curve: Sequence[tuple[float, float]]
    r2_held_out: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlottedMode:
    """One mode: how often each step was cached (shares), its ceiling and PSNR."""

    name: str
    cached_shares: Sequence[float]
    ceiling: float
    psnr_mean_db: float
    psnr_worst_db: float


def save_plots(
    folder: Path,
    signals: Signals,
    modes: Sequence[PlottedMode],
    fewer: Sequence[tuple[float, float]],
) -> tuple[Path, ...]:
    """Write fit.png, skips.png and quality.png; `fewer` is (ceiling, PSNR) of fewer steps.

    Raises UnsupportedError without matplotlib, SaveError where the folder cannot be written.
    """
    drawings: dict[str, Callable[[Any], None]] = {
        "fit.png": partial(_plot_fit, signals=signals),
        "skips.png": partial(_plot_skips, modes=modes),
        "quality.png": partial(_plot_quality, modes=modes, fewer=fewer),
    }
    return write_plots(folder, drawings)


def _plot_fit(axes: Any, signals: Signals) -> None:
    axes.scatter(signals.scores, signals.changes, s=8, color=FAINT)
    if signals.curve:
        xs, ys = zip(*signals.curve, strict=True)
        axes.plot(xs, ys, color=MARK)
    r2 = (
        "no usable score"
        if signals.r2_held_out is None
        else f"R² {signals.r2_held_out:.2f} held out"
    )
    axes.set(xlabel="change score of the probe", ylabel="relative change of the output", title=r2)


def _plot_skips(axes: Any, modes: Sequence[PlottedMode]) -> None:
    num_steps = max((len(mode.cached_shares) for mode in modes), default=1)
    image = [list(mode.cached_shares) for mode in modes] or [[0.0]]
    axes.imshow(image, aspect="auto", cmap="Reds", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(modes)), [mode.name for mode in modes], fontsize=7)
    axes.set(xlabel=f"step of {num_steps}", title="share of prompts that cache a step")


def _plot_quality(
    axes: Any, modes: Sequence[PlottedMode], fewer: Sequence[tuple[float, float]]
) -> None:
    ordered = sorted(fewer)
    axes.plot(
        *zip(*ordered, strict=True), "o-", color=FAINT, label="fewer steps"
    ) if ordered else None
    for mode in modes:
        axes.plot([mode.ceiling] * 2, [mode.psnr_worst_db, mode.psnr_mean_db], color=FAINT, lw=1)
    axes.scatter(
        [m.ceiling for m in modes], [m.psnr_mean_db for m in modes], s=22, color=SECOND,
        label="step cache: mean, and line to the worst prompt",
    )  # fmt: skip
    axes.set(xlabel="steps / denoiser calls", ylabel="PSNR against every step full, dB")
    axes.legend(frameon=False, fontsize=8)
