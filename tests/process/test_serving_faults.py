"""Faults of the model process and of its machine: what clients are told, and that serving goes on.

The API process is the real one; the model process is a fake whose faults are asked for by name.
"""

import os
import resource
import signal
import subprocess
import sys
import threading

import httpx
import psutil
import pytest

from tests.support.running_server import (
    DEADLINE_S,
    RunningServer,
    digests,
    is_gone,
    picture_bytes,
    running_server,
)

pytestmark = pytest.mark.timeout(DEADLINE_S + 60)
QUICK = ("--set", "step_timeout_s=1", "--set", "cancel_timeout_s=1", "--set", "stop_timeout_s=1")


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def server():
    with running_server(*QUICK) as started:
        yield started.await_ready()


def kill_in_a_step(server: RunningServer, number: int) -> tuple[int, dict]:
    """Signal the model process while it draws; return its pid and the error of what it drew."""
    job_id = server.start_job("endless")
    server.await_job_event(job_id, "step")
    pid = server.model_pid
    os.kill(pid, number)
    return pid, server.await_job_event(job_id, "failed")["error"]


def test_a_killed_model_process_is_replaced_and_draws_the_same_bytes(server):
    before = picture_bytes(server.draw(n=2), 1)
    seen = len(server.lines)
    pid, error = kill_in_a_step(server, signal.SIGKILL)
    assert (error["code"], "was ended by SIGKILL" in error["message"]) == ("model_process", True)
    after = server.await_ready(after=seen).draw(n=2)
    assert (picture_bytes(after, 1), server.model_pid != pid) == (before, True)


def test_requests_that_waited_while_it_was_killed_are_drawn(server):
    expected = digests(server.draw("a waiting doll"))
    first = server.start_job("endless")
    server.await_job_event(first, "step")
    waiting = server.start_job("a waiting doll")
    os.kill(server.model_pid, signal.SIGKILL)
    server.await_job_event(waiting, "done")
    pictures = server.client.get(f"/v1/jobs/{waiting}").json()["data"]
    assert [one["receipt"]["picture_sha256"] for one in pictures] == expected


def test_a_killed_model_process_makes_the_server_unready_at_once(server):
    seen = len(server.lines)
    kill_in_a_step(server, signal.SIGKILL)
    states = [
        line["state"] for line in server.await_ready(after=seen).lines[seen:] if "state" in line
    ]
    assert [state for state in states if state in ("stopping", "restarting", "warming", "ready")][
        :2
    ] == ["stopping", "restarting"]


def test_a_stopped_process_counts_as_a_step_that_hangs(server):
    seen = len(server.lines)
    pid, error = kill_in_a_step(server, signal.SIGSTOP)
    assert "a step took longer than 1 s" in error["message"]
    server.await_ready(after=seen)
    assert is_gone(pid)


def test_a_hanging_step_is_ended_with_all_that_it_started(server):
    seen = len(server.lines)
    job_id = server.start_job("hang")
    server.await_job_event(job_id, "step")
    pid = server.model_pid
    error = server.await_job_event(job_id, "failed")["error"]
    server.await_ready(after=seen)
    gone = server.await_event("model_process_gone", after=seen)
    assert error["message"].endswith("after 1 of 4 steps")
    assert (gone["process"], gone["how"]) == (f"pid {pid}", "was ended by SIGKILL")
    assert [one for one in psutil.pids() if _session(one) == pid and not is_gone(one)] == []


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("raise", "raised RuntimeError: a product of this step is not finite, after 1 of 4 steps"),
        ("memory", "raised MemoryError: out of memory in a step, after 1 of 4 steps"),
        ("die", "was ended by SIGKILL, after 1 of 4 steps"),
    ],
)
def test_an_exception_in_a_step_is_told_and_the_next_request_is_drawn(server, word, told):
    expected = digests(server.draw())
    status, message = error_of(server.draw(word))
    assert (status, message.endswith(told)) == (502, True), message
    assert digests(server.draw()) == expected


