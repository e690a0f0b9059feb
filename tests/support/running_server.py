"""Starts a server as a process of its own, and waits for the events of its log, never for time."""

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import psutil

FAKE = (sys.executable, "-m", "tests.support.fake_server")
SHIPPED = (sys.executable, "-m", "intonaco", "serve", "--json", "--port", "0")
# A start takes two seconds on an idle machine; the deadline only ends a test that hangs.
DEADLINE_S = 240.0


class RunningServer:
    """A server process, its log as it grows, and a client."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        assert process.stdout is not None
        self.url = str(json.loads(process.stdout.readline())["url"])
        self.client = httpx.Client(base_url=self.url, timeout=DEADLINE_S)

    def close(self) -> None:
        """Give back what this side holds; the process has ended."""
        self.client.close()
        self._reader.join(timeout=60)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._grown:
                with contextlib.suppress(ValueError):
                    self.lines.append(json.loads(line))
                self._grown.notify_all()

    def await_event(self, event: str, *, after: int = 0, **fields: Any) -> dict[str, Any]:
        """Return the first line of the log from `after` on with these fields."""
        wanted = {"event": event, **fields}
        deadline_s = time.monotonic() + DEADLINE_S
        with self._grown:
            while True:
                for line in self.lines[after:]:
                    if wanted.items() <= line.items():
                        return line
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise AssertionError(f"no {wanted} in {self.lines[-5:]}")
                self._grown.wait(left_s)

    def await_ready(self, *, after: int = 0) -> "RunningServer":
        self.await_event("state", after=after, state="ready")
        return self

    @property
    def model_pid(self) -> int:
        """The process that serves now."""
        return int(self.client.get("/readyz").json()["process"].removeprefix("pid "))

    def draw(self, prompt: str = "a doll", *, seed: int = 7, **fields: Any) -> httpx.Response:
        body = {"prompt": prompt, "seed": seed, **fields}
        return self.client.post("/v1/images/generations", json=body)

    def start_job(self, prompt: str = "a doll", **fields: Any) -> str:
        answer = self.client.post("/v1/jobs", json={"prompt": prompt, "seed": 7, **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def events(self, job_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of a job as they happen."""
        with self.client.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
            yield from server_sent_events(answer)

    def await_job_event(self, job_id: str, name: str) -> dict[str, Any]:
        """Return the first event of a job that is called `name`."""
        for kind, fields in self.events(job_id):
            if kind == name:
                return fields
        raise AssertionError(f"job {job_id} ended without {name}")


def server_sent_events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


@contextlib.contextmanager
def running_server(
    *arguments: str, command: Sequence[str] = FAKE, **popen: Any
) -> Iterator[RunningServer]:
    """Yield a server; whatever the test did to it, nothing of it is left afterwards."""
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        **popen,
    )
    server = None
    try:
        server = RunningServer(process)
        yield server
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        process.kill()
        process.wait()
        if server is not None:
            server.close()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def is_gone(pid: int) -> bool:
    """Return whether `pid` ends within the deadline (a zombie has ended)."""
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            process.wait(timeout=60)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def picture_bytes(answer: httpx.Response, index: int = 0) -> bytes:
    """Return the file of one picture of an answer."""
    assert answer.status_code == 200, answer.text
    return base64.b64decode(answer.json()["data"][index]["b64_json"])


def digests(answer: httpx.Response) -> list[str]:
    """Return the digests of the pixels of an answer's pictures."""
    assert answer.status_code == 200, answer.text
    return [one["receipt"]["picture_sha256"] for one in answer.json()["data"]]
