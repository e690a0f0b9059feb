"""The seven sceneries behind a doll. The horizon lies at y = 128, the ground below it."""

from collections.abc import Callable
from functools import lru_cache

from PIL import Image, ImageOps

from models.canvas import Canvas
from models.palette import shade

SIZE = 192
HORIZON = 128


def _beach(c: Canvas) -> None:
    c.gradient(0, 112, (120, 196, 240), (222, 242, 250))
    c.circle(160, 30, 15, (255, 222, 96))
    for x, y in ((34, 34), (48, 30), (60, 35)):
        c.circle(x, y, 10, (255, 255, 255))
    c.rectangle(24, 36, 70, 45, (255, 255, 255))
    c.rectangle(0, 112, SIZE, 136, (58, 154, 206))
    c.rectangle(0, 128, SIZE, 136, (112, 196, 222))
    c.polygon([(18, 112), (34, 112), (34, 84)], (250, 250, 250))
    c.polygon([(36, 112), (48, 112), (36, 92)], (238, 92, 86))
    c.polygon([(14, 113), (52, 113), (46, 121), (20, 121)], (142, 84, 52))
    c.gradient(136, SIZE, (246, 226, 172), (232, 204, 140))
    c.circle(172, 178, 4, (238, 150, 120))


def _park(c: Canvas) -> None:
    c.gradient(0, HORIZON, (150, 212, 246), (226, 244, 252))
    c.ellipse(40, 132, 80, 34, (132, 200, 116))
    c.ellipse(160, 134, 76, 26, (114, 186, 104))
    c.rectangle(20, 88, 28, 136, (120, 80, 50))
    for x, y, r in ((24, 72, 20), (12, 84, 13), (36, 84, 13)):
        c.circle(x, y, r, (70, 150, 78))
    c.gradient(HORIZON, SIZE, (124, 192, 100), (96, 168, 82))
    c.polygon([(84, SIZE), (150, SIZE), (168, 132), (156, 132)], (232, 214, 168))
    for x, y in ((24, 160), (44, 178), (176, 168), (12, 180)):
        c.circle(x, y, 2.5, (255, 240, 150))


def _city(c: Canvas) -> None:
    c.gradient(0, 144, (190, 196, 232), (246, 220, 216))
    towers = (
        (0, 64, 32, (120, 124, 164)),
        (32, 40, 28, (96, 100, 144)),
        (60, 80, 36, (138, 142, 178)),
        (96, 56, 32, (110, 114, 156)),
        (128, 88, 24, (140, 144, 180)),
        (152, 48, 40, (98, 102, 146)),
    )
    for left, top, width, color in towers:
        c.rectangle(left, top, left + width, 144, color)
        for x in range(left + 6, left + width - 6, 10):
            for y in range(top + 8, 136, 16):
                c.rectangle(x, y, x + 4, y + 7, (255, 232, 160))
    c.rectangle(0, 144, SIZE, SIZE, (150, 152, 160))
    c.rectangle(0, 144, SIZE, 148, (190, 192, 198))
    for x in range(8, SIZE, 48):
        c.rectangle(x, 182, x + 24, 186, (240, 240, 236))


def _snow(c: Canvas) -> None:
    c.gradient(0, HORIZON, (158, 182, 216), (222, 232, 244))
    c.polygon([(-20, 132), (44, 44), (108, 132)], (130, 150, 190))
    c.polygon([(28, 66), (44, 44), (60, 66), (50, 74), (40, 68)], (250, 252, 255))
    c.polygon([(90, 132), (150, 60), (212, 132)], (146, 166, 202))
    c.polygon([(134, 79), (150, 60), (166, 79), (156, 86), (144, 80)], (250, 252, 255))
    c.gradient(HORIZON, SIZE, (240, 246, 252), (216, 228, 242))
    for x in (20, 172):
        for y, w in ((92, 10), (106, 14), (120, 18)):
            c.polygon([(x - w, y + 20), (x, y), (x + w, y + 20)], (52, 112, 96))
    for x, y in (
        (12, 20),
        (60, 12),
        (112, 28),
        (148, 16),
        (180, 44),
        (24, 60),
        (84, 76),
        (132, 48),
    ):
        c.circle(x, y, 2.2, (255, 255, 255))


def _desert(c: Canvas) -> None:
    c.gradient(0, HORIZON, (252, 146, 106), (255, 222, 164))
    c.circle(56, 92, 22, (255, 240, 190))
    c.polygon([(96, 132), (112, 88), (156, 88), (176, 132)], (198, 104, 74))
    c.polygon([(96, 132), (112, 88), (124, 88), (118, 132)], (176, 88, 66))
    c.gradient(HORIZON, SIZE, (240, 188, 116), (222, 160, 92))
    c.ellipse(30, 142, 70, 14, (232, 174, 104))
    for points in (
        [(168, 168), (168, 120)],
        [(168, 148), (156, 144), (156, 132)],
        [(168, 140), (180, 136), (180, 124)],
    ):
        c.limb(points, 8, (72, 142, 90))


def _night(c: Canvas) -> None:
    c.gradient(0, 144, (22, 26, 66), (64, 62, 122))
    c.circle(158, 32, 15, (250, 240, 200))
    c.circle(151, 28, 12.5, (28, 31, 72))
    for x, y, r in (
        (16, 20, 2),
        (44, 44, 1.6),
        (70, 14, 2),
        (100, 28, 1.6),
        (124, 60, 2),
        (24, 76, 1.6),
        (180, 76, 2),
        (56, 92, 1.4),
    ):
        c.circle(x, y, r, (255, 246, 200))
    c.ellipse(36, 150, 84, 32, (38, 48, 88))
    c.ellipse(164, 152, 80, 28, (32, 42, 80))
    c.rectangle(12, 112, 40, 140, (74, 62, 104))
    c.polygon([(8, 113), (26, 96), (44, 113)], (112, 66, 92))
    c.rectangle(21, 120, 31, 130, (255, 214, 110))
    c.gradient(144, SIZE, (44, 58, 92), (32, 42, 74))


def _room(c: Canvas) -> None:
    c.rectangle(0, 0, SIZE, 144, (246, 222, 198))
    for x in range(0, SIZE, 32):
        c.rectangle(x, 0, x + 16, 144, (250, 232, 212))
    c.rectangle(16, 24, 64, 80, (255, 255, 255))
    c.rectangle(20, 28, 38, 76, (150, 208, 244))
    c.rectangle(42, 28, 60, 76, (150, 208, 244))
    c.rectangle(12, 80, 68, 85, (206, 150, 104))
    c.rectangle(136, 32, 176, 64, (150, 98, 64))
    c.rectangle(140, 36, 172, 60, (238, 244, 232))
    c.polygon([(142, 60), (154, 44), (166, 60)], (104, 168, 120))
    c.rectangle(0, 136, SIZE, 144, (255, 250, 242))
    c.gradient(144, SIZE, (206, 156, 108), (184, 132, 88))
    for y in (160, 176):
        c.rectangle(0, y, SIZE, y + 1.5, shade((190, 140, 96), 0.85))


_SCENES: dict[str, Callable[[Canvas], None]] = {
    "beach": _beach,
    "park": _park,
    "city": _city,
    "snow": _snow,
    "desert": _desert,
    "night": _night,
    "room": _room,
}


@lru_cache(maxsize=16)
def scenery(name: str, *, mirrored: bool) -> Image.Image:
    """Return the supersampled scenery (do not draw on it: it is shared)."""
    canvas = Canvas(SIZE)
    _SCENES[name](canvas)
    return ImageOps.mirror(canvas.image) if mirrored else canvas.image
