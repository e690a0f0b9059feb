"""What a paper doll can be: its attributes, their values, how a doll is drawn by lot.

Knows nothing of pixels (see `figure.py`, `scenery.py`) and nothing of words (see `captions.py`).
"""

import random
from dataclasses import dataclass, fields, replace

COLORS = ("red", "orange", "yellow", "green", "teal", "blue", "purple", "pink", "white", "black")
NONE = "none"

VALUES: dict[str, tuple[str, ...]] = {
    "skin": ("fair", "tan", "brown", "dark"),
    "hair_style": ("short", "long", "curly", "spiky", "braided", "bald"),
    "hair_color": ("black", "brown", "blonde", "ginger", "gray", "pink", NONE),
    "expression": ("smiling", "laughing", "surprised", "serious"),
    "eyewear": (NONE, "glasses", "sunglasses"),
    "hat": (NONE, "cap", "beanie", "fedora", "crown"),
    "hat_color": (*COLORS, NONE),
    "top": ("shirt", "sweater", "jacket", "vest", "dress"),
    "top_color": COLORS,
    "pattern": ("plain", "striped", "dotted", "checkered"),
    "bottom": ("trousers", "shorts", "skirt", NONE),
    "bottom_color": (*COLORS, NONE),
    "shoes_color": COLORS,
    "pose": ("standing", "waving", "walking", "posing", "cheering"),
    "held": (NONE, "balloon", "flower", "bag"),
    "pet": (NONE, "cat", "dog"),
    "place": ("left", "middle", "right"),
    "scenery": ("beach", "park", "city", "snow", "desert", "night", "room"),
}
"""Every attribute with its values, in the order in which captions name them."""

HEAD = ("skin", "hair_style", "hair_color", "expression", "eyewear", "hat", "hat_color")
CLOTHES = ("top", "top_color", "pattern", "bottom", "bottom_color", "shoes_color")
REFERENCE_ATTRIBUTES = {"head": HEAD, "clothes": CLOTHES}

HATLESS_HAIR = ("spiky",)
BUSY_POSES = ("posing", "cheering")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doll:
    """One doll and its surroundings; `mirrored` flips the scenery and is never named in words."""

    skin: str
    hair_style: str
    hair_color: str
    expression: str
    eyewear: str
    hat: str
    hat_color: str
    top: str
    top_color: str
    pattern: str
    bottom: str
    bottom_color: str
    shoes_color: str
    pose: str
    held: str
    pet: str
    place: str
    scenery: str
    mirrored: bool


def sample_doll(rng: random.Random) -> Doll:
    """Draw a doll by lot; absent things are half of all, so that presence must be asked for."""
    pick = {name: rng.choice(values) for name, values in VALUES.items()}
    pick["hair_color"] = rng.choice(VALUES["hair_color"][:-1])
    pick["hat_color"] = rng.choice(COLORS)
    pick["bottom"] = rng.choice(VALUES["bottom"][:-1])
    pick["bottom_color"] = rng.choice(COLORS)
    for name in ("eyewear", "hat", "held", "pet"):
        if rng.random() < 0.25:
            pick[name] = NONE
    return consistent(Doll(**pick, mirrored=rng.random() < 0.5))


def consistent(doll: Doll) -> Doll:
    """Return the doll with impossible pairs removed (a bald head has no hair colour, ...)."""
    changes: dict[str, str] = {}
    if doll.hat != NONE and doll.hair_style in HATLESS_HAIR:
        changes["hair_style"] = "short"
    if doll.hair_style == "bald":
        changes["hair_color"] = NONE
    if doll.hat == NONE:
        changes["hat_color"] = NONE
    if doll.top == "dress":
        changes |= {"bottom": NONE, "bottom_color": NONE}
    if doll.pose in BUSY_POSES:
        changes["held"] = NONE
    return replace(doll, **changes)


def attributes(doll: Doll) -> dict[str, str]:
    """Return the named attributes (all fields but `mirrored`), in caption order."""
    return {f.name: getattr(doll, f.name) for f in fields(doll) if f.name in VALUES}


def doll_of(seed: int) -> Doll:
    """Return the doll of one seed: the data set is this function over a range of seeds."""
    return sample_doll(random.Random(seed))


def wear(doll: Doll, source: Doll, names: tuple[str, ...]) -> Doll:
    """Return `doll` with the named attributes taken from `source`."""
    return consistent(replace(doll, **{name: getattr(source, name) for name in names}))
