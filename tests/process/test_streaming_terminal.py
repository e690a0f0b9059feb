"""`intonaco edit --template URL` as a person sees it: on a terminal, interrupted, and on none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from intonaco.cli.failures import ExitCode
from intonaco.model import load
from tests.support.pseudo_terminal import INTERRUPT, Screen, run_on_screen
from tests.support.studio import build_larger_template

DEADLINE_S = 120.0
LINK_LINE = re.compile(r"link +[\d.]+ Mbit/s +[\d.]+ MB here +stalls +\d+ ms")
STEP_LINE = re.compile(r"step +\d+(  [ \[\].:=+*#%@bd-]*)?")
LEGEND = ". to @ arrived"


@pytest.fixture(scope="module")
def words(tiny_flux2_folder, tmp_path_factory) -> list[str]:
    """The command that edits a template of a small model over a slow link."""
    model = load(tiny_flux2_folder)
    template = build_larger_template(model, tmp_path_factory.mktemp("catalog"))
    command = [sys.executable, "-m", "intonaco", "edit", "-m", str(tiny_flux2_folder), "-p", "red"]
    return [*command, "--template", f"file://{template.folder}", "--emulate-link", "0.5"]


@pytest.fixture(scope="module")
def seen(words, tmp_path_factory) -> Screen:
    """An edit on a terminal of 100 x 30."""
    return run_on_screen([*words, "-o", str(tmp_path_factory.mktemp("edited") / "a.png")])


def views(frames: list[list[str]]) -> list[list[str]]:
    """Return the frames that show a whole live view, without their empty lines."""
    shown = [[line for line in frame if line] for frame in frames]
    return [frame for frame in shown if any(LEGEND in line for line in frame)]


def test_the_live_view_is_one_link_line_one_of_blocks_and_the_steps(seen):
    assert seen.status == 0
    whole = views(seen.frames)
    assert whole
    for view in whole:
        start = next(index for index, line in enumerate(view) if line.startswith("link"))
        assert LINK_LINE.fullmatch(view[start])
        assert view[start + 1].split() == ["blocks", "1", "2-3"]
        assert all(STEP_LINE.fullmatch(line) for line in view[start + 2 : start + 6])
        assert sum(line.startswith("link") for line in view) == 1


def test_when_the_edit_is_over_only_what_it_came_to_is_left_on_the_screen(seen):
    left = [line for line in seen.last if line]
    assert not any(line.startswith(("link", "blocks", "step")) for line in left)
    assert any("a.png: 192x192" in line for line in left)
    assert not seen.is_cursor_hidden


def test_on_a_narrow_and_low_terminal_the_view_is_cut_and_not_wrapped(words, tmp_path):
    seen = run_on_screen([*words, "-o", str(tmp_path / "a.png")], num_lines=9, num_columns=40)
    assert seen.status == 0
    for view in views(seen.frames):
        assert sum(line.startswith("link") for line in view) == 1


def test_an_interrupt_ends_the_edit_in_one_line_and_leaves_no_process(words, tmp_path):
    pressed: list[bytes] = []

    def interrupt(screen, press) -> None:
        if not pressed and b"timing this machine" in screen.written:
            pressed.append(INTERRUPT)
            press(INTERRUPT)

    environment = {"INTONACO_TEST_MARK": str(tmp_path)}
    seen = run_on_screen(
        [*words, "-o", str(tmp_path / "a.png")], on_output=interrupt, environment=environment
    )
    assert pressed
    assert seen.status == ExitCode.CANCELLED
    # The terminal itself may show the key that was pressed, before what the command says.
    last = [line for line in seen.last if line][-1]
    assert last.removeprefix("^C") == "error: cancelled; nothing was written"
    assert b"Traceback" not in seen.written
    assert not seen.is_cursor_hidden
    assert not (tmp_path / "a.png").exists()
    assert processes_with(f"INTONACO_TEST_MARK={tmp_path}") == []


def processes_with(mark: str) -> list[int]:
    """Return the processes of this machine that were started with `mark` in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_found = mark.encode() in path.read_bytes().split(b"\0")
        except OSError:
            continue
        if is_found:
            found.append(int(path.parent.name))
    return found


def test_without_a_terminal_nothing_but_plain_lines_is_written(words, tmp_path):
    ended = subprocess.run(
        [*words, "-o", str(tmp_path / "a.png")],
        capture_output=True,
        check=True,
        timeout=DEADLINE_S,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    assert b"\x1b" not in ended.stdout + ended.stderr
    assert b"\r" not in ended.stdout + ended.stderr