def test_a_cancel_that_is_not_confirmed_ends_the_process(server):
    seen = len(server.lines)
    job_id = server.start_job("deaf")
    server.await_job_event(job_id, "step")
    server.client.delete(f"/v1/jobs/{job_id}")
    error = server.await_job_event(job_id, "failed")["error"]
    assert "did not confirm a cancel within 1 s" in error["message"]
    assert server.await_ready(after=seen).draw().status_code == 200


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("artifact", "ArtifactDamagedError: program.pt2 is cut short; compile it again"),
        ("memory", "MemoryError: cannot allocate the weights"),
        ("disk", "3 starts in a row failed, the last one: OSError: [Errno 28] No space left"),
        ("die", "3 starts in a row failed, the last one: the model process"),
        ("hang", "1 starts in a row failed, the last one: the start took longer than 2 s"),
    ],
)
def test_a_start_that_cannot_succeed_ends_as_failed_with_the_reason(start, reason):
    limits = ("--set", "start_timeout_s=2", "--set", "max_starts=1") if start == "hang" else ()
    with running_server("--start", start, *limits) as server:
        line = server.await_event("state", state="failed")
        ready, health = server.client.get("/readyz"), server.client.get("/healthz")
        status, message = error_of(server.draw())
    assert line["reason"].startswith(reason)
    assert (ready.status_code, ready.json()["state"], health.status_code) == (503, "failed", 200)
    assert (status, message.startswith("the server is failed: ")) == (503, True)


@pytest.mark.parametrize("start", ["die", "disk"])
def test_a_start_that_fails_once_is_tried_again(start, tmp_path):
    with running_server("--start", start, "--marker", str(tmp_path / "tried")) as server:
        assert server.await_ready().draw().status_code == 200


def test_a_process_that_draws_other_pictures_after_a_restart_is_not_used(tmp_path):
    with running_server("--start", "drift", "--marker", str(tmp_path / "tried")) as server:
        server.await_ready()
        os.kill(server.model_pid, signal.SIGKILL)
        line = server.await_event("state", state="failed")
    assert line["reason"].startswith("the smoke generation drew 111111111111, before the restart")


def test_liveness_answers_and_readiness_says_why_not_while_the_start_hangs():
    with running_server("--start", "hang", "--set", "start_timeout_s=200") as server:
        server.await_event("state", reason="loading")
        ready = server.client.get("/readyz")
        assert (ready.status_code, ready.json()["state"]) == (503, "warming")
        assert server.client.get("/healthz").status_code == 200
        assert (server.draw().status_code, "retry-after" in server.draw().headers) == (503, True)


def test_sigterm_finishes_what_was_accepted_and_exits_with_0():
    with running_server() as server:
        server.await_ready()
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(server.draw(n=10, steps=50)))
        thread.start()
        server.await_event("job_queued")
        server.process.send_signal(signal.SIGTERM)
        server.await_event("draining")
        refused = server.draw()
        thread.join(timeout=DEADLINE_S)
        assert (len(digests(answers[0])), refused.status_code) == (10, 503)
        assert server.process.wait(timeout=DEADLINE_S) == 0


def test_sigterm_ends_what_takes_longer_than_the_drain_may():
    with running_server("--set", "drain_timeout_s=0.5", "--set", "stop_timeout_s=0.5") as server:
        server.await_ready()
        answers: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: answers.append(server.draw("endless")))
        thread.start()
        server.await_event("job_queued")
        pid = server.model_pid
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=DEADLINE_S) == 0
        thread.join(timeout=DEADLINE_S)
        assert error_of(answers[0]) == (503, "the server shut down before this was drawn")
        assert is_gone(pid)


@pytest.mark.parametrize("prompt", [None, "endless", "hang"])
def test_killing_the_api_process_leaves_no_orphan(prompt):
    with running_server() as server:
        server.await_ready()
        pid = server.model_pid
        if prompt:
            server.await_job_event(server.start_job(prompt), "step")
        session = [one for one in psutil.pids() if _session(one) == pid]
        server.process.kill()
        server.process.wait()
        assert pid in session
        assert [one for one in session if not is_gone(one)] == []


def test_two_servers_side_by_side_never_collide(server):
    with running_server() as other:
        other.await_ready()
        assert digests(other.draw()) == digests(server.draw())
        pid, seen = server.model_pid, len(other.lines)
        os.kill(other.model_pid, signal.SIGKILL)
        other.await_ready(after=seen)
        assert (server.model_pid, server.draw().status_code) == (pid, 200)


def test_a_port_in_use_is_refused_in_one_line(server):
    port = server.url.rpartition(":")[2]
    command = [sys.executable, "-m", "intonaco", "serve", "--port", port]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.count("\n")) == (3, 1)
    assert run.stderr.startswith(f"error: host 127.0.0.1 and port {port} cannot be bound (")


def test_nothing_of_a_request_is_written_to_the_disk():
    def no_file_may_grow() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    content = os.urandom(3 << 20)
    with running_server(preexec_fn=no_file_may_grow) as server:
        server.await_ready()
        files = {"image": ("a.png", content, "image/png")}
        answer = server.client.post("/v1/images/edits", files=files, data={"prompt": "a doll"})
        assert error_of(answer)[0] == 400
        assert server.draw().status_code == 200
