"""`intonaco replay`: draw a picture again from the receipt that it carries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal

if TYPE_CHECKING:
    from intonaco.pipelines.receipt import Receipt

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
        help="The picture that was edited, where it was an edit, or CATALOG/ID of its template.",
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


def _edited(receipt: "Receipt", template: Path | None, mask: Path | None) -> dict[str, Any]:
    """Return what was edited, as `intonaco.replay` takes it."""
    record = None if receipt.edit is None else receipt.edit.template
    if record is None or template is None:
        return {"template": template, "mask": mask}
    from intonaco.cli.edit import open_state

    state = open_state(template, record.num_bytes)
    return {
        "template": state.picture,
        "mask": state.editable_pixels() if mask is None else mask,
        "template_state": state,
    }


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
                **_edited(receipt, template, mask),
                progress=progress.of_picture(0, "drawing again"),
            )
        again.save(path)
        terminal.say(drawing.describe(again, path))
        terminal.say(f"the same pixels as {picture}")
        terminal.result(drawing.as_json(again, path))
