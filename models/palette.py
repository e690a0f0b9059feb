"""Colours of the paper-doll world as (red, green, blue), 0..255."""

Color = tuple[int, int, int]

CLOTH: dict[str, Color] = {
    "red": (214, 48, 49),
    "orange": (240, 138, 36),
    "yellow": (250, 208, 60),
    "green": (52, 158, 84),
    "teal": (32, 170, 172),
    "blue": (52, 98, 212),
    "purple": (126, 70, 184),
    "pink": (244, 142, 182),
    "white": (248, 248, 246),
    "black": (44, 44, 52),
}
SKIN: dict[str, Color] = {
    "fair": (253, 219, 190),
    "tan": (226, 168, 114),
    "brown": (160, 100, 62),
    "dark": (92, 58, 42),
}
HAIR: dict[str, Color] = {
    "black": (38, 34, 40),
    "brown": (110, 66, 36),
    "blonde": (244, 206, 104),
    "ginger": (206, 92, 36),
    "gray": (172, 174, 182),
    "pink": (242, 118, 170),
}
INK: Color = (46, 40, 48)
PAPER: Color = (255, 253, 248)


def shade(color: Color, factor: float) -> Color:
    """Darken (factor < 1) or lighten (factor > 1, towards white) a colour."""
    if factor <= 1:
        return tuple(round(c * factor) for c in color)  # type: ignore[return-value]
    return tuple(round(c + (255 - c) * (factor - 1)) for c in color)  # type: ignore[return-value]


def accent(color: Color) -> Color:
    """Return the second colour of a pattern: white, or slate on white itself."""
    return (92, 96, 116) if min(color) > 230 else (252, 250, 244)
