"""A supersampled drawing surface in picture coordinates (pixels of the 192 x 192 result)."""

import math
from collections.abc import Callable, Sequence

from PIL import Image, ImageDraw

from models.palette import Color, shade

SCALE = 4
Point = tuple[float, float]
Fill = Color | Image.Image


class Canvas:
    """Draws shapes at four times the size; `picture()` averages 4 x 4 samples into each pixel."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.image = Image.new("RGB", (size * SCALE, size * SCALE))
        self._draw = ImageDraw.Draw(self.image)

    def picture(self) -> Image.Image:
        return self.image.reduce(SCALE)

    def gradient(self, top: float, bottom: float, upper: Color, lower: Color) -> None:
        """Fill the band [top, bottom) with a vertical gradient."""
        height = round((bottom - top) * SCALE)
        ramp = Image.linear_gradient("L").resize((self.image.width, height))
        band = Image.composite(
            Image.new("RGB", ramp.size, lower), Image.new("RGB", ramp.size, upper), ramp
        )
        self.image.paste(band, (0, round(top * SCALE)))

    def polygon(self, points: Sequence[Point], fill: Fill, *, edge: Color | None = None) -> None:
        scaled = [(x * SCALE, y * SCALE) for x, y in points]
        self._shape(lambda d, c: d.polygon(scaled, fill=c), scaled, fill)
        if edge is not None:
            self._draw.line([*scaled, scaled[0], scaled[1]], fill=edge, width=SCALE, joint="curve")

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, fill: Fill, *, edge: Color | None = None
    ) -> None:
        box = [(x - rx) * SCALE, (y - ry) * SCALE, (x + rx) * SCALE, (y + ry) * SCALE]
        if isinstance(fill, Image.Image):
            corners = [(box[0], box[1]), (box[2], box[3])]
            self._shape(lambda d, c: d.ellipse(box, fill=c), corners, fill)
        else:
            self._draw.ellipse(box, fill=fill, outline=edge, width=SCALE if edge else 0)

    def circle(
        self, x: float, y: float, r: float, fill: Fill, *, edge: Color | None = None
    ) -> None:
        self.ellipse(x, y, r, r, fill, edge=edge)

    def rectangle(self, left: float, top: float, right: float, bottom: float, fill: Color) -> None:
        self._draw.rectangle(
            [left * SCALE, top * SCALE, right * SCALE - 1, bottom * SCALE - 1], fill=fill
        )

    def line(self, points: Sequence[Point], width: float, fill: Color) -> None:
        scaled = [(x * SCALE, y * SCALE) for x, y in points]
        self._draw.line(scaled, fill=fill, width=max(1, round(width * SCALE)), joint="curve")

    def arc(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        end: float,
        width: float,
        fill: Color,
    ) -> None:
        box = [(x - rx) * SCALE, (y - ry) * SCALE, (x + rx) * SCALE, (y + ry) * SCALE]
        self._draw.arc(box, start, end, fill=fill, width=round(width * SCALE))

    def chord(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        end: float,
        fill: Color,
        *,
        edge: Color | None = None,
    ) -> None:
        box = [(x - rx) * SCALE, (y - ry) * SCALE, (x + rx) * SCALE, (y + ry) * SCALE]
        self._draw.chord(box, start, end, fill=fill, outline=edge, width=SCALE if edge else 0)

    def limb(self, points: Sequence[Point], width: float, fill: Color) -> None:
        """Draw a rounded thick line with a darker edge: an arm or a leg."""
        for grow, color in ((2.0, shade(fill, 0.74)), (0.0, fill)):
            self.line(points, width + grow, color)
            for x, y in points:
                self.circle(x, y, (width + grow) / 2, color)

    def _shape(
        self,
        paint: Callable[[ImageDraw.ImageDraw, Color | int], None],
        points: Sequence[Point],
        fill: Fill,
    ) -> None:
        if not isinstance(fill, Image.Image):
            paint(self._draw, fill)
            return
        mask = Image.new("L", self.image.size, 0)
        paint(ImageDraw.Draw(mask), 255)
        left, top = (math.floor(min(p[i] for p in points)) for i in (0, 1))
        right, bottom = (math.ceil(max(p[i] for p in points)) + 1 for i in (0, 1))
        box = (
            max(0, left),
            max(0, top),
            min(self.image.width, right),
            min(self.image.height, bottom),
        )
        self.image.paste(fill.crop(box), box[:2], mask.crop(box))


def pattern_tile(size: int, kind: str, color: Color, second: Color) -> Image.Image:
    """Return a whole-canvas cloth. Periods are 8 or 16 px: one phase on the 16-px token grid."""
    cell = Image.new("RGB", (16 * SCALE, 16 * SCALE), color)
    draw = ImageDraw.Draw(cell)
    if kind == "striped":
        for y in (2, 10):
            draw.rectangle([0, y * SCALE, 16 * SCALE, (y + 4) * SCALE - 1], fill=second)
    elif kind == "dotted":
        for x, y in ((4, 4), (12, 4), (4, 12), (12, 12)):
            draw.ellipse(
                [(x - 2) * SCALE, (y - 2) * SCALE, (x + 2) * SCALE, (y + 2) * SCALE], fill=second
            )
    elif kind == "checkered":
        draw.rectangle([0, 0, 8 * SCALE - 1, 8 * SCALE - 1], fill=second)
        draw.rectangle([8 * SCALE, 8 * SCALE, 16 * SCALE, 16 * SCALE], fill=second)
    cloth = Image.new("RGB", (size * SCALE, size * SCALE))
    for x in range(0, cloth.width, cell.width):
        for y in range(0, cloth.height, cell.height):
            cloth.paste(cell, (x, y))
    return cloth
