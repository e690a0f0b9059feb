"""The video routes: what clients may ask of a model of films, and what they are told.

The API process is the real one; the model process is a fake whose films are digests, not MP4 files.
"""

import json
import os
import signal

import httpx
import openai
import pytest

from tests.support.running_server import DEADLINE_S, RunningServer, running_server

pytestmark = [
    pytest.mark.timeout(DEADLINE_S + 60),
    # The client marks its video methods as deprecated; they are what is tested.
    pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning"),
]
QUICK = ("--set", "step_timeout_s=1", "--set", "cancel_timeout_s=1", "--set", "stop_timeout_s=1")


@pytest.fixture(scope="module")
def server():
    with running_server("--films", "--set", "max_queue=12", *QUICK) as started:
        yield started.await_ready()


@pytest.fixture(scope="module")
def client(server):
    address = f"{server.url}/v1"
    with openai.OpenAI(base_url=address, api_key="unused", max_retries=0) as made:
        yield made


def post(server: RunningServer, **fields: object) -> httpx.Response:
    return server.client.post("/v1/videos", json={"prompt": "a doll walks", "seed": 7, **fields})


def start(server: RunningServer, **fields: object) -> str:
    answer = post(server, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def film(server: RunningServer, **fields: object) -> bytes:
    """Return the content of a film once it is done."""
    video_id = start(server, **fields)
    server.await_job_event(video_id, "done")
    answer = server.client.get(f"/v1/videos/{video_id}/content")
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.fixture
def endless(server):
    """The id of a film that ends only when it is cancelled, and that is being drawn."""
    video_id = start(server, prompt="endless")
    server.await_job_event(video_id, "step")
    yield video_id
    server.client.delete(f"/v1/videos/{video_id}")


def read(server: RunningServer, video_id: str) -> dict:
    return server.client.get(f"/v1/videos/{video_id}").json()


# What OpenAI's client asks


def test_a_film_is_made_watched_and_fetched_by_the_official_client(client):
    video = client.videos.create_and_poll(
        prompt="a doll walks", seconds="0.5", size="80x64", extra_body={"seed": 7, "steps": 3}
    )
    content = client.videos.download_content(video.id).read()
    assert (video.object, video.status, video.progress) == ("video", "completed", 100)
    assert (video.seconds, video.size, video.model) == ("0.5", "80x64", "fake")
    assert video.created_at <= video.completed_at
    assert video.model_extra["receipt"]["num_frames"] == 9
    assert len(content) == 1000 * 9


def test_films_are_listed_page_by_page_and_deleted(client, server):
    for video in client.videos.list():
        client.videos.delete(video.id)
    made = [start(server) for _ in range(5)]
    for video_id in made:
        server.await_job_event(video_id, "done")
    page = client.videos.list(limit=2)
    assert ([video.id for video in page.data], page.has_more) == (made[:2:-1], True)
    assert [video.id for video in client.videos.list(limit=2)] == made[::-1]
    assert [video.id for video in client.videos.list(order="asc", after=made[2])] == made[3:]
    assert client.videos.delete(made[0]).deleted
    assert [video.id for video in client.videos.list(order="asc")] == made[1:]
    with pytest.raises(openai.NotFoundError, match="there is no video"):
        client.videos.retrieve(made[0])


def test_a_reference_of_the_client_is_refused_by_name(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.videos.create(prompt="a doll", input_reference=("a.png", b"bytes", "image/png"))
    assert caught.value.param == "input_reference"


# Asking


def test_a_form_and_json_with_the_same_fields_draw_the_same_film(server):
    form = {"prompt": "a doll walks", "seed": "7", "seconds": "0.75", "private": "true"}
    answer = server.client.post("/v1/videos", files={name: (None, form[name]) for name in form})
    assert answer.status_code == 200, answer.text
    video_id = answer.json()["id"]
    server.await_job_event(video_id, "done")
    content = server.client.get(f"/v1/videos/{video_id}/content").content
    assert content == film(server, seconds=0.75)
    assert (read(server, video_id)["prompt"], read(server, video_id)["seconds"]) == (None, "0.75")


def test_a_film_without_a_length_has_that_of_the_model(server):
    assert post(server).json()["seconds"] == "1"


@pytest.mark.parametrize(
    ("fields", "field", "told"),
    [
        ({"prompt": None}, "prompt", "prompt: "),
        ({"prompt": " "}, "prompt", "must say what to draw"),
        ({"prompt": "a " * 60}, "prompt", "at most 40 tokens, got"),
        ({"prompt": "a " * 50_000}, "prompt", "at most 4000 characters"),
        ({"negative_prompt": "a " * 60}, "negative_prompt", "at most 40 tokens, got"),
        ({"seconds": "1.1"}, "seconds", "must be a multiple of 0.25, at most 5, got 1.1; 1 works"),
        ({"seconds": "0"}, "seconds", "got 0; 0.25 works"),
        ({"seconds": "0.01"}, "seconds", "got 0.01; 0.25 works"),
        ({"seconds": "5.25"}, "seconds", "at most 5, got 5.25; ask for a shorter film"),
        ({"seconds": "1e3"}, "seconds", "such as 1, got '1e3'"),
        ({"seconds": "\u0661"}, "seconds", "such as 1, got '\u0661'"),
        ({"seconds": -1}, "seconds", "such as 1, got '-1.0'"),
        ({"seconds": True}, "seconds", "seconds: "),
        ({"seconds": "5", "size": "80x64"}, "seconds", "81 frames of 80x64; ask for a shorter"),
        ({"size": "65x64"}, "size", "64x64 works"),
        ({"steps": 51}, "steps", "must be in 1..50"),
        ({"steps": "4"}, "steps", "steps: "),
        ({"model": "another"}, "model", "model must be 'fake'"),
        ({"n": 2}, "n", "not a field that this server knows"),
        ({"input_reference": {"image_url": "file:///etc/passwd"}}, "input_reference", "None"),
        ({"step_cache": "cadence:9"}, "step_cache", "must be one of off"),
    ],
)
def test_a_field_that_cannot_be_kept_is_named_before_the_queue(
    server, endless, fields, field, told
):
    answer = post(server, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field), error
    assert told in error["message"]
    assert server.client.get("/readyz").json()["waiting_pictures"] == 0


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b'"a"'])
def test_a_body_that_is_no_object_is_refused(server, body):
    headers = {"content-type": "application/json"}
    answer = server.client.post("/v1/videos", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


@pytest.mark.parametrize(
    ("is_films", "method", "path"),
    [
        (True, "POST", "/v1/images/generations"),
        (True, "POST", "/v1/jobs"),
        (False, "POST", "/v1/videos"),
        (False, "GET", "/v1/videos"),
    ],
)
def test_a_route_of_the_other_kind_says_what_the_model_draws(is_films, method, path):
    with running_server(*(["--films"] if is_films else [])) as server:
        server.await_ready()
        fields = {"json": {"prompt": "a"}} if method == "POST" else {}
        answer = server.client.request(method, path, **fields)
    kinds = ("films, not pictures", "/v1/videos") if is_films else ("pictures, not films", "edits")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")
    assert all(word in answer.json()["error"]["message"] for word in kinds)


def test_an_edit_asked_of_a_model_of_films_says_what_it_draws(server):
    files = {"image": ("a.png", b"no picture", "image/png")}
    answer = server.client.post("/v1/images/edits", files=files, data={"prompt": "a"})
    assert "draws films, not pictures" in answer.json()["error"]["message"]


# Watching and fetching


def test_progress_grows_with_the_steps_and_is_100_only_when_all_is_done(server):
    video_id = start(server, steps=50)
    seen = []
    for kind, _ in server.events(video_id):
        if kind == "step":
            seen.append(read(server, video_id)["progress"])
    assert seen == sorted(seen)
    assert max(seen[:-1]) <= 99
    assert read(server, video_id)["progress"] == 100


def test_content_before_the_film_is_done_says_how_far_it_is(server, endless):
    waiting = start(server)
    answers = [server.client.get(f"/v1/videos/{one}/content") for one in (endless, waiting)]
    server.client.delete(f"/v1/videos/{waiting}")
    messages = [answer.json()["error"]["message"] for answer in answers]
    assert [answer.status_code for answer in answers] == [409, 409]
    assert "is in_progress (" in messages[0]
    assert "is queued (0 %)" in messages[1]


def test_an_id_that_no_film_has_is_not_found(server):
    paths = ["/v1/videos/req-0", "/v1/videos/req-0/content", "/v1/videos?after=req-0"]
    answers = [server.client.get(path) for path in paths]
    answers.append(server.client.delete("/v1/videos/req-0"))
    assert [answer.status_code for answer in answers] == [404] * 4
    assert all("there is no video 'req-0'" in answer.text for answer in answers)


def test_the_thumbnail_is_the_first_frame_as_webp(server):
    video_id = start(server)
    server.await_job_event(video_id, "done")
    answer = server.client.get(f"/v1/videos/{video_id}/content", params={"variant": "thumbnail"})
    other = server.client.get(f"/v1/videos/{video_id}/content", params={"variant": "spritesheet"})
    assert (answer.content[8:12], answer.headers["content-type"]) == (b"WEBP", "image/webp")
    assert (other.status_code, other.json()["error"]["param"]) == (400, "variant")


@pytest.mark.parametrize(
    ("asked", "status", "told", "part"),
    [
        ("bytes=0-99", 206, "bytes 0-99/17000", slice(0, 100)),
        ("bytes=16990-", 206, "bytes 16990-16999/17000", slice(16990, None)),
        ("bytes=-10", 206, "bytes 16990-16999/17000", slice(16990, None)),
        ("bytes=5-99999", 206, "bytes 5-16999/17000", slice(5, None)),
        ("bytes=17000-", 416, "bytes */17000", slice(0, 0)),
        ("bytes=9-5", 416, "bytes */17000", slice(0, 0)),
        ("bytes=-0", 416, "bytes */17000", slice(0, 0)),
        ("bytes=0-1,5-6", 200, None, slice(None)),
        ("bytes=-", 200, None, slice(None)),
        ("lines=1-2", 200, None, slice(None)),
    ],
)
def test_a_range_of_the_content_is_kept(server, ready_film, asked, status, told, part):
    path = f"/v1/videos/{ready_film}/content"
    whole = server.client.get(path)
    answer = server.client.get(path, headers={"range": asked})
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told)
    assert answer.content == whole.content[part]
    assert whole.headers["accept-ranges"] == "bytes"


