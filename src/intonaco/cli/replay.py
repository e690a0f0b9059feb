"""`intonaco replay`: draw a picture again from the receipt that it carries."""

from pathlib import Path
from typing import Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal

Picture = Annotated[Path, typer.Argument(metavar="PICTURE", help="A PNG that intonaco drew.")]


def replay(
    picture: Picture,
    model: options.Model = None,
    output: options.Output = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Draw the same bytes again, from the receipt in a picture.

    Model, seed, prompt, size and steps come from the receipt. Where the same bytes cannot be had
    (another model, a prompt that was kept private) the error says which field stands in the way.

    Examples:

        intonaco replay picture-7.png
        intonaco replay picture-7.png --output again.png --json
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        path = output or picture.with_name(f"{picture.stem}-replay.png")
        drawing.check_output(path)
        with terminal.waiting("drawing again"):
            import intonaco

            again = intonaco.replay(picture, model=model)
        drawing.finish(terminal, again, output=path, writes_receipt=False)
