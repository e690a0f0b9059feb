"""Parts of a file over HTTP: one range of bytes, as players ask for it (RFC 9110, section 14)."""

import re

from starlette.requests import Request
from starlette.responses import Response

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE | re.ASCII)


def file_response(request: Request, content: bytes, *, media_type: str, name: str) -> Response:
    """Return `content`, or the part of it that `request` asks for; `name` names it for good.

    A part that does not exist is a 416. Several ranges at once, and a range of a file of another name
    (If-Range), are answered with all of it, as the standard allows.
    """
    tag = f'"{name}"'
    headers = {"accept-ranges": "bytes", "etag": tag}
    asked = request.headers.get("range")
    if asked is None or request.headers.get("if-range", tag) != tag:
        return Response(content, headers=headers, media_type=media_type)
    found = RANGE.fullmatch(asked.strip())
    if found is None or found.group(1) == found.group(2) == "":
        return Response(content, headers=headers, media_type=media_type)
    part = byte_range(found.group(1), found.group(2), len(content))
    if part is None:
        headers["content-range"] = f"bytes */{len(content)}"
        return Response(status_code=416, headers=headers)
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(content)}"
    return Response(
        content[part.start : part.stop], status_code=206, headers=headers, media_type=media_type
    )


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
