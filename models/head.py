"""Draws a doll's head: hair behind and before, face, eyewear, hat. Centre (x, 48), radii 20 and 23."""

from models.canvas import Canvas
from models.palette import CLOTH, HAIR, INK, SKIN, shade
from models.world import NONE, Doll

_LIPS = (176, 62, 70)


def draw_back_hair(c: Canvas, doll: Doll, x: int) -> None:
    """Draw what falls behind the body."""
    if doll.hair_style == "bald":
        return
    color = HAIR[doll.hair_color]
    edge = shade(color, 0.74)
    if doll.hair_style == "long":
        c.polygon([(x - 24, 44), (x + 24, 44), (x + 28, 104), (x - 28, 104)], color, edge=edge)
        c.ellipse(x, 44, 24, 24, color, edge=edge)
    elif doll.hair_style == "curly":
        for dx, dy in (
            (-24, 52),
            (24, 52),
            (-25, 38),
            (25, 38),
            (-17, 25),
            (17, 25),
            (0, 20),
            (-20, 63),
            (20, 63),
        ):
            c.circle(x + dx, dy, 11, color, edge=edge)
        c.ellipse(x, 42, 25, 24, color)
    elif doll.hair_style == "braided":
        for side in (-1, 1):
            for i, y in enumerate((60, 70, 80, 90)):
                c.circle(x + side * (24 + i), y, 6.5, color, edge=edge)
            c.circle(x + side * 27, 97, 3.5, _LIPS)


def draw_head(c: Canvas, doll: Doll, x: int) -> None:
    """Draw face, front hair, eyewear and hat."""
    skin = SKIN[doll.skin]
    edge = shade(skin, 0.74)
    for side in (-1, 1):
        c.circle(x + 20 * side, 50, 4.5, skin, edge=edge)
    c.ellipse(x, 48, 20, 23, skin, edge=edge)
    _draw_front_hair(c, doll, x)
    _draw_face(c, doll, x)
    _draw_hat(c, doll, x)


def _draw_front_hair(c: Canvas, doll: Doll, x: int) -> None:
    if doll.hair_style == "bald":
        return
    color = HAIR[doll.hair_color]
    edge = shade(color, 0.74)
    c.chord(x, 46, 21.5, 24, 188, 352, color, edge=edge)
    if doll.hair_style == "spiky":
        for i in range(-2, 3):
            c.polygon(
                [(x + 9 * i - 7, 32), (x + 11 * i, 8 + 3 * abs(i)), (x + 9 * i + 7, 32)],
                color,
                edge=edge,
            )
        c.chord(x, 46, 20.5, 23, 192, 348, color)
    elif doll.hair_style == "curly":
        for dx in (-14, -5, 5, 14):
            c.circle(x + dx, 30, 7, color)
    elif doll.hair_style in ("long", "braided"):
        for side in (-1, 1):
            c.polygon(
                [
                    (x + 22 * side, 40),
                    (x + 15 * side, 36),
                    (x + 18 * side, 58),
                    (x + 22 * side, 60),
                ],
                color,
            )
    else:
        for side in (-1, 1):
            c.rectangle(x + min(16 * side, 21 * side), 40, x + max(16 * side, 21 * side), 50, color)


def _draw_face(c: Canvas, doll: Doll, x: int) -> None:
    skin = SKIN[doll.skin]
    eye = INK if doll.skin != "dark" else (20, 14, 14)
    for side in (-1, 1):
        c.ellipse(x + 8 * side, 49, 3.4, 4, (255, 255, 255))
        c.ellipse(x + 8 * side, 49.5, 2.3, 2.9, eye)
        c.circle(
            x + 13 * side,
            57,
            3,
            shade(skin, 0.86) if doll.skin in ("brown", "dark") else (246, 170, 150),
        )
    if doll.eyewear != NONE:
        lens = INK if doll.eyewear == "sunglasses" else None
        for side in (-1, 1):
            if lens:
                c.ellipse(x + 8.5 * side, 49, 7.5, 6.5, lens)
                c.line([(x + 8.5 * side - 4, 48), (x + 8.5 * side - 1, 45.5)], 1.4, (150, 156, 170))
            else:
                c.arc(x + 8.5 * side, 49, 7.5, 7.5, 0, 360, 1.8, INK)
        c.line([(x - 2, 48), (x + 2, 48)], 1.8, INK)
    _draw_mouth(c, doll.expression, x)


def _draw_mouth(c: Canvas, expression: str, x: int) -> None:
    if expression == "smiling":
        c.arc(x, 57, 7, 6, 20, 160, 1.9, _LIPS)
    elif expression == "laughing":
        c.chord(x, 58.5, 8, 8, 0, 180, (130, 36, 48))
        c.rectangle(x - 6.5, 58.5, x + 6.5, 60.5, (255, 255, 255))
    elif expression == "surprised":
        c.ellipse(x, 62, 4, 4.8, (130, 36, 48), edge=_LIPS)
    else:
        c.line([(x - 6, 62), (x + 6, 62)], 2, _LIPS)


def _draw_hat(c: Canvas, doll: Doll, x: int) -> None:
    if doll.hat == NONE:
        return
    color = CLOTH[doll.hat_color]
    edge = shade(color, 0.72)
    if doll.hat == "cap":
        c.chord(x, 38, 22.5, 22, 180, 360, color, edge=edge)
        c.polygon(
            [(x - 2, 34), (x + 22, 34), (x + 37, 40), (x - 2, 39)], shade(color, 0.82), edge=edge
        )
        c.circle(x, 17, 2.5, edge)
    elif doll.hat == "beanie":
        c.chord(x, 38, 22.5, 26, 180, 360, color, edge=edge)
        c.polygon(
            [(x - 24, 32), (x + 24, 32), (x + 24, 40), (x - 24, 40)], shade(color, 0.84), edge=edge
        )
        c.circle(x, 9, 6.5, shade(color, 1.4), edge=edge)
    elif doll.hat == "fedora":
        c.polygon([(x - 17, 34), (x - 14, 8), (x + 14, 8), (x + 17, 34)], color, edge=edge)
        c.polygon([(x - 17, 34), (x - 16, 27), (x + 16, 27), (x + 17, 34)], edge)
        c.ellipse(x, 35, 33, 5, color, edge=edge)
    else:
        c.polygon(
            [
                (x - 20, 36),
                (x - 22, 12),
                (x - 10, 24),
                (x, 8),
                (x + 10, 24),
                (x + 22, 12),
                (x + 20, 36),
            ],
            color,
            edge=edge,
        )
        c.rectangle(x - 20, 31, x + 20, 36, shade(color, 0.8))
        for dx in (-12, 0, 12):
            c.circle(x + dx, 33.5, 2, (255, 255, 255))
