"""Results go to stdout, the rest to stderr; with --json, stdout holds one object and nothing else."""

import json

import pytest
import typer

from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError


def _fail(terminal):
    with terminal.reporting():
        raise RequestError("size must be good, got bad; use good")


def test_an_error_is_one_line_on_stderr_and_nothing_on_stdout(capsys):
    with pytest.raises(typer.Exit) as stop:
        _fail(Terminal())
    captured = capsys.readouterr()
    assert captured.err == "error: size must be good, got bad; use good\n"
    assert captured.out == ""
    assert stop.value.exit_code == 2


def test_an_error_is_one_json_object_on_stdout_for_machines(capsys):
    with pytest.raises(typer.Exit):
        _fail(Terminal(is_json=True))
    assert json.loads(capsys.readouterr().out) == {
        "error": {"type": "RequestError", "message": "size must be good, got bad; use good"},
        "exit_code": 2,
    }


def test_debug_shows_where_the_error_came_from(capsys):
    with pytest.raises(typer.Exit):
        _fail(Terminal(is_debug=True))
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_a_cancellation_with_its_own_exit_code(capsys):
    with pytest.raises(typer.Exit) as stop, Terminal().reporting():
        raise KeyboardInterrupt
    assert stop.value.exit_code == 4
    assert capsys.readouterr().err == "error: cancelled; nothing was written\n"


def test_words_for_a_person_are_kept_from_a_machine(capsys):
    terminal = Terminal(is_json=True)
    terminal.say("hello")
    terminal.warn("careful")
    terminal.result({"picture": "a.png"})
    captured = capsys.readouterr()
    assert captured.out == '{"picture": "a.png"}\n'
    assert captured.err == "warning: careful\n"


def test_progress_off_a_terminal_prints_nothing(capsys):
    from intonaco.pipelines.generate import StepEvent

    with Terminal().progress() as progress:
        show = progress.of_picture(0, "drawing")
        show(StepEvent(index=0, num_steps=2, elapsed_s=0.5))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_bar_counts_the_steps_of_all_pictures():
    from rich.progress import Progress

    from intonaco.cli.terminal import PictureProgress
    from intonaco.pipelines.generate import StepEvent

    bar = Progress(disable=True)
    progress = PictureProgress(bar=bar, num_pictures=3)
    progress.of_picture(1, "boy")(StepEvent(index=2, num_steps=4, elapsed_s=1.0))
    task = bar.tasks[0]
    assert (task.completed, task.total, task.description) == (7, 12, "boy")
