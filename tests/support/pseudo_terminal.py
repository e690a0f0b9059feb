"""Runs a command under a terminal of its own and keeps what a person would have seen."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyte

DEADLINE_S = 120.0
INTERRUPT = b"\x03"
READ_BYTES = 65_536
# A terminal takes 4 KB at a time: what is written at once comes in parts, right after each other.
SETTLED_S = 0.02


@dataclass(slots=True)
class Screen:
    """A terminal of so many lines and columns.

    `frames` are its contents whenever nothing more was written for SETTLED_S.
    """

    num_lines: int
    num_columns: int
    status: int = -1
    written: bytearray = field(default_factory=bytearray)
    frames: list[list[str]] = field(default_factory=list[list[str]])
    is_cursor_hidden: bool = False
    process_id: int = -1

    @property
    def last(self) -> list[str]:
        return self.frames[-1]


def run_on_screen(
    command: list[str],
    *,
    num_lines: int = 30,
    num_columns: int = 100,
    on_output: Callable[[Screen, Callable[[bytes], None]], None] = lambda screen, press: None,
    environment: dict[str, str] | None = None,
) -> Screen:
    """Run `command` to its end.

    `on_output` is called after whatever was written, with a function that presses keys.
    """
    seen = Screen(num_lines=num_lines, num_columns=num_columns)
    screen = pyte.Screen(num_columns, num_lines)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", num_lines, num_columns, 0, 0))
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
    ) as process:
        os.close(theirs)
        seen.process_id = process.pid
        for content in _contents(ours):
            seen.written += content
            stream.feed(content)
            if not select.select([ours], [], [], SETTLED_S)[0]:
                seen.frames.append([line.rstrip() for line in screen.display])
            on_output(seen, lambda keys: _press(ours, keys))
        seen.status = process.wait(timeout=DEADLINE_S)
    os.close(ours)
    seen.frames.append([line.rstrip() for line in screen.display])
    seen.is_cursor_hidden = screen.cursor.hidden
    return seen


def _press(terminal: int, keys: bytes) -> None:
    os.write(terminal, keys)


def _contents(terminal: int):
    """Yield what is written until every process has left the terminal."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(f"the command still runs after {DEADLINE_S} s")
        try:
            content = os.read(terminal, READ_BYTES)
        except OSError:
            return
        if not content:
            return
        yield content
