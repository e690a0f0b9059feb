"""Can a running model stall the network? A thread of its process against a process of its own.

    python -m benchmarks.network_placement [--megabytes 48] [--repeats 3]

A server process sends one file over loopback to our HTTP client while the shipped model runs steps
(eager: between operators it holds the interpreter lock). The client runs in a thread of the model's
process, in a process of its own, and, as the baseline, in such a process while no model runs.
`mb_per_s`: megabytes a second, median over repeats. `longest_gap_ms`: longest time between two reads
that should come one after the other, worst over repeats. Last line one JSON object.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import intonaco
from intonaco.families.request import GenerateRequest
from intonaco.streaming.store import RangeRequest, open_store

FILE_NAME = "file.itn"
PROMPT = "a tall girl with red hair"
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    seconds: float
    longest_gap_s: float


async def receive(url: str, num_bytes: int) -> Received:
    """Fetch the file over one connection, as an edit's client reads."""
    connection = await open_store(url, idle_s=30.0).connect()
    await connection.ask(RangeRequest(name=FILE_NAME, start=0, stop=num_bytes))
    began = last = time.perf_counter()
    longest = 0.0
    left = num_bytes
    while left:
        left -= len((await connection.read()).content)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await connection.close()
    return Received(seconds=last - began, longest_gap_s=longest)


def in_thread(url: str, num_bytes: int) -> Received:
    found: list[Received] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(receive(url, num_bytes))))
    thread.start()
    thread.join()
    return found[0]


def in_process(url: str, num_bytes: int) -> Received:
    words = [sys.executable, "-m", "benchmarks.network_placement", "--receive", url]
    run = subprocess.run(
        [*words, "--bytes", str(num_bytes)], capture_output=True, text=True, check=True
    )
    return Received(**json.loads(run.stdout))


class BusyModel:
    """Runs steps of the shipped model in a thread until it is told to stop."""

    def __init__(self) -> None:
        self.num_steps = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "BusyModel":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        model = intonaco.load()
        defaults = model.defaults
        request = GenerateRequest(
            prompt=PROMPT, seed=7, width=defaults.width, height=defaults.height, num_steps=8
        )
        family = model.family
        prepared = family.prepare(request, family.encode(request))
        while not self._is_over.is_set():
            family.denoise(prepared, prepared.latents, 0)
            self.num_steps += 1


def summarize(runs: list[Received], num_bytes: int) -> dict[str, float]:
    return {
        "mb_per_s": round(statistics.median(num_bytes / one.seconds for one in runs) / MEGABYTE, 1),
        "longest_gap_ms": round(1000 * max(one.longest_gap_s for one in runs), 1),
    }


def serve_file(folder: Path, num_bytes: int) -> "subprocess.Popen[str]":
    (folder / FILE_NAME).write_bytes(os.urandom(num_bytes))
    (folder / "catalog.json").write_text("{}")
    words = ["-m", "intonaco", "template", "serve", str(folder), "--port", "0", "--json"]
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.receive:
        found = asyncio.run(receive(arguments.receive, arguments.bytes))
        print(json.dumps({"seconds": found.seconds, "longest_gap_s": found.longest_gap_s}))
        return
    num_bytes = arguments.megabytes * MEGABYTE
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        server = serve_file(Path(folder), num_bytes)
        try:
            assert server.stdout is not None
            url = str(json.loads(server.stdout.readline())["url"])
            repeats = range(arguments.repeats)
            result = {"idle": summarize([in_process(url, num_bytes) for _ in repeats], num_bytes)}
            with BusyModel() as busy:
                while not busy.num_steps:
                    time.sleep(0.1)
                for name, place in (("thread", in_thread), ("process", in_process)):
                    result[name] = summarize([place(url, num_bytes) for _ in repeats], num_bytes)
        finally:
            server.terminate()
            server.wait()
    for name, figures in result.items():
        print(
            f"{name:8} {figures['mb_per_s']:8.1f} MB/s, longest gap {figures['longest_gap_ms']} ms"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
