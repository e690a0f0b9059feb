"""Real streamed edits of the shipped model over an emulated link, beside what the simulator predicts.

    python -m benchmarks.streaming_real [--sides 192 512] [--starts 8] [--traces 5g lte]

A template whose mask leaves a tenth of the picture is built and read from a folder; its bytes come at
a recorded trace's rate (`--synthetic`: at a generated one's), scaled so that state bytes over link
rate over run time are the paper's. Each edit opens the template anew: nothing is kept from the one
before. Methods: ours and those of our ablations that are settings. Edits of all methods take turns with
dense ones and with ones on the uncompressed state in memory, so that a slower minute is slow for all.
`latency_...` is of whole edits, from the request to the picture; `steps_...` without encoders and
decoder, which no template makes shorter: from the first step to the last, waiting included. Dense edits
have a thread per core; a streamed one leaves a core to its stream until the last shard has run.
`dense_one_thread_...` is of dense edits on as many threads as streamed shards have on two cores. Last
line: one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from PIL import Image

import intonaco
from benchmarks._streaming_inputs import KLEIN, ROUND_TRIP_S, TRACE_FILES, traces_for
from benchmarks._streaming_simulation import Case, cases
from benchmarks._streaming_templates import Prepared, prepare
from intonaco.backends.machine import num_cores
from intonaco.device.edit import TemplateSession
from intonaco.device.link import LinkSettings, TemplateLink
from intonaco.device.records import StreamRecord
from intonaco.model import Model
from intonaco.pipelines.picture import Picture
from intonaco.quality.metrics import psnr
from intonaco.streaming.late import LateSettings
from intonaco.streaming.pack_table import table_of
from intonaco.streaming.protocol import EmulatedLink
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.simulate import EditOutcome, simulate_edit
from intonaco.streaming.traces import Trace
from intonaco.template.capture import TemplateState

SEED = 7
HIGHEST_DB = 90.0
# A slice of 16 KiB suits a phone's gigabyte of state; here all state is a few megabytes.
BASE = StreamSettings(round_trip_s=ROUND_TRIP_S, smallest_slice_bytes=2048)
ONE_SHARD = replace(BASE, slice_s=None)
STALL = LateSettings(late="stall")
METHODS = {
    "ours": BASE,
    "one_decision_per_edit": replace(ONE_SHARD, is_per_edit=True, late=STALL),
    "no_early_request": replace(ONE_SHARD, max_requests=1),
    "stall_instead_of_cut": replace(ONE_SHARD, late=STALL),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A model with one template, and what its edits are compared with."""

    model: Model
    one: Prepared
    reference: Image.Image


@dataclass(slots=True, kw_only=True)
class Local:
    """Times of edits without a link: whole edits and their steps, dense and on uncompressed state."""

    dense_s: list[float] = field(default_factory=list[float])
    dense_steps_s: list[float] = field(default_factory=list[float])
    dense_one_thread_s: list[float] = field(default_factory=list[float])
    dense_one_thread_steps_s: list[float] = field(default_factory=list[float])
    exact_s: list[float] = field(default_factory=list[float])
    rest_s: list[float] = field(default_factory=list[float])  # of the latter: what is no step


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """One real edit and its prediction."""

    stream: StreamRecord
    steps_s: float
    psnr_db: float
    predicted: EditOutcome
    predicted_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", type=int, nargs="+", default=[192, 512])
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--traces", nargs="+", choices=list(TRACE_FILES), default=["5g", "lte"])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--synthetic", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(num_cores())
    started = time.perf_counter()
    model = intonaco.load()
    traces = traces_for(tuple(args.traces), is_synthetic=args.synthetic)
    result: dict[str, object] = {"num_starts": args.starts, "round_trip_s": ROUND_TRIP_S}
    for side in args.sides:
        with tempfile.TemporaryDirectory() as folder:
            print(f"building a template of {side} x {side} pixels", flush=True)
            bench = _bench(model, prepare(model, side, Path(folder)))
            result[str(side)] = _run_side(bench, traces, args)
    result["elapsed_s"] = round(time.perf_counter() - started, 1)
    print(json.dumps(result))


def _bench(model: Model, one: Prepared) -> Bench:
    _, drawn = _edit(model, one, one.exact)
    return Bench(model=model, one=one, reference=drawn.image)


def _edit(model: Model, one: Prepared, state: TemplateState | None) -> tuple[float, Picture]:
    began_at = time.perf_counter()
    drawn = model.edit(one.picture, one.mask_HW, prompt=one.prompt, seed=SEED, template_state=state)
    return time.perf_counter() - began_at, drawn


def _take_turn(bench: Bench, local: Local) -> None:
    """Time one edit of each kind that needs no link."""
    seconds, drawn = _edit(bench.model, bench.one, None)
    local.dense_s.append(seconds)
    local.dense_steps_s.append(_steps_s(drawn))
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    seconds, drawn = _edit(bench.model, bench.one, None)
    local.dense_one_thread_s.append(seconds)
    local.dense_one_thread_steps_s.append(_steps_s(drawn))
    torch.set_num_threads(num_threads)
    seconds, drawn = _edit(bench.model, bench.one, bench.one.exact)
    local.exact_s.append(seconds)
    local.rest_s.append(seconds - _steps_s(drawn))


def _steps_s(picture: Picture) -> float:
    return sum(picture.receipt.step_ms) / 1000


