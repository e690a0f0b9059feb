"""Reads multipart forms, in memory and within bounds: nothing of them touches the disk."""

from typing import Any, TypeVar, cast

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from intonaco.errors import FieldError
from intonaco.serving.bodies import EditForm, VideoBody
from intonaco.serving.orders import Uploads

MAX_FILES = 16
MAX_FIELDS = 40
MAX_FIELD_BYTES = 128 << 10
IMAGE_FIELDS = ("image", "image[]")

Body = TypeVar("Body", bound=BaseModel)


class MemoryParser(MultiPartParser):
    """Keeps files in memory: the body as a whole is bounded before."""

    spool_max_size = 1 << 40


async def read_edit_form(request: Request) -> tuple[EditForm, Uploads]:
    """Return the fields and pictures of an edit. Raises FieldError."""
    if not _is_form(request):
        raise FieldError(
            "image", "an edit is sent as multipart/form-data, with the picture in image"
        )
    fields: dict[str, str] = {}
    files: dict[str, list[bytes]] = {"image": [], "mask": []}
    for name, value in await _read_items(request, field="image"):
        kind = "image" if name in IMAGE_FIELDS else name
        if isinstance(value, str):
            if kind in files:
                raise FieldError(name, f"{name} must be a file; addresses and names are not opened")
            _add_text(fields, name, value)
        elif kind in files:
            files[kind].append(value)
        else:
            raise FieldError(name, f"{name} takes no file; files are image, image[] and mask")
    if len(files["mask"]) > 1:
        raise FieldError("mask", "mask must be given once, got it twice")
    uploads = Uploads(images=tuple(files["image"]), mask=next(iter(files["mask"]), None))
    return _validate(EditForm, fields), uploads


async def read_video_body(request: Request) -> VideoBody:
    """Return what a film is to be, from JSON or from a form. Raises FieldError."""
    if not _is_form(request):
        try:
            given: object = await request.json()
        except (ValueError, RecursionError):
            raise FieldError(
                "body", "body: must be JSON, or a form sent as multipart/form-data"
            ) from None
        return _validate(VideoBody, given, strict=True)
    fields: dict[str, str] = {}
    for name, value in await _read_items(request, field="body"):
        if not isinstance(value, str):
            raise FieldError(name, f"{name} takes no file; films are drawn from words alone")
        _add_text(fields, name, value)
    return _validate(VideoBody, fields)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def _read_items(request: Request, *, field: str) -> list[tuple[str, str | bytes]]:
    """Return names and values of a form: texts, and the bytes of files. Raises FieldError."""
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
        raise FieldError(field, f"the form cannot be read: {reason}") from None
    try:
        return [
            (name, await value.read() if isinstance(value, UploadFile) else value)
            for name, value in form.multi_items()
        ]
    finally:
        await form.close()


def _add_text(fields: dict[str, str], name: str, value: str) -> None:
    if name in fields:
        raise FieldError(name, f"{name} must be given once, got it twice")
    # Forms have no null: an empty field is one that was left out.
    if value != "":
        fields[name] = value


def _validate(kind: type[Body], fields: object, *, strict: bool = False) -> Body:
    try:
        return kind.model_validate(fields, strict=strict)
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
