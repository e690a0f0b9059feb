"""Parts of a file over HTTP: one range of bytes, as players ask for it (RFC 9110, section 14)."""

import re
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE | re.ASCII)
CHUNK_BYTES = 256 << 10


def file_response(request: Request, content: bytes, *, media_type: str, name: str) -> Response:
    """Return `content`, or the part of it that `request` asks for; `name` names it for good.

    A part that does not exist is a 416. Several ranges at once, and a range of a file of another name
    (If-Range), are answered with all of it, as the standard allows.
    """
    tag = f'"{name}"'
    headers = {"accept-ranges": "bytes", "etag": tag}
    asked = request.headers.get("range") if request.headers.get("if-range", tag) == tag else None
    found = None if asked is None else RANGE.fullmatch(asked.strip())
    if found is None or found.group(1) == found.group(2) == "":
        return _sent(content, range(len(content)), 200, headers, media_type)
    part = byte_range(found.group(1), found.group(2), len(content))
    if part is None:
        headers["content-range"] = f"bytes */{len(content)}"
        return Response(status_code=416, headers=headers)
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(content)}"
    return _sent(content, part, 206, headers, media_type)


def byte_range(first: str, last: str, length: int) -> range | None:
    """Return the bytes that "FIRST-LAST" means of `length` bytes; None where there are none of them.

    >>> byte_range("2", "", 10), byte_range("", "3", 10), byte_range("10", "", 10)
    (range(2, 10), range(7, 10), None)
    """
    if first == "":
        start, stop = max(0, length - int(last)), length
    else:
        start, stop = int(first), length if last == "" else min(length, int(last) + 1)
    return range(start, stop) if start < stop else None


def _sent(
    content: bytes, part: range, status: int, headers: dict[str, str], media_type: str
) -> Response:
    """Return `part` of `content`, bit by bit: what a slow client has not read is not copied for it."""
    headers = {**headers, "content-length": str(len(part))}
    return StreamingResponse(_chunks(content, part), status, headers, media_type)


async def _chunks(content: bytes, part: range) -> AsyncIterator[bytes]:
    view = memoryview(content)
    for start in range(part.start, part.stop, CHUNK_BYTES):
        yield bytes(view[start : min(part.stop, start + CHUNK_BYTES)])
