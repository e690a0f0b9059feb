"""What clients may ask and what they are told: bounds, fairness, deadlines, cancels, keys.

The API process is the real one; the model process is a fake that draws digests.
"""

import io
import json
import socket
import struct
import threading
import zlib

import httpx
import pytest
from PIL import Image

from tests.support.running_server import (
    DEADLINE_S,
    RunningServer,
    digests,
    picture_bytes,
    running_server,
)

pytestmark = pytest.mark.timeout(DEADLINE_S + 60)
KEY = "a-key-of-many-characters"


@pytest.fixture(scope="module")
def server():
    with running_server("--set", "max_queue=12") as started:
        yield started.await_ready()


@pytest.fixture
def busy(server):
    """The server while it draws something that ends only when it is cancelled."""
    job_id = server.start_job("endless")
    server.await_job_event(job_id, "step")
    yield server
    server.client.delete(f"/v1/jobs/{job_id}")


def png(*, size: tuple[int, int] = (64, 64), mode: str = "RGB", color: object = 0) -> bytes:
    content = io.BytesIO()
    Image.new(mode, size, color).save(content, format="PNG")
    return content.getvalue()


def post_edit(server: RunningServer, files: list, **fields: str) -> httpx.Response:
    return server.client.post("/v1/images/edits", files=files, data={"prompt": "a doll", **fields})


def image(content: bytes, field: str = "image") -> tuple:
    return (field, ("a.png", content, "image/png"))


def post_raw(server: RunningServer, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return server.client.post("/v1/images/generations", content=body, headers=headers)


def test_pictures_of_one_request_differ_and_equal_those_drawn_before(server):
    first, again = server.draw(n=3), server.draw(n=3)
    assert len(set(digests(first))) == 3
    assert digests(first) == digests(again)


def test_without_a_seed_one_is_drawn_and_told(server):
    answer = server.client.post("/v1/images/generations", json={"prompt": "a doll"})
    seed = answer.json()["data"][0]["seed"]
    assert digests(server.draw(seed=seed)) == digests(answer)


def test_many_callers_at_once_each_get_their_own_pictures():
    with running_server() as server:
        server.await_ready()
        alone = [digests(server.draw(f"a doll {seed}", seed=seed)) for seed in range(24)]
        together: dict[int, list[str]] = {}

        def ask(seed: int) -> None:
            together[seed] = digests(server.draw(f"a doll {seed}", seed=seed))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=DEADLINE_S)
    assert [together[seed] for seed in range(24)] == alone


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prompt": "a " * 50_000}, "prompt"),
        ({"prompt": "a " * 60}, "prompt"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": "a \ud800"}, "prompt"),
        ({}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": "a", "size": "100000x10000"}, "size"),
        ({"prompt": "a", "size": "65x64"}, "size"),
        ({"prompt": "a", "size": "16x16"}, "size"),
        ({"prompt": "a", "size": "16384x64"}, "size"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"prompt": "a", "n": 11}, "n"),
        ({"prompt": "a", "n": True}, "n"),
        ({"prompt": "a", "n": 1.5}, "n"),
        ({"prompt": "a", "steps": 51}, "steps"),
        ({"prompt": "a", "seed": -1}, "seed"),
        ({"prompt": "a", "seed": 2**63}, "seed"),
        ({"prompt": "a", "model": "another"}, "model"),
        ({"prompt": "a", "response_format": "url"}, "response_format"),
        ({"prompt": "a", "output_format": "gif"}, "output_format"),
        ({"prompt": "a", "output_compression": 50}, "output_compression"),
        ({"prompt": "a", "quality": "hd"}, "quality"),
        ({"prompt": "a", "style": "vivid"}, "style"),
        ({"prompt": "a", "background": "transparent"}, "background"),
        ({"prompt": "a", "moderation": "low"}, "moderation"),
        ({"prompt": "a", "partial_images": 2}, "partial_images"),
        ({"prompt": "a", "step_cache": "cadence:9"}, "step_cache"),
        ({"prompt": "a", "guidance_scale": 3}, "guidance_scale"),
        ({"prompt": "a", "negative_prompt": "b"}, "negative_prompt"),
        ({"prompt": "a", "timeout_s": 0}, "timeout_s"),
        ({"prompt": "a", "image_url": "file:///etc/passwd"}, "image_url"),
    ],
)
def test_a_field_that_cannot_be_kept_is_named_before_the_queue(busy, body, field):
    answer = post_raw(busy, json.dumps(body).encode())
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (
        400,
        field,
        "invalid_request_error",
    )
    assert busy.client.get("/readyz").json()["waiting_pictures"] == 0


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"a"',
    b"1e999",
    b"\xff\xfe\x00",
    b'{"prompt": "a"',
    b'{"prompt": NaN}',
    b'{"prompt": null}',
    b'{"prompt": ["a"]}',
    b'{"prompt": {"$ref": "#"}}',
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b'{"prompt": "a", "n": 1e400}',
    b'{"prompt": "a", "n": 99999999999999999999999}',
    b'{"prompt": "a", "seed": "7"}',
    b'{"prompt": "a", "size": {"width": 64}}',
    b'{"prompt": "a", "__proto__": {}}',
    b'{"prompt": "\\ud800"}',
]


