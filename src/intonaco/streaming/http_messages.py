"""What is written to and read from an HTTP/1.1 server, as text. Knows no socket.

A request says: method, path, host, the program's name, the range, and the entity tag that the server
gave before.
"""

import re
from dataclasses import dataclass, field

from intonaco.errors import StoreAnswerError
from intonaco.streaming.store import RangeRequest

STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) (\d{3})(?: |$)")
CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(?:\d{1,18}|\*)")
USER_AGENT = "intonaco"


@dataclass(slots=True)
class Head:
    """What an answer begins with; header names are in lower case."""

    status: int
    version: bytes = b"1.1"
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ends_connection(self) -> bool:
        word = self.headers.get("connection", "").lower()
        return word == "close" or (self.version == b"1.0" and word != "keep-alive")

    def length(self) -> int:
        """Return how many bytes follow, -1 if that is not said."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1

    def content_range(self) -> tuple[int, int] | None:
        """Return (start, stop) of the bytes that follow, None if that is not said."""
        match = CONTENT_RANGE.fullmatch(self.headers.get("content-range", ""))
        return None if match is None else (int(match[1]), int(match[2]) + 1)


def request_text(path: str, *, host: str, port: int | None, wanted: RangeRequest | None) -> str:
    """Return the request for `path`, quoted; `port` None is the scheme's own, `wanted` None all."""
    shown = f"[{host}]" if ":" in host else host
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {shown}" if port is None else f"Host: {shown}:{port}",
        f"User-Agent: {USER_AGENT}",
        "Accept-Encoding: identity",
    ]
    if wanted is not None:
        lines.append(f"Range: bytes={wanted.start}-{wanted.stop - 1}")
        if wanted.tag:
            lines.append(f"If-Range: {wanted.tag}")
    return "\r\n".join([*lines, "", ""])


def parse_head(content: bytes) -> Head:
    """Return status and headers. Raises StoreAnswerError for what is no HTTP/1.1 answer."""
    first, *rest = content.rstrip(b"\r\n").split(b"\r\n")
    match = STATUS_LINE.match(first)
    if match is None:
        raise StoreAnswerError(f"no HTTP/1.1 answer: {first[:60]!r}; check the URL")
    head = Head(status=int(match[2]), version=match[1])
    for line in rest:
        name, _, value = line.partition(b":")
        head.headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
    return head
