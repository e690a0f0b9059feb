"""The process that compiles: reads one request per line on stdin, answers one line on stdout.

Apart from the caller, so that a compiler crash ends only this process, its memory is given back, and
its scratch folder can be removed. It ends when stdin does. Started by `compiler`; not for people.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel, ConfigDict

from intonaco.backends.registry import make_backend
from intonaco.backends.spec import ProgramSpec
from intonaco.programs.builders import module_builder


class CompileRequest(BaseModel):
    """Compile `spec` with `backend` into the existing, empty `folder`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: ProgramSpec
    backend: str
    folder: Path


class CompileReply(BaseModel):
    """The answer to one request; `error` is empty when it succeeded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    error: str = ""


def main() -> None:
    """Serve requests until stdin ends."""
    # Compilers print as they like; the replies need a stream of their own.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, replies)


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer every request line with a reply line."""
    pending: queue.SimpleQueue[str] = queue.SimpleQueue()
    is_busy = threading.Event()
    threading.Thread(target=_receive, args=(requests, pending, is_busy), daemon=True).start()
    while line := pending.get():
        reply = compile_one(CompileRequest.model_validate_json(line))
        is_busy.clear()
        replies.write(reply.model_dump_json() + "\n")
        replies.flush()


def _receive(requests: TextIO, pending: queue.SimpleQueue[str], is_busy: threading.Event) -> None:
    """Queue each line, then an empty one; end at once, compilers included, if the parent is gone."""
    for line in requests:
        is_busy.set()
        pending.put(line)
    if is_busy.is_set():
        os.killpg(os.getpgid(0), signal.SIGKILL)
    pending.put("")


def compile_one(request: CompileRequest) -> CompileReply:
    """Compile one program; a failure becomes the reply, whatever raised it."""
    try:
        backend = make_backend(request.backend)
        backend.compile(request.spec, module_builder(request.spec), request.folder)
    except Exception as error:  # noqa: BLE001  the parent raises it again, with the component's name
        first_line = (str(error).strip() or "no message").splitlines()[0]
        return CompileReply(error=f"{type(error).__name__}: {first_line:.300}")
    return CompileReply()


if __name__ == "__main__":
    main()
