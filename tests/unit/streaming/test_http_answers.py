"""Answers that are not what was asked for: each is refused, with its reason and what would work."""

import asyncio

import pytest

from intonaco.errors import StoreAnswerError, StoreLostError
from intonaco.streaming.http_store import HttpConnection, HttpStore
from intonaco.streaming.store import RangeRequest

WANTED = RangeRequest(name="basis.itn", start=10, stop=14)
RIGHT = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nContent-Range: bytes 10-13/99\r\n"


class Discarding:
    """A writer whose bytes nobody reads."""

    def write(self, content: bytes) -> None: ...

    async def drain(self) -> None: ...


def answer(content: bytes) -> bytes:
    """Return what a connection makes of `content` as the answer to `WANTED`."""

    async def ask() -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        connection = HttpConnection(HttpStore.of("http://store", idle_s=1.0), reader, Discarding())
        await connection.ask(WANTED)
        return (await connection.read()).content

    return asyncio.run(ask())


def test_the_range_that_was_asked_for_is_taken():
    assert answer(RIGHT + b"\r\nabcd") == b"abcd"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", "the server knows no ranges; use"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x\r\n\r\n", "sent on to 'http://x'; use that"),
        (b"HTTP/1.1 401 No\r\n\r\n", "status 401.* no login is ever sent; let it be read"),
        (b"HTTP/1.1 403 No\r\n\r\n", "status 403.* no login is ever sent; let it be read"),
        (b"HTTP/1.1 404 No\r\n\r\n", r"check the URL \(the id in full\)"),
        (b"HTTP/1.1 416 No\r\n\r\n", "shorter than the manifest says; copy"),
        (b"HTTP/1.1 204 None\r\n\r\n", "was answered with 204"),
        (RIGHT + b"Content-Encoding: gzip\r\n\r\nabcd", "compressed; turn .* compression off"),
        (RIGHT + b"Transfer-Encoding: chunked\r\n\r\nabcd", "no Content-Length; copy"),
        (RIGHT.replace(b"h: 4", b"h: 0") + b"\r\n", "is empty or has no Content-Length; copy"),
        (RIGHT.replace(b"h: 4", b"h: -4") + b"\r\nabcd", "is empty or has no Content-Length"),
        (RIGHT.replace(b"h: 4", b"h: 5") + b"\r\nabcde", "came as .* asked for 10-13"),
        (RIGHT.replace(b"10-13", b"11-14") + b"\r\nabcd", "came as 'bytes 11-14/99', asked for"),
        (b"HTTP/1.1 206 Yes\r\nX: " + b"x" * 70_000, "a head of more than 16384 bytes"),
    ],
)
def test_another_answer_is_refused_with_its_reason(content, reason):
    with pytest.raises(StoreAnswerError, match=reason):
        answer(content)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_may_be_asked_again(status):
    with pytest.raises(StoreLostError, match=f"trouble of its own .status {status}"):
        answer(b"HTTP/1.1 %d No\r\n\r\n" % status)
