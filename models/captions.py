"""English phrases for dolls, and the closed vocabulary that they are made of.

A caption names attributes from head to foot in a fixed order; what is absent is not named, and what
a reference picture shows is replaced by one phrase that points to it.
"""

import random

from models.world import CLOTHES, HEAD, NONE, Doll, attributes, doll_of

REFERENCE_PHRASE = {
    "head": "with the head of the picture",
    "clothes": "in the clothes of the picture",
}
_HELD = {"balloon": "holding a balloon", "flower": "holding a flower", "bag": "holding a bag"}
_PLACE = {"left": "on the left", "middle": "in the middle", "right": "on the right"}
_SCENERY = {
    "beach": "at the beach",
    "park": "in the park",
    "city": "in the city",
    "snow": "in the snow",
    "desert": "in the desert",
    "night": "at night",
    "room": "in a room",
}
PAIRED = {
    "hair_style": "hair_color",
    "hat": "hat_color",
    "top": "top_color",
    "bottom": "bottom_color",
}


def caption(
    doll: Doll, *, reference: str | None = None, dropped: frozenset[str] = frozenset()
) -> str:
    """Return the phrase of a doll without the `dropped` attributes and those that a reference shows."""
    hidden = set(dropped)
    if reference is not None:
        hidden |= set({"head": HEAD, "clothes": CLOTHES}[reference])
    named = {k: v for k, v in attributes(doll).items() if k not in hidden}
    parts = [_skin(named), *_head(named), *_clothes(named)]
    if reference is not None:
        parts.insert(1, REFERENCE_PHRASE[reference])
    if "pose" in named:
        parts.append(named["pose"])
    if named.get("held", NONE) != NONE:
        parts.append(_HELD[named["held"]])
    if named.get("pet", NONE) != NONE:
        parts.append(f"with a {named['pet']}")
    if "place" in named:
        parts.append(_PLACE[named["place"]])
    if "scenery" in named:
        parts.append(_SCENERY[named["scenery"]])
    return ", ".join(p for p in parts if p)


def _skin(named: dict[str, str]) -> str:
    return f"a doll with {named['skin']} skin" if "skin" in named else "a doll"


def _head(named: dict[str, str]) -> list[str]:
    parts: list[str] = []
    if named.get("hair_style") == "bald":
        parts.append("bald")
    elif "hair_style" in named:
        parts.append(" ".join(filter(None, (named["hair_style"], named.get("hair_color"), "hair"))))
    parts.append(named.get("expression", ""))
    parts.append(named["eyewear"] if named.get("eyewear", NONE) != NONE else "")
    if named.get("hat", NONE) != NONE:
        parts.append(" ".join(filter(None, ("a", named.get("hat_color"), named["hat"]))))
    return parts


def _clothes(named: dict[str, str]) -> list[str]:
    parts: list[str] = []
    if "top" in named:
        parts.append(
            " ".join(
                filter(None, ("a", named.get("pattern"), named.get("top_color"), named["top"]))
            )
        )
    if named.get("bottom", NONE) != NONE:
        parts.append(" ".join(filter(None, (named.get("bottom_color"), named["bottom"]))))
    if "shoes_color" in named:
        parts.append(f"{named['shoes_color']} shoes")
    return parts


def training_caption(doll: Doll, rng: random.Random, reference: str | None) -> str:
    """Return a caption; three in ten leave out attributes by lot, so that short prompts work too."""
    dropped: set[str] = set()
    if rng.random() < 0.3:
        share = rng.choice((0.2, 0.5, 0.8))
        dropped = {name for name in attributes(doll) if rng.random() < share}
        for thing, color in PAIRED.items():
            if thing in dropped:
                dropped.add(color)
        if "top" in dropped:
            dropped.add("pattern")
    return caption(doll, reference=reference, dropped=frozenset(dropped))


def vocabulary() -> list[str]:
    """Return every word that a caption can hold, sorted."""
    words: set[str] = set()
    for seed in range(4000):
        rng = random.Random(seed)
        doll = doll_of(seed)
        for reference in (None, "head", "clothes"):
            words |= set(training_caption(doll, rng, reference).replace(",", "").split())
    return sorted(words)