def test_twenty_malformed_bodies_between_good_ones_harm_none(server):
    expected, pid = digests(server.draw()), server.model_pid
    for body in MALFORMED:
        answer = post_raw(server, body)
        assert (answer.status_code, "error" in answer.json()) == (400, True), body[:40]
        assert digests(server.draw()) == expected
    assert server.model_pid == pid


def test_a_full_queue_refuses_with_the_time_to_ask_again(busy):
    jobs = [busy.start_job(n=6), busy.start_job(n=5)]
    refused = busy.draw(n=2)
    taken = busy.start_job(n=1)
    for job_id in (*jobs, taken):
        busy.client.delete(f"/v1/jobs/{job_id}")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["code"] == "queue_full"


def test_callers_take_turns_picture_by_picture(server):
    first = server.start_job("endless")
    server.await_job_event(first, "step")
    many, one = server.start_job(n=3, user="many"), server.start_job(n=1, user="one")
    seen = len(server.lines)
    server.client.delete(f"/v1/jobs/{first}")
    server.await_event("job_ended", after=seen, request_id=many)
    ended = [line["request_id"] for line in server.lines[seen:] if line["event"] == "job_ended"]
    assert ended == [first, one, many]


def test_a_deadline_ends_a_request_that_waits(busy):
    answer = busy.draw(timeout_s=0.2)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "out_of_time")
    assert answer.json()["error"]["message"].endswith("s in the queue")


def test_a_deadline_ends_a_request_that_is_drawn(server):
    expected = digests(server.draw())
    answer = server.draw("endless", timeout_s=0.3)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "out_of_time")
    assert digests(server.draw()) == expected


def test_a_job_is_cancelled_by_its_id_at_the_next_step(server):
    expected, pid = digests(server.draw()), server.model_pid
    job_id = server.start_job("endless")
    server.await_job_event(job_id, "step")
    server.client.delete(f"/v1/jobs/{job_id}")
    error = server.await_job_event(job_id, "failed")["error"]
    assert (error["code"], error["message"].startswith("cancelled by its client")) == (
        "cancelled",
        True,
    )
    assert (digests(server.draw()), server.model_pid) == (expected, pid)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_goes_away_cancels_what_it_asked_for(server, is_streamed):
    seen, pid = len(server.lines), server.model_pid
    body = json.dumps({"prompt": "endless", "stream": is_streamed}).encode()
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /v1/images/generations HTTP/1.1\r\nhost: {host}:{port}\r\n"
        head += "content-type: application/json\r\n"
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        job_id = server.await_event("job_queued", after=seen)["request_id"]
        server.await_job_event(job_id, "step")
    line = server.await_event("job_ended", after=seen, request_id=job_id)
    assert line["error"] == "GenerationCancelled"
    assert server.model_pid == pid


def test_the_events_of_a_job_come_in_order_and_from_the_first(server):
    job_id = server.start_job(n=2, steps=3, partial_images=1)
    server.await_job_event(job_id, "done")
    kinds = [kind for kind, _ in server.events(job_id)]
    assert kinds == [
        "queued",
        *("started", "step", "partial", "step", "step", "picture") * 2,
        "done",
    ]


def test_an_unknown_job_path_and_method_are_errors_in_one_form(server):
    missing = server.client.get("/v1/jobs/req-0")
    path = server.client.get("/v1/nothing")
    method = server.client.get("/v1/images/generations")
    statuses = [answer.status_code for answer in (missing, path, method)]
    assert statuses == [404, 404, 405]
    assert all("message" in answer.json()["error"] for answer in (missing, path, method))


# Edits


def test_an_edit_takes_a_mask_whose_transparent_pixels_may_change(server):
    mask = png(mode="RGBA", color=(0, 0, 0, 0))
    answer = post_edit(server, [image(png()), image(mask, "mask")])
    other = post_edit(server, [image(png(color=9)), image(mask, "mask")])
    assert digests(answer) != digests(other)


def test_a_black_and_white_mask_is_one_only_where_the_form_says_so(server):
    files = [image(png()), image(png(mode="L", color=255), "mask")]
    refused = post_edit(server, files)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "mask")
    assert "mask_format=white" in refused.json()["error"]["message"]
    assert post_edit(server, files, mask_format="white").status_code == 200


