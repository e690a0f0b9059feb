"""Turns a request into a job, or refuses it: every rule is checked here, before the queue.

Needs the facts that the model process told, no torch and no model process that is awake.
"""

import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from PIL import Image

from intonaco.errors import FieldError, InputError, PromptTooLongError
from intonaco.families.light_tokenizer import read_light_tokenizer
from intonaco.families.prompt import ChatTokenizer
from intonaco.families.request import check_text
from intonaco.serving.bodies import EditForm, GenerationBody, Shared
from intonaco.serving.jobs import Job, preview_steps
from intonaco.serving.messages import Draw, ModelFacts, RawPicture
from intonaco.serving.pixels import decode, decode_mask, num_pixels, to_raw
from intonaco.serving.profile import ServingProfile, parse_size

DRAWN_SEED_BITS = 32
DEFAULT_FEATHER_PIXELS = 6
MIN_REFERENCE_PIXELS = 64
MAX_REFERENCE_ASPECT = 8
HALF_OPAQUE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request is held against: the operator's profile and the model's facts."""

    profile: ServingProfile
    facts: ModelFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """The picture files of an edit, as they came."""

    images: tuple[bytes, ...]
    mask: bytes | None = None


def generation_order(body: GenerationBody, limits: Limits) -> Draw:
    """Return what `body` asks to draw. Raises FieldError."""
    width, height = _check_size(body.size, limits)
    if not body.prompt.strip():
        raise FieldError("prompt", "prompt must say what to draw, got nothing")
    return _order("generate", width, height, _shared(body, body.prompt, limits), ())


def edit_order(
    form: EditForm, uploads: Uploads, limits: Limits
) -> tuple[Draw, tuple[RawPicture, ...]]:
    """Return what an edit asks to draw, and its decoded pictures. Raises FieldError.

    The first image is changed under the mask, the others are references. Without a mask, and with no
    transparent pixel in the first image, nothing has to stay: all images are references.
    """
    _check_uploads(uploads, limits)
    shared = _shared(form, form.prompt, limits)
    first = decode(uploads.images[0], "image")
    has_mask = uploads.mask is not None or _has_holes(first)
    field = "image" if uploads.mask is None else "mask"
    others = tuple(
        to_raw(decode(content, "image").convert("RGB")) for content in uploads.images[1:]
    )
    if not has_mask:
        width, height = _check_size(form.size, limits)
        references = (to_raw(first.convert("RGB")), *others)
        _check_references(references, limits)
        return _order("generate", width, height, shared, references), references
    width, height = first.size
    _check_size(f"{width}x{height}", limits, field="image")
    if form.size not in (None, "auto", f"{width}x{height}"):
        raise FieldError(
            "size", f"size must be that of the image, {width}x{height}, got {form.size}"
        )
    mask = decode_mask(
        uploads.images[0] if uploads.mask is None else uploads.mask,
        field,
        size=first.size,
        is_white=form.mask_format == "white",
    )
    _check_references(others, limits)
    if not form.prompt.strip() and not others:
        raise FieldError("prompt", "prompt must be given where there is no reference image")
    feather = DEFAULT_FEATHER_PIXELS if form.feather_pixels is None else form.feather_pixels
    pictures = (to_raw(first.convert("RGB")), mask, *others)
    return _order("edit", width, height, {**shared, "feather_pixels": feather}, pictures), pictures


def make_job(
    order: Draw,
    inputs: tuple[RawPicture, ...],
    body: Shared,
    limits: Limits,
    *,
    caller: str,
    now_s: float,
    job_id: str,
) -> Job:
    """Return the job of a checked order."""
    allowed_s = limits.profile.request_timeout_s
    timeout_s = min(allowed_s, allowed_s if body.timeout_s is None else body.timeout_s)
    return Job(
        job_id=job_id,
        caller=f"{caller} {body.user or ''}",
        order=order,
        inputs=inputs,
        num_pictures=body.n or 1,
        created_s=now_s,
        deadline_s=now_s + timeout_s,
    )


def _order(
    task: str, width: int, height: int, fields: dict[str, object], pictures: tuple[RawPicture, ...]
) -> Draw:
    return Draw.model_validate(
        {
            **fields,
            "task": task,
            "width": width,
            "height": height,
            "pictures": tuple(picture.header for picture in pictures),
        }
    )


def _shared(body: Shared, prompt: str, limits: Limits) -> dict[str, object]:
    """Return the fields of an order that both routes have, checked."""
    facts, profile = limits.facts, limits.profile
    if body.model not in (None, facts.model_name):
        raise FieldError("model", f"model must be {facts.model_name!r}, got {body.model!r}")
    _check_range("n", body.n or 1, 1, profile.max_pictures)
    num_steps = facts.default_num_steps if body.steps is None else body.steps
    _check_range("steps", num_steps, 1, profile.max_steps)
    _check_output(body)
    for field, text in (("prompt", prompt), ("negative_prompt", body.negative_prompt)):
        if text is not None:
            _check_prompt(field, text, limits)
    if facts.is_distilled:
        _refuse_guidance(body)
    step_cache = profile.step_caches[0] if body.step_cache is None else body.step_cache
    if step_cache not in profile.step_caches:
        raise FieldError(
            "step_cache",
            f"step_cache must be one of {', '.join(profile.step_caches)}, got {step_cache!r}",
        )
    return {
        "draw_id": "",
        "prompt": prompt,
        "seed": secrets.randbits(DRAWN_SEED_BITS) if body.seed is None else body.seed,
        "num_steps": num_steps,
        "guidance_scale": body.guidance_scale,
        "negative_prompt": body.negative_prompt,
        "step_cache": step_cache,
        "is_private": bool(body.private),
        "preview_steps": preview_steps(body.partial_images or 0, num_steps),
    }


def _check_output(body: Shared) -> None:
    if body.output_compression is not None and body.output_format not in ("jpeg", "webp"):
        raise FieldError(
            "output_compression",
            "output_compression must be left out for png, which loses nothing; or set output_format "
            "to jpeg or webp",
        )


def _refuse_guidance(body: Shared) -> None:
    for field in ("guidance_scale", "negative_prompt"):
        if getattr(body, field) is not None:
            raise FieldError(field, f"{field} must be left out: the model is distilled")


def _check_prompt(field: str, text: str, limits: Limits) -> None:
    longest = limits.profile.max_prompt_characters
    if len(text) > longest:
        raise FieldError(
            field, f"{field} must have at most {longest} characters, got {len(text)}; shorten it"
        )
    try:
        check_text(field, text)
        tokenizer = _tokenizer(limits.facts.tokenizer_folder, limits.facts.max_prompt_tokens)
        tokenizer.count_tokens(text)
    except PromptTooLongError as error:
        raise FieldError(field, str(error).replace("prompt", field, 1)) from None
    except InputError as error:
        raise FieldError(field, str(error)) from None


@lru_cache(maxsize=1)
def _tokenizer(folder: str, max_tokens: int) -> ChatTokenizer:
    """Read once: a restarted model process tells the same folder again."""
    return ChatTokenizer(read_light_tokenizer(Path(folder)), max_sequence_length=max_tokens)


def _check_size(text: str | None, limits: Limits, *, field: str = "size") -> tuple[int, int]:
    facts, profile = limits.facts, limits.profile
    if text in (None, "auto"):
        text = f"{facts.default_width}x{facts.default_height}"
    size = parse_size(text)
    if size is None:
        raise FieldError(field, f"{field} must be WIDTHxHEIGHT, such as 192x192, got {text[:20]!r}")
    if facts.sizes and text not in facts.sizes:
        raise FieldError(field, f"{field} must be one of {', '.join(facts.sizes)}, got {text}")
    most = min(profile.max_pixels, facts.max_pixels)
    if size[0] * size[1] > most:
        raise FieldError(field, f"{field} must have at most {most} pixels, got {text}")
    multiple, least = facts.token_pixels, facts.min_side_pixels
    if any(side % multiple or side < least for side in size):
        near = "x".join(str(max(least, round(side / multiple) * multiple)) for side in size)
        raise FieldError(
            field,
            f"{field} must have sides that are multiples of {multiple} and at least {least}, got "
            f"{text}; {near} works",
        )
    return size


def _check_uploads(uploads: Uploads, limits: Limits) -> None:
    """Look at the headers of all pictures before any is decoded."""
    profile = limits.profile
    if not uploads.images:
        raise FieldError("image", "image must be given: the picture to change")
    most = profile.max_references + 1
    if len(uploads.images) > most:
        raise FieldError(
            "image", f"image must be at most {most} pictures, got {len(uploads.images)}"
        )
    total = sum(num_pixels(content, "image") for content in uploads.images)
    total += 0 if uploads.mask is None else num_pixels(uploads.mask, "mask")
    if total > profile.max_input_pixels:
        raise FieldError(
            "image",
            f"image and mask must have at most {profile.max_input_pixels} pixels in all, got {total}",
        )


def _check_references(references: tuple[RawPicture, ...], limits: Limits) -> None:
    if references and not limits.facts.can_take_references:
        raise FieldError(
            "image",
            f"image: this server draws on {limits.facts.backend} programs, which take no reference "
            "pictures; send a mask, or serve with backend eager",
        )
    if len(references) > limits.profile.max_references:
        raise FieldError(
            "image",
            f"image must hold at most {limits.profile.max_references} references, got "
            f"{len(references)}",
        )
    for reference in references:
        short, long = sorted((reference.header.width, reference.header.height))
        if short < MIN_REFERENCE_PIXELS or long > MAX_REFERENCE_ASPECT * short:
            raise FieldError(
                "image",
                f"image: a reference must be at least {MIN_REFERENCE_PIXELS} pixels a side and at "
                f"most {MAX_REFERENCE_ASPECT} times as long as wide, got "
                f"{reference.header.width}x{reference.header.height}",
            )


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise FieldError(field, f"{field} must be in {low}..{high}, got {value}")


def _has_holes(image: Image.Image) -> bool:
    """Return whether some pixel is more transparent than not."""
    alpha = image.convert("RGBA").getchannel("A")
    lowest, _ = cast("tuple[int, int]", alpha.getextrema())
    return lowest < HALF_OPAQUE
