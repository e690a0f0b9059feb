"""How every plot is drawn and written: one size, one set of colors, no state kept in the process.

Needs the extra `quality` (matplotlib).
"""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from intonaco.errors import SaveError, UnsupportedError

INK, FAINT, MARK, SECOND = "#2b2622", "#b9aea1", "#e84855", "#2f6690"

Draw = Callable[[Any], None]
"""Draws onto matplotlib axes."""


def encode_plot(draw: Draw) -> bytes:
    """Return a plot as PNG. Raises UnsupportedError without matplotlib."""
    try:
        # Not pyplot, which keeps figures in the process.
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError(
            "plots need matplotlib, which is not installed; pip install 'intonaco[quality]'"
        ) from None
    figure: Any = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    encoded = io.BytesIO()
    figure.savefig(encoded, dpi=120, format="png")
    return encoded.getvalue()


def write_plots(folder: Path, drawings: Mapping[str, Draw]) -> tuple[Path, ...]:
    """Write each plot under its file name and return the paths, in order.

    Raises UnsupportedError without matplotlib, SaveError where the folder cannot be written.
    """
    encoded = {folder / name: encode_plot(draw) for name, draw in drawings.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in encoded.items():
            path.write_bytes(content)
    except OSError as error:
        raise SaveError(
            f"cannot write plots to {folder} ({error.strerror or error}); choose a writable folder"
        ) from None
    return tuple(encoded)
