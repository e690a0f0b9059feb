"""`intonaco edit`: change a part of a picture, by words or by a reference picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intonaco.cli import drawing, options
from intonaco.cli.edit_request import EditRequest
from intonaco.cli.streamed_edit import StreamOptions, edit_streamed, is_url
from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError

if TYPE_CHECKING:
    from intonaco.template.capture import TemplateState

BYTES_PER_MEGABYTE = 1_000_000

Picture = Annotated[
    Path | None,
    typer.Argument(metavar="PICTURE", help="The picture to change.", show_default=False),
]
Mask = Annotated[
    Path | None,
    typer.Option(
        "--mask",
        metavar="FILE",
        help="PNG of the picture's size: what may change is transparent, or white on black. "
        "Default with --template: all that the template leaves to edits.",
        rich_help_panel=options.PICTURE,
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="CATALOG/ID",
        help="A prepared template in place of PICTURE: only what may change is computed. "
        "A URL (http://, s3://) streams it in; nothing of the edit leaves this machine.",
        rich_help_panel=options.PICTURE,
    ),
]
BudgetMegabytes = Annotated[
    str | None,
    typer.Option(
        "--budget-mb",
        metavar="X",
        help="Most megabytes of the template's state to read. Default: all of it.",
        rich_help_panel=options.PICTURE,
    ),
]
EmulateLink = Annotated[
    str | None,
    typer.Option(
        "--emulate-link",
        metavar="MBPS",
        help="Stream as over a link of so many Mbit/s, or of a trace's .csv, 40 ms away.",
        rich_help_panel=options.PICTURE,
    ),
]
ExplainsPrivacy = Annotated[
    bool,
    typer.Option(
        "--explain-privacy",
        help="Print everything that was sent to the store of a streamed template.",
        rich_help_panel=options.OUTPUT,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What is to be changed: the first arguments of `Model.edit`, and how the user named it."""

    path: Path
    picture: Any
    mask: Any
    state: "TemplateState | None"


def edit(
    picture: Picture = None,
    mask: Mask = None,
    prompt: Prompt = None,
    template: Template = None,
    budget_mb: BudgetMegabytes = None,
    emulate_link: EmulateLink = None,
    explain_privacy: ExplainsPrivacy = False,
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
        intonaco edit --template catalog/3fa9 --prompt "a doll, a blue dress" --budget-mb 1
        intonaco edit --template http://127.0.0.1:8650/ID -p "a doll, a blue dress" --explain-privacy
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        seed_number = options.parse_whole_number(seed, option="--seed", example=7)
        num_steps = options.parse_whole_number(steps, option="--steps", example=8)
        drawing.check_output(output)
        request = EditRequest(
            mask=mask,
            prompt=prompt,
            references=reference or [],
            seed=seed_number,
            is_private=private,
            model={"folder": model, "dtype": dtype, "device": device, "backend": backend},
            output=output,
            writes_receipt=receipt,
        )
        if template is not None and is_url(template):
            _check_streamed(picture, steps=steps, step_cache=step_cache, budget_mb=budget_mb)
            stream_options = StreamOptions(
                url=template, emulate_link=emulate_link, explains_privacy=explain_privacy
            )
            edit_streamed(terminal, request, stream_options)
        else:
            _check_local(emulate_link, explain_privacy)
            edited = _open_edited(
                picture, mask, None if template is None else Path(template), budget_mb
            )
            _edit_here(terminal, request, edited, num_steps=num_steps, step_cache=step_cache)


def _edit_here(
    terminal: Terminal,
    request: EditRequest,
    edited: Edited,
    *,
    num_steps: int | None,
    step_cache: str | None,
) -> None:
    with terminal.progress() as progress:
        model = drawing.load_model(progress, **request.model)
        drawn = model.edit(
            edited.picture,
            edited.mask,
            prompt=request.prompt,
            references=request.references,
            seed=request.seed,
            num_steps=num_steps,
            step_cache=step_cache,
            template_state=edited.state,
            is_private=request.is_private,
            progress=progress.of_picture(0, "editing"),
        )
    again = drawing.replay_words(
        model=request.model["folder"],
        references=request.references,
        prompt_if_private=request.prompt if request.is_private else None,
        template=edited.path,
        mask=request.mask,
    )
    _report_state(terminal, edited.state)
    drawing.finish(
        terminal,
        drawn,
        output=request.output,
        writes_receipt=request.writes_receipt,
        replay_words=again,
    )


def _check_streamed(picture: Path | None, **refused: str | None) -> None:
    """Raise RequestError for options that mean nothing with a template at a store."""
    given = [f"--{name.replace('_', '-')}" for name, text in refused.items() if text is not None]
    given += [] if picture is None else ["PICTURE"]
    if given:
        raise RequestError(
            f"{', '.join(given)} cannot be had with a template at a store; leave it out, or copy the "
            "template with 'intonaco template fetch'"
        )


def _check_local(emulate_link: str | None, explain_privacy: bool) -> None:
    """Raise RequestError for options that need a template at a store."""
    if emulate_link is not None or explain_privacy:
        raise RequestError(
            "--emulate-link and --explain-privacy need --template with a URL; for example "
            "--template http://127.0.0.1:8650/ID"
        )


def _open_edited(
    picture: Path | None, mask: Path | None, template: Path | None, budget_mb: str | None
) -> Edited:
    """Return what to change: a picture with its mask, or a prepared template."""
    if picture is not None and template is None:
        return _open_picture(picture, mask, budget_mb)
    if template is not None and picture is None:
        return _open_template(template, mask, budget_mb)
    got = "neither" if picture is None else "both"
    raise RequestError(
        f"edit needs either PICTURE with --mask or --template, got {got}; for example "
        "'intonaco edit doll.png --mask clothes.png' or 'intonaco edit --template catalog/3fa9'"
    )


def _open_picture(picture: Path, mask: Path | None, budget_mb: str | None) -> Edited:
    if mask is None:
        raise RequestError(
            "edit needs --mask beside PICTURE, got none; pass a PNG of its size, or see "
            "'intonaco edit --help'"
        )
    if budget_mb is not None:
        raise RequestError(
            f"--budget-mb needs --template, got {budget_mb!r} with PICTURE; leave it out"
        )
    return Edited(path=picture, picture=picture, mask=mask, state=None)


def _open_template(template: Path, mask: Path | None, budget_mb: str | None) -> Edited:
    megabytes = options.parse_number(budget_mb, option="--budget-mb", example=1.5)
    budget_bytes = None if megabytes is None else int(megabytes * BYTES_PER_MEGABYTE)
    state = open_state(template, budget_bytes)
    return Edited(
        path=template,
        picture=state.picture,
        mask=state.editable_pixels() if mask is None else mask,
        state=state,
    )


def open_state(template: Path, budget_bytes: int | None) -> "TemplateState":
    """Return the state of the template at CATALOG/ID, read within the budget; None = all of it."""
    from intonaco.template.catalog import open_template
    from intonaco.template.loading import load_template

    return load_template(open_template(template), budget_bytes=budget_bytes)


def _report_state(terminal: Terminal, state: "TemplateState | None") -> None:
    if state is not None:
        terminal.say(
            f"template {state.identity.digest[:12]}: {state.num_bytes / BYTES_PER_MEGABYTE:.3f} MB "
            "of its state were read"
        )
