"""OpenAI's image routes: generations and edits, as answers or as streams."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from intonaco.errors import FieldError
from intonaco.serving.answers import image_stream, images_response, wait_for
from intonaco.serving.bodies import Common, EditForm, GenerationBody, Shared
from intonaco.serving.forms import read_edit_form
from intonaco.serving.jobs import Job
from intonaco.serving.messages import Draw, RawPicture
from intonaco.serving.orders import edit_order, generation_order
from intonaco.serving.schemas import FAULTS, STREAM, ImagesAnswer
from intonaco.serving.service import Output, Service

FILE = {"type": "string", "format": "binary"}


def image_router(service: Service) -> APIRouter:
    """Return the image routes of `service`."""
    router = APIRouter(tags=["images"], responses={**FAULTS, **STREAM})

    @router.post("/v1/images/generations", response_model=ImagesAnswer)
    async def generate(body: GenerationBody, request: Request) -> Response:
        """Draw pictures from words."""
        _check_stream(body)
        order = generation_order(body, service.limits())
        return await _answer(service, request, body, order, (), "image_generation")

    @router.post("/v1/images/edits", response_model=ImagesAnswer, openapi_extra=_edit_schema())
    async def edit(request: Request) -> Response:
        """Change a picture under a mask, or draw from reference pictures."""
        limits = service.limits()
        form, uploads = await read_edit_form(request)
        _check_stream(form)
        order, pictures = await asyncio.to_thread(edit_order, form, uploads, limits)
        return await _answer(service, request, form, order, pictures, "image_edit")

    return router


async def _answer(
    service: Service,
    request: Request,
    body: Shared,
    order: Draw,
    pictures: tuple[RawPicture, ...],
    prefix: str,
) -> Response:
    job = submit(service, request, body, order, pictures)
    output = Output.of(body)
    if body.stream:
        return image_stream(job, service, output, prefix=prefix)
    await wait_for(job, request, service)
    return await images_response(job, output)


def submit(
    service: Service,
    request: Request,
    body: Common,
    order: Draw,
    pictures: tuple[RawPicture, ...] = (),
) -> Job:
    """Queue `order` under the id of `request`."""
    caller = request.client.host if request.client else "unknown"
    job_id: str = request.state.request_id
    return service.submit(order, pictures, body, caller=caller, job_id=job_id)


def _check_stream(body: Shared) -> None:
    if body.partial_images and not body.stream:
        raise FieldError("partial_images", "partial_images needs stream, which is not set; set it")


def _edit_schema() -> dict[str, Any]:
    schema = EditForm.model_json_schema()
    properties: dict[str, Any] = dict(schema["properties"])
    properties["image"] = {"oneOf": [FILE, {"type": "array", "items": FILE}]}
    properties["mask"] = FILE
    content = {**schema, "properties": properties, "required": ["image"]}
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": content}}}
    }
