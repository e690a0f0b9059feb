"""A small static server for catalogs: ranges, strong entity tags, nothing of our own in the protocol.

For a desk, a demo and tests; any HTTP server that knows Range does as well. Loopback by default,
no TLS, no login: put a real server in front of the open network.
"""

import asyncio
import hashlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from intonaco.errors import StoreError, TemplateMissingError
from intonaco.listening import open_listener
from intonaco.template.catalog import CATALOG_NAME
from intonaco.template.manifest import MANIFEST_NAME

FOREVER = "public, max-age=31536000, immutable"
READ_BYTES = 1 << 20
# A catalog's files have far fewer characters; longer paths are somebody trying something.
MAX_PATH_CHARACTERS = 1024


@dataclass(slots=True)
class EntityTags:
    """SHA-256 of files as strong entity tags; a file is read again when it has changed."""

    known: dict[tuple[str, int, int], str] = field(default_factory=dict[tuple[str, int, int], str])

    def of(self, path: Path, status: os.stat_result) -> str:
        """Return the quoted tag of `path`."""
        key = (str(path), status.st_size, status.st_mtime_ns)
        if key not in self.known:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self.known[key] = f'"{digest}"'
        return self.known[key]


class LargeChunks(FileResponse):
    """Reads much at once: every read is a thread's, which costs more than reading."""

    chunk_size = READ_BYTES


@dataclass(slots=True)
class CatalogFiles:
    """Answers GET and HEAD for the files below one folder."""

    root: Path
    tags: EntityTags = field(default_factory=EntityTags)

    async def answer(self, request: Request) -> Response:
        """Return the file, a part of it (206), 304, 404 or 416."""
        found = await asyncio.to_thread(self._find, request.path_params["path"])
        if found is None:
            return PlainTextResponse("no such file\n", status_code=404)
        path, status, tag = found
        # The two lists may change; every other file is named by what it holds.
        is_list = path.name in {MANIFEST_NAME, CATALOG_NAME}
        headers = {"ETag": tag, "Cache-Control": "no-cache" if is_list else FOREVER}
        if tag in _listed(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        return LargeChunks(path, headers=headers, stat_result=status)

    def _find(self, name: str) -> tuple[Path, os.stat_result, str] | None:
        if len(name) > MAX_PATH_CHARACTERS or "\0" in name:
            return None
        path = (self.root / name).resolve()
        is_hidden = any(part.startswith(".") for part in Path(name).parts)
        if is_hidden or not path.is_relative_to(self.root) or not path.is_file():
            return None
        status = path.stat()
        return path, status, self.tags.of(path, status)


def make_application(root: Path) -> Starlette:
    """Return the ASGI application that serves the catalog in `root`.

    Raises TemplateMissingError unless `root` holds a catalog or one template.
    """
    root = root.resolve()
    if not any((root / name).is_file() for name in (CATALOG_NAME, MANIFEST_NAME)):
        raise TemplateMissingError(
            f"catalog {root} has neither {CATALOG_NAME} nor {MANIFEST_NAME}; build a template into "
            f"it with 'intonaco template build ... -o {root}'"
        )
    files = CatalogFiles(root)
    return Starlette(routes=[Route("/{path:path}", files.answer, methods=["GET"])])


class RequestLog:
    """Calls `heard` with one line per request: method, path, range. There is nothing more in them."""

    def __init__(self, application: Starlette, heard: Callable[[str], None]) -> None:
        self._application = application
        self._heard = heard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name: value for name, value in scope["headers"] if name == b"range"}
            asked = headers.get(b"range", b"whole").decode("latin-1")
            self._heard(f"{scope['method']} {scope['path']} {asked}")
        await self._application(scope, receive, send)


def open_store_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises StoreError if it cannot be had."""
    try:
        return open_listener(host, port)
    except (OSError, OverflowError) as error:
        raise StoreError(
            f"cannot listen on {host}:{port} ({error}); choose another --port, or 0 for a free one"
        ) from None


def serve(
    root: Path, listener: socket.socket, *, heard: Callable[[str], None] | None = None
) -> None:
    """Serve `root` on `listener` until the process is interrupted or terminated."""
    application = make_application(root)
    logged = application if heard is None else RequestLog(application, heard)
    # Lifespan off: there is nothing to start. h11: plain HTTP/1.1, pipelined requests in order.
    configuration = uvicorn.Config(
        logged,
        http="h11",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=60,
    )
    uvicorn.Server(configuration).run(sockets=[listener])


def _listed(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}
