"""The plots of streamed edits: latency over time, its distribution, bytes against quality, stalls.

Takes plain numbers; needs the extra `quality` (matplotlib). The forms follow figures 11, 12, 15, 17,
20 and 21 of the SAKURA paper, so that they can be laid beside them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from intonaco.quality.plotting import FAINT, INK, MARK, SECOND, write_plots

COLORS = {
    "ours": MARK,
    "intq": SECOND,
    "cachegen": "#7d8c3a",
    "dense": INK,
    "rectangle": "#c77d2e",
    "eight_bits": "#8a6fb0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEdits:
    """One method over one trace, edit by edit; PSNR is None where nothing was compressed."""

    latencies_s: Sequence[float]
    psnr_db: Sequence[float | None]
    num_bytes: Sequence[int]
    violations: float
    stall_share: float


Edits = Mapping[str, MethodEdits]


def save_streaming_plots(
    folder: Path,
    over_time: tuple[Sequence[float], Sequence[float], Mapping[str, Sequence[float]]],
    by_trace: Mapping[str, Edits],
    *,
    compared: Sequence[str],
    ablations: Sequence[str],
) -> tuple[Path, ...]:
    """Write the plots into `folder` and return their paths.

    Args:
        over_time: start times in s, the link's Mbit/s there, and each method's latencies in s.
        by_trace: per trace and method, all edits.
        compared, ablations: names of methods to draw against each other.

    Raises UnsupportedError without matplotlib, SaveError where the folder cannot be written.
    """
    first = next(iter(by_trace.values()))
    drawings: dict[str, Callable[[Any], None]] = {
        "streaming-over-time.png": partial(_plot_over_time, over_time=over_time),
        "streaming-latency.png": partial(_plot_distribution, edits=first, names=compared),
        "streaming-bytes.png": partial(
            _plot_bytes,
            edits=first,
            names=[name for name in (*compared, *ablations) if name in COLORS],
        ),
        "streaming-traces.png": partial(_plot_traces, by_trace=by_trace, names=compared),
        "streaming-violations.png": partial(
            _plot_violations, edits=first, names=("ours", *ablations)
        ),
        "streaming-bits.png": partial(_plot_quality, edits=first, names=("ours", *ablations)),
    }
    return write_plots(folder, drawings)


def _seconds(axis: Any) -> None:
    """A logarithmic axis of seconds with plain numbers."""
    ticks = (1, 2, 3, 5, 10, 20, 50, 100, 200)
    axis.set_major_locator(_ticker().FixedLocator(ticks))
    axis.set_major_formatter(_ticker().StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(_ticker().NullLocator())


def _ticker() -> Any:
    import matplotlib.ticker

    return matplotlib.ticker


def _color(name: str) -> str:
    return COLORS.get(name, FAINT)


def _label(name: str) -> str:
    return name.replace("_", " ")


def _plot_over_time(
    axes: Any, over_time: tuple[Sequence[float], Sequence[float], Mapping[str, Sequence[float]]]
) -> None:
    starts_s, mbps, latencies = over_time
    rate = axes.twinx()
    rate.spines[["top"]].set_visible(False)
    rate.fill_between(starts_s, mbps, color=FAINT, alpha=0.35, step="post", linewidth=0)
    rate.set_ylabel("link, Mbit/s")
    for name, values in latencies.items():
        axes.plot(starts_s, values, color=_color(name), label=_label(name), linewidth=1.6)
    axes.set_zorder(rate.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.set_xlabel("start of the edit in the trace, s")
    axes.set_ylabel("latency, s")
    axes.set_yscale("log")
    _seconds(axes.yaxis)
    axes.legend(frameon=False, ncols=len(latencies), loc="lower left", bbox_to_anchor=(0, 1))


def _plot_distribution(axes: Any, edits: Edits, names: Sequence[str]) -> None:
    for name in names:
        ordered = sorted(edits[name].latencies_s)
        shares = [(rank + 1) / len(ordered) for rank in range(len(ordered))]
        axes.step(ordered, shares, where="post", color=_color(name), label=_label(name))
    axes.axhline(0.9, color=FAINT, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    _seconds(axes.xaxis)
    axes.set_xlabel("latency, s")
    axes.set_ylabel("share of edits")
    axes.legend(frameon=False, loc="lower right")


def _plot_bytes(axes: Any, edits: Edits, names: Sequence[str]) -> None:
    for name in names:
        points = [
            (num_bytes / 1e6, psnr)
            for num_bytes, psnr in zip(edits[name].num_bytes, edits[name].psnr_db, strict=True)
            if psnr is not None and num_bytes > 0
        ]
        if points:
            axes.scatter(
                *zip(*points, strict=True),
                s=12,
                color=_color(name),
                label=_label(name),
                alpha=0.7,
                linewidths=0,
            )
    axes.set_xscale("log")
    axes.set_xlabel("received, MB an edit")
    axes.set_ylabel("PSNR against uncompressed state, dB")
    axes.legend(frameon=False, fontsize=8)


def _plot_traces(axes: Any, by_trace: Mapping[str, Edits], names: Sequence[str]) -> None:
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        places = [place + index * width for place in range(len(by_trace))]
        p90 = [_at(edits[name].latencies_s, 0.9) for edits in by_trace.values()]
        median = [_at(edits[name].latencies_s, 0.5) for edits in by_trace.values()]
        axes.bar(places, p90, width, color=_color(name), alpha=0.35)
        axes.bar(places, median, width, color=_color(name), label=_label(name))
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(by_trace))], list(by_trace))
    axes.set_yscale("log")
    _seconds(axes.yaxis)
    axes.set_ylabel("latency, s: median (full) and p90 (pale)")
    axes.legend(frameon=False)


def _plot_violations(axes: Any, edits: Edits, names: Sequence[str]) -> None:
    places = range(len(names))
    axes.bar(
        [place - 0.2 for place in places],
        [100 * edits[name].violations for name in names],
        0.4,
        color=SECOND,
        label="shards that were late, %",
    )
    axes.bar(
        [place + 0.2 for place in places],
        [100 * edits[name].stall_share for name in names],
        0.4,
        color=MARK,
        label="time spent waiting, %",
    )
    axes.set_xticks(list(places), [_label(name) for name in names], rotation=20, ha="right")
    axes.legend(frameon=False)


def _plot_quality(axes: Any, edits: Edits, names: Sequence[str]) -> None:
    kept = [[psnr for psnr in edits[name].psnr_db if psnr is not None] for name in names]
    axes.boxplot(kept, whis=(10, 90), showfliers=False, medianprops={"color": MARK})
    axes.set_xticks(
        range(1, len(names) + 1), [_label(name) for name in names], rotation=20, ha="right"
    )
    axes.set_ylabel("PSNR, dB: quartiles, 10 % and 90 %")


def _at(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
