"""Draws what the demo needs beside the model: reference pictures, masks and the plan."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from PIL import Image

from models.captions import caption
from models.figure import CENTER, REFERENCE_SIZE, reference_picture
from models.scenery import SIZE
from models.world import NONE, Doll, consistent

DEFAULT_FOLDER = Path("src/intonaco/assets/demo")
_BASE = Doll(
    skin="tan",
    hair_style="long",
    hair_color="brown",
    expression="smiling",
    eyewear=NONE,
    hat=NONE,
    hat_color=NONE,
    top="sweater",
    top_color="teal",
    pattern="striped",
    bottom="trousers",
    bottom_color="blue",
    shoes_color="red",
    pose="waving",
    held="balloon",
    pet="dog",
    place="middle",
    scenery="park",
    mirrored=False,
)
DOLLS = {
    "park": _BASE,
    "beach": replace(
        _BASE,
        skin="fair",
        hair_style="short",
        hair_color="ginger",
        eyewear="sunglasses",
        top="shirt",
        top_color="yellow",
        pattern="dotted",
        bottom="shorts",
        bottom_color="red",
        shoes_color="blue",
        pose="cheering",
        held=NONE,
        pet=NONE,
        scenery="beach",
        expression="laughing",
    ),
    "snow": replace(
        _BASE,
        skin="dark",
        hair_style="curly",
        hair_color="black",
        hat="beanie",
        hat_color="red",
        top="jacket",
        top_color="purple",
        pattern="plain",
        bottom="trousers",
        bottom_color="black",
        shoes_color="orange",
        pose="posing",
        held=NONE,
        pet="cat",
        scenery="snow",
    ),
    "city": replace(
        _BASE,
        skin="brown",
        hair_style="braided",
        hair_color="black",
        eyewear="glasses",
        top="vest",
        top_color="green",
        pattern="plain",
        bottom="skirt",
        bottom_color="orange",
        shoes_color="white",
        pose="standing",
        held="bag",
        pet=NONE,
        scenery="city",
    ),
    "night": replace(
        _BASE,
        skin="fair",
        hair_style="long",
        hair_color="blonde",
        hat="crown",
        hat_color="yellow",
        top="dress",
        top_color="pink",
        pattern="dotted",
        pose="waving",
        held="flower",
        pet=NONE,
        scenery="night",
        place="left",
    ),
    "room": replace(
        _BASE,
        skin="brown",
        hair_style="spiky",
        hair_color="pink",
        expression="surprised",
        eyewear="glasses",
        top="sweater",
        top_color="red",
        pattern="checkered",
        bottom="shorts",
        bottom_color="black",
        shoes_color="green",
        pose="walking",
        held="bag",
        pet="cat",
        scenery="room",
        place="right",
    ),
}
CLOTHES_SOURCE = replace(
    _BASE,
    top="jacket",
    top_color="red",
    pattern="dotted",
    bottom="skirt",
    bottom_color="white",
    shoes_color="black",
    skin="dark",
    scenery="room",
    pet=NONE,
    held=NONE,
    pose="standing",
)
HEAD_SOURCE = replace(
    _BASE,
    skin="tan",
    hair_style="curly",
    hair_color="ginger",
    expression="laughing",
    eyewear="glasses",
    scenery="beach",
    pet=NONE,
    held=NONE,
    pose="standing",
)


def mask_picture(place: str, top: int, bottom: int) -> Image.Image:
    """Return a mask (white = edit) of a doll's column between two rows, on the token grid."""
    left = CENTER[place] - REFERENCE_SIZE // 2
    mask = Image.new("L", (SIZE, SIZE), 0)
    mask.paste(255, (left, top, left + REFERENCE_SIZE, bottom))
    return mask


def write_assets(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    mask_picture("middle", 64, 176).save(folder / "clothes-mask.png")
    mask_picture("middle", 0, 80).save(folder / "head-mask.png")
    reference_picture(CLOTHES_SOURCE, "clothes").save(folder / "clothes.png")
    reference_picture(HEAD_SOURCE, "head").save(folder / "head.png")
    dolls = {name: consistent(doll) for name, doll in DOLLS.items()}
    words = replace(
        dolls["park"],
        top="shirt",
        top_color="orange",
        pattern="checkered",
        bottom="shorts",
        bottom_color="black",
    )
    edits = [
        {
            "name": "by-words",
            "title": "Edit by words",
            "prompt": caption(words),
            "seed": 11,
            "template_picture": "park",
            "mask_file": "clothes-mask.png",
        },
        {
            "name": "try-on",
            "title": "Try on",
            "prompt": caption(dolls["city"], reference="clothes"),
            "seed": 12,
            "template_picture": "city",
            "mask_file": "clothes-mask.png",
            "reference_files": ["clothes.png"],
        },
        {
            "name": "face-swap",
            "title": "Face swap",
            "prompt": caption(dolls["snow"], reference="head"),
            "seed": 13,
            "template_picture": "snow",
            "mask_file": "head-mask.png",
            "reference_files": ["head.png"],
        },
    ]
    pictures = [
        {"name": n, "prompt": caption(d), "seed": i + 1} for i, (n, d) in enumerate(dolls.items())
    ]
    plan = {"format": 1, "pictures": pictures, "edits": edits}
    (folder / "demo.json").write_text(json.dumps(plan, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=DEFAULT_FOLDER)
    write_assets(parser.parse_args().output)


if __name__ == "__main__":
    main()
