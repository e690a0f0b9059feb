"""`intonaco replay`: draw a picture again from the receipt that it carries."""

from pathlib import Path
from typing import Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal

Picture = Annotated[Path, typer.Argument(metavar="PICTURE", help="A PNG that intonaco drew.")]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        "-p",
        metavar="TEXT",
        help="The prompt, where the receipt was kept private.",
        rich_help_panel=options.PICTURE,
    ),
]
Template = Annotated[
    Path | None,
    typer.Option(
        "--template",
        metavar="FILE",
        help="The picture that was edited, where it was an edit.",
        rich_help_panel=options.PICTURE,
    ),
]
Mask = Annotated[
    Path | None,
    typer.Option(
        "--mask",
        metavar="FILE",
        help="The mask of the edit.",
        rich_help_panel=options.PICTURE,
    ),
]


def replay(
    picture: Picture,
    model: options.Model = None,
    prompt: Prompt = None,
    template: Template = None,
    mask: Mask = None,
    reference: options.References = None,
    output: options.Output = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Draw the same pixels again, from the receipt in a picture.

    Seed, size, steps, backend and, unless it is private, the prompt come from the receipt; pictures that went
    in (references, template, mask) are given again, and compared with what the receipt says of them.
    Where the same pixels cannot be had, the error names the field that stands in the way.

    Examples:

        intonaco replay picture-7.png
        intonaco replay picture-7.png --output again.png --json
        intonaco replay edited.png --template doll.png --mask clothes.png
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        path = output or picture.with_name(f"{picture.stem}-replay.png")
        drawing.check_output(path)
        import intonaco

        receipt = intonaco.read_receipt(picture)
        with terminal.progress() as progress:
            loaded = drawing.load_model(
                progress,
                folder=model,
                dtype=receipt.dtype,
                device=receipt.device,
                backend=receipt.backend,
            )
            again = intonaco.replay(
                picture,
                model=loaded,
                prompt=prompt,
                references=reference or [],
                template=template,
                mask=mask,
                progress=progress.of_picture(0, "drawing again"),
            )
        again.save(path)
        terminal.say(drawing.describe(again, path))
        terminal.say(f"the same pixels as {picture}")
        terminal.result(drawing.as_json(again, path))
