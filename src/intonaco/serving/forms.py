"""Reads the multipart form of an edit, in memory and within bounds: nothing of it touches the disk."""

from collections.abc import Mapping
from typing import Any, cast

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from intonaco.errors import FieldError
from intonaco.serving.bodies import EditForm
from intonaco.serving.orders import Uploads

MAX_FILES = 16
MAX_FIELDS = 40
MAX_FIELD_BYTES = 128 << 10
IMAGE_FIELDS = ("image", "image[]")


class MemoryParser(MultiPartParser):
    """Keeps files in memory: the body as a whole is bounded before."""

    spool_max_size = 1 << 40


async def read_edit_form(request: Request) -> tuple[EditForm, Uploads]:
    """Return the fields and pictures of an edit. Raises FieldError."""
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise FieldError(
            "image", "an edit is sent as multipart/form-data, with the picture in image"
        )
    parser = MemoryParser(
        request.headers,
        request.stream(),
        max_files=MAX_FILES,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FieldError("image", f"the form cannot be read: {reason}") from None
    try:
        return await _sort(form.multi_items())
    finally:
        await form.close()


async def _sort(items: list[tuple[str, UploadFile | str]]) -> tuple[EditForm, Uploads]:
    fields: dict[str, str] = {}
    images: list[bytes] = []
    masks: list[bytes] = []
    for name, value in items:
        if isinstance(value, str):
            if name in fields:
                raise FieldError(name, f"{name} must be given once, got it twice")
            if name in (*IMAGE_FIELDS, "mask"):
                raise FieldError(name, f"{name} must be a file; addresses and names are not opened")
            fields[name] = value
        elif name in IMAGE_FIELDS:
            images.append(await value.read())
        elif name == "mask":
            masks.append(await value.read())
        else:
            raise FieldError(name, f"{name} takes no file; files are image, image[] and mask")
    if len(masks) > 1:
        raise FieldError("mask", "mask must be given once, got it twice")
    # Forms have no null: an empty field is one that was left out.
    given = {name: text for name, text in fields.items() if text != ""}
    return _validate(given), Uploads(images=tuple(images), mask=masks[0] if masks else None)


def _validate(fields: Mapping[str, str]) -> EditForm:
    try:
        return EditForm.model_validate(fields)
    except ValidationError as error:
        raise field_error(cast("list[Any]", error.errors(include_url=False))) from None


def field_error(errors: list[Any]) -> FieldError:
    """Return the first of pydantic's findings as an error that names its field."""
    first: dict[str, Any] = errors[0] if errors else {"loc": ("body",), "msg": "cannot be read"}
    names = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    name = names[0] if names else "body"
    message = str(first["msg"])
    if first.get("type") == "extra_forbidden":
        message = "is not a field that this server knows; leave it out"
    return FieldError(name[:80], f"{name[:80]}: {message[:300]}")
