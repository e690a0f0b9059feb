"""What stands before every route: ids, key, origin, size and time of the body; log and counts after.

An ASGI wrapper around the whole application. Refuses before a byte of the body is read where it can.
"""

import asyncio
import hashlib
import hmac
import json
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from intonaco.serving.faults import HttpFault, fault_of
from intonaco.serving.jobs import new_id
from intonaco.serving.profile import is_loopback
from intonaco.serving.service import Service

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class Guard:
    """Wraps an ASGI application."""

    def __init__(self, app: Application, service: Service) -> None:
        self._app = app
        self._service = service
        key = service.api_key
        self._key_digest = None if key is None else hashlib.sha256(key.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, request_id=new_id())
        start_s = time.monotonic()
        scope.setdefault("state", {})["request_id"] = answer.request_id
        try:
            fault = self._refusal(scope)
            if fault is not None:
                await _send_fault(answer.send, fault)
            else:
                await self._app(scope, self._bounded(receive), answer.send)
        except Exception as error:  # noqa: BLE001  the last stop: a fault of ours, told as one
            self._service.journal.write(
                "fault", request_id=answer.request_id, traceback=traceback.format_exc()
            )
            if answer.status is None:
                await _send_fault(answer.send, fault_of(error))
        finally:
            self._record(scope, answer, time.monotonic() - start_s)

    def _refusal(self, scope: Scope) -> HttpFault | None:
        headers = _headers(scope)
        return self._wrong_origin(headers) or self._wrong_key(scope, headers) or self._long(headers)

    def _wrong_origin(self, headers: dict[str, str]) -> HttpFault | None:
        """Refuse what a page of another site makes a browser send to a server on loopback."""
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        needs_own_name = self._key_digest is None and is_loopback(self._service.profile.host)
        if needs_own_name and name != "" and not is_loopback(name):
            return _forbidden(
                f"host {host[:80]!r} is not this server's; use 127.0.0.1 or localhost"
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return _forbidden("pages of other sites may not call this server")
        return None

    def _wrong_key(self, scope: Scope, headers: dict[str, str]) -> HttpFault | None:
        if self._key_digest is None or scope["path"] in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Digests are of one length, so the comparison tells nothing of the key's.
        given_digest = hashlib.sha256(given.strip().encode("latin-1", "replace")).digest()
        is_right = hmac.compare_digest(given_digest, self._key_digest)
        if scheme.lower() == "bearer" and is_right:
            return None
        return HttpFault(
            status=401,
            kind="authentication_error",
            code="invalid_api_key",
            message="the header 'Authorization: Bearer KEY' is missing or wrong",
        )

    def _long(self, headers: dict[str, str]) -> HttpFault | None:
        length = headers.get("content-length", "0")
        most = self._service.profile.max_body_bytes
        if length.isdecimal() and int(length[:20]) > most:
            return _too_long(most)
        return None

    def _bounded(self, receive: Receive) -> Receive:
        """Return `receive` with the body's bounds: bytes, and seconds to its end."""
        profile = self._service.profile
        deadline_s = time.monotonic() + profile.body_timeout_s
        num_bytes = 0
        is_read = False

        async def bounded() -> AsgiMessage:
            nonlocal num_bytes, is_read
            if is_read:
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                message_text = f"the body did not arrive within {profile.body_timeout_s:g} s"
                raise HTTPException(408, message_text) from None
            num_bytes += len(message.get("body", b""))
            is_read = not message.get("more_body", False)
            if num_bytes > profile.max_body_bytes:
                raise HTTPException(413, _too_long(profile.max_body_bytes).message)
            return message

        return bounded

    def _record(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        route = cast("Any", scope.get("route"))
        path = getattr(route, "path", None) or "none"
        status = "disconnected" if answer.status is None else str(answer.status)
        self._service.metrics.requests.labels(path, status).inc()
        self._service.metrics.request_seconds.labels(path).observe(seconds)
        self._service.journal.write(
            "request",
            request_id=answer.request_id,
            method=scope["method"],
            route=path,
            status=status,
            ms=round(1000 * seconds, 1),
            client=(scope.get("client") or ("unknown",))[0],
        )


class _Answer:
    """Notes the status that goes out, and adds the id of the request."""

    def __init__(self, send: Send, *, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status: int | None = None

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            extra = [
                (b"x-request-id", self.request_id.encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"cache-control", b"no-store"),
            ]
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await self._send(message)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _forbidden(message: str) -> HttpFault:
    return HttpFault(status=403, kind="permission_error", code="forbidden", message=message)


def _too_long(most: int) -> HttpFault:
    return HttpFault(
        status=413,
        kind="invalid_request_error",
        code="body_too_large",
        message=f"a body must have at most {most} bytes; send smaller pictures",
    )


async def _send_fault(send: Send, fault: HttpFault) -> None:
    body = json.dumps(fault.body()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode()) for name, value in fault.headers().items()]
    if fault.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
