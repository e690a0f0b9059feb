"""Contact sheets: rows of captioned pictures on one page, for the demo and for benchmarks.

Lays pictures out and writes text under them. Knows nothing of models, and judges nothing:
numbers come from `intonaco.quality.metrics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PLASTER = (250, 247, 242)
INK = (43, 38, 34)
FAINT_INK = (122, 112, 102)
MARK = (232, 72, 85)
MARGIN_PX = 20
GAP_PX = 14
TITLE_SIZE_PX = 24
HEADING_SIZE_PX = 16
CAPTION_SIZE_PX = 13
MAX_CAPTION_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One picture and the text under it."""

    image: Image.Image
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Tiles side by side, under a heading."""

    tiles: tuple[Tile, ...]
    heading: str = ""


def arrange(tiles: Sequence[Tile], *, num_columns: int, heading: str = "") -> tuple[Row, ...]:
    """Return `tiles` in rows of `num_columns`; the heading stands over the first row."""
    starts = range(0, len(tiles), num_columns)
    return tuple(
        Row(tiles=tuple(tiles[start : start + num_columns]), heading=heading if start == 0 else "")
        for start in starts
    )


def contact_sheet(rows: Sequence[Row], *, title: str = "", tile_width_px: int = 192) -> Image.Image:
    """Return one RGB page with all rows, each picture scaled to `tile_width_px`.

    Captions are wrapped to the tile's width and cut after five lines.
    """
    drawn_rows = [_draw_row(row, tile_width_px) for row in rows]
    title_image = _draw_text([title] if title else [], size_px=TITLE_SIZE_PX, color=INK)
    parts = [part for part in (title_image, *drawn_rows) if part is not None]
    width = max((part.width for part in parts), default=tile_width_px) + 2 * MARGIN_PX
    height = sum(part.height + GAP_PX for part in parts) - GAP_PX + 2 * MARGIN_PX
    sheet = Image.new("RGB", (width, max(height, 2 * MARGIN_PX)), PLASTER)
    top = MARGIN_PX
    for part in parts:
        sheet.paste(part, (MARGIN_PX, top))
        top += part.height + GAP_PX
    return sheet


def mark_region(picture: Image.Image, is_marked_HW: np.ndarray) -> Image.Image:
    """Return the picture with the marked pixels tinted: how a mask is shown to a person.

    `is_marked_HW` is a boolean array of the picture's height and width.
    """
    pixels_HWC = np.asarray(picture.convert("RGB"), dtype=np.float32)
    tinted_HWC = 0.45 * pixels_HWC + 0.55 * np.array(MARK, dtype=np.float32)
    marked_HWC = np.where(is_marked_HW[..., None], tinted_HWC, pixels_HWC)
    return Image.fromarray(marked_HWC.round().astype(np.uint8))


def _draw_row(row: Row, tile_width_px: int) -> Image.Image:
    heading = _draw_text([row.heading] if row.heading else [], size_px=HEADING_SIZE_PX, color=INK)
    tiles = [_draw_tile(tile, tile_width_px) for tile in row.tiles]
    heading_height = heading.height + GAP_PX // 2 if heading else 0
    tiles_width = sum(tile.width + GAP_PX for tile in tiles) - GAP_PX if tiles else 0
    width = max(tiles_width, heading.width if heading else 0, 1)
    height = heading_height + max((tile.height for tile in tiles), default=0)
    image = Image.new("RGB", (width, max(height, 1)), PLASTER)
    if heading:
        image.paste(heading, (0, 0))
    for index, tile in enumerate(tiles):
        image.paste(tile, (index * (tile_width_px + GAP_PX), heading_height))
    return image


def _draw_tile(tile: Tile, width_px: int) -> Image.Image:
    picture = tile.image.convert("RGB")
    height_px = max(1, round(picture.height * width_px / picture.width))
    if picture.size != (width_px, height_px):
        picture = picture.resize((width_px, height_px), Image.Resampling.LANCZOS)
    font = ImageFont.load_default(CAPTION_SIZE_PX)
    caption = _draw_text(
        wrap(tile.caption, font, width_px), size_px=CAPTION_SIZE_PX, color=FAINT_INK
    )
    caption_height = caption.height + 4 if caption else 0
    image = Image.new("RGB", (width_px, height_px + caption_height), PLASTER)
    image.paste(picture, (0, 0))
    if caption:
        image.paste(caption, (0, height_px + 4))
    return image


def wrap(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width_px: int) -> list[str]:
    """Return the lines of `text` that fit `width_px`, at most five, the last one cut with dots."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(joined) <= width_px:
            lines[-1] = joined
        else:
            lines.append(word)
    if len(lines) <= MAX_CAPTION_LINES:
        return lines
    return [*lines[: MAX_CAPTION_LINES - 1], f"{lines[MAX_CAPTION_LINES - 1]} ..."]


def _draw_text(
    lines: Sequence[str], *, size_px: int, color: tuple[int, int, int]
) -> Image.Image | None:
    if not lines:
        return None
    font = ImageFont.load_default(size_px)
    line_height = round(size_px * 1.35)
    width = max(1, *(round(font.getlength(line)) + 1 for line in lines))
    image = Image.new("RGB", (width, line_height * len(lines)), PLASTER)
    draw = ImageDraw.Draw(image)
    for index, line in enumerate(lines):
        draw.text((0, index * line_height), line, font=font, fill=color)
    return image
