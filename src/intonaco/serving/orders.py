"""Turns a request for pictures into a job, or refuses it: every rule is checked before the queue.

Needs the facts that the model process told, no torch and no model process that is awake.
"""

from dataclasses import dataclass
from typing import cast

from PIL import Image

from intonaco.errors import FieldError
from intonaco.serving.bodies import Common, EditForm, GenerationBody, Shared
from intonaco.serving.checks import (
    Limits,
    check_given,
    check_range,
    check_size,
    common_fields,
)
from intonaco.serving.jobs import Job, preview_steps
from intonaco.serving.messages import Draw, RawPicture
from intonaco.serving.pixels import decode, decode_mask, num_pixels, to_raw

DEFAULT_FEATHER_PIXELS = 6
MIN_REFERENCE_PIXELS = 64
MAX_REFERENCE_ASPECT = 8
HALF_OPAQUE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """The picture files of an edit, as they came."""

    images: tuple[bytes, ...]
    mask: bytes | None = None


def generation_order(body: GenerationBody, limits: Limits) -> Draw:
    """Return what `body` asks to draw. Raises FieldError."""
    _refuse_films(limits)
    width, height = check_size(body.size, limits)
    check_given(body.prompt)
    return _order("generate", width, height, _shared(body, body.prompt, limits), ())


def edit_order(
    form: EditForm, uploads: Uploads, limits: Limits
) -> tuple[Draw, tuple[RawPicture, ...]]:
    """Return what an edit asks to draw, and its decoded pictures. Raises FieldError.

    The first image is changed under the mask, the others are references. Without a mask, and with no
    transparent pixel in the first image, nothing has to stay: all images are references.
    """
    _refuse_films(limits)
    _check_uploads(uploads, limits)
    shared = _shared(form, form.prompt, limits)
    first = decode(uploads.images[0], "image")
    has_mask = uploads.mask is not None or _has_holes(first)
    field = "image" if uploads.mask is None else "mask"
    others = tuple(
        to_raw(decode(content, "image").convert("RGB")) for content in uploads.images[1:]
    )
    if not has_mask:
        width, height = check_size(form.size, limits)
        references = (to_raw(first.convert("RGB")), *others)
        _check_references(references, limits)
        return _order("generate", width, height, shared, references), references
    width, height = first.size
    check_size(f"{width}x{height}", limits, field="image")
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
    body: Common,
    limits: Limits,
    *,
    caller: str,
    now_s: float,
    created_at: float,
    job_id: str,
) -> Job:
    """Return the job of a checked order; `now_s` on the supervisor's clock, `created_at` since 1970."""
    allowed_s = limits.profile.request_timeout_s
    timeout_s = min(allowed_s, allowed_s if body.timeout_s is None else body.timeout_s)
    return Job(
        job_id=job_id,
        caller=f"{caller} {body.user or ''}",
        order=order,
        inputs=inputs,
        num_pictures=body.num_pictures,
        created_s=now_s,
        created_at=created_at,
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
    """Return the fields of an order that both image routes have, checked."""
    check_range("n", body.num_pictures, 1, limits.profile.max_pictures)
    _check_output(body)
    fields = common_fields(body, prompt, limits)
    num_steps = cast("int", fields["num_steps"])
    return {**fields, "preview_steps": preview_steps(body.partial_images or 0, num_steps)}


def _refuse_films(limits: Limits) -> None:
    facts = limits.facts
    if facts.film is not None:
        raise FieldError(
            "model",
            f"model {facts.model_name!r} ({facts.family}) draws films, not pictures; ask POST "
            "/v1/videos, or serve a model of pictures",
        )


def _check_output(body: Shared) -> None:
    if body.output_compression is not None and body.output_format not in ("jpeg", "webp"):
        raise FieldError(
            "output_compression",
            "output_compression must be left out for png, which loses nothing; or set output_format "
            "to jpeg or webp",
        )


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


def _has_holes(image: Image.Image) -> bool:
    """Return whether some pixel is more transparent than not."""
    alpha = image.convert("RGBA").getchannel("A")
    lowest, _ = cast("tuple[int, int]", alpha.getextrema())
    return lowest < HALF_OPAQUE
