"""`intonaco edit`: change a part of a picture, by words or by a reference picture."""

from pathlib import Path
from typing import Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal

Template = Annotated[Path, typer.Argument(metavar="PICTURE", help="The picture to change.")]
Mask = Annotated[
    Path,
    typer.Option(
        "--mask",
        metavar="FILE",
        help="PNG of the picture's size: what may change is transparent, or white on black.",
        rich_help_panel=options.PICTURE,
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        "-p",
        metavar="TEXT",
        help="What the changed picture shows, in words.",
        rich_help_panel=options.PICTURE,
    ),
]


def edit(
    template: Template,
    mask: Mask,
    prompt: Prompt = None,
    model: options.Model = None,
    seed: options.Seed = None,
    steps: options.Steps = None,
    step_cache: options.StepCache = None,
    reference: options.References = None,
    output: options.Output = None,
    receipt: options.WritesReceipt = False,
    private: options.IsPrivate = False,
    dtype: options.Precision = "float32",
    device: options.Device = "cpu",
    backend: options.Backend = "eager",
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Change the masked part of a picture; every pixel outside the mask stays as it is.

    Examples:

        intonaco edit doll.png --mask clothes.png --prompt "a doll, a blue dress"
        intonaco edit doll.png --mask clothes.png --reference coat.png
        intonaco edit doll.png --mask head.png -r friend.png -o swap.png
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        seed_number = options.parse_whole_number(seed, option="--seed", example=7)
        num_steps = options.parse_whole_number(steps, option="--steps", example=8)
        drawing.check_output(output)
        with terminal.progress() as progress:
            loaded = drawing.load_model(
                progress, folder=model, dtype=dtype, device=device, backend=backend
            )
            picture = loaded.edit(
                template,
                mask,
                prompt=prompt,
                references=reference or [],
                seed=seed_number,
                num_steps=num_steps,
                step_cache=step_cache,
                is_private=private,
                progress=progress.of_picture(0, "editing"),
            )
        again = drawing.replay_words(
            model=model,
            references=reference or [],
            prompt_if_private=prompt if private else None,
            template=template,
            mask=mask,
        )
        drawing.finish(terminal, picture, output=output, writes_receipt=receipt, replay_words=again)
