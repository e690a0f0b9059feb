"""The process that talks to the store: fetches, checks, decides what to ask for next.

A process of its own, so that the interpreter lock of a running model cannot stall a socket, and so
that prompts and pictures are not even in the memory of what is connected to the network. Started
as `python -m intonaco.device.network_process`, with two inherited descriptors; it ends when the
device's process closes its end. Imports no torch.
"""

import asyncio
import contextlib
import hashlib
import mmap
import os
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from intonaco.errors import (
    IntonacoError,
    ManifestError,
    PackDamagedError,
    StoreError,
    StoreLostError,
)
from intonaco.streaming.client import StreamClient
from intonaco.streaming.controller import StreamController
from intonaco.streaming.failures import Failed
from intonaco.streaming.late import Borrow, Run
from intonaco.streaming.link import LinkModel, LinkShaper
from intonaco.streaming.pack_table import table_of
from intonaco.streaming.prefix_cache import PrefixCache
from intonaco.streaming.protocol import (
    TO_DEVICE,
    AskStart,
    Begin,
    Begun,
    EmulatedLink,
    Ended,
    Finish,
    Open,
    Opened,
    Progress,
    Started,
    Summary,
    decode_to_network,
)
from intonaco.streaming.settings import EditPlan
from intonaco.streaming.shaped import ShapedStore
from intonaco.streaming.shared_files import CheckedFile, Layout, Lengths, map_shared, whole_files
from intonaco.streaming.store import Connection as StoreConnection
from intonaco.streaming.store import Store, open_store
from intonaco.streaming.stream_files import StreamFiles
from intonaco.streaming.traces import Trace
from intonaco.template.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    FileRecord,
    TemplateManifest,
    read_manifest,
)
from intonaco.template.pack_format import Role

REPORT_S = 0.1
NUM_OPEN_ATTEMPTS = 3
RETRY_S = 0.1


