"""Writes what a comparison of modes found: report.json, report.html and worst.png, in one folder.

Takes plain records and pictures. Draws nothing itself and knows no model.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from PIL.Image import Image

from intonaco.errors import SaveError
from intonaco.quality.report import Row, Tile, contact_sheet

FORMAT = "intonaco-compare"
VERSION = 1
NUM_WORST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRow:
    """One mode at one step count, over all prompts.

    Attributes:
        num_calls: mean calls of the denoiser.
        speedup: of the denoising loop over the uncached one; `ceiling` if cached steps cost nothing.
        share_above_fewer_steps: of prompts; None where there is no such baseline.
    """

    mode: str
    num_steps: int
    num_calls: float
    speedup: float
    ceiling: float
    psnr_mean_db: float
    psnr_worst_db: float
    ssim_mean: float
    worst_prompt: str
    psnr_gain_over_fewer_steps_db: float | None = None
    share_above_fewer_steps: float | None = None
    num_invalid_scores: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    """A picture that lost most, beside what it should have been."""

    mode: str
    num_steps: int
    prompt: str
    psnr_db: float
    image: Image
    reference: Image


def write_report(
    folder: Path,
    rows: Sequence[CompareRow],
    worst: Sequence[WorstCase],
    *,
    model_name: str,
    num_prompts: int,
) -> tuple[Path, ...]:
    """Write the three files and return their paths. Raises SaveError."""
    paths = (folder / "report.json", folder / "report.html", folder / "worst.png")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "model": model_name,
        "num_prompts": num_prompts,
        "rows": [asdict(row) for row in rows],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths[0].write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
        paths[1].write_text(_page(rows, model_name=model_name, num_prompts=num_prompts))
        worst_sheet(worst).save(paths[2])
    except OSError as error:
        raise SaveError(
            f"cannot write a report to {folder} ({error.strerror or error}); choose a writable folder"
        ) from None
    return paths


def worst_sheet(worst: Sequence[WorstCase]) -> Image:
    """Return a contact sheet: each case beside its reference, the worst first."""
    ordered = sorted(worst, key=lambda case: case.psnr_db)
    rows = [
        Row(
            heading=f"{case.mode}, {case.num_steps} steps: {case.psnr_db:.1f} dB",
            tiles=(
                Tile(image=case.reference, caption=f"every step full: {case.prompt}"),
                Tile(image=case.image, caption=case.mode),
            ),
        )
        for case in ordered
    ]
    return contact_sheet(rows, title="Worst cases")


def table_lines(rows: Sequence[CompareRow]) -> list[str]:
    """Return the table as text, for a terminal."""
    heads = ("mode", "steps", "calls", "speedup", "ceiling", "PSNR", "worst", "SSIM", "gain")
    cells = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]


def _cells(row: CompareRow) -> tuple[str, ...]:
    gain = row.psnr_gain_over_fewer_steps_db
    return (
        row.mode,
        str(row.num_steps),
        f"{row.num_calls:.1f}",
        f"{row.speedup:.2f}x",
        f"{row.ceiling:.2f}x",
        f"{row.psnr_mean_db:.1f}",
        f"{row.psnr_worst_db:.1f}",
        f"{row.ssim_mean:.4f}",
        "" if gain is None else f"{gain:+.1f}",
    )


def _page(rows: Sequence[CompareRow], *, model_name: str, num_prompts: int) -> str:
    heads = (
        "mode", "steps", "calls", "speedup", "ceiling", "PSNR, dB", "worst, dB", "SSIM",
        "over fewer steps, dB",
    )  # fmt: skip
    header = "".join(f"<th>{head}</th>" for head in heads) + "<th>worst prompt</th>"
    body = "\n".join(
        "<tr>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
        + f"<td class=prompt>{html.escape(row.worst_prompt)}</td></tr>"
        for row in rows
    )
    title = f"Step caching on {html.escape(model_name)}"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #2b2622; background: #faf7f2;
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: right; padding: .35rem .6rem; border-bottom: 1px solid #e3dcd2 }}
th:first-child, td:first-child, .prompt {{ text-align: left }}
.prompt {{ color: #7a7066; font-size: 13px }}
img {{ max-width: 100%; margin-top: 1.5rem }}
</style>
<h1>{title}</h1>
<p>{num_prompts} prompts, each against the picture of the same seed with every step full. The last
number is the gain in mean PSNR over sampling fewer steps with as many denoiser calls. A ceiling is
the speedup if cached steps cost nothing.</p>
<table><thead><tr>{header}</tr></thead><tbody>
{body}
</tbody></table>
<img src="worst.png" alt="the worst cases beside what they should have been">
</html>
"""
