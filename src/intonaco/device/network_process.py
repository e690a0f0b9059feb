"""The process that talks to the store: fetches, checks, decides what to ask for next.

A process of its own, so that the interpreter lock of a running model cannot stall a socket, and so
that prompts and pictures are not even in the memory of what is connected to the network. Started
as `python -m intonaco.device.network_process`, with two inherited descriptors; it ends when the
device's process closes its end. Imports no torch.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from intonaco.device.kept_prefixes import KeptPrefixes
from intonaco.device.opening import Opening, OpenTemplate
from intonaco.errors import IntonacoError, ManifestError, StoreError
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
from intonaco.streaming.store import Store, open_store
from intonaco.streaming.traces import Trace

REPORT_S = 0.1


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
        self._kept = KeptPrefixes(None)
        self._plain_store: Store | None = None
        self._emulated: EmulatedLink | None = None
        self._template: OpenTemplate | None = None
        self._client: StreamClient | None = None
        self._running: asyncio.Task[None] | None = None

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
                    await self._open(message)
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
        if message.cache_folder is not None:
            folder = Path(message.cache_folder)
            self._kept = KeptPrefixes(PrefixCache(folder=folder, max_bytes=message.cache_bytes))
        opening = Opening(self._shaped(has_faults=False), self._kept)
        try:
            self._template = await opening.open(message.folder, self._shared)
            self._template.publish_lengths()
            self._send(
                Opened(
                    num_manifest_bytes=self._template.num_manifest_bytes,
                    num_bytes=self._template.num_bytes,
                )
            )
        finally:
            await opening.close()
            self._sent += opening.sent
            self._num_connections += opening.num_connections

    async def _begin(self, message: Begin) -> None:
        template = self._template
        if template is None:
            raise StoreError("an edit cannot begin before the template is open")
        await self._stop()
        plan = EditPlan(
            table=table_of(template.manifest),
            run_s=message.run_s,
            reconstruct_s=message.reconstruct_s,
            dense_step_s=message.dense_step_s,
            decode_bytes_per_s=message.decode_bytes_per_s,
        )
        controller = StreamController(
            plan, message.settings, start_at=message.start_at, now=time.monotonic()
        )
        # The time of an emulated link, and of what goes wrong on it, begins with each edit.
        store = self._shaped(has_faults=True)
        self._client = StreamClient(
            store=store, controller=controller, files=template.files, heard=self._report
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
        if self._template is not None:
            await asyncio.to_thread(self._kept.keep_prefixes, self._template.files)
        troubles = [*client.troubles, self._kept.trouble]
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

    def _shaped(self, *, has_faults: bool) -> Store:
        """Return the store, over the emulated link if there is one."""
        if self._plain_store is None:
            raise ManifestError("no template is open")
        if self._emulated is None:
            return self._plain_store
        shaper = _shaper(self._emulated if has_faults else replace(self._emulated, faults=()))
        return ShapedStore(store=self._plain_store, shaper=shaper)

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    def _report(self) -> None:
        if self._template is not None:
            self._template.publish_lengths()
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