class NetworkProcess:
    """Serves one template to one device."""

    def __init__(self, connection: Connection, shared: int) -> None:
        self._connection = connection
        self._shared = shared
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[Started]] = set()
        self._sent: list[str] = []
        self._num_connections = 0
        self._reported_at = 0.0
        self._cache: PrefixCache | None = None
        self._plain_store: Store | None = None
        self._emulated: EmulatedLink | None = None
        self._store: Store | None = None
        self._files: StreamFiles | None = None
        self._lengths: Lengths | None = None
        self._manifest: TemplateManifest | None = None
        self._client: StreamClient | None = None
        self._running: asyncio.Task[None] | None = None
        self._cache_trouble = ""
        self._connection_to_store: StoreConnection | None = None

    async def serve(self) -> None:
        """Answer messages until the other end is closed."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection.fileno(), self._read)
        try:
            await self._ended.wait()
        finally:
            loop.remove_reader(self._connection.fileno())
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _read(self) -> None:
        try:
            content = self._connection.recv_bytes()
        except (EOFError, OSError):
            self._ended.set()
            return
        task = asyncio.create_task(self._handle(content))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, content: bytes) -> None:
        try:
            match decode_to_network(content):
                case Open() as message:
                    try:
                        await self._open(message)
                    finally:
                        await self._leave_store()
                case Begin() as message:
                    await self._begin(message)
                case AskStart(shard=shard):
                    await self._answer_start(shard)
                case Begun() as message:
                    start = Borrow() if message.has_borrowed else Run(level=0)
                    self._open_client().controller.begun(message.shard, start, message.at)
                case Ended(at=at):
                    self._open_client().controller.ended(at)
                case Finish():
                    await self._finish()
        except IntonacoError as error:
            self._send(Failed.of(error))
        except (OSError, ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
            # Whatever it is, the device must hear of it rather than wait.
            text = f"the network's process failed: {type(error).__name__}: {error}"
            self._send(Failed.of(StoreError(text)))

    async def _open(self, message: Open) -> None:
        self._plain_store = open_store(message.url, idle_s=message.idle_s)
        self._emulated = message.emulated
        self._store = self._shaped(has_faults=False)
        if message.cache_folder is not None:
            self._cache = PrefixCache(
                folder=Path(message.cache_folder), max_bytes=message.cache_bytes
            )
        prefix = f"{message.folder}/" if message.folder else ""
        content = await self._fetch(prefix + MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest = read_manifest(content, name=f"{message.url}/{prefix}{MANIFEST_NAME}")
        layout = Layout.of(manifest, num_manifest_bytes=len(content))
        memory = map_shared(self._shared, layout.num_bytes, is_writer=True)
        memory[: len(content)] = content
        for record in whole_files(manifest):
            whole = await self._fetch_whole(prefix, record)
            start = layout.offsets[record.name]
            memory[start : start + len(whole)] = whole
        self._manifest = manifest
        self._files = self._restored(_checked_files(manifest, message.folder, memory, layout))
        self._lengths = Lengths(memory, layout)
        self._publish_lengths()
        self._send(Opened(num_manifest_bytes=len(content), num_bytes=layout.num_bytes))

    async def _fetch(self, name: str, max_bytes: int) -> bytes:
        """Return a whole file, in a few attempts over the link. Raises StoreError."""
        for attempt in range(NUM_OPEN_ATTEMPTS):
            try:
                if self._connection_to_store is None:
                    self._connection_to_store = await self._open_store().connect()
                    self._num_connections += 1
                return await self._connection_to_store.fetch(name, max_bytes=max_bytes)
            except StoreLostError:
                await self._leave_store()
                if attempt + 1 == NUM_OPEN_ATTEMPTS:
                    raise
                await asyncio.sleep(RETRY_S * 2**attempt)
        raise StoreLostError(f"{self._open_store().url}: {name} cannot be fetched; try again")

    async def _leave_store(self) -> None:
        """End the connection over which whole files came."""
        connection, self._connection_to_store = self._connection_to_store, None
        if connection is not None:
            self._sent += connection.sent
            await connection.close()

    async def _fetch_whole(self, prefix: str, record: FileRecord) -> bytes:
        """Return a file whose hash is known, from the device's cache where it is there."""
        if self._cache is not None:
            kept = self._cache.read(record.name, max_bytes=record.num_bytes)
            if _is_whole(kept, record):
                return kept
        for _ in range(2):
            content = await self._fetch(prefix + record.name, record.num_bytes)
            if _is_whole(content, record):
                self._keep(record.name, content)
                return content
        raise PackDamagedError(
            f"{prefix}{record.name}: its SHA-256 is not the manifest's, twice; the store's copy is bad"
        )

    def _restored(self, files: StreamFiles) -> StreamFiles:
        if self._cache is not None:
            for file in files.all():
                kept = self._cache.read(file.record.name, max_bytes=file.record.num_bytes)
                if kept:
                    file.restore(kept)
        return files

    async def _begin(self, message: Begin) -> None:
        files, manifest = self._files, self._manifest
        if files is None or manifest is None:
            raise StoreError("an edit cannot begin before the template is open")
        await self._stop()
        plan = EditPlan(
            table=table_of(manifest),
            run_s=message.run_s,
            reconstruct_s=message.reconstruct_s,
            dense_step_s=message.dense_step_s,
            decode_bytes_per_s=message.decode_bytes_per_s,
        )
        controller = StreamController(
            plan, message.settings, start_at=message.start_at, now=time.monotonic()
        )
        # The time of an emulated link, and of what goes wrong on it, begins with each edit.
        self._store = self._shaped(has_faults=True)
        self._client = StreamClient(
            store=self._open_store(), controller=controller, files=files, heard=self._report
        )
        self._running = asyncio.create_task(self._client.run())
        self._running.add_done_callback(self._stream_ended)

    def _stream_ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._client is not None:
            self._client.fail(error)

    async def _answer_start(self, shard: int) -> None:
        client = self._open_client()
        answering = asyncio.create_task(client.start(shard))
        self._answering.add(answering)
        try:
            self._send(await answering)
        finally:
            self._answering.discard(answering)

    async def _finish(self) -> None:
        client = self._open_client()
        client.close()
        await asyncio.gather(*self._answering, return_exceptions=True)
        await self._stop()
        await asyncio.to_thread(self._keep_prefixes)
        troubles = [*client.troubles, self._cache_trouble]
        sent, self._sent = [*self._sent, *client.sent], []
        self._send(
            Summary(
                num_bytes=client.num_bytes,
                bytes_per_s=client.controller.rate.bytes_per_s,
                sent=tuple(sent),
                num_connections=self._num_connections + client.num_connections,
                troubles=tuple(trouble for trouble in troubles if trouble),
            )
        )
        self._client, self._num_connections = None, 0

    def _shaped(self, *, has_faults: bool) -> Store | None:
        if self._plain_store is None or self._emulated is None:
            return self._plain_store
        shaper = _shaper(self._emulated if has_faults else replace(self._emulated, faults=()))
        return ShapedStore(store=self._plain_store, shaper=shaper)

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    def _keep_prefixes(self) -> None:
        """Write what is new to the device's cache; a full disk costs the next edit, not this one."""
        if self._cache is None or self._files is None:
            return
        for file in self._files.all():
            if file.num_verified_bytes > self._cache.length(file.record.name):
                self._keep(file.record.name, file.prefix())

    def _keep(self, name: str, content: bytes) -> None:
        if self._cache is None:
            return
        try:
            self._cache.write(name, content)
        except OSError as error:
            self._cache_trouble = (
                f"the cache of prefixes cannot be written ({error.strerror or error}); the next edit "
                "fetches them again"
            )

    def _publish_lengths(self) -> None:
        """Let reconstruction see what has arrived."""
        if self._files is not None and self._lengths is not None:
            for index, file in enumerate(self._files.all()):
                self._lengths.raise_to(index, file.num_verified_bytes)

    def _report(self) -> None:
        self._publish_lengths()
        client, now = self._client, time.monotonic()
        if client is None or now - self._reported_at < REPORT_S:
            return
        self._reported_at = now
        holdings = client.controller.holdings
        self._send(
            Progress(
                bytes_per_s=client.controller.rate.bytes_per_s,
                num_bytes=client.num_bytes,
                levels=tuple(map(holdings.level, range(holdings.table.num_shards))),
                trouble=client.troubles[-1] if client.troubles else "",
            )
        )

    def _send(self, message: Opened | Failed | Started | Progress | Summary) -> None:
        try:
            self._connection.send_bytes(TO_DEVICE.dump_json(message))
        except OSError:
            self._ended.set()

    def _open_client(self) -> StreamClient:
        if self._client is None:
            raise StoreError("no edit has begun")
        return self._client

    def _open_store(self) -> Store:
        if self._store is None:
            raise ManifestError("no template is open")
        return self._store


