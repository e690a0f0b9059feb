"""`intonaco demo`: pictures from words, edits of them, and the same edits over a slow link.

Draws everything that a plan names, lays it out on a contact sheet, then streams the edits privately
from a store on this machine (`demo_streaming`) and writes one page that tells of it (`demo_pages`).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intonaco.cli import drawing, options
from intonaco.cli.demo_catalog import Studio, streamable
from intonaco.cli.terminal import Terminal
from intonaco.errors import RequestError, UnsupportedError

if TYPE_CHECKING:
    from PIL.Image import Image

    from intonaco.cli.demo_plan import DemoPlan, DrawnEdit
    from intonaco.cli.terminal import PictureProgress
    from intonaco.model import Model
    from intonaco.pipelines.picture import Picture
    from intonaco.quality.report import Row

SHEET_FILE = "contact-sheet.png"
REPORT_FILE = "report.html"
CATALOG_FOLDER = "catalog"
NUM_COLUMNS = 3
TILE_WIDTH_PX = 288

Folder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write; made if absent.")
]
Assets = Annotated[
    Path | None,
    typer.Option(
        "--assets",
        metavar="FOLDER",
        help="Folder with a demo.json, masks and reference pictures. Default: the built-in one.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One picture of the demo, where it is, and how it came to be.

    Attributes:
        seconds: from the request to the picture.
    """

    picture: "Picture"
    path: Path
    title: str
    prompt: str
    seconds: float


def demo(
    output: Folder = Path("out"),
    model: options.Model = None,
    assets: Assets = None,
    json: options.IsJson = False,
    debug: options.IsDebug = False,
) -> None:
    """Show all of it: pictures from words, an edit, a try-on, a face swap, and private edits.

    Examples:

        intonaco demo
        intonaco demo --output somewhere --json

    The edits are drawn twice: computing every token, and with the state of a template streaming in
    from a store on this machine over an emulated 5G link. OUTPUT/report.html shows both side by side.
    """
    terminal = Terminal(is_json=json, is_debug=debug)
    with terminal.reporting():
        start_s = time.monotonic()
        folder = assets or Path(__file__).parents[1] / "assets" / "demo"
        plan = _read_plan(terminal, folder)
        output.mkdir(parents=True, exist_ok=True)
        drawing.check_folder(output)
        num_pictures = len(plan.pictures) + len(plan.edits)
        with terminal.progress(num_pictures=num_pictures) as progress:
            loaded = drawing.load_model(progress, folder=model)
            drawn = draw_all(progress, loaded, plan, folder, output)
        sheet = output / SHEET_FILE
        drawing.save_png(lay_out(plan, drawn, folder), sheet)
        _report_drawn(terminal, drawn)
        studio = Studio(
            terminal=terminal, model=loaded, assets=folder, catalog=output / CATALOG_FOLDER
        )
        streamed = _stream(studio, plan, drawn, output)
        _report(terminal, drawn, sheet, streamed, seconds=time.monotonic() - start_s)


def draw_all(
    progress: "PictureProgress", model: "Model", plan: "DemoPlan", folder: Path, output: Path
) -> tuple[Drawn, ...]:
    """Draw and save everything in `plan`, pictures first; return it in the plan's order."""
    drawn: dict[str, Drawn] = {}
    for index, item in enumerate(plan.pictures):
        began_at = time.monotonic()
        picture = model.generate(
            item.prompt, seed=item.seed, progress=progress.of_picture(index, item.name)
        )
        path = output / f"{item.name}.png"
        drawn[item.name] = _save(picture, path, "words", item.prompt, began_at)
    for index, edit in enumerate(plan.edits, start=len(plan.pictures)):
        began_at = time.monotonic()
        picture = _draw_edit(model, edit, drawn, folder, progress, index)
        path = output / f"{edit.name}.png"
        drawn[edit.name] = _save(picture, path, edit.title, edit.prompt, began_at)
    return tuple(drawn.values())


def lay_out(plan: "DemoPlan", drawn: Sequence[Drawn], folder: Path) -> "Image":
    """Return the contact sheet: the drawn pictures, then one row per edit with what went into it."""
    from intonaco.quality.report import Tile, arrange, contact_sheet

    tiles = [
        Tile(image=item.picture.image, caption=item.prompt) for item in drawn[: len(plan.pictures)]
    ]
    rows = list(arrange(tiles, num_columns=NUM_COLUMNS, heading="Drawn from words"))
    by_name = {item.path.stem: item for item in drawn}
    rows += [_edit_row(edit, by_name, folder) for edit in plan.edits]
    return contact_sheet(rows, title="intonaco", tile_width_px=TILE_WIDTH_PX)


