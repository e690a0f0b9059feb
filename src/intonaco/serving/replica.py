"""A resident model process as the supervisor sees it: started, talked to, ended for certain.

`Replica` is the seam: `LocalReplica` is a child process on a socket pair; a replica on another host
would speak the same frames over a connection and confirm its end through that host.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import psutil

from intonaco.errors import MessageError, ModelProcessError
from intonaco.serving.framing import Frame, encode_frame, read_frame
from intonaco.serving.messages import AnyMessage, RawPicture, Stop

POLL_S = 0.02
MODEL_COMMAND = (sys.executable, "-m", "intonaco.serving.model_process")


class Replica(Protocol):
    """One model process, from start to confirmed end. Used once."""

    @property
    def name(self) -> str:
        """What the log calls it, such as "pid 4711"."""
        ...

    async def start(self) -> None:
        """Start it. Raises ModelProcessError where that cannot be."""
        ...

    async def send(self, message: AnyMessage, pictures: tuple[RawPicture, ...] = ()) -> None:
        """Send a frame. Raises ModelProcessError where it is gone."""
        ...

    async def receive(self) -> Frame:
        """Return its next frame. Raises ModelProcessError, which says how it ended."""
        ...

    async def end(self, *, grace_s: float) -> str:
        """End it and everything it started; return how it ended, once that is certain.

        Raises ModelProcessError where something of it remains.
        """
        ...


ReplicaFactory = Callable[[], Replica]


class LocalReplica:
    """A model process on this machine: a session of its own, a socket pair, no other tie."""

    def __init__(
        self, command: Sequence[str] = MODEL_COMMAND, *, kill_timeout_s: float = 10
    ) -> None:
        self._command = command
        self._kill_timeout_s = kill_timeout_s
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._life: int | None = None

    @property
    def name(self) -> str:
        return f"pid {self._process.pid}" if self._process else "not started"

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        # Held open until the end: when this process dies, however it dies, the pipe ends.
        reading, self._life = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                *(str(number) for number in (theirs.fileno(), reading, os.getpid())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=[theirs.fileno(), reading],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            self._close_life()
            raise ModelProcessError(f"the model process cannot be started: {error}") from None
        finally:
            theirs.close()
            os.close(reading)
        self._reader, self._writer = await asyncio.open_connection(sock=ours)

    async def send(self, message: AnyMessage, pictures: tuple[RawPicture, ...] = ()) -> None:
        writer = self._writer
        if writer is None:
            raise ModelProcessError("the model process was not started")
        try:
            writer.write(encode_frame(Frame(message=message, pictures=pictures)))
            await writer.drain()
        except OSError:
            raise ModelProcessError(await self._how_it_ended()) from None

    async def receive(self) -> Frame:
        reader = self._reader
        if reader is None:
            raise ModelProcessError("the model process was not started")
        try:
            return await read_frame(reader)
        except (EOFError, OSError):
            raise ModelProcessError(await self._how_it_ended()) from None
        except MessageError as error:
            raise ModelProcessError(f"the model process sent what is no message: {error}") from None

    async def end(self, *, grace_s: float) -> str:
        process = self._process
        if process is None:
            return "was not started"
        tree = _tree(process.pid)
        try:
            if process.returncode is None and grace_s > 0:
                await self._ask_to_end(process, grace_s)
        finally:
            # Also where this task is cancelled: nothing may be left behind.
            _kill_session(process.pid)
            self._close_life()
            if self._writer is not None:
                self._writer.close()
        return await self._confirm_end(process, tree)

    def _close_life(self) -> None:
        if self._life is not None:
            os.close(self._life)
            self._life = None

    async def _ask_to_end(self, process: asyncio.subprocess.Process, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError, ModelProcessError):
            async with asyncio.timeout(grace_s):
                await self.send(Stop())
                await process.wait()

    async def _confirm_end(
        self, process: asyncio.subprocess.Process, tree: list[psutil.Process]
    ) -> str:
        try:
            async with asyncio.timeout(self._kill_timeout_s):
                await process.wait()
        except TimeoutError:
            raise ModelProcessError(
                f"the model process {process.pid} cannot be ended: it outlived SIGKILL for "
                f"{self._kill_timeout_s:g} s (a device driver may hold it); restart the machine"
            ) from None
        others = [one for one in (*tree, *_session(process.pid)) if one.pid != process.pid]
        remaining = await asyncio.to_thread(_await_end, others, self._kill_timeout_s)
        if remaining:
            raise ModelProcessError(
                f"children of the model process {process.pid} cannot be ended: {remaining}; end them"
            )
        return describe_exit(process.returncode)

    async def _how_it_ended(self) -> str:
        """Return how the process ended; its socket closes a moment before it does."""
        process = self._process
        if process is None:
            return "the model process was not started"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await process.wait()
        return f"the model process {process.pid} {describe_exit(process.returncode)}"


def describe_exit(returncode: int | None) -> str:
    """Return in words how a process ended."""
    if returncode is None:
        return "closed its connection"
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-returncode).name}"
        return f"was ended by signal {-returncode}"
    return f"exited with {returncode}"


def _tree(pid: int) -> list[psutil.Process]:
    """Return the living descendants of `pid`."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _session(session: int) -> list[psutil.Process]:
    """Return the living processes of a session, whoever their parents are now."""
    found: list[psutil.Process] = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == session:
                found.append(psutil.Process(pid))
    return found


def _kill_session(session: int) -> None:
    for process in (*_tree(session), *_session(session)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _await_end(processes: list[psutil.Process], timeout_s: float) -> list[int]:
    """Return the process ids that still run after `timeout_s`; returns as soon as there are none."""
    deadline_s = time.monotonic() + timeout_s
    running = [one for one in processes if _is_running(one)]
    while running and time.monotonic() < deadline_s:
        # Short waits: a zombie that nobody collects has ended, and would be waited for in vain.
        psutil.wait_procs(running, timeout=POLL_S)
        running = [one for one in running if _is_running(one)]
    return [one.pid for one in running]


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
