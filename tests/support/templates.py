"""Small templates for tests: one of random payloads for files and catalogs, one that can be read."""

import io
from dataclasses import replace

import numpy as np
import torch
from PIL import Image

from intonaco.pipelines.reading import picture_digest
from intonaco.template.coded import CodedTemplate, Increment, Ladder
from intonaco.template.encode import CodingSettings, encode
from intonaco.template.identity import TemplateIdentity, latents_digest, mask_digest
from intonaco.template.pack_writer import PackedTemplate, TemplateParts, pack_template
from intonaco.template.weights import uniform

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


def small_states(seed: int = 0) -> np.ndarray:
    """Keys and values (2, S, B, N, d) that vary slowly over steps, so that they can be coded."""
    random = np.random.default_rng(seed)
    num_blocks = BLOCK_GROUPS[-1][-1] + 1
    factors = random.normal(size=(2, num_blocks, NUM_ROWS, 6))
    basis = random.normal(size=(2, num_blocks, 6, WIDTH)) * 2.0 ** -np.arange(6)[:, None]
    drift = 1 + 0.2 * random.normal(size=(NUM_STEPS, 2, num_blocks, 1, 6))
    return np.stack([(factors * one) @ basis for one in drift], axis=1).astype(np.float32)


def readable_coded(seed: int = 0) -> CodedTemplate:
    """The small template's sizes, coded by the codec that readers know."""
    keys, values = small_states(seed)
    num_blocks = BLOCK_GROUPS[-1][-1] + 1
    weights = uniform(num_steps=NUM_STEPS, num_blocks=num_blocks, num_rows=NUM_ROWS)
    settings = CodingSettings(block_groups=BLOCK_GROUPS, smallest_ratio=1.0)
    return encode(keys, values, weights, settings)


def readable_packed(seed: int = 0, **changes) -> PackedTemplate:
    """A template whose parts belong together; `changes` are those of its identity."""
    parts = small_parts()
    with Image.open(io.BytesIO(parts.picture_png)) as picture:
        picture_sha256 = picture_digest(picture)
    fields = {
        "model_digest": "e" * 64,
        "family": "flux2",
        "dtype": "float32",
        "width": 64,
        "height": 64,
        "num_steps": NUM_STEPS,
        "sigmas": (1.0, 0.5, 0.0),
        "seed": seed,
        "prompt": parts.title,
        "picture_sha256": picture_sha256,
        "latents_sha256": latents_digest(torch.from_numpy(parts.latents)),
        "mask_sha256": mask_digest(parts.is_edited_YX),
    }
    identity = TemplateIdentity(**{**fields, **changes})
    parts = replace(
        parts,
        template_id=identity.digest,
        identity=identity.model_dump(mode="json"),
        importance_json=b'{"num_requests":5,"skew":0.5,"overlap":0.9,"rows":['
        + b",".join([b"0.25"] * NUM_ROWS)
        + b"]}",
    )
    return pack_template(readable_coded(seed), parts)


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
