"""A server process and a client for `benchmarks.serving`; measures nothing by itself."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import httpx

PROMPT = "a doll with curly ginger hair, glasses, a striped teal sweater, at the beach"
DEADLINE_S = 200.0


class Server:
    """`intonaco serve` with the shipped model; `state` follows its log."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.process = process
        self.url = str(json.loads(process.stdout.readline())["url"])
        self.client = httpx.Client(base_url=self.url, timeout=DEADLINE_S)
        self._changed = threading.Condition()
        self.num_ready = 0
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if '"event": "state"' in line and '"state": "ready"' in line:
                with self._changed:
                    self.num_ready += 1
                    self._changed.notify_all()

    def await_ready(self, times: int = 1) -> None:
        """Return when the server has become ready for the `times`-th time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.num_ready >= times, timeout=DEADLINE_S):
                raise SystemExit("the server did not become ready")

    @property
    def model_pid(self) -> int:
        return int(self.client.get("/readyz").json()["process"].removeprefix("pid "))

    def draw(self, **fields: Any) -> tuple[float, dict[str, Any]]:
        """Return how long one request took, in ms, and its first picture."""
        start = time.perf_counter()
        answer = self.client.post(
            "/v1/images/generations", json={"prompt": PROMPT, "seed": 7, **fields}
        )
        taken_ms = 1000 * (time.perf_counter() - start)
        answer.raise_for_status()
        return taken_ms, answer.json()["data"][0]

    def cancel_in_a_step(self, *, steps: int) -> float:
        """Return the ms from asking for a cancel to the end of the job."""
        job = self.client.post("/v1/jobs", json={"prompt": PROMPT, "steps": steps}).json()["id"]
        asked = 0.0
        with self.client.stream("GET", f"/v1/jobs/{job}/events") as answer:
            for line in answer.iter_lines():
                if line == "event: step" and not asked:
                    asked = time.perf_counter()
                    self.client.delete(f"/v1/jobs/{job}")
                if line == "event: failed":
                    return 1000 * (time.perf_counter() - asked)
        raise SystemExit("a cancelled job did not end")


@contextlib.contextmanager
def serving(*fields: str) -> Generator[Server]:
    """Yield a server with these fields of its profile; ends it afterwards."""
    words = [word for field in fields for word in ("--set", field)]
    process = subprocess.Popen(
        [sys.executable, "-m", "intonaco", "serve", "--json", "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(process)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        process.kill()
