"""`intonaco template build`: prepare a picture once, so that every edit of it costs a fraction."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError

if TYPE_CHECKING:
    from PIL.Image import Image

    from intonaco.model import Model
    from intonaco.template.build import BuildRequest
    from intonaco.template.catalog import Template

PROFILING = "Profiling"
DEFAULT_SEED = 0

Picture = Annotated[Path, typer.Argument(metavar="PICTURE", help="The picture to prepare.")]
Mask = Annotated[
    Path,
    typer.Option(
        "--mask",
        metavar="FILE",
        help="PNG of the picture's size: what edits may change is transparent, or white on black.",
        rich_help_panel=options.PICTURE,
    ),
]
Prompt = Annotated[
    str,
    typer.Option(
        "--prompt",
        "-p",
        metavar="TEXT",
        help="What the picture shows, in words.",
        rich_help_panel=options.PICTURE,
    ),
]
Title = Annotated[
    str,
    typer.Option(
        "--title",
        metavar="TEXT",
        help="Shown in lists. Default: the prompt.",
        rich_help_panel=options.PICTURE,
    ),
]
Seed = Annotated[
    str | None,
    typer.Option(
        "--seed",
        metavar="N",
        help=f"Noise of the template. Default: {DEFAULT_SEED}.",
        rich_help_panel=options.PICTURE,
    ),
]
ProfilePrompts = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        metavar="TEXT",
        help="A prompt like those to come; tells which tokens matter. May be given more than once.",
        rich_help_panel=PROFILING,
    ),
]
ProfileReferences = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile-reference",
        metavar="FILE",
        help="A reference picture like those to come. May be given more than once.",
        rich_help_panel=PROFILING,
    ),
]


def build(
    picture: Picture,
    mask: Mask,
    prompt: Prompt,
    output: options.CatalogOutput = Path("catalog"),
    title: Title = "",
    seed: Seed = None,
    steps: options.Steps = None,
    profile: ProfilePrompts = None,
    profile_reference: ProfileReferences = None,
    model: options.Model = None,
    dtype: options.Precision = "float32",
    device: options.Device = "cpu",
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Prepare a picture once, so that every edit inside the mask costs a fraction.

    Examples:

        intonaco template build girl.png --mask dress.png --prompt "a doll, a red dress" -o catalog/
        intonaco template build girl.png --mask dress.png -p "a doll" --profile "a doll, a green coat"

    What edits may bring is guessed from profiling requests: those given, filled up to five with
    the template's own prompt.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        seed_number = options.parse_whole_number(seed, option="--seed", example=7)
        num_steps = options.parse_whole_number(steps, option="--steps", example=8)
        drawing.check_catalog(output)
        with terminal.waiting("loading the model"):
            loaded = _load(model, dtype, device)
        request = _build_request(
            loaded,
            picture=picture,
            mask=mask,
            prompt=prompt,
            title=title,
            seed=DEFAULT_SEED if seed_number is None else seed_number,
            num_steps=num_steps,
            prompts=profile or [],
            references=profile_reference or [],
        )
        built = _build(terminal, loaded, request, output)
        _report_built(terminal, built)


def _load(model: str | None, dtype: str, device: str) -> "Model":
    import intonaco

    return intonaco.load(model, dtype=dtype, device=device)


def _build_request(
    loaded: "Model",
    *,
    picture: Path,
    mask: Path,
    prompt: str,
    title: str,
    seed: int,
    num_steps: int | None,
    prompts: list[str],
    references: list[Path],
) -> "BuildRequest":
    from intonaco.model import open_mask, open_references
    from intonaco.pipelines.reading import open_picture
    from intonaco.template.build import BuildRequest

    if not prompt.strip():
        raise RequestError(
            "--prompt must say what the picture shows, got an empty text; state that is captured "
            "without words fits edits far worse"
        )
    opened: Image = open_picture(picture, "template").convert("RGB")
    return BuildRequest(
        picture=opened,
        mask_HW=open_mask(mask, size=opened.size),
        prompt=prompt,
        seed=seed,
        num_steps=loaded.defaults.num_steps if num_steps is None else num_steps,
        title=title,
        profiling_prompts=prompts,
        profiling_references=open_references(references),
    )


def _build(
    terminal: Terminal, loaded: "Model", request: "BuildRequest", output: Path
) -> "Template":
    from intonaco.template.build import BuildEvent, build_template

    with terminal.counting("capturing") as show:

        def report(event: BuildEvent) -> None:
            show(event.done, event.total, event.phase)

        return build_template(
            loaded.editable_family(),
            request,
            output,
            model_digest=loaded.digest,
            progress=report,
        )


def _report_built(terminal: Terminal, built: "Template") -> None:
    manifest = built.manifest
    ratio = manifest.sizes.float16_bytes / manifest.state_bytes
    terminal.say(
        f"{built.folder}: {manifest.state_bytes / 1e6:.3f} MB of state, {ratio:.1f} times smaller "
        "than float16"
    )
    short = built.folder.parent / manifest.template_id[:4]
    terminal.say(f'edit it: intonaco edit --template {short} --prompt "..."')
    terminal.result(
        {
            "template_id": manifest.template_id,
            "folder": str(built.folder),
            "state_bytes": manifest.state_bytes,
            "float16_bytes": manifest.sizes.float16_bytes,
        }
    )
