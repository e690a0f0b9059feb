"""Does an edit wait for its link, and what is its picture worth? Every method over recorded traces.

    python -m benchmarks.streaming                    # simulation at FLUX.2-klein's size
    python -m benchmarks.streaming --masks            # instead: by the size of the mask, over 5G
    python -m benchmarks.streaming --device shipped   # at the shipped model's, link scaled to it

Simulated times are not times of this machine. The last line is one JSON object.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._streaming_inputs import (
    KLEIN,
    QUALITY_FILE,
    ROUND_TRIP_S,
    TRACE_FILES,
    Device,
    Quality,
    load_quality,
    shipped_device,
    traces_for,
)
from benchmarks._streaming_masks import draw_masks, print_masks, read_masks, sweep
from benchmarks._streaming_plots import draw, over_time
from benchmarks._streaming_simulation import (
    Case,
    Edit,
    cases,
    figures,
    methods,
    oracle_share,
    outage_stall,
    settings_of,
    streamed,
)
from intonaco.streaming.traces import Trace

Result = dict[str, Any]
MASKS = ("5", "10", "20", "30", "40", "50")
REQUIRED = ("ours", "dense", "intq", "cachegen", "cachegen_stored_levels")


def main() -> None:
    args = _arguments()
    started = time.perf_counter()
    quality = load_quality(args.quality)
    device = KLEIN if args.device == "klein" else shipped_device(args.edit_s, args.dense_s)
    if args.decode_mb_s is not None:
        device = replace(device, decode_bytes_per_s=1e6 * args.decode_mb_s)
    traces = traces_for(tuple(args.traces), is_synthetic=args.synthetic)
    result: Result = {
        "device": device.name,
        "link_scale": device.link_scale,
        "quality_from": quality.source,
        "error_share_by_step": quality.step_shares,
        "round_trip_s": args.round_trip_s,
        "num_starts": args.starts,
        "decode_bytes_per_s": device.decode_bytes_per_s,
    }
    if args.masks is not None:
        _by_mask(quality, traces, args)
        return
    every: dict[str, dict[str, list[Edit]]] = {}
    for name, trace in traces.items():
        result[name], every[name] = _over_trace(device, quality, trace, args)
        _print_table(name, trace, result[name])
    if args.plots:
        first = next(iter(traces.values())).scaled(device.link_scale)
        paths = draw(args.plots, every, over_time(device, quality, first, args.round_trip_s))
        print("\n".join(str(path) for path in paths))
    result["elapsed_s"] = round(time.perf_counter() - started, 1)
    print(json.dumps(result))


def _by_mask(quality: Quality, traces: dict[str, Trace], args: argparse.Namespace) -> None:
    """Print, and draw, figures by mask over the first trace."""
    name, trace = next(iter(traces.items()))
    every = cases(trace, args.starts, args.seed, args.round_trip_s)
    found = sweep(quality, every, read_masks(args.masks or MASKS))
    print_masks(found)
    if args.plots:
        print("\n".join(str(path) for path in draw_masks(args.plots, found)))
    print(json.dumps({"trace": name, "by_mask": found, "num_starts": args.starts}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["klein", "shipped"], default="klein")
    parser.add_argument("--edit-s", type=float, default=0.26, help="shipped: run time of an edit")
    parser.add_argument("--dense-s", type=float, default=0.48, help="shipped: of a dense run")
    parser.add_argument("--decode-mb-s", type=float, help="of a decoder beside the run")
    parser.add_argument(
        "--masks", nargs="*", help="instead: klein at these mask sizes, percent", default=None
    )
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--round-trip-s", type=float, default=ROUND_TRIP_S)
    parser.add_argument("--quality", type=Path, default=QUALITY_FILE)
    parser.add_argument("--traces", nargs="+", choices=list(TRACE_FILES), default=[*TRACE_FILES])
    parser.add_argument("--synthetic", action="store_true", help="links of the same kinds, made up")
    parser.add_argument("--methods", nargs="+", help="these, and what ours is compared with")
    parser.add_argument("--no-oracle", action="store_true")
    parser.add_argument("--plots", type=Path, help="folder for PNGs")
    return parser.parse_args()


def _over_trace(
    device: Device, quality: Quality, trace: Trace, args: argparse.Namespace
) -> tuple[Result, dict[str, list[Edit]]]:
    """Return the figures of one trace, and the edits of each method that they are of."""
    every = cases(trace.scaled(device.link_scale), args.starts, args.seed, args.round_trip_s)
    num_shards = device.num_steps * len(device.groups)
    edits: dict[str, list[Edit]] = {}
    for name, method in methods(device, quality).items():
        if args.methods is None or name in args.methods or name in REQUIRED:
            edits[name] = [method(case) for case in every]
    result: Result = {name: figures(found, num_shards) for name, found in edits.items()}
    if args.methods is None or "ours_with_1s_head_start" in args.methods:
        early = streamed(
            device.our_plan(quality.curves["best"]),
            settings_of(device),
            encode_s=device.encode_s,
            head_start_s=1.0,
            step_shares=quality.shares_of(device),
        )
        result["ours_with_1s_head_start"] = figures([early(case) for case in every], num_shards)
    has_oracle = not args.no_oracle
    result |= _compared(result)
    result |= _bounds(device, quality, every, edits["ours"], has_oracle)
    return result, edits


def _bounds(
    device: Device, quality: Quality, every: list[Case], ours: list[Edit], has_oracle: bool
) -> Result:
    """Return what no method could do without, and how near ours came to what none could exceed."""
    plan, step_shares = device.our_plan(quality.curves["best"]), quality.shares_of(device)
    stall = outage_stall(plan, every, ours, encode_s=device.encode_s)
    found: Result = {"stall_share_of_floors_alone": stall}
    # The oracle knows the link, not the decoder.
    if has_oracle and device.decode_bytes_per_s is None:
        found |= oracle_share(plan, every, ours, step_shares)
    return found


def _compared(result: Result) -> Result:
    """Return ours against each baseline, as the paper compares."""
    ours = result["ours"]
    compared: Result = {
        "stall_share": ours["stall_share"],
        "deadline_violations": ours["deadline_violations"],
    }
    for name in ("intq", "cachegen", "cachegen_stored_levels"):
        other = result[name]
        compared[f"p90_reduction_over_{name}"] = round(
            1 - ours["latency_p90"] / other["latency_p90"], 4
        )
        compared[f"psnr_gain_over_{name}_db"] = round(ours["psnr_mean"] - other["psnr_mean"], 2)
        compared[f"bytes_saved_over_{name}"] = round(1 - ours["bytes"] / other["bytes"], 4)
    dense = result["dense"]
    compared["p90_reduction_over_dense"] = round(1 - ours["latency_p90"] / dense["latency_p90"], 4)
    compared["median_speedup_over_dense"] = round(
        dense["latency_median"] / ours["latency_median"], 3
    )
    return compared


def _print_table(name: str, trace: Trace, result: Result) -> None:
    print(f"\n{name}: {trace.name}")
    columns = (
        "latency_median",
        "latency_p90",
        "stall_share",
        "deadline_violations",
        "psnr_mean",
        "psnr_worst",
        "bytes",
    )
    print(f"{'':26}" + "".join(f"{column.split('_share')[0][:15]:>17}" for column in columns))
    for method, entry in result.items():
        if isinstance(entry, dict):
            print(f"{method:26}" + "".join(f"{entry[column]!s:>17}" for column in columns))
    for key, value in result.items():
        if not isinstance(value, dict):
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
