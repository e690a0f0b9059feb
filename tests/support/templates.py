"""A small whole template for tests of files and catalogs: random payloads, a picture, a mask."""

import io
from dataclasses import replace

import numpy as np
from PIL import Image

from intonaco.template.coded import CodedTemplate, Increment, Ladder
from intonaco.template.pack_writer import PackedTemplate, TemplateParts, pack_template

BLOCK_GROUPS = ((0, 1), (2, 3, 4))
NUM_STEPS, NUM_ROWS, WIDTH = 2, 12, 16
TEMPLATE_ID = "0123456789abcdef" * 4


def small_coded(seed: int = 0) -> CodedTemplate:
    """Two steps, two block groups; payloads are noise that no codec reads."""
    random = np.random.default_rng(seed)
    bases = tuple(_ladder(random, blocks) for blocks in BLOCK_GROUPS)
    rows = tuple(
        tuple(_ladder(random, blocks) for blocks in BLOCK_GROUPS) for _ in range(NUM_STEPS)
    )
    return CodedTemplate(
        codec="test",
        num_steps=NUM_STEPS,
        num_rows=NUM_ROWS,
        width=WIDTH,
        block_groups=BLOCK_GROUPS,
        bases=bases,
        coefficients=rows,
    )


def small_parts(template_id: str = TEMPLATE_ID, title: str = "a doll") -> TemplateParts:
    """16 tokens of 16 x 16 pixels, of which the first four may change."""
    is_edited_YX = np.zeros((4, 4), dtype=np.bool_)
    is_edited_YX[0] = True
    mask = Image.fromarray(np.kron(is_edited_YX, np.ones((16, 16), dtype=np.bool_)))
    return TemplateParts(
        template_id=template_id,
        identity={"prompt": title, "seed": 3},
        title=title,
        picture_png=_png(Image.new("RGB", (64, 64), (200, 120, 90))),
        mask_png=_png(mask.convert("L")),
        latents=np.linspace(-1, 1, 16 * 4, dtype=np.float32).reshape(1, 16, 4),
        is_edited_YX=is_edited_YX,
        made_by={"intonaco": "test"},
    )


def small_packed(template_id: str = TEMPLATE_ID, *, seed: int = 0) -> PackedTemplate:
    """Return the small template as files."""
    return pack_template(small_coded(seed), replace(small_parts(), template_id=template_id))


def _ladder(random: np.random.Generator, blocks: tuple[int, ...]) -> Ladder:
    increments, error = [], 50.0
    for plane in range(4):
        for component in range(4):
            for block in blocks:
                for kind in (0, 1):
                    error *= 0.97
                    increments.append(
                        Increment(
                            block=block,
                            kind=kind,
                            first_component=component,
                            num_components=1,
                            first_plane=plane,
                            num_planes=1,
                            payload=random.bytes(20),
                            error=error,
                        )
                    )
    return Ladder(start_error=50.0, increments=tuple(increments), floor=len(blocks) * 2)


def _png(image: Image.Image) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, format="PNG")
    return encoded.getvalue()