def _checked_files(
    manifest: TemplateManifest, folder: str, memory: mmap.mmap, layout: Layout
) -> StreamFiles:
    return StreamFiles(
        folder=folder,
        bases=tuple(
            CheckedFile(record, Role.BASIS, memory, layout.offsets[record.name])
            for record in manifest.bases
        ),
        coefficients=tuple(
            tuple(
                CheckedFile(record, Role.COEFFICIENTS, memory, layout.offsets[record.name])
                for record in row
            )
            for row in manifest.coefficients
        ),
    )


def _is_whole(content: bytes, record: FileRecord) -> bool:
    is_long = len(content) == record.num_bytes
    return is_long and hashlib.sha256(content).hexdigest() == record.sha256


def _shaper(emulated: EmulatedLink) -> LinkShaper:
    return LinkShaper(
        LinkModel(
            trace=Trace(name="the emulated link", mbps=emulated.mbps),
            start_s=emulated.start_s,
            round_trip_s=emulated.round_trip_s,
            faults=emulated.faults,
        )
    )


def main(connection_descriptor: int, shared_descriptor: int) -> None:
    """Serve until the device's process goes away."""
    # An interrupt is for the process of the device, which ends this one by closing its end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(connection_descriptor)
    with contextlib.closing(connection):
        asyncio.run(_serve(connection, shared_descriptor))
    os.close(shared_descriptor)


async def _serve(connection: Connection, shared_descriptor: int) -> None:
    await NetworkProcess(connection, shared_descriptor).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
