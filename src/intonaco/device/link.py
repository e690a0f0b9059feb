"""The device's end of the network's process: start it, open a template, follow one edit at a time.

Everything that leaves the device goes through that process, and nothing of a request goes in. With
the template come the processes that decode it.
"""

import contextlib
import mmap
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from intonaco.device.reconstruction import Reconstruction, SharedFiles
from intonaco.errors import StoreError, StoreLostError, StreamSettingsError
from intonaco.streaming.failures import Failed
from intonaco.streaming.prefix_cache import DEFAULT_MAX_BYTES
from intonaco.streaming.protocol import (
    TO_NETWORK,
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
    decode_to_device,
)
from intonaco.streaming.shared_files import Layout, make_shared_file, map_shared
from intonaco.streaming.store import split_url
from intonaco.template.manifest import FileRecord, TemplateManifest, read_manifest

ANSWER_MARGIN_S = 5.0
FINISH_S = 20.0
STOP_S = 2.0
MODULE = "intonaco.device.network_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """How a template is reached.

    Attributes:
        cache_folder: where fetched prefixes are kept; None keeps nothing.
        idle_s: an open request that brings nothing for so long counts as lost.
        open_s: manifest, picture, mask and latents have to be here by then.
        emulated: a slower link than the real one, for demos and tests.
        num_decoders: processes that decode; None = one core less than there are, at most 4.
    """

    cache_folder: Path | None = None
    cache_bytes: int = DEFAULT_MAX_BYTES
    idle_s: float = 1.0
    open_s: float = 60.0
    emulated: EmulatedLink | None = None
    num_decoders: int | None = None

    def __post_init__(self) -> None:
        if self.num_decoders is not None and self.num_decoders < 1:
            raise StreamSettingsError(
                f"num_decoders must be at least 1 or None, got {self.num_decoders}; None suits most"
            )


class TemplateLink:
    """One template of a store, open; a context manager. Serves one edit at a time."""

    def __init__(self, url: str, settings: LinkSettings | None = None) -> None:
        """Open the template at `url`, a folder of a catalog by http(s), file or object store.

        Raises StoreError, ManifestError or PackError where it cannot be had.
        """
        self.url = url
        self.progress: Progress | None = None
        self._settings = settings or LinkSettings()
        self._answers: queue.Queue[Opened | Failed | Started | Summary] = queue.Queue()
        self._sending = threading.Lock()
        self._is_gone = threading.Event()
        self._shared = make_shared_file()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _start(theirs.fileno(), self._shared)
        self._connection = Connection(ours.detach())
        self._listener = threading.Thread(target=self._listen, name="intonaco-link", daemon=True)
        self._listener.start()
        self._reconstruction: Reconstruction | None = None
        try:
            self._memory = self._open()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "TemplateLink":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def wait_until_gone(self) -> None:
        """Wait until the end of the network's process is known here; for tests of what follows."""
        self._listener.join()

    def close(self) -> None:
        """End all processes of this template; may be called again."""
        if self._shared < 0:
            return
        if self._reconstruction is not None:
            self._reconstruction.close()
        # The end of its connection is what that process ends by. A thread of ours waits on it, too, and
        # would keep it open: a shutdown ends both waits.
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(self._connection.fileno())) as end,
        ):
            end.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        try:
            self._process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(timeout=STOP_S)
        os.close(self._shared)
        self._shared = -1

    @property
    def process_id(self) -> int:
        """Of the network's process."""
        return self._process.pid

    def read_file(self, record: FileRecord) -> bytes:
        """Return one of the files that came whole: picture, mask or latents."""
        offset = self._layout.offsets[record.name]
        return self._memory[offset : offset + record.num_bytes]

    def begin(self, message: Begin) -> None:
        """Let the network's process fetch for an edit; returns at once."""
        self.progress = None
        self._send(message)

    def start(self, shard: int, *, within_s: float) -> Started:
        """Return how `shard` starts. Raises StoreLostError where no answer comes `within_s`."""
        self._send(AskStart(shard=shard))
        answer = self._wait(within_s + ANSWER_MARGIN_S)
        if not isinstance(answer, Started) or answer.shard != shard:
            raise StoreError(f"the network's process answered {answer.kind}, asked for a start")
        return answer

    def begun(self, shard: int, *, has_borrowed: bool) -> None:
        self._send(Begun(shard=shard, has_borrowed=has_borrowed, at=time.monotonic()))

    def ended(self) -> None:
        self._send(Ended(at=time.monotonic()))

    def stop(self) -> None:
        """End the edit; whoever waits for a shard's start is answered at once."""
        self._send(Finish())

    def summary(self) -> Summary:
        """Return what the edit that `stop` ended has cost and sent."""
        deadline = time.monotonic() + FINISH_S
        while True:
            answer = self._wait(max(0.0, deadline - time.monotonic()))
            # A shard's start that nobody waits for any more may come first.
            if isinstance(answer, Summary):
                return answer

    @property
    def manifest(self) -> TemplateManifest:
        return self._manifest

    @property
    def reconstruction(self) -> Reconstruction:
        """What decodes the template; made when the template was opened."""
        if self._reconstruction is None:
            raise StoreError(f"{self.url} is not open")
        return self._reconstruction

    def _open(self) -> mmap.mmap:
        store_url, folder = split_url(self.url)
        cache_folder = self._settings.cache_folder
        self._send(
            Open(
                url=store_url,
                folder=folder,
                cache_folder=None if cache_folder is None else str(cache_folder),
                cache_bytes=self._settings.cache_bytes,
                idle_s=self._settings.idle_s,
                emulated=self._settings.emulated,
            )
        )
        answer = self._wait(
            self._settings.open_s,
            late=f"manifest, picture, mask and latents of {self.url} did not come",
        )
        if not isinstance(answer, Opened):
            raise StoreError(f"the network's process answered {answer.kind}, asked to open")
        memory = map_shared(self._shared, answer.num_bytes, is_writer=False)
        content = memory[: answer.num_manifest_bytes]
        self._manifest = read_manifest(content, name=f"{self.url}/manifest.json")
        self._layout = Layout.of(self._manifest, num_manifest_bytes=len(content))
        shared = SharedFiles(
            descriptor=self._shared,
            num_manifest_bytes=answer.num_manifest_bytes,
            num_bytes=answer.num_bytes,
        )
        self._reconstruction = Reconstruction(
            self._manifest, shared, num_workers=self._settings.num_decoders
        )
        return memory

    def _send(self, message: Open | Begin | AskStart | Begun | Ended | Finish) -> None:
        content = TO_NETWORK.dump_json(message)
        try:
            with self._sending:
                self._connection.send_bytes(content)
        except OSError:
            raise _gone() from None

    def _wait(
        self, within_s: float, *, late: str = "the network's process does not answer"
    ) -> Opened | Started | Summary:
        if self._is_gone.is_set() and self._answers.empty():
            raise _gone()
        try:
            answer = self._answers.get(timeout=within_s)
        except queue.Empty:
            raise StoreLostError(
                f"{late} within {within_s:.3g} s; check the network and open the template again"
            ) from None
        if isinstance(answer, Failed):
            raise answer.as_error(StoreError)
        return answer

    def _listen(self) -> None:
        """Take messages until the other end is gone, which answers whoever waits."""
        while True:
            try:
                message = decode_to_device(self._connection.recv_bytes())
            except (EOFError, OSError):
                error = _gone()
                self._is_gone.set()
                # Wakes whoever waits now; who comes later looks at the flag.
                self._answers.put(Failed.of(error))
                return
            except StoreError as error:
                self._answers.put(Failed.of(error))
                continue
            if isinstance(message, Progress):
                self.progress = message
            else:
                self._answers.put(message)


def _start(connection: int, shared: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, str(connection), str(shared)],
        pass_fds=(connection, shared),
        stdin=subprocess.DEVNULL,
        # An interrupt of the terminal is for this process, which ends that one by closing its end.
        process_group=0,
    )


def _gone() -> StoreLostError:
    return StoreLostError("the network's process has ended; open the template again")