def _read_plan(terminal: Terminal, folder: Path) -> "DemoPlan":
    from intonaco.cli.demo_plan import WORDS_ONLY, read_plan

    plan = read_plan(folder)
    if plan is WORDS_ONLY:
        terminal.warn(f"no demo.json in {folder}: only pictures from words, no edits are drawn")
    return plan


def _draw_edit(
    model: "Model",
    edit: "DrawnEdit",
    drawn: Mapping[str, Drawn],
    folder: Path,
    progress: "PictureProgress",
    index: int,
) -> "Picture":
    return model.edit(
        _template_path(edit, drawn, folder),
        folder / edit.mask_file,
        prompt=edit.prompt or None,
        references=[folder / name for name in edit.reference_files],
        seed=edit.seed,
        progress=progress.of_picture(index, edit.title.lower()),
    )


def _template_path(edit: "DrawnEdit", drawn: Mapping[str, Drawn], folder: Path) -> Path:
    if edit.template_picture is not None:
        return drawn[edit.template_picture].path
    return folder / str(edit.template_file)


def _save(picture: "Picture", path: Path, title: str, prompt: str, began_at: float) -> Drawn:
    seconds = time.monotonic() - began_at
    picture.save(path, receipt_beside=True)
    return Drawn(picture=picture, path=path, title=title, prompt=prompt, seconds=seconds)


def _stream(
    studio: Studio, plan: "DemoPlan", drawn: Sequence[Drawn], output: Path
) -> dict[str, object]:
    """Stream the plan's edits, write the report; return fields for a machine.

    Empty without edits to stream, and, with a warning, for a model without template state.
    """
    from intonaco.cli.demo_pages import as_json, compare, write_report
    from intonaco.cli.demo_streaming import stream_all

    if not streamable(plan):
        return {}
    images = {item.path.stem: item.picture.image for item in drawn}
    try:
        streamed = stream_all(studio, plan, images)
    except (UnsupportedError, RequestError) as error:
        studio.terminal.warn(f"private edits are left out: {error}")
        return {}
    for one in streamed.edits:
        one.result.picture.save(output / f"streamed-{one.edit.name}.png", receipt_beside=True)
    seconds = {item.path.stem: item.seconds for item in drawn}
    compared = compare(streamed, images=images, seconds=seconds)
    report = output / REPORT_FILE
    write_report(report, studio, plan, streamed, compared, images=images)
    return {"report": str(report), **as_json(streamed, compared)}


def _edit_row(edit: "DrawnEdit", drawn: Mapping[str, Drawn], folder: Path) -> "Row":
    from intonaco.pipelines.mask import read_mask
    from intonaco.pipelines.reading import open_picture
    from intonaco.quality.report import Row, Tile, mark_region

    template = open_picture(_template_path(edit, drawn, folder), "template").convert("RGB")
    mask = open_picture(folder / edit.mask_file, "mask")
    marked = mark_region(template, read_mask(mask, size=template.size))
    tiles = [
        Tile(image=marked, caption="template, what may change marked"),
        *(
            Tile(image=open_picture(folder / name, "reference").convert("RGB"), caption="reference")
            for name in edit.reference_files
        ),
        Tile(image=drawn[edit.name].picture.image, caption=edit.prompt or "edited"),
    ]
    return Row(heading=edit.title, tiles=tuple(tiles))


def _report_drawn(terminal: Terminal, drawn: Sequence[Drawn]) -> None:
    for item in drawn:
        for warning in item.picture.warnings:
            terminal.warn(f"{item.path.name}: {warning}")
    width = max(len(str(item.path)) for item in drawn)
    title_width = max(len(item.title) for item in drawn)
    for item in drawn:
        draw_s = sum(item.picture.receipt.step_ms) / 1000
        terminal.say(
            f"{item.path!s:{width}}  {item.title:{title_width}}  {draw_s:5.2f} s  {item.prompt}"
        )
    terminal.say("")


def _report(
    terminal: Terminal,
    drawn: Sequence[Drawn],
    sheet: Path,
    streamed: Mapping[str, object],
    *,
    seconds: float,
) -> None:
    terminal.say(f"all pictures on one page: {sheet}")
    terminal.say(f"{len(drawn)} pictures with receipts in {seconds:.0f} s; draw one again:")
    terminal.say(f"  intonaco replay {drawn[0].path}")
    if streamed:
        terminal.say(f"the private edits, told on one page: open {streamed['report']} in a browser")
    terminal.result(
        {
            "contact_sheet": str(sheet),
            "seconds": round(seconds, 3),
            "pictures": [drawing.as_json(item.picture, item.path) for item in drawn],
            **streamed,
        }
    )
