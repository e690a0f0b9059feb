"""A store of templates by its URL: any HTTP server with ranges, a folder, an object store.

One interface for all: a connection takes requests for byte ranges and hands the bytes back in the
order of the requests. What a request says is exactly what `RangeRequest` holds.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from intonaco.errors import StoreAnswerError, StoreError, StoreLostError

PIECE_BYTES = 1 << 16
OBJECT_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRequest:
    """Bytes start..stop (stop excluded) of one file of a store.

    Attributes:
        name: path below the store's URL.
        tag: entity tag that an earlier answer for this file carried; None the first time.
    """

    name: str
    start: int
    stop: int
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some bytes of the oldest request that is not answered in full.

    Attributes:
        tag: the file's entity tag, "" where the store has none.
        round_trip_s: on the first piece after an idle connection: from request to first byte.
    """

    content: bytes
    tag: str
    round_trip_s: float | None = None


class Connection(Protocol):
    """An ordered connection to a store. Errors: StoreLostError, StoreAnswerError, StoreChangedError."""

    async def ask(self, request: RangeRequest, /) -> None:
        """Send a request; does not wait for its answer."""
        ...

    async def read(self) -> Piece:
        """Return the next bytes of the oldest request; never none."""
        ...

    async def fetch(self, name: str, /, *, max_bytes: int) -> bytes:
        """Return a whole file of at most `max_bytes`. Only while no request is open."""
        ...

    async def close(self) -> None:
        """End the connection; may be called again."""
        ...

    @property
    def sent(self) -> list[str]:
        """Everything that was sent so far, in words or as it was."""
        ...


class Store(Protocol):
    """Where templates come from."""

    @property
    def url(self) -> str: ...

    async def connect(self) -> Connection: ...


def open_store(url: str, *, idle_s: float = 1.0) -> Store:
    """Return the store at `url`: http(s)://, file:// or a folder, or what fsspec knows (s3://).

    `idle_s`: an open request that brings nothing for so long counts as lost.
    Raises StoreError for a URL that cannot be used here. Opens no connection.
    """
    scheme = urlsplit(url).scheme.lower()
    if scheme in {"http", "https"}:
        # Imported here, as each kind of store needs packages of its own.
        from intonaco.streaming.http_store import HttpStore

        return HttpStore.of(url, idle_s=idle_s)
    if scheme in {"", "file"}:
        folder = Path(unquote(urlsplit(url).path) if scheme else url)
        if not folder.is_dir():
            raise StoreError(
                f"store {url} is no folder here; pass an existing one, or a URL such as "
                "http://127.0.0.1:8000"
            )
        return CallStore(url=url, read_range=_folder_reader(folder))
    from intonaco.streaming.object_store import object_reader

    return CallStore(url=url, read_range=object_reader(url, scheme), idle_s=30 * idle_s)


def split_url(url: str) -> tuple[str, str]:
    """Return the store's URL and the folder in it, from a template's URL."""
    store, _, folder = url.rstrip("/").rpartition("/")
    if not store or store.endswith("/"):
        return url, ""
    return store, folder


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStore:
    """A store behind one blocking function, which runs in a thread.

    Attributes:
        read_range: from (name, start, stop) to the bytes and an entity tag ("" if there is none);
            a stop beyond the file's end returns what there is.
        idle_s: one call may take so long; None = for ever.
    """

    url: str
    read_range: Callable[[str, int, int], tuple[bytes, str]]
    idle_s: float | None = None

    async def connect(self) -> "CallConnection":
        return CallConnection(self)


class CallConnection:
    """Answers requests one after the other, in pieces."""

    def __init__(self, store: CallStore) -> None:
        self._store = store
        self._open: deque[tuple[RangeRequest, int]] = deque()
        self._sent: list[str] = []

    async def ask(self, request: RangeRequest) -> None:
        self._sent.append(f"read {request.name} {request.start}-{request.stop - 1}")
        self._open.append((request, request.start))

    async def read(self) -> Piece:
        request, start = self._open[0]
        stop = min(request.stop, start + OBJECT_PIECE_BYTES)
        began = time.monotonic()
        content, tag = await self._call(request.name, start, stop)
        if len(content) != stop - start:
            raise StoreAnswerError(
                f"{self._store.url}: {request.name} ends at byte {start + len(content)}, asked for "
                f"{start}-{stop - 1}; copy the template again"
            )
        self._open.popleft()
        if stop < request.stop:
            self._open.appendleft((request, stop))
        is_first = start == request.start
        return Piece(
            content=content,
            tag=tag,
            round_trip_s=time.monotonic() - began if is_first else None,
        )

    async def fetch(self, name: str, *, max_bytes: int) -> bytes:
        self._sent.append(f"read {name}")
        content, _ = await self._call(name, 0, max_bytes + 1)
        return content

    async def close(self) -> None:
        self._open.clear()

    @property
    def sent(self) -> list[str]:
        return self._sent

    async def _call(self, name: str, start: int, stop: int) -> tuple[bytes, str]:
        try:
            async with asyncio.timeout(self._store.idle_s):
                return await asyncio.to_thread(self._store.read_range, name, start, stop)
        except TimeoutError:
            raise StoreLostError(
                f"{self._store.url}: {name} brought nothing for {self._store.idle_s} s; try again"
            ) from None
        except FileNotFoundError:
            raise StoreAnswerError(
                f"{self._store.url} has no {name}; check the URL, or copy the template again"
            ) from None
        except OSError as error:
            raise StoreLostError(f"{self._store.url}: {name}: {error}; try again") from None


def _folder_reader(folder: Path) -> Callable[[str, int, int], tuple[bytes, str]]:
    def read_range(name: str, start: int, stop: int) -> tuple[bytes, str]:
        with (folder / name).open("rb") as file:
            file.seek(start)
            return file.read(stop - start), ""

    return read_range
