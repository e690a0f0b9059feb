"""The verbs of the command line, in the order in which a newcomer meets them."""

from typing import Annotated

import typer

from intonaco.cli.calibrate import calibrate
from intonaco.cli.compare import compare
from intonaco.cli.compile import compile_programs
from intonaco.cli.demo import demo
from intonaco.cli.doctor import doctor
from intonaco.cli.edit import edit
from intonaco.cli.generate import generate
from intonaco.cli.programs import programs
from intonaco.cli.replay import replay
from intonaco.cli.serve import serve
from intonaco.cli.template import template
from intonaco.version import __version__

INTRODUCTION = """
Draw pictures from words, edit them, and draw the same pixels again.

A small model is built in, so this works at once:

  intonaco demo
  intonaco generate "a doll with curly ginger hair, at the beach" --seed 7

Exit codes: 0 done, 1 a fault of intonaco, 2 a request that cannot be done,
3 a model, a file or the machine stands in the way, 4 cancelled.
"""

app = typer.Typer(
    name="intonaco",
    help=INTRODUCTION,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
app.command()(demo)
app.command()(generate)
app.command()(edit)
app.command()(replay)
app.command()(serve)
app.command()(calibrate)
app.command()(compare)
app.command()(doctor)
app.command("compile")(compile_programs)
app.add_typer(programs)
app.add_typer(template)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"intonaco {__version__}")
        raise typer.Exit


@app.callback()
def introduce(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Hold the options that belong to no verb."""
