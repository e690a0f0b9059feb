"""The server with a tiny Wan checkpoint: real films, the same after every fault as before."""

import base64
import io
import os
import signal

import av
import numpy as np
import openai
import pytest

import intonaco
from intonaco.pipelines.receipt import Receipt
from tests.support.running_server import DEADLINE_S, SHIPPED, RunningServer, running_server
from tests.support.tiny_wan import build_tiny_wan

pytestmark = [
    pytest.mark.timeout(2 * DEADLINE_S),
    pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning"),
]
PROMPT = "a cat walks slowly"
FIELDS = {"prompt": PROMPT, "seed": 7, "seconds": "0.5", "size": "32x48"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_tiny_wan(tmp_path_factory.mktemp("films") / "tiny-wan")


@pytest.fixture(scope="module")
def server(folder):
    with running_server("--set", f"model={folder}", command=SHIPPED) as started:
        yield started.await_ready()


def start(server: RunningServer, **fields: object) -> str:
    answer = server.client.post("/v1/videos", json={**FIELDS, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def film(server: RunningServer, **fields: object) -> tuple[dict, bytes]:
    """Return a finished film and its file."""
    video_id = start(server, **fields)
    server.await_job_event(video_id, "done")
    video = server.client.get(f"/v1/videos/{video_id}").json()
    assert video["status"] == "completed", video
    return video, server.client.get(f"/v1/videos/{video_id}/content").content


def decoded(content: bytes) -> tuple[str, float, list[np.ndarray]]:
    """Return the comment, the frames per second and the frames (H, W, 3) of an MP4 file."""
    with av.open(io.BytesIO(content)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        rate = float(container.streams.video[0].average_rate)
        return container.metadata["comment"], rate, frames


def test_it_draws_the_film_that_the_library_draws(server, folder):
    video, content = film(server)
    drawn = intonaco.load(folder).generate(PROMPT, seed=7, width=32, height=48, num_frames=9)
    comment, rate, frames = decoded(content)
    assert video["receipt"]["picture_sha256"] == drawn.receipt.picture_sha256
    assert Receipt.from_json(comment).model_dump(mode="json") == video["receipt"]
    assert (rate, [frame.shape for frame in frames]) == (16, [(48, 32, 3)] * 9)


def test_the_official_client_gets_a_film_that_a_player_reads(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        video = client.videos.create_and_poll(prompt=PROMPT, seconds="0.25", size="32x32")
        content = client.videos.download_content(video.id).read()
    assert (video.status, video.seconds, video.model) == ("completed", "0.25", "tiny-wan")
    assert len(decoded(content)[2]) == 5


def test_a_guided_film_with_cached_steps_is_kept_in_its_receipt(server):
    fields = {"negative_prompt": "blurry dark", "guidance_scale": 2.5, "steps": 8}
    video, _ = film(server, **fields, step_cache="cadence:2")
    receipt = video["receipt"]
    assert (receipt["guidance_scale"], receipt["negative_prompt"]) == (2.5, "blurry dark")
    assert receipt["step_cache"]["num_cached"] > 0


def test_a_served_film_can_be_replayed_from_its_first_frame(server, folder, tmp_path):
    video, _ = film(server, step_cache="cadence:2", steps=6)
    (first,) = server.client.get(f"/v1/jobs/{video['id']}").json()["data"]
    file = tmp_path / "first-frame.png"
    file.write_bytes(base64.b64decode(first["b64_json"]))
    assert len(intonaco.replay(file, folder).frames) == 9


def test_after_a_kill_in_a_step_the_same_seed_gives_the_same_file(server):
    _, before = film(server)
    seen, pid = len(server.lines), server.model_pid
    video_id = start(server, steps=50)
    server.await_job_event(video_id, "step")
    os.kill(pid, signal.SIGKILL)
    error = server.await_job_event(video_id, "failed")["error"]
    server.await_ready(after=seen)
    _, after = film(server)
    assert error["code"] == "model_process"
    # All of the file but its receipt, which holds the time of each step.
    assert [frame.tobytes() for frame in decoded(after)[2]] == [
        frame.tobytes() for frame in decoded(before)[2]
    ]


def test_after_a_film_is_deleted_in_a_step_the_same_process_draws_the_same(server):
    (before, _), pid = film(server), server.model_pid
    video_id, seen = start(server, steps=50), len(server.lines)
    server.await_job_event(video_id, "step")
    server.client.delete(f"/v1/videos/{video_id}")
    server.await_event("job_ended", after=seen, request_id=video_id)
    after, _ = film(server)
    assert after["receipt"]["picture_sha256"] == before["receipt"]["picture_sha256"]
    assert server.model_pid == pid


def test_a_prompt_is_counted_as_the_model_counts_it(server):
    longest = server.client.post("/v1/videos", json={**FIELDS, "prompt": "cat " * 11})
    longer = server.client.post("/v1/videos", json={**FIELDS, "prompt": "cat " * 12})
    assert (longest.status_code, longer.status_code) == (200, 400)
    assert "at most 12 tokens, got 13" in longer.json()["error"]["message"]
    server.await_job_event(longest.json()["id"], "done")


def test_the_api_process_loads_neither_torch_nor_a_codec(server):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        mapped = maps.read()
    assert ("libtorch" in mapped, "libavcodec" in mapped) == (False, False)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (["film_seconds=[0.3]"], "ProfileError: film_seconds must be multiples of 0.25, got 0.3"),
        (["sizes=[40x32]"], "RequestError: width must be a multiple of 16, got 40"),
        (["step_caches=[calibrated]"], "CalibrationError: calibration file"),
    ],
)
def test_a_profile_that_cannot_be_served_fails_with_its_reason(folder, fields, reason):
    words = [word for field in (f"model={folder}", *fields) for word in ("--set", field)]
    with running_server(*words, command=SHIPPED) as server:
        line = server.await_event("state", state="failed")
    assert line["reason"].startswith(reason)


def test_lengths_that_the_profile_lists_are_the_only_ones(folder):
    words = ("--set", f"model={folder}", "--set", "film_seconds=[0.5, 0.25]")
    with running_server(*words, command=SHIPPED) as server:
        server.await_ready()
        answer = server.client.post("/v1/videos", json={"prompt": PROMPT})
        other = server.client.post("/v1/videos", json={"prompt": PROMPT, "seconds": "1"})
        assert answer.json()["seconds"] == "0.5"
        assert "must be one of 0.5, 0.25, got 1" in other.json()["error"]["message"]
