"""The server with the shipped model: real pictures, the same after every fault as before."""

import base64
import io
import os
import re
import shutil
import signal
from pathlib import Path

import openai
import pytest
from PIL import Image, ImageChops, ImageStat

import intonaco
from intonaco.families.source import shipped_folder
from tests.support.running_server import (
    DEADLINE_S,
    SHIPPED,
    digests,
    is_gone,
    picture_bytes,
    running_server,
)

pytestmark = pytest.mark.timeout(2 * DEADLINE_S)
PROMPT = "a doll with curly ginger hair, glasses, a striped teal sweater, at the beach"
DEMO = shipped_folder().parent / "demo"


@pytest.fixture(scope="module")
def server():
    with running_server(command=SHIPPED) as started:
        yield started.await_ready()


@pytest.fixture(scope="module")
def client(server):
    address = f"{server.url}/v1"
    with openai.OpenAI(base_url=address, api_key="unused", max_retries=0) as made:
        yield made


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert("RGB")


def test_it_draws_the_pixels_that_the_library_draws(server):
    served = server.draw(PROMPT, seed=7)
    drawn = intonaco.load().generate(PROMPT, seed=7)
    assert digests(served) == [drawn.receipt.picture_sha256]
    assert opened(picture_bytes(served)).tobytes() == drawn.image.tobytes()


def test_a_served_picture_can_be_replayed(server, tmp_path):
    file = tmp_path / "served.png"
    file.write_bytes(picture_bytes(server.draw(PROMPT, seed=8, step_cache="cadence:2")))
    assert intonaco.replay(file).receipt.step_cache.num_cached > 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_kill_in_a_step_the_same_seed_gives_the_same_bytes(server, number):
    fields = {"seed": 9, "output_format": "webp"}
    before = picture_bytes(server.draw(PROMPT, **fields))
    seen, pid = len(server.lines), server.model_pid
    job_id = server.start_job(PROMPT, steps=50)
    server.await_job_event(job_id, "step")
    os.kill(pid, number)
    error = server.await_job_event(job_id, "failed")["error"]
    server.await_ready(after=seen)
    assert (error["code"], is_gone(pid)) == ("model_process", True)
    assert picture_bytes(server.draw(PROMPT, **fields)) == before


def test_after_a_cancel_in_a_step_the_same_seed_gives_the_same_bytes(server):
    fields = {"seed": 9, "output_format": "webp", "step_cache": "cadence:2"}
    before, pid = picture_bytes(server.draw(PROMPT, **fields)), server.model_pid
    job_id = server.start_job(PROMPT, steps=50, step_cache="cadence:2")
    server.await_job_event(job_id, "step")
    server.client.delete(f"/v1/jobs/{job_id}")
    assert server.await_job_event(job_id, "failed")["error"]["code"] == "cancelled"
    assert (picture_bytes(server.draw(PROMPT, **fields)), server.model_pid) == (before, pid)


def test_previews_come_closer_to_the_picture_step_by_step(client):
    stream = client.images.generate(
        prompt=PROMPT, stream=True, partial_images=3, extra_body={"seed": 7}
    )
    pictures = [opened(base64.b64decode(event.b64_json)) for event in stream]
    *previews, final = pictures
    distances = [
        sum(ImageStat.Stat(ImageChops.difference(preview, final)).mean) for preview in previews
    ]
    assert len(previews) == 3
    assert distances == sorted(distances, reverse=True)


def test_an_edit_keeps_every_pixel_outside_its_mask(client, server, tmp_path):
    template, mask = picture_bytes(server.draw(PROMPT, seed=7)), DEMO / "clothes-mask.png"
    answer = client.images.edit(
        image=[("a.png", template), ("b.png", (DEMO / "clothes.png").read_bytes())],
        mask=("m.png", mask.read_bytes()),
        prompt=PROMPT,
        extra_body={"seed": 3, "mask_format": "white"},
    )
    edited = opened(base64.b64decode(answer.data[0].b64_json))
    file = tmp_path / "template.png"
    file.write_bytes(template)
    here = intonaco.load().edit(
        file, mask, prompt=PROMPT, references=[DEMO / "clothes.png"], seed=3
    )
    assert edited.tobytes() == here.image.tobytes()


def test_the_api_process_never_loads_torch(server):
    mapped = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "libtorch" not in mapped
    assert "libtorch" in Path(f"/proc/{server.model_pid}/maps").read_text()


def test_the_smoke_generation_went_through_the_step_cache(server):
    assert server.client.get("/v1/profile").json()["model"]["smoke_num_cached"] > 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (["model_digest='" + "0" * 64 + "'"], "CheckpointError: model_digest must be 000000000000"),
        (
            ["model=no-such-folder"],
            "ModelNotFoundError: model folder no-such-folder does not exist",
        ),
        (["model=COPY", "step_caches=[calibrated]"], "CalibrationError: calibration file"),
        (["backend=inductor", "may_compile=false", "store=STORE"], "ArtifactMissingError: "),
    ],
)
def test_a_profile_that_cannot_be_served_fails_with_its_reason(fields, reason, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(shipped_folder(), copy, ignore=shutil.ignore_patterns("step-cache.json"))
    places = {"STORE": str(tmp_path / "store"), "COPY": str(copy)}
    fields = [re.sub("STORE|COPY", lambda found: places[found.group()], field) for field in fields]
    words = [word for field in fields for word in ("--set", field)]
    with running_server(*words, command=SHIPPED) as server:
        line = server.await_event("state", state="failed")
        assert server.client.get("/healthz").status_code == 200
    assert line["reason"].startswith(reason)


def test_weights_that_were_cut_short_are_named(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(shipped_folder(), folder)
    (file,) = (folder / "transformer").glob("*.safetensors")
    with file.open("r+b") as opened_file:
        opened_file.truncate(1_000_000)
    with running_server("--set", f"model={folder}", command=SHIPPED) as server:
        line = server.await_event("state", state="failed")
    assert line["reason"].startswith("CheckpointError: ")
    assert file.name in line["reason"]


def test_a_model_process_without_enough_memory_fails_with_its_reason():
    limits = ("--set", "max_memory_bytes=1200000000", "--set", "max_starts=1")
    with running_server(*limits, command=SHIPPED) as server:
        line = server.await_event("state", state="failed")
        assert server.client.get("/healthz").status_code == 200
    assert line["reason"]
