"""The resident model process: loads a profile, draws one picture at a time, says what it does.

Started by the API process, to which a socket pair ties it.
It ends with its parent, and so does all that it started: a guardian process sees to that.
"""

import ctypes
import os
import queue
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from intonaco.errors import (
    GenerationCancelled,
    InputError,
    IntonacoError,
    MessageError,
    ModelProcessError,
)
from intonaco.serving.framing import Frame, FrameSocket
from intonaco.serving.messages import (
    Cancel,
    Draw,
    DrawFailed,
    Load,
    Loading,
    ModelFacts,
    RawPicture,
    Ready,
    StartFailed,
    Stepped,
    Stop,
)
from intonaco.serving.profile import ServingProfile

PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]
ReportStep = Callable[[Stepped, tuple[RawPicture, ...]], bool]
"""Sends a step; returns False where the drawing is unwanted by now."""


class Engine(Protocol):
    """What draws: the shipped one in `intonaco.serving.engine`, others in tests."""

    def load(self, profile: ServingProfile, say: Say) -> ModelFacts:
        """Load the model and run the smoke generation. Raises what stands in the way."""
        ...

    def draw(self, order: Draw, inputs: tuple[RawPicture, ...], report: ReportStep) -> Frame:
        """Return `Drawn` and what was drawn. Raises GenerationCancelled where `report` said False."""
        ...


def main(engine: Engine | None = None) -> int:
    """Serve the parent until it is gone. Returns the exit code.

    The last arguments of the process: its end of the socket pair, the reading end of a pipe that the
    parent holds open, and the parent's id.
    """
    socket_number, pipe_number, parent = (int(text) for text in sys.argv[-3:])
    connection = socket.socket(fileno=socket_number)
    _start_guardian(connection, pipe_number)
    _end_with_parent(parent)
    # Ctrl-C on the server's terminal is for the API process, which drains.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if engine is None:
        from intonaco.serving.engine import ModelEngine

        engine = ModelEngine()
    return ModelProcess(FrameSocket(connection), engine).run()


class ModelProcess:
    """One thread draws, another listens: a cancel is heard while a step is being done."""

    def __init__(self, frames: FrameSocket, engine: Engine) -> None:
        self._frames = frames
        self._engine = engine
        self._inbox: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._cancelled: str | None = None

    def run(self) -> int:
        """Load, say that all is ready, then draw what comes. Returns the exit code."""
        first = self._frames.receive().message
        if not isinstance(first, Load):
            raise MessageError(f"the first message must be load, got {first.kind}")
        threading.Thread(target=self._listen, daemon=True).start()
        if not self._load(first.profile):
            return 1
        while not isinstance((frame := self._inbox.get()).message, Stop):
            if isinstance(frame.message, Draw):
                self._draw(frame.message, frame.pictures)
        return 0

    def _listen(self) -> None:
        """Take in messages; when the parent is gone, end at once with all that this one started."""
        try:
            while True:
                frame = self._frames.receive()
                if isinstance(frame.message, Cancel):
                    self._cancelled = frame.message.draw_id
                else:
                    self._inbox.put(frame)
        except (EOFError, OSError, MessageError):
            end_session()

    def _load(self, profile: ServingProfile) -> bool:
        try:
            _limit_memory(profile.max_memory_bytes)
            facts = self._engine.load(
                profile, lambda phase: self._frames.send(Loading(phase=phase))
            )
        except Exception as error:  # noqa: BLE001  whatever it is, the parent has to hear of it
            self._frames.send(
                StartFailed(
                    error=type(error).__name__,
                    message=one_line(error),
                    is_final=isinstance(error, IntonacoError | MemoryError),
                )
            )
            return False
        self._frames.send(Ready(facts=facts))
        return True

    def _draw(self, order: Draw, inputs: tuple[RawPicture, ...]) -> None:
        def report(step: Stepped, previews: tuple[RawPicture, ...]) -> bool:
            self._frames.send(step, previews)
            return order.draw_id != self._cancelled

        try:
            if order.draw_id == self._cancelled:
                raise GenerationCancelled("cancelled before the first step")
            drawn = self._engine.draw(order, inputs, report)
        except Exception as error:  # noqa: BLE001  one bad request must not end the process
            self._frames.send(draw_failed(order.draw_id, error))
        else:
            self._frames.send_frame(drawn)


def draw_failed(draw_id: str, error: Exception) -> DrawFailed:
    """Return the message about what `error` did to a drawing."""
    match error:
        case GenerationCancelled():
            cause = "cancelled"
        case InputError():
            cause = "input"
        case _:
            cause = "fault"
    return DrawFailed(
        draw_id=draw_id, cause=cause, error=type(error).__name__, message=one_line(error)
    )


def one_line(error: BaseException) -> str:
    """Return the message of `error`, bounded, in one line."""
    return " ".join(str(error).split())[:500] or type(error).__name__


def end_session() -> None:
    """End this process and all that it started, at once."""
    if os.getsid(0) == os.getpgid(0):  # a session of its own, as the replica starts it
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(1)


def _start_guardian(connection: socket.socket, pipe_number: int) -> None:
    """Fork a process that does nothing but wait for the parent's death, and then ends the session.

    The kernel's signal ends this process alone, and a call into native code may never return to the
    thread that listens; what either leaves behind, the guardian ends. Forked before there are threads.
    """
    if os.fork() != 0:
        os.close(pipe_number)
        return
    connection.close()  # or the parent would not see this process die
    os.read(pipe_number, 1)
    end_session()


def _end_with_parent(parent: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise ModelProcessError("the kernel does not end this process with its parent")
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


def _limit_memory(max_bytes: int | None) -> None:
    if max_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))


if __name__ == "__main__":
    sys.exit(main())
