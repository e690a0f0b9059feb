"""Turns what went wrong into one line and an exit code. The codes are part of the interface."""

from collections.abc import Sequence
from enum import IntEnum

import typer
from typer.exceptions import Abort, Exit, TyperException

from intonaco.errors import GenerationCancelled, InputError, IntonacoError, ReceiptError


class ExitCode(IntEnum):
    """What a calling program may rely on."""

    DONE = 0
    FAULT = 1
    BAD_INPUT = 2
    CANNOT = 3
    CANCELLED = 4


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code that stands for `error`."""
    match error:
        case GenerationCancelled() | KeyboardInterrupt():
            return ExitCode.CANCELLED
        case InputError() | ReceiptError():
            return ExitCode.BAD_INPUT
        case IntonacoError() | OSError() | MemoryError():
            return ExitCode.CANNOT
        case _:
            return ExitCode.FAULT


def describe(error: BaseException) -> str:
    """Return `error` in one line, with what would help."""
    match error:
        case KeyboardInterrupt():
            return "cancelled; nothing was written"
        case IntonacoError():
            return _one_line(str(error))
        case OSError():
            place = f"{error.filename!r}: " if error.filename else ""
            return _one_line(
                f"{place}{error.strerror or error}; check the path, its rights and its disk"
            )
        case MemoryError():
            return "out of memory; try a smaller --size, or --dtype bfloat16"
        case _:
            return _one_line(
                f"{type(error).__name__}: {error}; this is a fault of intonaco, not yours: "
                "run it again with --debug and report what that prints"
            )


def run_guarded(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run `app`; print mistakes in the arguments themselves in one line. Return the exit code."""
    command = typer.main.get_command(app)
    try:
        return int(command.main(list(arguments), prog_name="intonaco", standalone_mode=False) or 0)
    except Exit as stop:
        return stop.exit_code
    except (Abort, KeyboardInterrupt):
        print_error("cancelled; nothing was written")
        return ExitCode.CANCELLED
    except TyperException as mistake:
        if not mistake.format_message():  # a bare `intonaco` has printed its help already
            return ExitCode.BAD_INPUT
        print_error(f"{_one_line(mistake.format_message())} {_where_help_is(mistake)}")
        return ExitCode.BAD_INPUT


def print_error(message: str) -> None:
    """Print one line to stderr, its first word red on a terminal."""
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(message, err=True)


def _where_help_is(mistake: TyperException) -> str:
    context = getattr(mistake, "ctx", None)
    path = context.command_path if context is not None else "intonaco"
    return f"(see '{path} --help')"


def _one_line(text: str) -> str:
    return " ".join(text.split())
