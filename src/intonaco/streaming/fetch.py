"""Fetches a whole template: every file, resumed where it stopped, each compared with its SHA-256.

For a copy to keep. An edit does not need this; it reads prefixes (`client.py`).
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from intonaco.errors import PackDamagedError, StoreLostError
from intonaco.streaming.prefix_cache import PrefixCache
from intonaco.streaming.store import Connection, RangeRequest, Store
from intonaco.template.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    FileRecord,
    TemplateManifest,
    read_manifest,
)

MAX_LOSSES = 8
RETRY_S = 0.1

Result = TypeVar("Result")

FetchProgress = Callable[[int, int], None]
"""Called with bytes that are here and bytes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedTemplate:
    """A template as files in memory.

    Attributes:
        num_fetched_bytes: over the link; the rest was kept from before.
    """

    manifest: TemplateManifest
    contents: dict[str, bytes]
    num_fetched_bytes: int


async def fetch_template(
    store: Store,
    folder: str,
    *,
    cache: PrefixCache | None = None,
    progress: FetchProgress = lambda done, total: None,
) -> FetchedTemplate:
    """Return the template in `folder` of `store`.

    What was fetched of a file before an error is kept in `cache`. Raises StoreError, ManifestError,
    or PackDamagedError where a file is another than the manifest says, twice.
    """
    return await _Fetch(store, folder, cache, progress).run()


class _Fetch:
    def __init__(
        self, store: Store, folder: str, cache: PrefixCache | None, progress: FetchProgress
    ) -> None:
        self._store = store
        self._prefix = f"{folder}/" if folder else ""
        self._cache = cache
        self._progress = progress
        self._connection: Connection | None = None
        self._num_losses = 0
        self._num_fetched = 0
        self._num_done = 0
        self._num_bytes = 0

    async def run(self) -> FetchedTemplate:
        try:
            name = self._prefix + MANIFEST_NAME
            content = await self._again(lambda link: link.fetch(name, max_bytes=MAX_MANIFEST_BYTES))
            manifest = read_manifest(content, name=f"{self._store.url}/{name}")
            records = {record.name: record for record in manifest.files()}
            self._num_bytes = sum(record.num_bytes for record in records.values())
            contents: dict[str, bytes] = {}
            try:
                for name, record in records.items():
                    contents[name] = await self._file(record)
            except BaseException:
                # The next attempt finds the files that were whole by now, too.
                for name, whole in contents.items():
                    self._keep(name, whole)
                raise
        finally:
            await self._leave()
        return FetchedTemplate(
            manifest=manifest, contents=contents, num_fetched_bytes=self._num_fetched
        )

    async def _file(self, record: FileRecord) -> bytes:
        kept = (
            b""
            if self._cache is None
            else self._cache.read(record.name, max_bytes=record.num_bytes)
        )
        for start in (kept, b""):
            content = bytearray(start)
            await self._rest(record, content)
            if hashlib.sha256(content).hexdigest() == record.sha256:
                self._num_done += record.num_bytes
                return bytes(content)
            if self._cache is not None:
                self._cache.forget(record.name)
        raise PackDamagedError(
            f"{self._store.url}/{self._prefix}{record.name}: its SHA-256 is not the manifest's; the "
            "store's copy is bad"
        )

    async def _rest(self, record: FileRecord, content: bytearray) -> None:
        """Fetch what is missing of a file; over a lost connection it goes on where it stopped."""
        tag: list[str] = []

        async def take(link: Connection) -> None:
            if len(content) == record.num_bytes:
                return
            await link.ask(
                RangeRequest(
                    name=self._prefix + record.name,
                    start=len(content),
                    stop=record.num_bytes,
                    tag=tag[0] if tag and tag[0] else None,
                )
            )
            while len(content) < record.num_bytes:
                piece = await link.read()
                tag.append(piece.tag)
                content.extend(piece.content)
                self._num_fetched += len(piece.content)
                self._progress(self._num_done + len(content), self._num_bytes)

        try:
            await self._again(take)
        except BaseException:
            self._keep(record.name, content)
            raise

    def _keep(self, name: str, content: bytes | bytearray) -> None:
        """Keep what came of a file that is not kept; a full disk only costs the next attempt."""
        if self._cache is None or len(content) <= self._cache.length(name):
            return
        with contextlib.suppress(OSError):
            self._cache.write(name, bytes(content))

    async def _again(self, do: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do it, over a new connection where the last one was lost. Raises StoreError.

        Connections in a row that brought nothing are counted: one that brings a part of a file helps.
        """
        while True:
            num_fetched = self._num_fetched
            try:
                if self._connection is None:
                    self._connection = await self._store.connect()
                return await do(self._connection)
            except StoreLostError:
                await self._leave()
                if self._num_fetched > num_fetched:
                    self._num_losses = 0
                self._num_losses += 1
                if self._num_losses > MAX_LOSSES:
                    raise
                await asyncio.sleep(RETRY_S * self._num_losses)

    async def _leave(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
