"""Simulated edits of every method over one trace, and their figures."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks._streaming_inputs import (
    BORROWED_PSNR_DB,
    ENCODE_S,
    ROUND_TRIP_S,
    Device,
    Quality,
)
from intonaco.streaming.late import LateSettings
from intonaco.streaming.link import LinkModel
from intonaco.streaming.methods import (
    FixedCode,
    choose_fixed,
    simulate_dense,
    simulate_fixed,
    simulate_token_chunks,
)
from intonaco.streaming.oracle import Oracle
from intonaco.streaming.quality_curve import edit_error, error_of, psnr_of
from intonaco.streaming.rate import RateSettings
from intonaco.streaming.settings import EditPlan, StreamSettings
from intonaco.streaming.simulate import EditOutcome, simulate_edit
from intonaco.streaming.traces import Trace

NUM_TOKEN_CHUNKS = 4
PROBE_S = 0.25
SLOWEST_START = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One simulated edit. `psnr_db` is None where it ran dense or fetched everything."""

    outcome: EditOutcome
    psnr_db: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One edit to simulate: a start point of a trace, and the rate that was just seen there."""

    link: LinkModel
    first_bytes_per_s: float


Method = Callable[[Case], Edit]


def cases(trace: Trace, num_starts: int, seed: int, round_trip_s: float) -> list[Case]:
    """Return edits from random start points."""
    random_numbers = random.Random(seed)
    starts = [random_numbers.uniform(0, trace.num_seconds) for _ in range(num_starts)]
    return [case_at(trace, start_s, round_trip_s) for start_s in starts]


def case_at(trace: Trace, start_s: float, round_trip_s: float) -> Case:
    """Return an edit that starts at `start_s` of a trace.

    The rate before the edit is that of the trace's last quarter of a second: a device has just
    fetched manifest and latents. Every method is told the same.
    """
    # One round of the trace later, so that what lies before the start is there.
    begin = start_s + trace.num_seconds
    seen = trace.bytes_until(begin) - trace.bytes_until(begin - PROBE_S)
    return Case(
        link=LinkModel(trace=trace, start_s=begin, round_trip_s=round_trip_s),
        first_bytes_per_s=max(SLOWEST_START, seen / PROBE_S),
    )


def our_plan(device: Device, quality: Quality) -> EditPlan:
    """Return the plan of our code: one file per block group, which all steps share."""
    return device.plan(quality.curves["best"], shared=1.0, step_shares=quality.step_shares)


def methods(device: Device, quality: Quality) -> dict[str, Method]:
    """Return every method by the name of its key."""
    best = our_plan(device, quality)
    shares = quality.step_shares
    rectangle = device.plan(quality.curves["rectangle"], shared=0.0, step_shares=shares)
    weighted8 = device.plan(quality.curves["weighted8"], shared=0.0, step_shares=shares)
    per_step = device.plan(
        quality.curves["ladder_shared_basis_sensitivity"],
        shared=device.basis_share,
        step_shares=shares,
    )
    settings = StreamSettings(round_trip_s=ROUND_TRIP_S)
    one_shard = replace(settings, slice_s=None)
    stall = LateSettings(late="stall")
    return {
        "ours": streamed(best, settings),
        "dense": lambda case: Edit(outcome=simulate_dense(best, encode_s=ENCODE_S), psnr_db=None),
        "full": lambda case: Edit(
            outcome=simulate_fixed(best, case.link, encode_s=ENCODE_S, num_bytes=device.fp16_bytes),
            psnr_db=None,
        ),
        "intq": lambda case: _intq(case, device, best, quality),
        "cachegen": lambda case: _cachegen(case, device, best, quality.codes["cachegen"]),
        "cachegen_stored_levels": lambda case: _cachegen(
            case, device, best, quality.codes["cachegen_stored_levels"]
        ),
        "coefficients_per_step": streamed(per_step, settings),
        "rectangle": streamed(rectangle, settings),
        "eight_bits": streamed(weighted8, settings),
        "one_decision_per_edit": streamed(best, replace(one_shard, is_per_edit=True, late=stall)),
        "no_carry_over": streamed(best, replace(settings, has_carry_over=False)),
        "no_early_request": streamed(best, replace(one_shard, max_requests=1)),
        "stall_instead_of_cut": streamed(best, replace(one_shard, late=stall)),
    }


def streamed(
    plan: EditPlan,
    settings: StreamSettings,
    *,
    encode_s: float = ENCODE_S,
    head_start_s: float = 0.0,
) -> Method:
    """Return the method that streams from this plan's table.

    With a head start the stream begins that long before the request, while its words are typed.
    """

    def run(case: Case) -> Edit:
        rate = RateSettings(start_bytes_per_s=case.first_bytes_per_s)
        outcome = simulate_edit(
            plan, case.link, replace(settings, rate=rate), encode_s=encode_s + head_start_s
        )
        outcome = replace(outcome, latency_s=outcome.latency_s - head_start_s)
        error = edit_error(
            plan.table,
            outcome.levels,
            borrowed_error=error_of(BORROWED_PSNR_DB) / plan.table.num_shards,
        )
        is_streamed = outcome.dense_from_step is None
        return Edit(outcome=outcome, psnr_db=psnr_of(error) if is_streamed else None)

    return run


def _intq(case: Case, device: Device, plan: EditPlan, quality: Quality) -> Edit:
    code = choose_fixed(
        quality.codes["intq"],
        fp16_bytes=device.fp16_bytes,
        bytes_per_s=case.first_bytes_per_s,
        window_s=device.edit_s,
    )
    outcome = simulate_fixed(
        plan, case.link, encode_s=ENCODE_S, num_bytes=device.fp16_bytes / code.ratio
    )
    return Edit(outcome=outcome, psnr_db=code.psnr_db)


def _cachegen(case: Case, device: Device, plan: EditPlan, codes: Sequence[FixedCode]) -> Edit:
    outcome, error = simulate_token_chunks(
        plan,
        case.link,
        encode_s=ENCODE_S,
        fp16_bytes=device.fp16_bytes,
        codes=codes,
        first_bytes_per_s=case.first_bytes_per_s,
        num_chunks=NUM_TOKEN_CHUNKS,
    )
    return Edit(outcome=outcome, psnr_db=psnr_of(error))


def figures(edits: Sequence[Edit], num_shards: int) -> dict[str, float | int | None]:
    """Return a method's figures over all start points."""
    latencies = sorted(edit.outcome.latency_s for edit in edits)
    psnr = [edit.psnr_db for edit in edits if edit.psnr_db is not None]
    outcomes = [edit.outcome for edit in edits]
    return {
        "latency_median": _rounded(statistics.median(latencies), 3),
        "latency_p90": _rounded(_p90(latencies), 3),
        "latency_max": _rounded(latencies[-1], 3),
        "stall_share": _rounded(sum(each.stall_s for each in outcomes) / sum(latencies), 5),
        "deadline_violations": _rounded(
            sum(each.num_violations for each in outcomes) / num_shards / len(edits), 5
        ),
        "cut_share": _rounded(sum(each.num_cut for each in outcomes) / num_shards / len(edits), 5),
        "bytes": round(statistics.mean(each.num_bytes for each in outcomes)),
        "psnr_mean": _rounded(statistics.mean(psnr), 2) if psnr else None,
        "psnr_worst": _rounded(min(psnr), 2) if psnr else None,
        "psnr_p10": _rounded(sorted(psnr)[len(psnr) // 10], 2) if psnr else None,
        "num_degraded": sum(each.num_borrowed > 0 for each in outcomes),
        "num_dense": sum(each.dense_from_step is not None for each in outcomes),
    }


def oracle_share(
    plan: EditPlan, cases_: Sequence[Case], edits: Sequence[Edit]
) -> dict[str, float | int]:
    """Return ours over the oracle's PSNR at the same begin times, edit by edit.

    `quality_share_of_bound` compares with what no choice could reach. Edits that borrowed or ran
    dense have no levels to compare and are left out; how many were compared is given.
    """
    found, bounds, ours = [], [], []
    for case, edit in zip(cases_, edits, strict=True):
        levels = edit.outcome.levels
        if edit.psnr_db is None or any(level is None for level in levels):
            continue
        oracle = Oracle(plan, case.link, edit.outcome.begins)
        best = oracle.best([level for level in levels if level is not None])
        if best is None:
            continue
        ours.append(edit.psnr_db)
        found.append(psnr_of(best))
        bounds.append(psnr_of(oracle.error_bound()))
    if not ours:
        return {"num_compared_with_oracle": 0}
    return {
        "quality_share_of_oracle": _rounded(statistics.mean(ours) / statistics.mean(found), 4),
        "quality_share_of_bound": _rounded(statistics.mean(ours) / statistics.mean(bounds), 4),
        "oracle_psnr_mean": _rounded(statistics.mean(found), 2),
        "num_compared_with_oracle": len(ours),
    }


def _p90(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]


def _rounded(value: float, digits: int) -> float:
    return round(value, digits)
