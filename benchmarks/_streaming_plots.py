"""The streaming benchmark's pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks._streaming_inputs import Device, Quality
from benchmarks._streaming_simulation import Edit, case_at, methods
from intonaco.quality.streaming_plots import MethodEdits, save_streaming_plots
from intonaco.streaming.traces import Trace

COMPARED = ("ours", "intq", "cachegen", "dense")
ABLATIONS = (
    "rectangle",
    "eight_bits",
    "one_decision_per_edit",
    "no_carry_over",
    "no_early_request",
    "stall_instead_of_cut",
)
NUM_SECONDS = 60

OverTime = tuple[Sequence[float], Sequence[float], Mapping[str, Sequence[float]]]


def over_time(device: Device, quality: Quality, trace: Trace, round_trip_s: float) -> OverTime:
    """Return the latency of an edit at each second of the minute in which the link changes most."""
    first = _liveliest_minute(trace)
    starts = [float(first + second) for second in range(NUM_SECONDS)]
    every = methods(device, quality)
    latencies = {
        name: [
            every[name](case_at(trace, start_s, round_trip_s)).outcome.latency_s
            for start_s in starts
        ]
        for name in COMPARED
    }
    mbps = [trace.mbps[int(start_s)] for start_s in starts]
    return starts, mbps, latencies


def draw(
    folder: Path, every: Mapping[str, Mapping[str, Sequence[Edit]]], times: OverTime
) -> tuple[Path, ...]:
    return save_streaming_plots(
        folder,
        times,
        {
            name: {method: _plain(found) for method, found in edits.items()}
            for name, edits in every.items()
        },
        compared=COMPARED,
        ablations=ABLATIONS,
    )


def _liveliest_minute(trace: Trace) -> int:
    changes = [
        abs(after - before) for before, after in zip(trace.mbps, trace.mbps[1:], strict=False)
    ]
    begins = range(max(1, len(changes) - NUM_SECONDS))
    return max(begins, key=lambda begin: sum(changes[begin : begin + NUM_SECONDS]))


def _plain(edits: Sequence[Edit]) -> MethodEdits:
    outcomes = [edit.outcome for edit in edits]
    num_shards = max((len(each.begins) for each in outcomes), default=1) or 1
    return MethodEdits(
        latencies_s=[each.latency_s for each in outcomes],
        psnr_db=[edit.psnr_db for edit in edits],
        num_bytes=[each.num_bytes for each in outcomes],
        violations=sum(each.num_violations for each in outcomes) / num_shards / len(edits),
        stall_share=sum(each.stall_s for each in outcomes)
        / sum(each.latency_s for each in outcomes),
    )
