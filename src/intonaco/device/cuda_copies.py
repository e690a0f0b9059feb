"""The calls into CUDA that bring a shard to a GPU, and nothing else. See `upload` for their order.

Written against CUDA's documentation; tests run it on a GPU only where there is one.
"""

import contextlib
from typing import Any, cast

import torch
from torch import Tensor

from intonaco.device.upload import Event


class CudaCopies:
    """A stream for copies beside the model's; see `intonaco.device.upload.Copies`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def lock(self, memory: Tensor, /) -> bool:
        # Fails where locked memory is limited, or where the shared file lies on a disk.
        with torch.cuda.device(self._device):
            code = int(_runtime().cudaHostRegister(memory.data_ptr(), memory.nbytes, 0))
            if code:
                self._forget_error()
        return code == 0

    def unlock(self, memory: Tensor, /) -> None:
        self._stream.synchronize()
        with torch.cuda.device(self._device):
            _runtime().cudaHostUnregister(memory.data_ptr())

    def copy(self, rows: Tensor, /, *, is_locked: bool) -> Tensor:
        # The allocator does not reuse a staging copy before this stream has read it.
        with torch.cuda.stream(self._stream):
            return (rows if is_locked else rows.pin_memory()).to(self._device, non_blocking=True)

    def mark(self) -> Event:
        # Blocking: a thread that waits for it leaves its core to decoding.
        event = torch.cuda.Event(enable_timing=True, blocking=True)
        self._stream.record_event(event)
        return cast("Event", event)

    def wait(self, event: Event, /) -> None:
        torch.cuda.current_stream(self._device).wait_event(cast("torch.cuda.Event", event))

    def hold(self, rows: Tensor, /) -> None:
        rows.record_stream(torch.cuda.current_stream(self._device))

    def wait_run(self) -> None:
        torch.cuda.current_stream(self._device).synchronize()

    def _forget_error(self) -> None:
        """Take the error that a failed call left behind, or the next kernel would be blamed for it."""
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device=self._device)


def _runtime() -> Any:
    # Declared as if it could be missing; the call raises then.
    return cast("Any", torch.cuda.cudart())
