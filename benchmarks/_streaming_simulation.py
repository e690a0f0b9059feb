"""Simulated edits of every method over one trace, and their figures."""

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks._streaming_inputs import (
    BORROWED_PSNR_DB,
    ROUND_TRIP_S,
    Device,
    Quality,
)
from intonaco.streaming.late import LateSettings
from intonaco.streaming.link import LinkModel
from intonaco.streaming.methods import (
    choose_fixed,
    simulate_dense,
    simulate_fixed,
    simulate_floors,
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
    """One simulated edit. `psnr_db` is None where it ran dense or fetched everything.

    Attributes:
        alike_db: PSNR if every step's error counted alike.
    """

    outcome: EditOutcome
    psnr_db: float | None
    alike_db: float | None = None


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


def settings_of(device: Device) -> StreamSettings:
    return StreamSettings(
        round_trip_s=ROUND_TRIP_S, smallest_slice_bytes=device.smallest_slice_bytes
    )


def methods(device: Device, quality: Quality) -> dict[str, Method]:
    """Return every method by the name of its key."""
    best = device.our_plan(quality.curves["best"])
    shares = quality.shares_of(device)
    rectangle = device.plan(quality.curves["rectangle"], shared=0.0)
    weighted8 = device.plan(quality.curves["weighted8"], shared=0.0)
    per_step = device.plan(
        quality.curves["ladder_shared_basis_sensitivity"], shared=device.basis_share
    )
    settings = settings_of(device)
    one_shard = replace(settings, slice_s=None)
    stall = LateSettings(late="stall")

    def ours(plan: EditPlan, chosen: StreamSettings) -> Method:
        return streamed(plan, chosen, encode_s=device.encode_s, step_shares=shares)

    return {
        "ours": ours(best, settings),
        "dense": lambda case: Edit(
            outcome=simulate_dense(best, encode_s=device.encode_s), psnr_db=None
        ),
        "full": lambda case: Edit(
            outcome=simulate_fixed(
                best, case.link, encode_s=device.encode_s, num_bytes=device.fp16_bytes
            ),
            psnr_db=None,
        ),
        "intq": lambda case: _intq(case, device, best, quality),
        "cachegen": lambda case: _cachegen(case, device, best, quality, "cachegen"),
        "cachegen_stored_levels": lambda case: _cachegen(
            case, device, best, quality, "cachegen_stored_levels"
        ),
        "one_floor_for_all_steps": ours(device.plan(quality.curves["best"], shared=1.0), settings),
        "coefficients_per_step": ours(per_step, settings),
        "rectangle": ours(rectangle, settings),
        "eight_bits": ours(weighted8, settings),
        "one_decision_per_edit": ours(best, replace(one_shard, is_per_edit=True, late=stall)),
        "no_carry_over": ours(best, replace(settings, has_carry_over=False)),
        "no_early_request": ours(best, replace(one_shard, max_requests=1)),
        "stall_instead_of_cut": ours(best, replace(one_shard, late=stall)),
    }


def streamed(
    plan: EditPlan,
    settings: StreamSettings,
    *,
    encode_s: float,
    head_start_s: float = 0.0,
    step_shares: Sequence[float] | None = None,
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
        if outcome.dense_from_step is not None:
            return Edit(outcome=outcome, psnr_db=None)
        judged, alike = (
            edit_error(
                plan.table,
                outcome.levels,
                borrowed_error=error_of(BORROWED_PSNR_DB) / plan.table.num_shards,
                step_shares=shares,
            )
            for shares in (step_shares, None)
        )
        return Edit(outcome=outcome, psnr_db=psnr_of(judged), alike_db=psnr_of(alike))

    return run


def _intq(case: Case, device: Device, plan: EditPlan, quality: Quality) -> Edit:
    code = choose_fixed(
        quality.codes["intq"],
        fp16_bytes=device.fp16_bytes,
        bytes_per_s=case.first_bytes_per_s,
        window_s=device.edit_s,
    )
    outcome = simulate_fixed(
        plan, case.link, encode_s=device.encode_s, num_bytes=device.fp16_bytes / code.ratio
    )
    return Edit(outcome=outcome, psnr_db=code.psnr_db)


def _cachegen(case: Case, device: Device, plan: EditPlan, quality: Quality, codes: str) -> Edit:
    outcome, error = simulate_token_chunks(
        plan,
        case.link,
        encode_s=device.encode_s,
        fp16_bytes=device.fp16_bytes,
        codes=quality.codes[codes],
        first_bytes_per_s=case.first_bytes_per_s,
        num_chunks=NUM_TOKEN_CHUNKS,
        step_shares=quality.shares_of(device),
    )
    return Edit(outcome=outcome, psnr_db=psnr_of(error))


def figures(edits: Sequence[Edit], num_shards: int) -> dict[str, float | int | None]:
    """Return a method's figures over all start points."""
    latencies = sorted(edit.outcome.latency_s for edit in edits)
    psnr = [edit.psnr_db for edit in edits if edit.psnr_db is not None]
    alike = [edit.alike_db for edit in edits if edit.alike_db is not None]
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
        "psnr_mean_steps_alike": _rounded(statistics.mean(alike), 2) if alike else None,
        "num_borrowed": sum(each.num_borrowed > 0 for each in outcomes),
        "num_below_floor": sum(each.num_below_floor > 0 for each in outcomes),
        "num_dense": sum(each.dense_from_step is not None for each in outcomes),
    }


def oracle_share(
    plan: EditPlan,
    cases_: Sequence[Case],
    edits: Sequence[Edit],
    step_shares: Sequence[float] | None = None,
) -> dict[str, float | int]:
    """Return ours over the oracle's PSNR at the same begin times, edit by edit.

    `quality_share_of_bound` compares with what no choice could reach. Edits that borrowed, ran dense
    or went below a floor are left out; how many were compared is given.
    """
    found: list[float] = []
    bounds: list[float] = []
    ours: list[float] = []
    for case, edit in zip(cases_, edits, strict=True):
        levels = edit.outcome.levels
        if edit.psnr_db is None or edit.outcome.num_below_floor or None in levels:
            continue
        oracle = Oracle(plan, case.link, edit.outcome.begins, step_shares=step_shares)
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


def outage_stall(
    plan: EditPlan, cases_: Sequence[Case], edits: Sequence[Edit], *, encode_s: float
) -> float:
    """Return the part of the time that floors alone would wait for, over a link that is known.

    No method that keeps the floors can wait less. Edits that ran dense are left out.
    """
    stall_s, run_s = 0.0, 0.0
    for case, edit in zip(cases_, edits, strict=True):
        if edit.outcome.dense_from_step is not None:
            continue
        outcome = simulate_floors(plan, case.link, encode_s=encode_s)
        stall_s += outcome.stall_s
        run_s += outcome.latency_s
    return _rounded(stall_s / run_s, 5)


def _p90(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]


def _rounded(value: float, digits: int) -> float:
    return round(value, digits)
