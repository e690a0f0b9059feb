"""`intonaco generate`: one picture from words, with or without reference pictures."""

from typing import Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal

Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="What to draw, in words.")]


def generate(
    prompt: Prompt,
    model: options.Model = None,
    seed: options.Seed = None,
    size: options.Size = None,
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
    """Draw one picture from words.

    Examples:

        intonaco generate "a doll with curly ginger hair, at the beach"
        intonaco generate "a doll, glasses, a red crown" --seed 7 --output doll.png
        intonaco generate "a doll in the snow" --reference clothes.png
        intonaco generate "a doll at night" --steps 4 --size 192x192 --json

    The picture carries a receipt: 'intonaco replay doll.png' draws the same pixels again.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        size_px = options.parse_size(size)
        seed_number = options.parse_whole_number(seed, option="--seed", example=7)
        num_steps = options.parse_whole_number(steps, option="--steps", example=8)
        drawing.check_output(output)
        with terminal.progress() as progress:
            loaded = drawing.load_model(
                progress, folder=model, dtype=dtype, device=device, backend=backend
            )
            picture = loaded.generate(
                prompt,
                seed=seed_number,
                width=size_px[0] if size_px else None,
                height=size_px[1] if size_px else None,
                num_steps=num_steps,
                step_cache=step_cache,
                references=reference or [],
                is_private=private,
                progress=progress.of_picture(0, "drawing"),
            )
        again = drawing.replay_words(
            model=model,
            references=reference or [],
            prompt_if_private=prompt if private else None,
        )
        drawing.finish(terminal, picture, output=output, writes_receipt=receipt, replay_words=again)
