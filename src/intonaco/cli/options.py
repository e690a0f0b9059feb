"""The options that several verbs share, and how their text becomes a value.

Options arrive as text and are parsed here, so that every mistake reads the same: setting, value,
rule, what would work.
"""

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from intonaco.errors import RequestError

PICTURE = "Picture"
MODEL = "Model"
OUTPUT = "Output"

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="FOLDER",
        help="Model: a folder in diffusers' format, or a hub id. Default: the built-in one.",
        rich_help_panel=MODEL,
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help="Arithmetic: float32 (exact) or bfloat16 (faster).",
        rich_help_panel=MODEL,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device", metavar="NAME", help="Where to compute: cpu or cuda.", rich_help_panel=MODEL
    ),
]
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="What computes: eager (as it is), or programs that inductor or openvino compile once.",
        rich_help_panel=MODEL,
    ),
]
StepCache = Annotated[
    str | None,
    typer.Option(
        "--step-cache",
        metavar="MODE",
        help="Reuse outputs at some steps: cadence:2, online-delta or calibrated. Default: off.",
        rich_help_panel=PICTURE,
    ),
]
Seed = Annotated[
    str | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="Same seed, same picture. Default: drawn and reported.",
        rich_help_panel=PICTURE,
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        "--size",
        metavar="WxH",
        help="Pixels, such as 192x192. Default: the model's.",
        rich_help_panel=PICTURE,
    ),
]
Steps = Annotated[
    str | None,
    typer.Option(
        "--steps",
        metavar="N",
        help="Denoising steps. Default: the model's.",
        rich_help_panel=PICTURE,
    ),
]
References = Annotated[
    list[Path] | None,
    typer.Option(
        "--reference",
        "-r",
        metavar="FILE",
        help="Picture to take clothes, a face or a look from. May be given more than once.",
        rich_help_panel=PICTURE,
    ),
]
CatalogOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Catalog to add the template to; made if it is not there.",
        rich_help_panel=OUTPUT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="PNG to write. Default: named by its seed.",
        rich_help_panel=OUTPUT,
    ),
]
WritesReceipt = Annotated[
    bool,
    typer.Option(
        "--receipt",
        help="Write the receipt beside the picture too, as a JSON file.",
        rich_help_panel=OUTPUT,
    ),
]
IsPrivate = Annotated[
    bool,
    typer.Option("--private", help="Leave the prompt out of the receipt.", rich_help_panel=OUTPUT),
]
IsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object on stdout; all else goes to stderr.",
        rich_help_panel=OUTPUT,
    ),
]
IsDebug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)
]

SIZE = re.compile(r"(\d{1,6})[xX\u00d7](\d{1,6})")


def parse_size(text: str | None, *, option: str = "--size") -> tuple[int, int] | None:
    """Return (width, height) in pixels. Raises `RequestError` unless `text` is like 192x192."""
    if text is None:
        return None
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise RequestError(
            f"{option} must be WIDTHxHEIGHT in pixels, got {text!r}; for example {option} 192x192"
        )
    return int(match[1]), int(match[2])


def parse_whole_number(text: str | None, *, option: str, example: int) -> int | None:
    """Return the whole number in `text`. Raises `RequestError` naming `option` for anything else."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        shown = repr(text if len(text) <= 40 else text[:37] + "...")
        raise RequestError(
            f"{option} must be a whole number, got {shown}; for example {option} {example}"
        ) from None


def parse_number(text: str | None, *, option: str, example: float) -> float | None:
    """Return the finite number in `text`. Raises `RequestError` naming `option` for anything else."""
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        shown = repr(text if len(text) <= 40 else text[:37] + "...")
        raise RequestError(
            f"{option} must be a number, got {shown}; for example {option} {example:g}"
        )
    return number
