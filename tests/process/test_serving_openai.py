"""OpenAI's official Python client against the server: the contract of its image routes."""

import base64
import io

import openai
import pytest
from PIL import Image

from tests.support.running_server import DEADLINE_S, digests, running_server

pytestmark = pytest.mark.timeout(DEADLINE_S + 60)


@pytest.fixture(scope="module")
def server():
    with running_server() as started:
        yield started.await_ready()


@pytest.fixture(scope="module")
def client(server):
    address = f"{server.url}/v1"
    with openai.OpenAI(base_url=address, api_key="unused", max_retries=0) as made:
        yield made


def opened(b64_json: str | None) -> Image.Image:
    assert b64_json
    return Image.open(io.BytesIO(base64.b64decode(b64_json)))


def picture_file(color: object = 0, mode: str = "RGB") -> tuple[str, bytes, str]:
    content = io.BytesIO()
    Image.new(mode, (64, 64), color).save(content, format="PNG")
    return ("a.png", content.getvalue(), "image/png")


def test_n_and_size_are_kept(client):
    answer = client.images.generate(prompt="a doll", n=3, size="80x64")
    assert [opened(image.b64_json).size for image in answer.data] == [(80, 64)] * 3
    assert answer.size == "80x64"


@pytest.mark.parametrize("output_format", ["png", "jpeg", "webp"])
def test_the_output_format_is_kept(client, output_format):
    answer = client.images.generate(prompt="a doll", output_format=output_format)
    assert opened(answer.data[0].b64_json).format == output_format.upper()
    assert answer.output_format == output_format


def test_the_compression_is_kept(client):
    sizes = [
        len(
            client.images.generate(
                prompt="a", output_format="jpeg", output_compression=quality, extra_body={"seed": 1}
            )
            .data[0]
            .b64_json
        )
        for quality in (90, 10)
    ]
    assert sizes[0] > 2 * sizes[1]


def test_a_seed_beside_the_clients_own_fields_is_kept(client, server):
    answer = client.images.generate(prompt="a doll", extra_body={"seed": 7})
    receipt = answer.data[0].model_extra["receipt"]
    assert [receipt["picture_sha256"]] == digests(server.draw("a doll", seed=7))


def test_a_stream_gives_previews_and_then_the_picture(client, server):
    stream = client.images.generate(
        prompt="a doll", stream=True, partial_images=2, extra_body={"seed": 7, "steps": 8}
    )
    events = list(stream)
    assert [event.type for event in events] == [
        "image_generation.partial_image",
        "image_generation.partial_image",
        "image_generation.completed",
    ]
    assert [event.partial_image_index for event in events[:2]] == [0, 1]
    assert len({event.b64_json for event in events}) == 3
    receipt = events[2].model_extra["receipt"]
    assert [receipt["picture_sha256"]] == digests(server.draw("a doll", seed=7, steps=8))


def test_an_edit_takes_picture_mask_and_prompt(client):
    answer = client.images.edit(
        image=picture_file(), mask=picture_file((0, 0, 0, 0), "RGBA"), prompt="a doll", n=2
    )
    assert len(answer.data) == 2


def test_an_edit_takes_several_pictures_and_streams(client):
    stream = client.images.edit(
        image=[picture_file(), picture_file(9)],
        mask=picture_file((0, 0, 0, 0), "RGBA"),
        prompt="a doll",
        stream=True,
        partial_images=1,
    )
    assert [event.type for event in stream] == ["image_edit.partial_image", "image_edit.completed"]


def test_a_refusal_is_a_bad_request_that_names_the_field(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.images.generate(prompt="a doll", size="1x1")
    assert (caught.value.param, caught.value.code) == ("size", "invalid_value")


@pytest.mark.parametrize(
    "fields",
    [
        {"quality": "hd"},
        {"style": "vivid"},
        {"response_format": "url"},
        {"background": "transparent"},
        {"frame_count": 3},
        {"complexity": "low"},
        {"safety_identifier": "someone"},
    ],
)
def test_a_field_of_the_client_that_cannot_be_kept_is_refused_by_name(client, fields):
    with pytest.raises(openai.BadRequestError) as caught:
        client.images.generate(prompt="a doll", **fields)
    assert caught.value.param == next(iter(fields))


def test_a_failure_within_a_stream_reaches_the_client(client, server):
    stream = client.images.generate(prompt="raise", stream=True, partial_images=1)
    seen = len(server.lines)
    with pytest.raises(openai.APIError, match="raised RuntimeError"):
        list(stream)
    server.await_ready(after=seen)


def test_a_failure_is_a_server_error_that_says_what_happened(client, server):
    seen = len(server.lines)
    with pytest.raises(openai.InternalServerError, match="raised RuntimeError"):
        client.images.generate(prompt="raise")
    server.await_ready(after=seen)


def test_the_id_of_a_request_is_told(client):
    answer = client.images.generate(prompt="a doll")
    assert answer._request_id.startswith("req-")


def test_the_served_model_is_listed_and_found(client):
    (model,) = client.models.list().data
    assert (model.id, client.models.retrieve("fake").id) == ("fake", "fake")
    assert client.images.generate(prompt="a doll", model="fake").data
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")