@pytest.fixture(scope="module")
def ready_film(server):
    video_id = start(server)
    server.await_job_event(video_id, "done")
    return video_id


def test_a_range_of_another_film_is_answered_with_all_of_this_one(server, ready_film):
    path = f"/v1/videos/{ready_film}/content"
    tag = server.client.get(path).headers["etag"]
    statuses = [
        server.client.get(path, headers={"range": "bytes=0-9", "if-range": name}).status_code
        for name in (tag, '"another"')
    ]
    assert statuses == [206, 200]


# Faults


def test_a_killed_model_process_fails_the_film_with_its_cause_and_the_next_is_the_same(server):
    before = film(server)
    seen = len(server.lines)
    video_id = start(server, prompt="endless")
    server.await_job_event(video_id, "step")
    os.kill(server.model_pid, signal.SIGKILL)
    server.await_job_event(video_id, "failed")
    video, content = read(server, video_id), server.client.get(f"/v1/videos/{video_id}/content")
    assert (video["status"], video["error"]["code"]) == ("failed", "model_process")
    assert "was ended by SIGKILL, after" in video["error"]["message"]
    assert (content.status_code, "was ended by SIGKILL" in content.text) == (404, True)
    server.await_ready(after=seen)
    assert film(server) == before


def test_a_fault_in_a_step_is_the_films_error(server):
    video_id = start(server, prompt="raise")
    server.await_job_event(video_id, "failed")
    video = read(server, video_id)
    assert video["error"]["message"].endswith("is not finite, after 1 of 4 steps")
    assert (video["progress"], video["completed_at"], video["receipt"]) == (25, None, None)


