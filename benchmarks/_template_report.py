"""Results of all templates to one JSON object and one picture."""

import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks._template_codecs import RATIOS

NAMES = {
    "best": "ours",
    "ladder_shared_all": "ours, rows weighted by attention",
    "ladder_shared_basis": "ladder, shared basis, by attention",
    "ladder": "ladder, nothing shared, by attention",
    "rectangle_with_sensitivity": "best rectangle, by sensitivity",
    "rectangle": "best rectangle",
    "weighted8": "weighted factors, 8 bits",
    "plain8": "plain factors, 8 bits",
    "cachegen": "CacheGen adapted",
    "intq": "integers of 8, 4, 2 bits",
}
LEVELS = ("intq", "cachegen")


def report(results: list[Any], *, plot: Path | None) -> dict[str, Any]:
    """Return means over all edits; a method's levels stand for the ratios that they reach."""
    edits: dict[tuple[str, str], list[Any]] = defaultdict(list)
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for result in results:
        for point in result["points"]:
            place = (point["method"], point["key"])
            edits[place] += point["edits"]
            ratios[place].append(point["ratio"])
    points = {place: _numbers(edits[place], ratios[place]) for place in edits}
    methods: dict[str, Any] = {}
    for method in dict.fromkeys(place[0] for place in points):
        own = {key: numbers for (name, key), numbers in points.items() if name == method}
        at = {key: _at_ratio(own, key) if method in LEVELS else own.get(key) for key in RATIOS}
        methods[method] = {
            name: {key: None if one is None else one[name] for key, one in at.items()}
            for name in ("mask_psnr_db", "worst_mask_psnr_db", "picture_psnr_db", "ssim")
        }
        methods[method]["points"] = own
    if plot is not None:
        draw_frontier(points, plot)
    return {
        "num_templates": len(results),
        "num_edits": sum(len(result["reuse_over_dense"]) for result in results),
        **methods,
        **_gains(methods),
        **_reuse(results),
        "importance": _importance(results),
        "storage": _storage(results),
        "by_mask": _by_mask(results),
    }


def _numbers(edits: list[Any], ratios: list[float]) -> dict[str, float]:
    mask = [one["mask_psnr_db"] for one in edits]
    return {
        "ratio": round(statistics.harmonic_mean(ratios), 2),
        "mask_psnr_db": round(statistics.mean(mask), 2),
        "worst_mask_psnr_db": round(min(mask), 2),
        "picture_psnr_db": round(statistics.mean(one["picture_psnr_db"] for one in edits), 2),
        "ssim": round(statistics.mean(one["ssim"] for one in edits), 5),
        "worst_ssim": round(min(one["ssim"] for one in edits), 5),
    }


def _at_ratio(own: dict[str, Any], key: str) -> Any:
    """Return the best level that is at least as small as asked, None if none is."""
    reached = [one for one in own.values() if one["ratio"] >= 0.99 * RATIOS[key]]
    return max(reached, key=lambda one: one["mask_psnr_db"], default=None)


def _gains(methods: dict[str, Any]) -> dict[str, Any]:
    best = methods["best"]["mask_psnr_db"]
    gains = {
        f"gain_over_{name}_db": {
            key: round(best[key] - other, 2)
            for key, other in methods[name]["mask_psnr_db"].items()
            if other is not None
        }
        for name in ("rectangle", "rectangle_with_sensitivity")
    }
    methods["best"] |= gains
    adaptive, fixed = (methods[name]["mask_psnr_db"] for name in ("rectangle", "weighted8"))
    return {
        "adaptive_bits_over_8_bits_db": {
            key: round(adaptive[key] - fixed[key], 2) for key in RATIOS
        }
    }


def _reuse(results: list[Any]) -> dict[str, Any]:
    values = sorted(one["mask_psnr_db"] for r in results for one in r["reuse_over_dense"])
    return {
        "reuse_over_dense_mask_psnr_db": {
            "median": round(statistics.median(values), 2),
            "mean": round(statistics.mean(values), 2),
            "worst": round(values[0], 2),
        }
    }


def _importance(results: list[Any]) -> dict[str, float]:
    found = {
        name: round(statistics.mean(result["importance"][name] for result in results), 4)
        for name in results[0]["importance"]
    }
    shares = [result["error_shares"]["top_share"] for result in results]
    return {**found, "int2_error_share_of_top_tenth": round(statistics.mean(shares), 4)}


def _storage(results: list[Any]) -> dict[str, float]:
    total = {
        name: sum(result["storage"][name] for result in results) for name in results[0]["storage"]
    }
    ours = total["ours_bytes"]
    return {
        "bytes_per_template": round(ours / len(results)),
        "fp16_over_ours": round(total["fp16_bytes"] / ours, 3),
        "intq_all_widths_over_ours": round(total["intq_all_widths_bytes"] / ours, 3),
        "cachegen_stored_levels_over_ours": round(total["cachegen_stored_levels_bytes"] / ours, 3),
        "encode_cpu_s": round(total["encode_cpu_s"] / len(results), 2),
    }


def _by_mask(results: list[Any]) -> dict[str, Any]:
    """Return the best method's mean per mask size and per task."""
    groups: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for point in result["points"]:
            if point["method"] == "best" and point["key"] in RATIOS:
                for index, edit in enumerate(point["edits"]):
                    task = f"{result['task']} reference" if index % 2 else "text"
                    for name in (f"{result['percent']} %", task):
                        groups[name][point["key"]].append(edit["mask_psnr_db"])
    return {
        name: {key: round(statistics.mean(values), 2) for key, values in rows.items()}
        for name, rows in groups.items()
    }


def draw_frontier(points: dict[tuple[str, str], Any], path: Path) -> None:
    """Draw ratio against PSNR over the mask, mean as a line and the worst edit as a dot."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 5), layout="constrained")
    for method, label in NAMES.items():
        own = sorted(
            (n["ratio"], n["mask_psnr_db"], n["worst_mask_psnr_db"])
            for (name, _), n in points.items()
            if name == method
        )
        if own:
            ratios, means, worst = zip(*own, strict=True)
            style = "-" if method == "best" else "--"
            (line,) = axes.plot(ratios, means, style, marker="o", markersize=4, label=label)
            axes.plot(ratios, worst, ".", color=line.get_color(), alpha=0.4, markersize=5)
    axes.set_xscale("log")
    axes.set_xticks([2, 5, 15, 50, 150], ["2x", "5x", "15x", "50x", "150x"])
    axes.minorticks_off()
    axes.set_xlabel("smaller than float16 by")
    axes.set_ylabel("PSNR over the mask, dB (small dots: worst edit)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
