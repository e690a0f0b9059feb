"""The options of `intonaco compile` and `intonaco programs`, and the programs that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intonaco.cli import options

if TYPE_CHECKING:
    from intonaco.families.base import Family
    from intonaco.programs.library import ProgramLibrary
    from intonaco.programs.spec import ProgramSpec

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be drawn, as given; None = the model's default."""

    size: tuple[int, int] | None
    num_frames: int | None
    reference_sizes: tuple[tuple[int, int], ...]
    is_edit: bool
    has_probe: bool


def wanted(
    size: str | None,
    frames: str | None,
    reference_sizes: list[str] | None,
    *,
    is_edit: bool,
    has_probe: bool,
) -> Wanted:
    """Return what the options ask for, parsed."""
    references = (options.parse_size(text) for text in reference_sizes or ())
    return Wanted(
        size=options.parse_size(size),
        num_frames=options.parse_whole_number(frames, option="--frames", example=81),
        reference_sizes=tuple(pair for pair in references if pair is not None),
        is_edit=is_edit,
        has_probe=has_probe,
    )


def needed(family: Family, library: ProgramLibrary, asked: Wanted) -> list[ProgramSpec]:
    """Return every program that is needed, whatever the family."""
    from intonaco.families.picture_shape import PictureShape
    from intonaco.families.registry import needed_specs
    from intonaco.pipelines.probes import probe_specs

    defaults = family.defaults
    shape = PictureShape(
        size=asked.size or (defaults.width, defaults.height),
        num_frames=asked.num_frames or defaults.num_frames,
        reference_sizes=asked.reference_sizes,
        is_edit=asked.is_edit,
    )
    probes = probe_specs(family, library, shape) if asked.has_probe else []
    return [*needed_specs(family, shape), *probes]
