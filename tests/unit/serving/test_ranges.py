import asyncio
import random

import pytest
from starlette.requests import Request

from intonaco.serving.ranges import CHUNK_BYTES, byte_range, file_response

CONTENT = random.Random(0).randbytes(3 * CHUNK_BYTES + 1000)


@pytest.mark.parametrize(
    ("first", "last", "part"),
    [
        ("0", "0", range(1)),
        ("2", "", range(2, 10)),
        ("", "3", range(7, 10)),
        ("", "99", range(10)),
        ("9", "99", range(9, 10)),
        ("10", "", None),
        ("3", "2", None),
        ("", "0", None),
    ],
)
def test_a_range_of_bytes_is_cut_at_the_end_of_the_file(first, last, part):
    assert byte_range(first, last, 10) == part


def messages_of(*headers: tuple[bytes, bytes]) -> list[dict]:
    """Return what is sent for a request with these headers."""
    scope = {"type": "http", "method": "GET", "headers": list(headers)}
    scope["asgi"] = {"version": "3.0", "spec_version": "2.4"}
    sent: list[dict] = []

    async def answer() -> None:
        async def receive() -> dict:
            return {"type": "http.disconnect"}

        async def send(message: dict) -> None:
            sent.append(message)

        response = file_response(Request(scope), CONTENT, media_type="video/mp4", name="a")
        await response(scope, receive, send)

    asyncio.run(answer())
    return sent


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        (None, slice(None)),
        (b"bytes=5-", slice(5, None)),
        (b"bytes=0-262143", slice(0, 262144)),
        (b"bytes=262143-262144", slice(262143, 262145)),
    ],
)
def test_a_long_file_is_sent_in_chunks_that_make_up_what_was_asked_for(asked, part):
    start, *bodies = messages_of(*([] if asked is None else [(b"range", asked)]))
    chunks = [message["body"] for message in bodies]
    assert b"".join(chunks) == CONTENT[part]
    assert max(len(chunk) for chunk in chunks) <= CHUNK_BYTES
    assert dict(start["headers"])[b"content-length"] == b"%d" % len(CONTENT[part])