def test_a_film_that_is_deleted_while_it_is_drawn_is_cancelled(server):
    before, pid, seen = film(server), server.model_pid, len(server.lines)
    video_id = start(server, prompt="endless")
    server.await_job_event(video_id, "step")
    answer = server.client.delete(f"/v1/videos/{video_id}")
    line = server.await_event("job_ended", after=seen, request_id=video_id)
    assert answer.json() == {"id": video_id, "object": "video.deleted", "deleted": True}
    assert line["error"] == "GenerationCancelled"
    assert server.client.get(f"/v1/videos/{video_id}").status_code == 404
    assert (film(server), server.model_pid) == (before, pid)


def test_a_film_that_is_cancelled_as_a_job_can_still_be_read(server):
    video_id = start(server, prompt="endless")
    server.await_job_event(video_id, "step")
    server.client.delete(f"/v1/jobs/{video_id}")
    server.await_job_event(video_id, "failed")
    assert (read(server, video_id)["status"], read(server, video_id)["error"]["code"]) == (
        "failed",
        "cancelled",
    )


def test_a_film_whose_time_is_over_says_so(server):
    video_id = start(server, prompt="endless", timeout_s=0.3)
    server.await_job_event(video_id, "failed")
    assert read(server, video_id)["error"]["code"] == "out_of_time"


def test_a_full_queue_refuses_films_with_the_time_to_ask_again(server, endless):
    waiting = [start(server) for _ in range(12)]
    refused = post(server)
    for video_id in waiting:
        server.client.delete(f"/v1/videos/{video_id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1


def test_no_more_films_are_kept_than_may_be():
    with running_server("--films", "--set", "max_jobs_kept=2") as server:
        server.await_ready()
        made = [start(server) for _ in range(4)]
        server.await_job_event(made[3], "done")
        listed = server.client.get("/v1/videos").json()["data"]
    assert [video["id"] for video in listed] == [made[3], made[2]]


def test_a_server_that_failed_since_still_hands_out_its_films(tmp_path):
    marker = ("--start", "drift", "--marker", str(tmp_path / "tried"))
    with running_server("--films", *marker) as server:
        content = film(server.await_ready())
        (video,) = server.client.get("/v1/videos").json()["data"]
        os.kill(server.model_pid, signal.SIGKILL)
        server.await_event("state", state="failed")
        after = server.client.get(f"/v1/videos/{video['id']}/content")
        assert (after.content, post(server).status_code) == (content, 503)
    assert json.dumps(video["receipt"])
