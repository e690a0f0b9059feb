"""What the stream is compared with, over the same modelled link.

None of these is cut at a deadline: the device waits for what it asked for, as their papers do. All
ask for everything early enough that no round trip is lost, and reconstruct as fast as ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from intonaco.errors import StreamSettingsError
from intonaco.streaming.link import LinkModel
from intonaco.streaming.quality_curve import error_of, step_weights
from intonaco.streaming.settings import EditPlan
from intonaco.streaming.simulate import LATE_S, EditOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCode:
    """One encoding of the whole state: its name, bytes and quality."""

    name: str
    ratio: float
    psnr_db: float


def simulate_dense(plan: EditPlan, *, encode_s: float) -> EditOutcome:
    """Return the outcome of an edit that uses no template state at all."""
    if plan.dense_step_s is None:
        raise StreamSettingsError("dense_step_s must be known to simulate a dense edit, got None")
    return EditOutcome(
        latency_s=encode_s + plan.table.num_steps * plan.dense_step_s, dense_from_step=0
    )


def choose_fixed(
    codes: Sequence[FixedCode], *, fp16_bytes: float, bytes_per_s: float, window_s: float
) -> FixedCode:
    """Return the best code whose bytes fit the window at this rate, or the smallest one."""
    fitting = [code for code in codes if fp16_bytes / code.ratio <= bytes_per_s * window_s]
    return (
        max(fitting, key=lambda code: code.psnr_db)
        if fitting
        else max(codes, key=lambda code: code.ratio)
    )


def simulate_fixed(
    plan: EditPlan, link: LinkModel, *, encode_s: float, num_bytes: float
) -> EditOutcome:
    """Return the outcome when the whole state, `num_bytes`, is asked for at time 0 in shard order.

    This is full fetch (FP16) and uniform quantization: a shard begins once all of it has arrived.
    """
    total_s = sum(plan.run_s)
    sent = 0.0
    arrivals: list[float] = []
    for run_s in plan.run_s:
        sent += num_bytes * run_s / total_s
        arrivals.append(link.finish_at(link.round_trip_s, sent))
    return _outcome(plan, arrivals, encode_s, round(num_bytes))


def simulate_floors(plan: EditPlan, link: LinkModel, *, encode_s: float) -> EditOutcome:
    """Return the outcome when nothing but every shard's floor is fetched, in the order of need.

    Its waiting is what outages of the link cost whoever keeps the floors.
    """
    floors = [shard.floor for shard in plan.table.shards]
    arrivals: list[float] = []
    sent, bases = 0, [0] * plan.table.num_groups
    for shard, floor in zip(plan.table.shards, floors, strict=True):
        level = shard.levels[floor]
        sent += level.coefficient_bytes + max(0, level.basis_bytes - bases[shard.group])
        bases[shard.group] = max(bases[shard.group], level.basis_bytes)
        arrivals.append(link.finish_at(link.round_trip_s, sent))
    return _outcome(plan, arrivals, encode_s, sent)


def simulate_token_chunks(
    plan: EditPlan,
    link: LinkModel,
    *,
    encode_s: float,
    fp16_bytes: float,
    codes: Sequence[FixedCode],
    first_bytes_per_s: float,
    num_chunks: int,
    step_shares: Sequence[float] | None = None,
) -> tuple[EditOutcome, float]:
    """Return the outcome, and the mean squared error of the state, of chunks along tokens.

    CacheGen's way, adapted to steps: each step's state is cut along tokens into `num_chunks`, each
    over all blocks; a step can run once all of its chunks are there. Per chunk the best code is
    taken with which all that is left would arrive in the time that is left for the edit, at the rate
    of the chunk before.
    """
    num_steps, num_groups = plan.table.num_steps, plan.table.num_groups
    weights = step_weights(step_shares, num_steps)
    deadline = encode_s + sum(plan.run_s)
    per_chunk = fp16_bytes / (num_steps * num_chunks)
    at, rate, total, error = link.round_trip_s, first_bytes_per_s, 0.0, 0.0
    arrivals: list[float] = []
    for chunk in range(num_steps * num_chunks):
        code = choose_fixed(
            codes,
            fp16_bytes=per_chunk * (num_steps * num_chunks - chunk),
            bytes_per_s=rate,
            window_s=max(0.0, deadline - at),
        )
        size = per_chunk / code.ratio
        done = link.finish_at(at, size)
        rate = size / max(1e-6, done - at)
        at, total = done, total + size
        weight = weights[chunk // num_chunks] / (num_steps * num_chunks)
        error += weight * error_of(code.psnr_db)
        if (chunk + 1) % num_chunks == 0:
            arrivals += [done] * num_groups
    return _outcome(plan, arrivals, encode_s, round(total)), error


def _outcome(
    plan: EditPlan, arrivals: Sequence[float], encode_s: float, num_bytes: int
) -> EditOutcome:
    """Run each shard once it is there and the one before it has ended."""
    turn_at = encode_s
    stall_s, num_violations = 0.0, 0
    begins: list[float] = []
    for arrival, run_s, reconstruct_s in zip(arrivals, plan.run_s, plan.reconstruct_s, strict=True):
        begin = max(turn_at, arrival + reconstruct_s)
        stall_s += begin - turn_at
        num_violations += begin - turn_at > LATE_S
        begins.append(begin)
        turn_at = begin + run_s
    return EditOutcome(
        latency_s=turn_at,
        stall_s=stall_s,
        num_violations=num_violations,
        num_bytes=num_bytes,
        begins=tuple(begins),
    )