def _run_side(
    bench: Bench, traces: dict[str, Trace], args: argparse.Namespace
) -> dict[str, object]:
    scale, edit_s = _link_scale(bench)
    found: dict[str, object] = {
        "float16_bytes": bench.one.packed.manifest.sizes.float16_bytes,
        "shards_s": round(edit_s, 3),
        "link_scale": round(scale, 6),
    }
    for name, trace in traces.items():
        local = Local()
        real: dict[str, list[Real]] = {method: [] for method in args.methods}
        for case in cases(trace.scaled(scale), args.starts, SEED, ROUND_TRIP_S):
            _take_turn(bench, local)
            for method in args.methods:
                real[method].append(
                    _run(bench, METHODS[method], case, statistics.median(local.rest_s))
                )
        figures = {method: _figures(edits, local) for method, edits in real.items()}
        found[name] = figures | {
            "dense_s": round(statistics.median(local.dense_s), 3),
            "dense_steps_s": round(statistics.median(local.dense_steps_s), 3),
            "dense_one_thread_s": round(statistics.median(local.dense_one_thread_s), 3),
            "dense_one_thread_steps_s": round(statistics.median(local.dense_one_thread_steps_s), 3),
            "uncompressed_local_s": round(statistics.median(local.exact_s), 3),
        }
        print(name, json.dumps(found[name]), flush=True)
    return found


def _link_scale(bench: Bench) -> tuple[float, float]:
    """Return by what a trace is multiplied, and the run time of a sparse edit's shards here."""
    with TemplateLink(_url(bench)) as link:
        edit_s = sum(TemplateSession(bench.model, link).times.run_s)
    fp16_bytes = bench.one.packed.manifest.sizes.float16_bytes
    return (fp16_bytes / edit_s) / (KLEIN.fp16_bytes / KLEIN.edit_s), edit_s


def _url(bench: Bench) -> str:
    return bench.one.packed.folder.as_uri()


def _run(bench: Bench, method: StreamSettings, case: Case, rest_s: float) -> Real:
    rate = RateSettings(start_bytes_per_s=case.first_bytes_per_s)
    settings = replace(method, rate=rate)
    emulated = EmulatedLink(
        mbps=case.link.trace.mbps, start_s=case.link.start_s, round_trip_s=ROUND_TRIP_S
    )
    one = bench.one
    with TemplateLink(_url(bench), LinkSettings(emulated=emulated)) as link:
        session = TemplateSession(bench.model, link, settings=settings)
        times = session.times
        edit = session.edit(one.mask_HW, prompt=one.prompt, seed=SEED)
    plan = EditPlan(
        table=table_of(one.packed.manifest),
        run_s=times.run_s,
        reconstruct_s=times.reconstruct_s,
        dense_step_s=times.dense_step_s,
        decode_bytes_per_s=session.times.decode_bytes_per_s,
    )
    predicted = simulate_edit(plan, case.link, settings, encode_s=times.encode_s)
    # The simulator ends with the last block; what comes after it costs a local edit as much.
    after_s = max(0.0, rest_s - times.encode_s)
    quality = psnr(edit.picture.image, bench.reference, mask_HW=one.mask_HW)
    return Real(
        stream=edit.stream,
        steps_s=_steps_s(edit.picture),
        psnr_db=min(HIGHEST_DB, quality),
        predicted=predicted,
        predicted_s=predicted.latency_s + after_s,
    )


def _figures(real: list[Real], local: Local) -> dict[str, object]:
    """Return real figures, and the simulator's for the same starts (`predicted_...`)."""
    seconds = sorted(one.stream.seconds for one in real)
    dense_s, dense_steps_s = map(statistics.median, (local.dense_s, local.dense_steps_s))
    one_thread_s = statistics.median(local.dense_one_thread_s)
    one_thread_steps_s = statistics.median(local.dense_one_thread_steps_s)
    steps_s = statistics.median(one.steps_s for one in real)
    predicted = sorted(one.predicted_s for one in real)
    coded = [one.psnr_db for one in real if one.stream.dense_from_step is None]
    flags = [one.stream.flag for one in real]
    return {
        "latency_median": round(statistics.median(seconds), 3),
        "latency_p90": round(seconds[int(0.9 * (len(seconds) - 1))], 3),
        "latency_max": round(seconds[-1], 3),
        "median_speedup_over_dense": round(dense_s / statistics.median(seconds), 3),
        "steps_median": round(steps_s, 3),
        "steps_median_speedup_over_dense": round(dense_steps_s / steps_s, 3),
        "median_speedup_over_dense_one_thread": round(one_thread_s / statistics.median(seconds), 3),
        "steps_median_speedup_over_dense_one_thread": round(one_thread_steps_s / steps_s, 3),
        "stall_share": round(sum(one.stream.stall_s for one in real) / sum(seconds), 4),
        "predicted_latency_median": round(statistics.median(predicted), 3),
        "predicted_stall_share": round(
            sum(one.predicted.stall_s for one in real) / sum(predicted), 4
        ),
        "bytes": round(statistics.mean(one.stream.received_bytes for one in real)),
        "used_bytes": round(statistics.mean(one.stream.state_bytes for one in real)),
        "predicted_bytes": round(statistics.mean(one.predicted.num_bytes for one in real)),
        "psnr_mean": round(statistics.mean(coded), 2) if coded else None,
        "psnr_worst": round(min(coded), 2) if coded else None,
        "flags": {flag: flags.count(flag) for flag in sorted(set(flags))},
    }


if __name__ == "__main__":
    main()
