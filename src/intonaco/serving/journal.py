"""The server's log: one JSON object per line, written by a thread of its own.

A full disk or a reader that stopped reading costs lines of the log, never a request.
"""

import json
import queue
import threading
from datetime import UTC, datetime
from typing import TextIO

MAX_WAITING_LINES = 10_000


class Journal:
    """Writes events with their fields. Prompts are fields that `is_verbose` lets through."""

    def __init__(self, stream: TextIO | None, *, is_verbose: bool = False) -> None:
        self._stream = stream
        self._is_verbose = is_verbose
        self._lines: queue.Queue[str | None] = queue.Queue(maxsize=MAX_WAITING_LINES)
        self._num_lost = 0
        self._writer = threading.Thread(target=self._write_lines, name="journal", daemon=True)
        self._writer.start()

    @property
    def num_lost(self) -> int:
        """Lines that could not be written."""
        return self._num_lost

    def write(self, event: str, *, prompt: str | None = None, **fields: object) -> None:
        """Write one line; never blocks, never raises."""
        line: dict[str, object] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event,
            **{name: value for name, value in fields.items() if value is not None},
        }
        if prompt is not None and self._is_verbose:
            line["prompt"] = prompt
        try:
            self._lines.put_nowait(json.dumps(line, default=str))
        except queue.Full:
            self._num_lost += 1

    def close(self, *, timeout_s: float = 2) -> None:
        """Write what waits, as far as that goes within `timeout_s`."""
        try:
            self._lines.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._writer.join(timeout=timeout_s)

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            if self._stream is None:
                continue
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._num_lost += 1
