"""A GPU that does everything as late as it may: copies when somebody waits for them, work when asked.

What is read too early is NaN, and what is overwritten too early is the wrong number.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FakeEvent:
    """The end of the first `num_copies` copies."""

    gpu: "FakeGpu"
    num_copies: int

    def synchronize(self) -> None:
        self.gpu.calls.append("synchronize")
        self.gpu.run_copies(self.num_copies)

    def elapsed_time(self, end_event: "FakeEvent", /) -> float:
        assert self.gpu.num_copied >= end_event.num_copies, "an event that has not been reached"
        return 1000 * self.gpu.copy_s


class FakeGpu:
    """Implements `intonaco.device.upload.Copies`.

    Attributes:
        calls: what was asked of it, in order.
        num_copied: copies that have run.
    """

    def __init__(self, *, can_lock: bool = True, copy_s: float = 0.0, num_bytes: int | None = None):
        self.calls: list[str] = []
        self.num_copied = 0
        self.copy_s = copy_s
        self._can_lock = can_lock
        self._bytes_left = num_bytes
        self._copies: deque[Callable[[], object]] = deque()
        self._num_asked = 0
        self._model: deque[Callable[[], object]] = deque()
        self._lock = threading.Lock()

    def lock(self, memory: Tensor, /) -> bool:
        self.calls.append("lock")
        return self._can_lock

    def unlock(self, memory: Tensor, /) -> None:
        self.calls.append("unlock")

    def copy(self, rows: Tensor, /, *, is_locked: bool) -> Tensor:
        self.calls.append("copy" if is_locked else "staged copy")
        if self._bytes_left is not None and rows.nbytes > self._bytes_left:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")
        source = rows if is_locked else rows.clone()
        copied = torch.full_like(rows, torch.nan)
        with self._lock:
            self._copies.append(lambda: copied.copy_(source))
            self._num_asked += 1
        return copied

    def mark(self) -> FakeEvent:
        self.calls.append("mark")
        return FakeEvent(self, self._num_asked)

    def wait(self, event: FakeEvent, /) -> None:
        self.calls.append("wait")
        self.launch(lambda: self.run_copies(event.num_copies))

    def hold(self, rows: Tensor, /) -> None:
        self.calls.append("hold")

    def launch(self, work: Callable[[], object]) -> None:
        """Queue work on the model's stream."""
        self._model.append(work)

    def wait_run(self) -> None:
        self.calls.append("wait for the model")
        while self._model:
            self._model.popleft()()

    def run_copies(self, num_copies: int) -> None:
        with self._lock:
            while self.num_copied < num_copies:
                self._copies.popleft()()
                self.num_copied += 1
