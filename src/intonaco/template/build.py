"""Builds a template: capture, profile, code, pack, add to a catalog.

Joins the parts that do the work, in their order, and reports progress. All of it is offline: an edit
needs none of this.
"""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, fromarray
from pydantic import JsonValue

from intonaco.errors import PictureError, RequestError
from intonaco.families.base import EditableFamily
from intonaco.families.request import MAX_SEED, GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.pipelines.generate import StepEvent
from intonaco.pipelines.mask import token_mask
from intonaco.programs.groups import split_blocks
from intonaco.template.capture import TemplateState, capture_in_memory
from intonaco.template.catalog import Catalog, Template
from intonaco.template.coded import CodedTemplate
from intonaco.template.encode import CodingSettings, encode
from intonaco.template.identity import TemplateIdentity
from intonaco.template.importance import DEFAULT_NUM_REQUESTS, Importance, profile
from intonaco.template.pack_writer import TemplateParts, pack_template
from intonaco.template.sensitivity import measure_sensitivity
from intonaco.template.weights import from_attention, from_sensitivity
from intonaco.version import __version__

MAX_TITLE_CHARACTERS = 200
NUM_GROUPS = 5
MIN_GROUP_BLOCKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What a template is built from.

    Attributes:
        picture: RGB, of a size that the model draws.
        mask_HW: bool, True where edits may change.
        prompt: what the picture shows; the state is captured with it.
        title: shown to people; the prompt where it is empty.
        profiling: the prompts and references that stand for edits to come, each with what it adds to
            the request of the capture. Filled up with the template's own prompt.
    """

    picture: Image
    mask_HW: NDArray[np.bool_]
    prompt: str
    seed: int
    num_steps: int
    title: str = ""
    profiling_prompts: Sequence[str] = ()
    profiling_references: Sequence[Image] = ()
    num_profiling: int = DEFAULT_NUM_REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildEvent:
    """Progress: which phase, and how far it is."""

    phase: str
    done: int
    total: int


BuildProgress = Callable[[BuildEvent], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A template's state and what profiling found, before it is coded.

    Attributes:
        sensitivity_USBN: what errors do to finished edits, see `intonaco.template.sensitivity`; weights
            the coding. None = coding is weighted by importance.
    """

    state: TemplateState
    importance: Importance
    sensitivity_USBN: NDArray[np.float64] | None = None


def capture(
    family: EditableFamily,
    request: BuildRequest,
    *,
    model_digest: str,
    progress: BuildProgress | None = None,
) -> Captured:
    """Run the model: once for the state, then a dense edit and one with gradients per profiling
    request."""
    tokens_YX = _editable_tokens(family, request)
    own = GenerateRequest(
        prompt=request.prompt,
        seed=request.seed,
        width=request.picture.width,
        height=request.picture.height,
        num_steps=request.num_steps,
    )
    report = progress or _silent

    def show_step(event: StepEvent) -> None:
        report(BuildEvent(phase="capturing", done=event.index + 1, total=event.num_steps))

    state = capture_in_memory(
        family,
        own,
        picture=request.picture,
        tokens_YX=tokens_YX,
        model_digest=model_digest,
        progress=show_step,
    )
    profiling = profiling_requests(own, request)
    rows: list[NDArray[np.float32]] = []
    sensitivities: list[NDArray[np.float64]] = []
    for index, one in enumerate(profiling):
        report(BuildEvent(phase="profiling", done=index, total=len(profiling)))
        rows.append(profile(family, state, [one]).per_request_RSBN)
        sensitivities.append(measure_sensitivity(family, state, [one]))
    return Captured(
        state=state,
        importance=Importance(per_request_RSBN=np.concatenate(rows)),
        sensitivity_USBN=np.mean(sensitivities, axis=0),
    )


def profiling_requests(own: GenerateRequest, request: BuildRequest) -> list[GenerateRequest]:
    """Return the requests that stand for edits to come: each prompt, each reference, then the
    template's own prompt under other seeds until there are enough."""
    prompts = [replace(own, prompt=prompt) for prompt in request.profiling_prompts]
    references = [replace(own, references=(one,)) for one in request.profiling_references]
    given = prompts + references
    missing = max(0, request.num_profiling - len(given))
    requests = given + [own] * missing
    # Seeds that wrap around stay within the range of seeds.
    return [
        replace(one, seed=(own.seed + 1 + index) % (MAX_SEED + 1))
        for index, one in enumerate(requests)
    ]


