"""The part of `benchmarks.serving` that sends requests at random times, and judges what came back."""

import asyncio
import base64
import hashlib
import io
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from PIL import Image

from benchmarks._serving_client import PROMPT, Server, serving

LOAD_FIELDS = {"steps": 2, "size": "96x96"}
NUM_SEEDS = 16
WITHIN = 2.1
MAX_ROUNDS = 8
# Whoever waited less found nobody before him.
WAITED_MS = 3.0


def load(*, levels: list[float], num_requests: int) -> dict[str, Any]:
    """Measure latency, refusals and mixed pictures at each share of capacity."""
    with serving("num_threads=1", "max_queue=16") as server:
        server.await_ready()
        server.draw(**LOAD_FIELDS)
        found: dict[str, Any] = {"num_requests": num_requests}
        for level in levels:
            # Anew for each level: the machine's own speed changes within minutes.
            lone = Lone.measured(server)
            asked = arrival_times(num_requests, mean_s=lone.draw_ms / 1000 / level, seed=f"{level}")
            answers = asyncio.run(answers_to(server, asked))
            found[f"load_{level:g}"] = judge(answers, lone)
            print(level, found[f"load_{level:g}"], flush=True)
    return found


@dataclass(frozen=True, kw_only=True)
class Lone:
    """Requests with nothing beside them: medians, and the pixels by seed."""

    ms: float
    draw_ms: float
    pixels: dict[int, str]

    @classmethod
    def measured(cls, server: Server) -> "Lone":
        """Draw until drawings get no faster: the first after a start were up to a quarter slower."""
        rounds = [cls._once(server)]
        while len(rounds) < MAX_ROUNDS:
            rounds.append(cls._once(server))
            if rounds[-1].draw_ms > 0.97 * rounds[-2].draw_ms:
                break
        return rounds[-1]

    @classmethod
    def _once(cls, server: Server) -> "Lone":
        drawn = [server.draw(**LOAD_FIELDS, seed=seed) for seed in range(NUM_SEEDS)]
        return cls(
            ms=statistics.median(ms for ms, _ in drawn),
            draw_ms=statistics.median(picture["timings"]["draw_ms"] for _, picture in drawn),
            pixels={seed: pixels_of(picture) for seed, (_, picture) in enumerate(drawn)},
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered request; `sent_s` on the client's clock. Refused ones have no picture."""

    seed: int
    sent_s: float
    taken_ms: float
    status: int
    picture: dict[str, Any] | None


async def answers_to(server: Server, arrivals_s: list[float]) -> list[Answer]:
    """Send requests at their times, whatever becomes of the earlier ones; return all answers."""
    answers: list[Answer] = []

    async def ask(client: httpx.AsyncClient, seed: int) -> None:
        body = {"prompt": PROMPT, "seed": seed, **LOAD_FIELDS}
        sent_s = time.perf_counter()
        answer = await client.post("/v1/images/generations", json=body)
        taken_ms = 1000 * (time.perf_counter() - sent_s)
        # Pictures are decoded afterwards: here that would delay the next request.
        picture = answer.json()["data"][0] if answer.status_code == 200 else None
        answers.append(
            Answer(
                seed=seed,
                sent_s=sent_s,
                taken_ms=taken_ms,
                status=answer.status_code,
                picture=picture,
            )
        )

    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:
        tasks: list[asyncio.Task[None]] = []
        start_s = time.perf_counter()
        for index, arrival_s in enumerate(arrivals_s):
            await asyncio.sleep(max(0.0, start_s + arrival_s - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(client, index % NUM_SEEDS)))
        await asyncio.gather(*tasks)
    return sorted(answers, key=lambda answer: answer.sent_s)


def judge(answers: list[Answer], lone: Lone) -> dict[str, Any]:
    """Return how long requests took, and how long one queue would have kept them.

    `queue_*`: the same arrivals, first come first served, each for the time of its drawing and of the turn
    to the next, plus what a lone request takes beside its drawing. What is above that is the server's.
    """
    drawn = [(one, one.picture) for one in answers if one.picture is not None]
    taken_ms = [one.taken_ms for one, _ in drawn]
    draws_s = [picture["timings"]["draw_ms"] / 1000 for _, picture in drawn]
    turn_s = turn_between([(one.sent_s, picture["timings"]) for one, picture in drawn])
    alone_ms = [
        1000 * seconds + lone.ms - lone.draw_ms
        for seconds in times_in_one_queue(
            [one.sent_s for one, _ in drawn], [draw_s + turn_s for draw_s in draws_s]
        )
    ]
    num_right = sum(pixels_of(picture) == lone.pixels[one.seed] for one, picture in drawn)
    rejected = sum(one.status == 429 for one in answers)
    return {
        "lone_ms": round(lone.ms, 1),
        "lone_draw_ms": round(lone.draw_ms, 1),
        "p50_ms": round(statistics.median(taken_ms), 1),
        "p99_ms": round(percentile(taken_ms, 0.99), 1),
        "queue_p50_ms": round(statistics.median(alone_ms), 1),
        "queue_p99_ms": round(percentile(alone_ms, 0.99), 1),
        # Well above that of a lone request: the machine did something else.
        "draw_ms_p50": round(1000 * statistics.median(draws_s), 1),
        "turn_ms_p50": round(1000 * turn_s, 2),
        "utilization": round(sum(draws_s) / (answers[-1].sent_s - answers[0].sent_s), 3),
        "share_within_2.1x": round(
            sum(ms <= WITHIN * lone.ms for ms in taken_ms) / len(answers), 3
        ),
        "rejected": rejected,
        "mixed_or_lost": len(answers) - rejected - num_right,
    }


def arrival_times(num_requests: int, *, mean_s: float, seed: str) -> list[float]:
    """Return Poisson arrivals, in seconds from the start, scaled so that their mean gap is `mean_s`.

    A few hundred drawn gaps miss their mean by a tenth, which near capacity doubles the waits.
    """
    rng = random.Random(seed)
    gaps = [rng.expovariate(1) for _ in range(num_requests)]
    scale = num_requests * mean_s / sum(gaps)
    times: list[float] = []
    for gap in gaps:
        times.append((times[-1] if times else 0.0) + gap * scale)
    return times


def turn_between(drawn: Sequence[tuple[float, dict[str, float]]]) -> float:
    """Return the median seconds from the end of a drawing to the start of the next, where one waited.

    `drawn`: for each request when it was sent, in seconds, and its timings.
    """
    starts_s = [sent_s + timings["queue_ms"] / 1000 for sent_s, timings in drawn]
    ends_s = [
        start_s + timings["draw_ms"] / 1000
        for start_s, (_, timings) in zip(starts_s, drawn, strict=True)
    ]
    turns_s = [
        starts_s[index] - ends_s[index - 1]
        for index in range(1, len(drawn))
        if drawn[index][1]["queue_ms"] > WAITED_MS
    ]
    return max(0.0, statistics.median(turns_s)) if turns_s else 0.0


def times_in_one_queue(arrivals_s: Sequence[float], services_s: Sequence[float]) -> list[float]:
    """Return the seconds from arrival to end in one queue, first come first served (Lindley).

    >>> times_in_one_queue([0, 1, 9], [3, 3, 3])
    [3.0, 5.0, 3.0]
    """
    free_s = 0.0
    taken_s: list[float] = []
    for arrival_s, service_s in zip(arrivals_s, services_s, strict=True):
        free_s = max(free_s, arrival_s) + service_s
        taken_s.append(float(free_s - arrival_s))
    return taken_s


def pixels_of(picture: dict[str, Any]) -> str:
    """Return a digest of the decoded pixels: what a client really got."""
    image = Image.open(io.BytesIO(base64.b64decode(picture["b64_json"])))
    return hashlib.sha256(image.tobytes()).hexdigest()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
