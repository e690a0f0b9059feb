"""Jobs as answers: waiting for one, its pictures as JSON, its events as server-sent events."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from intonaco.errors import GenerationCancelled
from intonaco.serving.faults import fault_of
from intonaco.serving.jobs import DrawnPicture, Job, JobEvent
from intonaco.serving.service import Output, Service, error_of


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


async def wait_for(job: Job, request: Request, service: Service) -> None:
    """Return when `job` is done. Raises its error; cancels it where the client goes away."""
    done = asyncio.create_task(job.wait())
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        done.cancel()
        gone.cancel()
        if not job.is_finished:
            service.supervisor.cancel(job, "its client is gone")
        service.jobs.forget(job)
    if not job.is_finished:
        raise GenerationCancelled("its client is gone")
    if job.error is not None:
        raise job.error


async def images_response(job: Job, output: Output) -> Response:
    """Return the pictures of a finished job as OpenAI's images response."""
    data = [await _image_fields(job, index, output) for index in range(len(job.pictures))]
    return json_response(
        {
            "created": int(time.time()),
            "background": "opaque",
            "output_format": output.output_format,
            "size": f"{job.order.width}x{job.order.height}",
            "data": data,
        }
    )


def json_response(
    fields: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return `fields` as ASCII JSON, which holds any text of a client."""
    content = json.dumps(fields, allow_nan=False)
    return Response(content, status, headers, media_type="application/json")


def image_stream(job: Job, service: Service, output: Output, *, prefix: str) -> Response:
    """Return the events of `job` as OpenAI streams them; `prefix` names the route."""

    async def events() -> AsyncIterator[bytes]:
        try:
            async for event in job.follow():
                fields = await _openai_event(job, event, output, prefix)
                if fields is not None:
                    yield server_sent(str(fields.get("type", "error")), fields)
        finally:
            if not job.is_finished:
                service.supervisor.cancel(job, "its client is gone")
            service.jobs.forget(job)

    return EventStream(events())


def job_stream(job: Job, output: Output) -> Response:
    """Return every event of `job`, from its first; ending the stream does not end the job."""

    async def events() -> AsyncIterator[bytes]:
        async for event in job.follow():
            yield server_sent(event.kind, await _job_event(job, event, output))

    return EventStream(events())


async def job_fields(job: Job, output: Output) -> dict[str, object]:
    """Return what `GET /v1/jobs/ID` says: state, progress, and the pictures that are done."""
    data = [await _image_fields(job, index, output) for index in range(len(job.pictures))]
    error = None if job.error is None else fault_of(job.error).body()["error"]
    return {
        "id": job.job_id,
        "object": "video.job" if job.order.task == "film" else "image.job",
        "status": job.status,
        "num_pictures": job.num_pictures,
        "num_done": len(job.pictures),
        "error": error,
        "data": data,
    }


def server_sent(name: str, fields: dict[str, object]) -> bytes:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(fields, allow_nan=False)}\n\n".encode()


async def _image_fields(job: Job, index: int, output: Output) -> dict[str, object]:
    picture = job.pictures[index]
    return {
        "b64_json": _base64(await output.encode_drawn(picture)),
        "seed": job.order.seed,
        "image_index": index,
        "receipt": json.loads(picture.receipt),
        "timings": timings(job, picture),
    }


def timings(job: Job, picture: DrawnPicture) -> dict[str, float]:
    """Return how long `picture` of `job` took, in milliseconds: waiting, and being drawn."""
    started_s = job.created_s if job.started_s is None else job.started_s
    return {
        "queue_ms": round(1000 * (started_s - job.created_s), 3),
        "draw_ms": picture.draw_ms,
    }


async def _openai_event(
    job: Job, event: JobEvent, output: Output, prefix: str
) -> dict[str, object] | None:
    if event.kind == "failed":
        return fault_of(error_of(job)).body()
    shared: dict[str, object] = {
        "created_at": int(time.time()),
        "size": f"{job.order.width}x{job.order.height}",
        "quality": "auto",
        "background": "opaque",
        "output_format": output.output_format,
        "image_index": event.image_index,
    }
    if event.kind == "partial" and event.preview is not None:
        return {
            "type": f"{prefix}.partial_image",
            "b64_json": _base64(await output.encode(event.preview)),
            "partial_image_index": event.partial_index,
            "step": event.step,
            **shared,
        }
    if event.kind == "picture":
        fields = await _image_fields(job, event.image_index, output)
        return {"type": f"{prefix}.completed", **shared, **fields}
    return None


async def _job_event(job: Job, event: JobEvent, output: Output) -> dict[str, object]:
    fields: dict[str, object] = {"id": job.job_id, "image_index": event.image_index}
    match event.kind:
        case "started":
            fields["num_steps"] = event.num_steps
        case "step":
            fields |= {"step": event.step, "num_steps": event.num_steps}
        case "partial" if event.preview is not None:
            fields |= {
                "step": event.step,
                "partial_image_index": event.partial_index,
                "b64_json": _base64(await output.encode(event.preview)),
            }
        case "picture":
            fields |= await _image_fields(job, event.image_index, output)
        case "failed":
            fields |= fault_of(error_of(job)).body()
        case _:
            pass
    return fields


async def _disconnected(request: Request) -> None:
    """Return when the client is gone; its body was read before."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
