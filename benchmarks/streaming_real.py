"""Real streamed edits of the shipped model over an emulated link, beside what the simulator predicts.

    python -m benchmarks.streaming_real [--starts 8] [--traces 5g lte]

A template is built and read from a folder; its bytes come at a recorded trace's rate, scaled so that
state bytes over link rate over run time are the paper's. Each edit opens the template anew, so nothing
is kept from the one before. Last line: one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import intonaco
from benchmarks._streaming_inputs import KLEIN, ROUND_TRIP_S, TRACE_FILES, load_traces
from benchmarks._streaming_simulation import Case, cases
from benchmarks.streaming_quality import TEMPLATE_SEED, Prepared, prepare
from intonaco.device.edit import TemplateSession
from intonaco.device.link import LinkSettings, TemplateLink
from intonaco.device.records import StreamRecord
from intonaco.model import Model
from intonaco.quality.metrics import psnr
from intonaco.streaming.pack_table import table_of
from intonaco.streaming.protocol import EmulatedLink
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.simulate import EditOutcome, simulate_edit
from models.captions import caption
from models.world import CLOTHES, doll_of, wear

SEED = 7
HIGHEST_DB = 90.0
# A slice of 16 KiB suits a phone's gigabyte of state; here all state is a few megabytes.
SMALLEST_SLICE_BYTES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """One real edit and its prediction."""

    stream: StreamRecord
    psnr_db: float
    predicted: EditOutcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--traces", nargs="+", choices=list(TRACE_FILES), default=["5g", "lte"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    started = time.perf_counter()
    model = intonaco.load()
    result: dict[str, object] = {"num_starts": args.starts, "round_trip_s": ROUND_TRIP_S}
    with tempfile.TemporaryDirectory() as folder:
        one = prepare(model, TEMPLATE_SEED, Path(folder) / "catalog", num_profiling=1)
        prompt = caption(wear(one.doll, doll_of(TEMPLATE_SEED + 700), CLOTHES))
        dense_s = min(_time_dense(model, one, prompt) for _ in range(3))
        scale, edit_s = _link_scale(model, one)
        result |= {
            "dense_s": round(dense_s, 3),
            "edit_s": round(edit_s, 3),
            "link_scale": round(scale, 6),
        }
        for name, trace in load_traces(tuple(args.traces)).items():
            every = cases(trace.scaled(scale), args.starts, SEED, ROUND_TRIP_S)
            real = [_run(model, one, prompt, case) for case in every]
            result[name] = _figures(real, dense_s)
            print(name, json.dumps(result[name]), flush=True)
    result["elapsed_s"] = round(time.perf_counter() - started, 1)
    print(json.dumps(result))


def _time_dense(model: Model, one: Prepared, prompt: str) -> float:
    began_at = time.perf_counter()
    model.edit(one.picture, one.mask, prompt=prompt, seed=SEED)
    return time.perf_counter() - began_at


def _link_scale(model: Model, one: Prepared) -> tuple[float, float]:
    """Return by what a trace is multiplied, and the run time of a sparse edit here."""
    with TemplateLink(_url(one)) as link:
        edit_s = sum(TemplateSession(model, link).times.run_s)
    fp16_bytes = one.packed.manifest.sizes.float16_bytes
    return (fp16_bytes / edit_s) / (KLEIN.fp16_bytes / KLEIN.edit_s), edit_s


def _url(one: Prepared) -> str:
    return one.packed.folder.as_uri()


def _run(model: Model, one: Prepared, prompt: str, case: Case) -> Real:
    settings = StreamSettings(
        round_trip_s=ROUND_TRIP_S,
        smallest_slice_bytes=SMALLEST_SLICE_BYTES,
        rate=RateSettings(start_bytes_per_s=case.first_bytes_per_s),
    )
    reference = model.edit(
        one.picture, one.mask, prompt=prompt, seed=SEED, template_state=one.exact
    ).image
    emulated = EmulatedLink(
        mbps=case.link.trace.mbps, start_s=case.link.start_s, round_trip_s=ROUND_TRIP_S
    )
    with TemplateLink(_url(one), LinkSettings(emulated=emulated)) as link:
        session = TemplateSession(model, link, settings=settings)
        times = session.times
        edit = session.edit(one.mask, prompt=prompt, seed=SEED)
    plan = EditPlan(
        table=table_of(one.packed.manifest),
        run_s=times.run_s,
        reconstruct_s=times.reconstruct_s,
        dense_step_s=times.dense_step_s,
    )
    predicted = simulate_edit(plan, case.link, settings, encode_s=times.encode_s)
    mask_HW = np.asarray(one.mask) > 127
    quality = psnr(edit.picture.image, reference, mask_HW=mask_HW)
    return Real(stream=edit.stream, psnr_db=min(HIGHEST_DB, quality), predicted=predicted)


def _figures(real: list[Real], dense_s: float) -> dict[str, object]:
    """Return real figures, and the simulator's for the same starts (`predicted_...`)."""
    seconds = sorted(one.stream.seconds for one in real)
    predicted = sorted(one.predicted.latency_s for one in real)
    return {
        "latency_median": round(statistics.median(seconds), 3),
        "latency_max": round(seconds[-1], 3),
        "median_speedup_over_dense": round(dense_s / statistics.median(seconds), 3),
        "stall_share": round(sum(one.stream.stall_s for one in real) / sum(seconds), 4),
        "predicted_latency_median": round(statistics.median(predicted), 3),
        "predicted_stall_share": round(
            sum(one.predicted.stall_s for one in real) / sum(predicted), 4
        ),
        "bytes": round(statistics.mean(one.stream.received_bytes for one in real)),
        "predicted_bytes": round(statistics.mean(one.predicted.num_bytes for one in real)),
        "psnr_mean": round(statistics.mean(one.psnr_db for one in real), 2),
        "psnr_worst": round(min(one.psnr_db for one in real), 2),
        "flags": sorted({one.stream.flag for one in real}),
    }


if __name__ == "__main__":
    main()