def test_pictures_without_a_mask_are_references(server):
    answer = post_edit(server, [image(png(size=(80, 96)), "image[]")] * 2, size="64x80")
    assert answer.json()["size"] == "64x80"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# A small file that says it holds 12,000 x 12,000 pixels.
BOMB = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 12_000, 12_000, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(bytes(1000)))
)


@pytest.mark.parametrize(
    ("files", "fields", "field"),
    [
        ([], {}, "image"),
        ([image(b"no picture")], {}, "image"),
        ([image(png()[:60])], {}, "image"),
        ([image(BOMB)], {}, "image"),
        ([image(png(size=(1001, 1000)))], {}, "image"),
        ([image(png())] * 6, {}, "image"),
        ([image(png(size=(48, 64)))], {}, "image"),
        ([image(png()), image(png(size=(80, 64), mode="LA"), "mask")], {}, "mask"),
        ([image(png()), image(png(mode="LA"), "mask")], {"prompt": " "}, "prompt"),
        ([image(png()), image(png(mode="LA"), "mask")], {"size": "80x80"}, "size"),
        ([image(png(size=(65, 64))), image(png(size=(65, 64), mode="LA"), "mask")], {}, "image"),
        ([image(png()), image(png(mode="LA"), "mask")], {"feather_pixels": "65"}, "feather_pixels"),
        ([image(png())], {"input_fidelity": "high"}, "input_fidelity"),
        ([image(png())], {"n": "many"}, "n"),
        ([image(png()), image(png(), "markup")], {}, "markup"),
        ([("image", (None, "https://example.org/a.png"))], {}, "image"),
    ],
)
def test_an_edit_that_cannot_be_done_names_the_field(busy, files, fields, field):
    answer = post_edit(busy, files, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field), answer.text
    assert busy.client.get("/readyz").json()["waiting_pictures"] == 0


# Who may ask, and how much


def test_a_long_body_is_refused_whether_its_length_is_told_or_not():
    with running_server("--set", "max_body_bytes=2000") as server:
        told = server.client.post("/v1/images/generations", content=b"a" * 2001)
        chunks = iter([b"a" * 1500, b"a" * 1500])
        untold = server.client.post("/v1/images/generations", content=chunks)
    assert [answer.status_code for answer in (told, untold)] == [413, 413]


def test_a_body_that_does_not_arrive_ends_with_its_time():
    with running_server("--set", "body_timeout_s=0.2") as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            head = f"POST /v1/images/generations HTTP/1.1\r\nhost: {host}:{port}\r\n"
            connection.sendall(f"{head}content-length: 100\r\n\r\n".encode() + b"{")
            assert connection.recv(4096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {KEY}"}, 401),
        ({"authorization": f"Bearer {KEY}"}, 200),
    ],
)
def test_the_key_opens_every_route_but_health(keyed_server, headers, status):
    paths = ["/v1/models", "/metrics", "/v1/profile", "/openapi.json"]
    answers = [keyed_server.client.get(path, headers=headers) for path in paths]
    assert [answer.status_code for answer in answers] == [status] * 4
    assert keyed_server.client.get("/healthz").status_code == 200
    assert all(KEY not in answer.text for answer in answers)


@pytest.fixture(scope="module")
def keyed_server(tmp_path_factory):
    file = tmp_path_factory.mktemp("key") / "key"
    file.write_text(KEY)
    fields = ("--set", f"api_key_file={file}", "--set", "host=0.0.0.0")
    with running_server(*fields) as server:
        server.client.base_url = server.url.replace("0.0.0.0", "127.0.0.1")
        yield server.await_ready()


@pytest.mark.parametrize(
    "headers", [{"origin": "https://example.org"}, {"host": "example.org"}, {"origin": "null"}]
)
def test_pages_of_other_sites_reach_nothing(server, headers):
    answer = server.client.get("/v1/models", headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


def test_the_log_holds_ids_and_no_prompt_unless_asked(server):
    answer = server.draw("a very private doll")
    server.await_event("request", request_id=answer.headers["x-request-id"])
    assert not any("very private" in json.dumps(line) for line in server.lines)
    with running_server("--set", "log_prompts=true") as verbose:
        verbose.await_ready().draw("a very private doll")
        assert verbose.await_event("job_queued")["prompt"] == "a very private doll"


def test_metrics_count_pictures_steps_and_the_state(server):
    server.draw(n=2)
    text = server.client.get("/metrics").text
    assert 'intonaco_state{state="ready"} 1.0' in text
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(counts['intonaco_pictures_total{outcome="drawn"}']) >= 2
    assert float(counts["intonaco_steps_total"]) >= 8


def test_a_private_request_leaves_its_prompt_out_of_the_receipt(server):
    answer = server.draw("a doll", private=True)
    assert answer.json()["data"][0]["receipt"]["prompt"] is None
    assert b"a doll" not in picture_bytes(answer)
