"""HTTP/1.1 ranges over one kept-alive connection, several requests on their way at once.

Requests are pipelined: the next one is sent before the last answer has ended, so no round trip is
lost, and answers come in order. Libraries for Python send the second request only after the first
answer, which is why the few lines of HTTP that this needs are ours (`http_messages.py`). No cookie,
no login, no redirect is followed, nothing of an edit is at hand here.
"""

import asyncio
import contextlib
import ssl
import time
from collections import deque
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from intonaco.errors import (
    StoreAnswerError,
    StoreChangedError,
    StoreError,
    StoreLostError,
    StoreTrustError,
)
from intonaco.streaming.http_messages import Head, parse_head, request_text
from intonaco.streaming.store import PIECE_BYTES, Piece, RangeRequest
from intonaco.streaming.tls_trust import why_distrusted

MAX_HEAD_BYTES = 16_384
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpStore:
    """A server and a path on it.

    Attributes:
        path: quoted, without a slash at its end.
        tls: whom an https server may be; None for http.
        idle_s: how long an open request may bring nothing.
    """

    url: str
    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None
    idle_s: float

    @classmethod
    def of(cls, url: str, *, idle_s: float) -> "HttpStore":
        """Return the store at `url`. Raises StoreError for a URL that says too much or too little."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise StoreError(f"store {url!r}: {error}; for example http://127.0.0.1:8000") from None
        if not parts.hostname or parts.query or parts.fragment or parts.username:
            raise StoreError(
                f"store {url!r} must be http(s)://HOST[:PORT][/PATH] without a login, a query or a "
                "fragment; for example http://127.0.0.1:8000"
            )
        has_tls = parts.scheme.lower() == "https"
        return cls(
            url=url.rstrip("/"),
            host=parts.hostname,
            port=port or (443 if has_tls else 80),
            path=quote(parts.path.rstrip("/"), safe="/%~"),
            # Trusts what this machine trusts, and what $SSL_CERT_FILE names.
            tls=ssl.create_default_context() if has_tls else None,
            idle_s=idle_s,
        )

    @property
    def has_default_port(self) -> bool:
        return self.port == (443 if self.tls else 80)

    async def connect(self) -> "HttpConnection":
        """Return a new connection. Errors are those of `open_streams`."""
        return HttpConnection(self, *await self.open_streams())

    async def open_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return both ends of a new connection, within CONNECT_S.

        Raises StoreLostError, or StoreTrustError where the server is not who it should be.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(
                    self.host,
                    self.port,
                    limit=MAX_HEAD_BYTES,
                    ssl=self.tls,
                )
        except TimeoutError:
            raise StoreLostError(
                f"{self.url} does not answer within {CONNECT_S:g} s; check the network"
            ) from None
        except (OSError, UnicodeError) as error:
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise StoreTrustError(f"{self.url}: {why_distrusted(error, self.host)}") from None
            raise StoreLostError(
                f"{self.url} cannot be reached ({error}); check the URL and the network"
            ) from None


@dataclass(slots=True)
class _Open:
    """A request whose answer has not ended; `request` None asks for a whole file."""

    name: str
    request: RangeRequest | None
    text: str
    sent_at: float
    was_idle: bool
    left: int = -1
    tag: str = ""


class HttpConnection:
    """One connection; see `intonaco.streaming.store.Connection`."""

    def __init__(
        self, store: HttpStore, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._store = store
        self._reader = reader
        self._writer = writer
        self._open: deque[_Open] = deque()
        self._ends_after_answer = False
        self._sent: list[str] = []

    @property
    def sent(self) -> list[str]:
        return self._sent

    async def ask(self, request: RangeRequest) -> None:
        await self._send(request.name, request)

    async def read(self) -> Piece:
        current = self._open[0]
        try:
            async with asyncio.timeout(self._store.idle_s):
                is_first = current.left < 0
                if is_first:
                    await self._begin(current)
                content = await self._reader.read(min(PIECE_BYTES, current.left))
        except TimeoutError:
            raise self._lost(f"brought nothing for {self._store.idle_s:g} s") from None
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError) as error:
            raise self._lost(f"was cut ({error})") from None
        if not content:
            raise self._lost("was closed by the server before its end")
        current.left -= len(content)
        if current.left == 0:
            self._open.popleft()
        round_trip_s = time.monotonic() - current.sent_at
        return Piece(
            content=content,
            tag=current.tag,
            round_trip_s=round_trip_s if is_first and current.was_idle else None,
        )

    async def fetch(self, name: str, *, max_bytes: int) -> bytes:
        await self._send(name, None)
        current = self._open[0]
        content = bytearray()
        # Slow for ever is lost, too: a file of this kind comes before anything can be drawn.
        try:
            async with asyncio.timeout(30 * self._store.idle_s):
                while self._open:
                    content += (await self.read()).content
                    if len(content) + max(0, current.left) > max_bytes:
                        raise StoreAnswerError(
                            f"{self._store.url}/{name} has more than {max_bytes} bytes; it is no "
                            "such file"
                        )
        except TimeoutError:
            raise self._lost(f"is not here after {30 * self._store.idle_s:g} s") from None
        return bytes(content)

    async def close(self) -> None:
        self._open.clear()
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(0.5):
                await self._writer.wait_closed()

    async def _send(self, name: str, request: RangeRequest | None) -> None:
        store = self._store
        text = request_text(
            f"{store.path}/{quote(name)}",
            host=store.host,
            port=None if store.has_default_port else store.port,
            wanted=request,
        )
        opened = _Open(
            name=name,
            request=request,
            text=text,
            sent_at=time.monotonic(),
            was_idle=not self._open,
        )
        self._open.append(opened)
        await self._write(text)

    async def _write(self, text: str) -> None:
        self._sent.append(text)
        try:
            self._writer.write(text.encode("ascii"))
            await self._writer.drain()
        except OSError as error:
            raise self._lost(f"was cut ({error})") from None

    async def _begin(self, current: _Open) -> None:
        """Read the head of the answer to `current` and check that it is what was asked for."""
        if self._ends_after_answer:
            await self._renew()
        head = parse_head(await self._read_head())
        self._ends_after_answer = head.ends_connection
        self._check_status(head, current)
        current.tag = head.headers.get("etag", "")
        current.left = head.length()
        if head.headers.get("content-encoding", "identity").lower() != "identity":
            raise self._wrong(current, "came compressed; turn the server's compression off for it")
        if "transfer-encoding" in head.headers or current.left <= 0:
            raise self._wrong(current, "is empty or has no Content-Length; copy the template again")
        if current.request is not None:
            self._check_range(head, current, current.request)

    async def _renew(self) -> None:
        """Connect again and repeat what is open: this server takes one request a connection."""
        self._writer.close()
        self._reader, self._writer = await self._store.open_streams()
        self._ends_after_answer = False
        for opened in self._open:
            await self._write(opened.text)

    async def _read_head(self) -> bytes:
        try:
            return await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise StoreAnswerError(
                f"{self._store.url} answers with a head of more than {MAX_HEAD_BYTES} bytes; it is "
                "no store of templates"
            ) from None

    def _check_status(self, head: Head, current: _Open) -> None:
        request = current.request
        wanted = 200 if request is None else 206
        if head.status == wanted:
            return
        if head.status >= 500 or head.status == 429:
            raise self._lost(f"has trouble of its own (status {head.status})")
        tag = head.headers.get("etag", "")
        if request is not None and head.status in {200, 416} and request.tag not in {None, tag}:
            raise StoreChangedError(
                f"{self._store.url}/{current.name} was changed on the server since this edit began "
                f"(entity tag {request.tag}, now {tag or 'none'}); fetch the template again"
            )
        reasons = {
            200: "was sent whole: the server knows no ranges; use one that does, such as nginx",
            400: "was not understood (status 400); use https:// if the server has TLS",
            401: "is not for everybody (status 401), and no login is ever sent; let it be read",
            403: "is not for everybody (status 403), and no login is ever sent; let it be read",
            404: "is not there; check the URL (the id in full), or copy the template again",
            416: "is shorter than the manifest says; copy the template again",
        }
        if 300 <= head.status < 400:
            place = head.headers.get("location", "no place")
            raise self._wrong(current, f"was sent on to {place!r:.200}; use that store's URL")
        raise self._wrong(current, reasons.get(head.status, f"was answered with {head.status}"))

    def _check_range(self, head: Head, current: _Open, request: RangeRequest) -> None:
        if (
            head.content_range() != (request.start, request.stop)
            or current.left != request.stop - request.start
        ):
            raise self._wrong(
                current,
                f"came as {head.headers.get('content-range', 'no range')!r:.60}, asked for "
                f"{request.start}-{request.stop - 1}",
            )
        if request.tag and current.tag != request.tag:
            raise StoreChangedError(
                f"{self._store.url}/{current.name} was changed on the server since this edit began; "
                "fetch the template again"
            )

    def _lost(self, what: str) -> StoreLostError:
        return StoreLostError(f"the connection to {self._store.url} {what}; try again")

    def _wrong(self, current: _Open, what: str) -> StoreAnswerError:
        return StoreAnswerError(f"{self._store.url}/{current.name} {what}")
