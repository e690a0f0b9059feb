"""A template of the shipped model at any size, whose mask leaves a tenth of the picture to edits."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.streaming_quality import TEMPLATE_SEED
from intonaco.families.state_runs import state_runs
from intonaco.model import Model
from intonaco.template.build import BuildRequest, block_groups, capture, code, pack
from intonaco.template.capture import TemplateState
from intonaco.template.catalog import Template, open_template
from models.captions import caption
from models.figure import draw_doll
from models.world import CLOTHES, doll_of, wear

TOKEN_PIXELS = 16
MASK_SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A template, its uncompressed state, and one request for it."""

    picture: Image.Image
    mask_HW: np.ndarray
    exact: TemplateState
    packed: Template
    prompt: str


def prepare(model: Model, side: int, catalog: Path) -> Prepared:
    """Build a template of `side` x `side` pixels; the model was trained at 192.

    At other sizes the doll is the drawn one, resized: what the model makes of it is no picture to look
    at, but its keys and values are those of trained weights.
    """
    doll = doll_of(TEMPLATE_SEED)
    picture = draw_doll(doll).resize((side, side), Image.Resampling.LANCZOS)
    mask_HW = tenth_mask(side)
    family = model.editable_family()
    request = BuildRequest(
        picture=picture,
        mask_HW=mask_HW,
        prompt=caption(doll),
        seed=TEMPLATE_SEED % 1000,
        num_steps=model.defaults.num_steps,
        profiling_prompts=[caption(wear(doll, doll_of(TEMPLATE_SEED + 500), CLOTHES))],
        num_profiling=1,
    )
    captured = capture(family, request, model_digest=model.digest)
    coded = code(captured, block_groups=block_groups(state_runs(family).stack_sizes))
    return Prepared(
        picture=picture,
        mask_HW=mask_HW,
        exact=captured.state,
        packed=open_template(pack(captured, coded, request, catalog).folder),
        prompt=caption(wear(doll, doll_of(TEMPLATE_SEED + 700), CLOTHES)),
    )


def tenth_mask(side: int) -> np.ndarray:
    """Return a square of whole tokens in the middle, as near to a tenth of them as there is."""
    num_tokens = side // TOKEN_PIXELS
    width = round((MASK_SHARE * num_tokens**2) ** 0.5)
    start = (num_tokens - width) // 2
    is_edited = np.zeros((num_tokens, num_tokens), np.bool_)
    is_edited[start : start + width, start : start + width] = True
    return np.kron(is_edited, np.ones((TOKEN_PIXELS, TOKEN_PIXELS), np.bool_))