def build_template(
    family: EditableFamily,
    request: BuildRequest,
    catalog: Path,
    *,
    model_digest: str,
    progress: BuildProgress | None = None,
) -> Template:
    """Prepare `request.picture` and add it to `catalog`. Raises InputError before any work."""
    report = progress or _silent
    captured = capture(family, request, model_digest=model_digest, progress=report)
    report(BuildEvent(phase="coding", done=0, total=1))
    coded = code(captured, block_groups=block_groups(state_runs(family).stack_sizes))
    report(BuildEvent(phase="writing", done=0, total=1))
    return pack(captured, coded, request, catalog)


def code(captured: Captured, *, block_groups: tuple[tuple[int, ...], ...]) -> CodedTemplate:
    """Return the coded form of what was captured; holds all of the state in memory as float32."""
    source = captured.state.source
    shape = source.shape
    states = np.empty(
        (2, shape.num_steps, shape.num_blocks, shape.num_rows, shape.width), np.float32
    )
    for step in range(shape.num_steps):
        for block in range(shape.num_blocks):
            for kind, unit in enumerate(source.read(step, block)):
                states[kind, step, block] = unit.float().numpy()
    sensitivity = captured.sensitivity_USBN
    weights = (
        from_attention(captured.importance.mean)
        if sensitivity is None
        else from_sensitivity(sensitivity)
    )
    return encode(states[0], states[1], weights, CodingSettings(block_groups=block_groups))


def block_groups(stack_sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return which blocks travel together: near a fifth of the chain, never across two stacks.

    Five groups are what the paper's largest model has; finer ones pay more for their beginnings.

    >>> block_groups([2, 6]), block_groups([5, 20])[:2]
    (((0, 1), (2, 3, 4), (5, 6, 7)), ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9)))
    """
    largest = max(MIN_GROUP_BLOCKS, -(-sum(stack_sizes) // NUM_GROUPS))
    groups: list[tuple[int, ...]] = []
    start = 0
    for stack_size in stack_sizes:
        for size in split_blocks(stack_size, largest):
            groups.append(tuple(range(start, start + size)))
            start += size
    return tuple(groups)


def pack(
    captured: Captured, coded: CodedTemplate, request: BuildRequest, catalog: Path
) -> Template:
    """Write a coded template into `catalog` and return it as a reader opens it."""
    state = captured.state
    parts = TemplateParts(
        template_id=state.identity.digest,
        identity=_plain(state.identity),
        title=(request.title or request.prompt)[:MAX_TITLE_CHARACTERS],
        picture_png=_png(request.picture),
        mask_png=_png(fromarray(request.mask_HW).convert("L")),
        latents=state.clean.detach().cpu().float().numpy(),
        is_edited_YX=state.tokens_YX,
        made_by={"intonaco": __version__},
        importance_json=importance_json(captured.importance),
    )
    packed = pack_template(coded, parts)
    return Catalog(catalog).add(packed.manifest, packed.contents)


def importance_json(importance: Importance) -> bytes:
    """Return what profiling found, for people: mean importance per row, its skew, its overlap.

    Numbers that one request alone cannot give are null.
    """
    per_row = importance.mean.mean(axis=(0, 1))
    found: dict[str, JsonValue] = {
        "num_requests": len(importance.per_request_RSBN),
        "skew": round(importance.skew, 4),
        "overlap": None if np.isnan(importance.overlap) else round(importance.overlap, 4),
        "rows": [float(f"{value:.3g}") for value in per_row],
    }
    return json.dumps(found, separators=(",", ":")).encode()


def _editable_tokens(family: EditableFamily, request: BuildRequest) -> NDArray[np.bool_]:
    width, height = request.picture.size
    side = family.token_pixels
    if width % side or height % side:
        raise PictureError(
            f"template's sides must be multiples of {side} pixels, got {width} x {height}; resize "
            "picture and mask"
        )
    tokens_YX = token_mask(request.mask_HW, token_pixels=side)
    if tokens_YX.all():
        raise RequestError(
            "mask of a template must leave tokens as they are, it covers every one; there is nothing "
            "to prepare, use 'intonaco generate' or a smaller mask"
        )
    return tokens_YX


def _plain(identity: TemplateIdentity) -> dict[str, JsonValue]:
    return identity.model_dump(mode="json")


def _png(image: Image) -> bytes:
    encoded = io.BytesIO()
    image.save(encoded, format="PNG")
    return encoded.getvalue()


def _silent(event: BuildEvent) -> None:
    del event
