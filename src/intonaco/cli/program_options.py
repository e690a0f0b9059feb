"""The options that `intonaco compile` and the verbs of `intonaco programs` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intonaco.cli import options

PROGRAMS = "Programs"

Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FOLDER",
        help="Where programs are kept. Default: $INTONACO_STORE, or a folder of the user's cache.",
        rich_help_panel=PROGRAMS,
    ),
]
BackendName = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="What compiles: inductor, or openvino (an extra).",
        rich_help_panel=PROGRAMS,
    ),
]
ReferenceSizes = Annotated[
    list[str] | None,
    typer.Option(
        "--reference-size",
        metavar="WxH",
        help="Size of a reference picture given with the prompt. May be given more than once.",
        rich_help_panel=options.PICTURE,
    ),
]

Frames = Annotated[
    str | None,
    typer.Option(
        "--frames",
        metavar="N",
        help="Frames of a film, for models that draw films. Default: the model's.",
        rich_help_panel=options.PICTURE,
    ),
]
IsEdit = Annotated[
    bool,
    typer.Option(
        "--edit",
        help="Also what encodes a picture of this size, to edit it.",
        rich_help_panel=options.PICTURE,
    ),
]
HasProbe = Annotated[
    bool,
    typer.Option(
        "--probe",
        help="Also the change probe, which adaptive step caching asks.",
        rich_help_panel=options.PICTURE,
    ),
]
Templates = Annotated[
    list[str] | None,
    typer.Option(
        "--template",
        metavar="CATALOG[/ID]",
        help="What edits on this template need, or on all of a catalog; a folder or a URL. May be "
        "given more than once.",
        rich_help_panel=options.PICTURE,
    ),
]
