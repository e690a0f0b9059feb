"""The compiling process, seen from its parent: start it, send it one program at a time, end it.

What runs in it is `intonaco.programs.worker`. Every cache and temporary file of the compiler lies in
its scratch folder, which is gone with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from intonaco.errors import CompileError
from intonaco.programs.store import ArtifactStore
from intonaco.programs.worker import CompileReply, CompileRequest

LOG_TAIL_BYTES = 2000


@contextmanager
def started_process(store: ArtifactStore) -> Generator[CompileProcess]:
    """Start a process with a scratch folder of its own in `store`; both are gone after the block."""
    with store.scratch() as scratch:
        log_path = scratch / "compile.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "intonaco.programs.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(scratch),
                text=True,
                start_new_session=True,
            )
        running = CompileProcess(process, scratch, log_path)
        try:
            yield running
        finally:
            running.end()


def _environment(scratch: Path) -> dict[str, str]:
    """Return this environment, with every cache and temporary file of the compiler in `scratch`."""
    temporary = scratch / "tmp"
    temporary.mkdir()
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": str(temporary),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


class CompileProcess:
    """A running worker process, seen from the parent."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path, log_path: Path) -> None:
        self.scratch = scratch
        self._process = process
        self._log_path = log_path
        self._is_busy = False

    def compile(self, request: CompileRequest) -> None:
        """Send one request and wait. Raises `CompileError` when it fails or the process ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._is_busy = True
        try:
            self._process.stdin.write(request.model_dump_json() + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        component = request.spec.component
        if not line:
            raise CompileError(
                f"program {component!r}: the compiling process ended with "
                f"{self._process.wait()}; its last words: {self._last_words()}"
            )
        self._is_busy = False
        reply = CompileReply.model_validate_json(line)
        if reply.error:
            raise CompileError(f"program {component!r} does not compile: {reply.error}")

    def _last_words(self) -> str:
        text = self._log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "none"

    def end(self) -> None:
        """End the process: politely when it waits, with all that it started when it works."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._is_busy and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
