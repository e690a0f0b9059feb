"""The demo's store: `intonaco template serve` as a process of its own, on loopback, ended at exit."""

import contextlib
import json
import selectors
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import IO

from intonaco.errors import StoreError

READY_S = 60.0
STOP_S = 5.0


@contextlib.contextmanager
def serving(catalog: Path) -> Generator[str]:
    """Serve `catalog` on a free port of this machine while the block runs; yield its URL.

    Raises StoreError where the server does not come up.
    """
    command = [sys.executable, "-m", "intonaco", "template", "serve", str(catalog)]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield _read_url(process.stdout, catalog)
        finally:
            _end(process)


def _read_url(output: "IO[bytes] | None", catalog: Path) -> str:
    """Return the URL in the one line that the server prints once it listens."""
    line = b""
    if output is not None:
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            line = output.readline() if selector.select(READY_S) else b""
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError):
        raise StoreError(
            f"the store of {catalog} did not start within {READY_S:.0f} s; try 'intonaco template "
            f"serve {catalog}'"
        ) from None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt the server, as Ctrl-C would; kill it where that does not help."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
