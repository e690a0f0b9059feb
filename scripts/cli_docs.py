"""Writes docs/cli.md from the command line itself, so that the page cannot go stale.

usage: python -m scripts.cli_docs > docs/cli.md
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from intonaco.cli.app import app

HEADER = """\
# Command line

Written by `python -m scripts.cli_docs > docs/cli.md`; a test fails when it is stale.

Results go to stdout, progress and warnings to stderr. With `--json`, stdout holds one JSON object.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a fault of intonaco itself: run again with `--debug` and report it |
| 2 | what was asked cannot be done: an option, a picture, a prompt or a receipt |
| 3 | a model, a file, a program or the machine stands in the way |
| 4 | cancelled with Ctrl-C; nothing half-written is left |
"""


def page() -> str:
    """Return the whole page as Markdown."""
    root = typer.main.get_command(app)
    sections = [_section(path, command) for path, command in commands(root, ("intonaco",))]
    return "\n".join([HEADER, *sections])


def commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (words, command) for every verb below `group`, in the order of `--help`."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def _section(path: Sequence[str], command: Any) -> str:
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    option_list = [item for item in command.params if item.param_type_name == "option"]
    usage = " ".join([*path, *(item.metavar or item.name.upper() for item in arguments)])
    lines = [f"## {' '.join(path)}", "", f"    {usage} [OPTIONS]", "", *_help_lines(command), ""]
    if arguments:
        lines += ["| argument | meaning |", "|---|---|"]
        lines += [f"| `{item.metavar or item.name.upper()}` | {item.help} |" for item in arguments]
        lines.append("")
    lines += ["| option | default | meaning |", "|---|---|---|"]
    lines += [_option_row(item) for item in option_list]
    return "\n".join([*lines, ""])


def _help_lines(command: Any) -> list[str]:
    text = (command.help or "").replace("\f", "").strip()
    return [line.rstrip() for line in text.splitlines()]


def _option_row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    value = f" {option.metavar}" if option.metavar else ""
    needed = "required" if option.required else _default_of(option)
    return f"| {names}{value} | {needed} | {option.help} |"


def _default_of(option: Any) -> str:
    default = option.default
    if default in (None, False, "", ()):
        return ""
    return f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(page())
