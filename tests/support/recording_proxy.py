"""A proxy between a device and a store that keeps every byte that the device sent, and makes trouble.

Runs in a thread of the test, plain sockets. Faults act on what the store sends back.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Change = Callable[["Conversation", bytes], bytes | None]
"""From a conversation and the next bytes of the store to what the device gets; None cuts it."""


@dataclass(slots=True)
class Conversation:
    """One connection: what was sent so far, and how many bytes have come back."""

    index: int
    sent: bytearray = field(default_factory=bytearray)
    num_received: int = 0


class RecordingProxy:
    """Listens on loopback, speaks to `url` for whoever connects."""

    def __init__(self, url: str, change: Change | None = None) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname, parts.port)
        self._change = change or (lambda conversation, content: content)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._is_closed = threading.Event()
        self.is_refusing = threading.Event()
        self.conversations: list[Conversation] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{parts.path}"
        self._start(self._accept)

    @property
    def sent(self) -> bytes:
        """Everything that devices sent."""
        return b"".join(bytes(one.sent) for one in self.conversations)

    def close(self) -> None:
        self._is_closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _cut(one)
        for thread in self._threads:
            thread.join(timeout=10)

    def cut_all(self) -> None:
        """Reset every connection."""
        for one in self._sockets:
            _cut(one)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                device, _ = self._listener.accept()
            except OSError:
                return
            if self.is_refusing.is_set():
                _cut(device)
                continue
            try:
                store = socket.create_connection(self._target, 10)
            except OSError:
                _cut(device)
                continue
            conversation = Conversation(index=len(self.conversations))
            self.conversations.append(conversation)
            self._sockets += [device, store]
            self._start(self._up, device, store, conversation)
            self._start(self._down, device, store, conversation)

    def _up(self, device: socket.socket, store: socket.socket, conversation: Conversation) -> None:
        with contextlib.suppress(OSError):
            while content := device.recv(65536):
                conversation.sent += content
                store.sendall(content)
        _cut(store)

    def _down(
        self, device: socket.socket, store: socket.socket, conversation: Conversation
    ) -> None:
        with contextlib.suppress(OSError):
            while content := store.recv(4096):
                changed = self._change(conversation, content)
                conversation.num_received += len(content)
                if changed is None:
                    break
                device.sendall(changed)
        _cut(device)
        _cut(store)


def _cut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()


@contextlib.contextmanager
def recording_proxy(url: str, change: Change | None = None) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(url, change)
    try:
        yield proxy
    finally:
        proxy.close()
