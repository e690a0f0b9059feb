"""What does a resident model buy, what does HTTP cost, and what happens under load and faults?

    python -m benchmarks.serving [--quick] [--parts resident faults load batch] [--levels 0.5 0.8]

`resident`: a fresh diffusers script that draws one picture, against one request; the time that HTTP
adds. `faults`: start, recovery after SIGKILL, cancel. `load`: open-loop Poisson arrivals at shares of
the capacity that a lone drawing implies; every picture is compared with that of a lone run, and all
times with those of the same drawings in one queue. `batch`: two pictures in one denoiser call against
two calls. Last line one JSON object.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._serving_client import PROMPT, Server, serving
from benchmarks._serving_load import load, percentile, pixels_of
from benchmarks.start import DIFFUSERS_SCRIPT, run
from intonaco.families.source import shipped_folder

REFUSED = [
    {"prompt": "a " * 100_000},
    {"prompt": "a", "size": "100000x10000"},
    {"prompt": "a", "size": "100x100"},
]


def resident(*, quick: bool) -> dict[str, Any]:
    """Measure standalone against resident, and what HTTP adds."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (str(shipped_folder()), str(Path(folder) / "a.png"))
        standalone = [run(DIFFUSERS_SCRIPT, *arguments) for _ in range(1 if quick else 5)]
    standalone_s = statistics.median(one["total_s"] for one in standalone)
    with serving() as server:
        server.await_ready()
        server.draw()
        taken_ms: list[float] = []
        overheads_ms: list[float] = []
        for _ in range(3 if quick else 20):
            ms, picture = server.draw()
            taken_ms.append(ms)
            overheads_ms.append(ms - picture["timings"]["draw_ms"])
    return {
        "standalone_s": round(standalone_s, 3),
        "resident_s": round(statistics.median(taken_ms) / 1000, 3),
        "standalone_over_resident": round(1000 * standalone_s / statistics.median(taken_ms), 2),
        "http_overhead_ms_p50": round(statistics.median(overheads_ms), 2),
        "http_overhead_ms_max": round(max(overheads_ms), 2),
    }


def faults(*, quick: bool) -> dict[str, Any]:
    """Measure start, recovery and cancel."""
    ready_s: list[float] = []
    for _ in range(1 if quick else 3):
        start = time.perf_counter()
        with serving() as server:
            server.await_ready()
            ready_s.append(time.perf_counter() - start)
    with serving() as server:
        server.await_ready()
        before = pixels_of(server.draw()[1])
        recover_s: list[float] = []
        for count in range(1 if quick else 3):
            pid, start = server.model_pid, time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            server.await_ready(count + 2)
            recover_s.append(time.perf_counter() - start)
        is_same = pixels_of(server.draw()[1]) == before
        step_ms = statistics.median(server.draw()[1]["receipt"]["step_ms"])
        refusals_ms = [refusal_ms(server, body) for body in REFUSED for _ in range(5)]
        cancels_ms = [server.cancel_in_a_step(steps=50) for _ in range(3 if quick else 30)]
    return {
        "ready_s_warm": round(statistics.median(ready_s), 2),
        "recover_s_after_sigkill": round(statistics.median(recover_s), 2),
        "same_bytes_after_sigkill": is_same,
        "step_ms": round(step_ms, 1),
        "refusal_ms_max": round(max(refusals_ms), 1),
        "cancel_ms_p50": round(statistics.median(cancels_ms), 1),
        "cancel_ms_p95": round(percentile(cancels_ms, 0.95), 1),
        "cancel_aim_ms": round(step_ms + 50, 1),
    }


def refusal_ms(server: Server, body: dict[str, str]) -> float:
    """Return how long a request that cannot be done takes to be refused."""
    start = time.perf_counter()
    answer = server.client.post("/v1/images/generations", json=body)
    taken_ms = 1000 * (time.perf_counter() - start)
    if answer.status_code != 400:
        raise SystemExit(f"not refused: {answer.text[:200]}")
    return taken_ms


def batch(*, quick: bool) -> dict[str, Any]:
    """Measure one denoiser call of two pictures against two calls of one."""
    import torch

    import intonaco
    from intonaco.families.request import GenerateRequest

    family = intonaco.load().family
    defaults = family.defaults
    request = GenerateRequest(
        prompt=PROMPT, seed=7, width=defaults.width, height=defaults.height, num_steps=8
    )
    prepared = family.prepare(request, family.encode(request))
    (branch,) = prepared.branches
    single = {
        "hidden_states": prepared.latents,
        "timestep": torch.ones(1),
        **{name: branch[name] for name in ("encoder_hidden_states", "img_ids", "txt_ids")},
    }
    double = {name: torch.cat([tensor, tensor]) for name, tensor in single.items()}
    # Positions have one row for the whole batch where the model takes them so.
    double |= {name: single[name] for name in ("img_ids", "txt_ids")}
    parts: Any = family
    denoiser = parts.denoiser
    wall_ms: dict[str, list[float]] = {"single": [], "double": []}
    processor_ms: dict[str, list[float]] = {"single": [], "double": []}
    with torch.inference_mode():
        for _ in range(5 if quick else 40):
            for name, inputs in (("single", single), ("double", double)):
                start, start_processor = time.perf_counter(), time.process_time()
                denoiser(inputs)
                wall_ms[name].append(1000 * (time.perf_counter() - start))
                processor_ms[name].append(1000 * (time.process_time() - start_processor))
        alone: torch.Tensor = denoiser(single)
        together: torch.Tensor = denoiser(double)[:1]
    return {
        "max_difference_in_a_batch": float((together - alone).abs().max()),
        "two_calls_over_one_call_of_two": ratio_of_two(wall_ms),
        "two_calls_over_one_call_of_two_processor_time": ratio_of_two(processor_ms),
        "step_ms_one": round(statistics.median(wall_ms["single"]), 2),
        "step_ms_two_in_one_call": round(statistics.median(wall_ms["double"]), 2),
        "num_threads": torch.get_num_threads(),
    }


def ratio_of_two(times_ms: dict[str, list[float]]) -> float:
    """Return how much longer two calls of one picture take than one call of two."""
    return round(
        2 * statistics.median(times_ms["single"]) / statistics.median(times_ms["double"]), 3
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats: a check, no figures")
    parser.add_argument("--parts", nargs="*", default=["resident", "faults", "load", "batch"])
    parser.add_argument("--levels", nargs="*", type=float, default=[0.5, 0.8, 0.95, 1.2])
    options = parser.parse_args()
    parts = {
        "resident": lambda: resident(quick=options.quick),
        "faults": lambda: faults(quick=options.quick),
        "load": lambda: load(
            levels=options.levels[:1] if options.quick else options.levels,
            num_requests=20 if options.quick else 400,
        ),
        "batch": lambda: batch(quick=options.quick),
    }
    result: dict[str, Any] = {"is_quick": options.quick}
    for name in options.parts:
        found = parts[name]()
        print(name, found, flush=True)
        result |= found
    print(json.dumps(result))


if __name__ == "__main__":
    main()
