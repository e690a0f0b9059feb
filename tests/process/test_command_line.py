"""The command line as a real process: signals, limits of the system, streams."""

import contextlib
import os
import pty
import resource
import signal
import subprocess
import sys
import threading

import pytest

COMMAND = [sys.executable, "-m", "intonaco"]
MAX_FILE_BYTES = 1000
DEADLINE_S = 240


def _drain(terminal: int, text: bytes, seen: threading.Event) -> None:
    """Read until the other end closes; set `seen` once `text` was among it."""
    content = b""
    # Linux says that the other end is closed by an input/output error.
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 4096):
            content += piece
            if text in content:
                seen.set()


def test_an_interrupt_while_drawing_leaves_no_file_and_exits_with_4(tiny_flux2_folder, tmp_path):
    controller, terminal = pty.openpty()
    is_drawing = threading.Event()
    reader = threading.Thread(target=_drain, args=(controller, b"drawing", is_drawing))
    reader.start()
    words = ["generate", "a girl", "-m", str(tiny_flux2_folder), "--steps", "1000"]
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=terminal
    )
    os.close(terminal)
    try:
        assert is_drawing.wait(timeout=DEADLINE_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=DEADLINE_S) == 4
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(controller)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_the_system_will_not_write_whole_is_not_written_at_all(
    tiny_flux2_folder, tmp_path
):
    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))

    words = ["generate", "a girl", "-m", str(tiny_flux2_folder), "-o", "a.png", "--receipt"]
    run = subprocess.run(
        [*COMMAND, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit_file_size,
    )
    assert run.returncode == 3
    assert run.stderr.startswith("error: cannot write a.png (")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["generate", "--help"]])
def test_help_and_version_need_no_standard_input(words):
    run = subprocess.run(
        [*COMMAND, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "intonaco" in run.stdout
