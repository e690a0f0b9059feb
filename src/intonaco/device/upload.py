"""Keys and values from reconstruction's memory to where the model computes, one shard ahead of it.

A model on the host reads them where they lie. For one on a GPU they are copied on a stream of their own
while the shard before runs. The order of copy, use and reuse is kept here; the calls into CUDA are in
`cuda_copies`.

    reconstruct's thread   make, copy, event                  wait for the event, make the next one
    model's thread                        its stream waits for the event, run
"""

import weakref
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from intonaco.device.reconstruction import BlockState
from intonaco.errors import StreamingError

Blocks = dict[int, BlockState]
"""By block: keys and values, (N, d) float32 each."""


class Event(Protocol):
    """A place in a stream's queue."""

    def synchronize(self) -> None:
        """Wait until the stream has come to it."""
        ...

    def elapsed_time(self, end_event: "Event", /) -> float:
        """Return the milliseconds from here to `end_event`; both have been reached."""
        ...


class Copies(Protocol):
    """What a GPU's runtime is asked for; see `intonaco.device.cuda_copies`."""

    def lock(self, memory: Tensor, /) -> bool:
        """Page-lock `memory`, so that it can be copied from by itself; False if that cannot be had."""
        ...

    def unlock(self, memory: Tensor, /) -> None:
        """Undo `lock`, once no copy reads `memory` any more."""
        ...

    def copy(self, rows: Tensor, /, *, is_locked: bool) -> Tensor:
        """Let the copies' stream copy `rows`; return at once. Raises RuntimeError without memory."""
        ...

    def mark(self) -> Event:
        """Return an event at the end of the copies' stream."""
        ...

    def wait(self, event: Event, /) -> None:
        """Let the model's stream, which is the calling thread's, wait for `event`."""
        ...

    def hold(self, rows: Tensor, /) -> None:
        """Do not give the memory of `rows` to a later copy before the model's stream has read it."""
        ...

    def wait_run(self) -> None:
        """Wait until the model's stream has done all that was launched on it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """Keys and values on the model's device; there once `copied` is reached, None = now."""

    blocks: Blocks = field(default_factory=dict[int, BlockState])
    copied: Event | None = None


class Upload(Protocol):
    """Hands a shard's keys and values from the reconstruct thread to the model.

    Values stay float32 on the way: keys are turned in float32 before the model's own dtype is made of
    them, on its device.
    """

    @property
    def copy_s(self) -> float:
        """Seconds that the last measured shard was under way."""
        ...

    def send(self, blocks: Blocks, /) -> Uploaded:
        """Start moving a shard that was just made. Raises StreamingError."""
        ...

    def wait_sent(self) -> None:
        """Wait until nothing that was sent is read on the host: its memory may be written again.

        Raises StreamingError.
        """
        ...

    def take(self, uploaded: Uploaded, /) -> Blocks:
        """Return the shard, ready for what the calling thread launches from now on."""
        ...

    def wait_run(self) -> None:
        """Wait until all that the calling thread launched has run."""
        ...

    def close(self) -> None:
        """Let go of the memory; may be called again."""
        ...


class HostUpload:
    """The model reads what reconstruction wrote, where it lies."""

    copy_s = 0.0

    def send(self, blocks: Blocks, /) -> Uploaded:
        return Uploaded(blocks=blocks)

    def wait_sent(self) -> None:
        """Nothing is under way."""

    def take(self, uploaded: Uploaded, /) -> Blocks:
        return uploaded.blocks

    def wait_run(self) -> None:
        """A call returns when it has run."""

    def close(self) -> None:
        """Nothing is held."""


class CudaUpload:
    """Copies shards beside the model's stream. `send` and `wait_sent` belong to one thread.

    What was copied stays on the GPU as long as it is referred to: the shards of one step, which the
    next may borrow, and the one under way.
    """

    def __init__(self, copies: Copies, memory: Tensor) -> None:
        """Page-lock `memory`, of which every shard is a part, if that can be had."""
        self.copy_s = 0.0
        self._copies = copies
        self._under_way: tuple[Event, Event] | None = None
        self._is_locked = copies.lock(memory)
        # Called at the latest when this object goes; holds `memory`, which must not be unmapped first.
        self._unlock = weakref.finalize(self, copies.unlock, memory) if self._is_locked else None

    def send(self, blocks: Blocks, /) -> Uploaded:
        with _errors_told():
            began = self._copies.mark()
            copied = {
                block: (self._copy(key), self._copy(value))
                for block, (key, value) in blocks.items()
            }
            ended = self._copies.mark()
        self._under_way = (began, ended)
        return Uploaded(blocks=copied, copied=ended)

    def wait_sent(self) -> None:
        if self._under_way is not None:
            began, ended = self._under_way
            self._under_way = None
            with _errors_told():
                ended.synchronize()
                self.copy_s = began.elapsed_time(ended) / 1000

    def take(self, uploaded: Uploaded, /) -> Blocks:
        if uploaded.copied is not None:
            self._copies.wait(uploaded.copied)
        for rows in (rows for state in uploaded.blocks.values() for rows in state):
            self._copies.hold(rows)
        return uploaded.blocks

    def wait_run(self) -> None:
        self._copies.wait_run()

    def close(self) -> None:
        if self._unlock is not None:
            self._unlock()

    def _copy(self, rows: Tensor) -> Tensor:
        return self._copies.copy(rows, is_locked=self._is_locked)


@contextmanager
def _errors_told() -> Generator[None]:
    """Raise StreamingError for what CUDA says, such as that memory is used up: a step can run dense."""
    try:
        yield
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise StreamingError(f"keys and values cannot be copied to the GPU: {reason}") from None


def upload_to(device: torch.device, memory: Tensor) -> Upload:
    """Return what brings shards, parts of `memory`, to a model on `device`.

    On other devices than CUDA's the denoiser moves what it reads by itself, and waits for it.
    """
    if device.type != "cuda":
        return HostUpload()
    # Imported here: a model on the host has no use for it.
    from intonaco.device.cuda_copies import CudaCopies

    return CudaUpload(CudaCopies(device), memory)
