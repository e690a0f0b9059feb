"""What the verbs say: results on stdout, everything else on stderr.

With `--json`, stdout holds exactly one JSON object, also when something went wrong.
"""

import json
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from intonaco.cli.failures import describe, exit_code_of, print_error

if TYPE_CHECKING:
    from rich.progress import Progress

    from intonaco.pipelines.generate import StepEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where one command prints."""

    is_json: bool = False
    is_debug: bool = False

    @contextmanager
    def reporting(self) -> Generator[None]:
        """Turn whatever is raised inside into one line, or one JSON object, and an exit code."""
        try:
            yield
        except typer.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            code = exit_code_of(error)
            if self.is_debug:
                traceback.print_exc()
            print_error(describe(error))
            if self.is_json:
                details = {"type": type(error).__name__, "message": describe(error)}
                _write_json({"error": details, "exit_code": int(code)})
            raise typer.Exit(code) from error

    def say(self, text: str) -> None:
        """Print a line for a person; a machine reads the JSON object instead."""
        if not self.is_json:
            typer.echo(text)

    def warn(self, text: str) -> None:
        """Print a warning to stderr."""
        typer.secho("warning: ", fg="yellow", bold=True, err=True, nl=False)
        typer.echo(text, err=True)

    def result(self, fields: Mapping[str, object]) -> None:
        """Print the one JSON object of a command that was called with `--json`."""
        if self.is_json:
            _write_json(fields)

    @contextmanager
    def waiting(self, text: str) -> Generator[None]:
        """Show on a terminal that something takes a while whose length is not known."""
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            yield
            return
        status = console.status(text)
        # Not by `with`: an interrupt while it starts would leave it on the screen, without a cursor.
        try:
            status.start()
            yield
        finally:
            status.stop()

    @contextmanager
    def progress(self, *, num_pictures: int = 1) -> Generator["PictureProgress"]:
        """Show steps done, a bar and the time left on stderr, where that is a terminal."""
        with _progress_bar() as bar:
            yield PictureProgress(bar=bar, num_pictures=num_pictures)

    @contextmanager
    def counting(self, text: str) -> Generator["Callable[[int, int, str], None]"]:
        """Show pictures done out of all on stderr; call what is yielded as (done, total, phase)."""
        with _progress_bar("pictures") as bar:
            task = bar.add_task(text, total=None)

            def show(done: int, total: int, phase: str = "") -> None:
                bar.update(task, completed=done, total=total, description=phase or text)

            yield show


class PictureProgress:
    """Shows the steps of one or several pictures, drawn one after the other, on one bar."""

    def __init__(self, *, bar: "Progress", num_pictures: int) -> None:
        self._bar = bar
        self._num_pictures = num_pictures
        self._task = bar.add_task("loading the model", total=None)

    def say(self, text: str) -> None:
        """Show what is being done now."""
        self._bar.update(self._task, description=text)

    def of_picture(self, index: int, text: str) -> "Callable[[StepEvent], None]":
        """Return the callback that shows the steps of picture `index`, of 0..num_pictures-1."""
        self.say(text)

        def show(event: "StepEvent") -> None:
            self._bar.update(
                self._task,
                total=self._num_pictures * event.num_steps,
                completed=index * event.num_steps + event.index + 1,
            )

        return show


def _progress_bar(unit: str = "steps") -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    class Counts(ProgressColumn):
        """How far it is, and how long it takes, as far as that is known."""

        def render(self, task: Task) -> Text:
            return Text(
                _counts(task.completed, task.total, task.elapsed, task.time_remaining, unit)
            )

    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        Counts(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _counts(
    completed: float, total: float | None, elapsed_s: float | None, left_s: float | None, unit: str
) -> str:
    """Return the words beside a bar; times in seconds, None where they are not known."""
    words = [] if total is None else [f"{completed:.0f}/{total:.0f} {unit}"]
    if elapsed_s is not None:
        words.append(f"{_clock(elapsed_s)} gone")
    if total is not None and left_s is not None:
        words.append(f"{_clock(left_s)} left")
    return ", ".join(words)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _write_json(fields: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    sys.stdout.flush()
